//! Just enough of HTTP/1.1 to see where a message ends.

const LENGTH: &[u8] = b"content-length:";

/// The length of the message that `bytes` begin with, head and body, once its head is there. A message
/// that says nothing of its length has no body.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut body = 0;
    loop {
        let end = bytes[at..].iter().position(|byte| *byte == b'\n')?;
        let line = bytes[at..at + end].trim_ascii_end();
        at += end + 1;
        if line.is_empty() {
            return Some(at + body);
        }
        if let Some((name, value)) = line.split_at_checked(LENGTH.len())
            && name.eq_ignore_ascii_case(LENGTH)
        {
            let digit = |sum: usize, digit: &u8| sum * 10 + usize::from(digit.wrapping_sub(b'0'));
            body = value.trim_ascii().iter().fold(0, digit);
        }
    }
}

/// The status of an answer, as it was written.
pub(super) fn status(answer: &[u8]) -> &[u8] {
    answer.get(9..12).unwrap_or_default()
}
