//! What hyper answers by itself.

use http::StatusCode;

use crate::Problem;

/// The answer to a message that hyper could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BareAnswer {
    /// The status that hyper gave it.
    pub status: StatusCode,
    /// What the client is told.
    pub detail: &'static str,
    /// The whole answer, as it is to be written. The connection ends after it.
    pub bytes: Vec<u8>,
    /// How many of the bytes are its body.
    pub body_bytes: usize,
}

/// Gives hyper's own answer to an unreadable HTTP/1 message a body.
///
/// hyper answers such a message with a bare head: a status (400, 414 or 431), `content-length: 0` and
/// perhaps `connection` and `date`. None if `head` is anything else, or not the whole head.
pub fn explain_bare(head: &[u8]) -> Option<BareAnswer> {
    let head = std::str::from_utf8(head).ok()?.strip_suffix("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status_line = lines.next()?;
    let status = status_line.strip_prefix("HTTP/1.")?.get(2..5)?;
    let status: StatusCode = status.parse().ok()?;
    let detail = match status {
        StatusCode::BAD_REQUEST => "The request is not valid HTTP.",
        StatusCode::URI_TOO_LONG => "The target of the request is too long.",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "The head of the request is too long.",
        _ => return None,
    };
    let (mut is_empty, mut date) = (false, None);
    for line in lines {
        let (name, value) = line.split_once(": ")?;
        match name {
            "connection" => {}
            "content-length" if value == "0" => is_empty = true,
            "date" => date = Some(value),
            _ => return None,
        }
    }
    let problem = Problem::new(status, detail).to_json().to_string();
    let date = date.map_or(String::new(), |date| format!("date: {date}\r\n"));
    let head = format!(
        "{status_line}\r\nconnection: close\r\ncontent-type: {}\r\ncontent-length: {}\r\n{date}\r\n",
        Problem::MEDIA_TYPE,
        problem.len()
    );
    is_empty.then(|| BareAnswer {
        status,
        detail,
        bytes: [head.as_bytes(), problem.as_bytes()].concat(),
        body_bytes: problem.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: &str = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
                        content-length: 0\r\ndate: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n";

    #[test]
    fn a_bare_answer_gets_a_body() {
        let answer = explain_bare(BARE.as_bytes()).unwrap();
        assert_eq!(answer.status, 431);
        let text = String::from_utf8(answer.bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            head,
            format!(
                "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
                 content-type: application/problem+json\r\ncontent-length: {}\r\n\
                 date: Mon, 01 Jan 2024 00:00:00 GMT",
                body.len()
            )
        );
        assert_eq!(answer.body_bytes, body.len());
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["status"], 431);
        assert_eq!(problem["detail"], answer.detail);
    }

    #[test]
    fn any_other_answer_is_left_alone() {
        for head in [
            "",
            "HTTP/1.1 400",
            &BARE[..BARE.len() - 1],
            &BARE.replace("431", "404"),
            &BARE.replace("content-length: 0", "content-length: 1"),
            &BARE.replace("content-length: 0\r\n", ""),
            &BARE.replace("date:", "x-own:"),
            &format!("{BARE}more"),
            &format!("{BARE}{BARE}"),
        ] {
            assert_eq!(explain_bare(head.as_bytes()), None, "{head:?}");
        }
    }
}
