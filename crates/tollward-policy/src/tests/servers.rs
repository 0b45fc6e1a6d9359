//! How servers behind a policy may read a path: naive, each in its own way, and sharing nothing with
//! the policy's reading.

/// Decodes every escape once; an escape that is none stays as it is.
fn decoded(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = path;
    while let Some((byte, behind)) = rest.split_first() {
        let pair = behind
            .get(..2)
            .and_then(|pair| std::str::from_utf8(pair).ok());
        let escape = pair
            .filter(|_| *byte == b'%')
            .filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match escape {
            Some(byte) => {
                out.push(byte);
                rest = &behind[2..];
            }
            None => {
                out.push(*byte);
                rest = behind;
            }
        }
    }
    out
}

/// Drops `;` and what follows it up to the next slash.
fn without_parameters(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut drops = false;
    for byte in path {
        match byte {
            b'/' => drops = false,
            b';' => drops = true,
            _ => {}
        }
        if !drops {
            out.push(*byte);
        }
    }
    out
}

/// A backslash is a slash.
fn with_slashes(path: &[u8]) -> Vec<u8> {
    let slash = |byte: &u8| if *byte == b'\\' { b'/' } else { *byte };
    path.iter().map(slash).collect()
}

fn merged(path: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::new();
    for byte in path {
        if *byte != b'/' || out.last() != Some(&b'/') {
            out.push(*byte);
        }
    }
    out
}

/// Resolves dots; an empty segment is a segment.
fn resolved(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let body = path.strip_prefix(b"/").unwrap_or(path);
    for part in body.split(|byte| *byte == b'/') {
        match part {
            b"." => {}
            b".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    [b"/", &*parts.join(&b'/')].concat()
}

fn without_query(path: &str) -> &[u8] {
    let end = path.find('?').unwrap_or(path.len());
    &path.as_bytes()[..end]
}

/// The path as a policy takes it: what is left of `;` is no parameter to such a server, so it is
/// written as a letter that no route has either.
fn written(path: &[u8]) -> String {
    let mut out = String::new();
    for byte in path {
        let byte = byte.to_ascii_lowercase();
        match byte {
            b';' => out.push('_'),
            b'/' | b'.' => out.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02x}")),
        }
    }
    out
}

/// The path as each of several kinds of server ends up with it.
pub(super) fn readings(path: &str) -> Vec<(&'static str, String)> {
    let path = without_query(path);
    let plain = decoded(path);
    let bare = without_parameters(&plain);
    let bare_first = decoded(&without_parameters(path));
    let readings = [
        ("decode, drop, resolve", resolved(&merged(&bare))),
        ("drop, decode, resolve", resolved(&merged(&bare_first))),
        ("decode, resolve", resolved(&merged(&plain))),
        ("resolve, merge", merged(&resolved(&plain))),
        ("drop, resolve, merge", merged(&resolved(&bare))),
        (
            "drop, decode, resolve, merge",
            merged(&resolved(&bare_first)),
        ),
        ("slashes, resolve", resolved(&merged(&with_slashes(&plain)))),
        (
            "slashes, drop, resolve",
            resolved(&merged(&with_slashes(&bare))),
        ),
        ("cut at NUL", {
            let end = plain.iter().position(|byte| *byte == 0);
            resolved(&merged(&plain[..end.unwrap_or(plain.len())]))
        }),
    ];
    let readings = readings.into_iter();
    readings
        .map(|(name, path)| (name, written(&path)))
        .collect()
}
