use std::borrow::Cow;

/// The text with every percent sign encoded, and every byte that is not `plain`.
pub(crate) fn encoded(text: &str, plain: impl Fn(u8) -> bool) -> Cow<'_, str> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let plain = |byte: u8| byte != b'%' && byte.is_ascii() && plain(byte);
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if plain(byte) {
            encoded.push(byte.into());
        } else {
            let digits = [byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]);
            encoded.push('%');
            encoded.extend(digits.map(char::from));
        }
    }
    Cow::Owned(encoded)
}
