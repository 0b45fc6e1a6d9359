use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{StatusCode, header::CONTENT_LENGTH};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tollgate_http::Problem;

/// A body has to arrive within this time.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Of a body that is too long, this much is read and thrown away so that the client sees the answer.
const MAX_DISCARD: usize = 32 << 20;

/// Reads a whole body of at most `max` bytes.
pub(crate) async fn read(
    headers: &http::HeaderMap,
    body: Incoming,
    max: usize,
) -> Result<Bytes, Problem> {
    let length = headers.get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    match tokio::time::timeout(BODY_TIMEOUT, collect(body, length.unwrap_or(0), max)).await {
        Ok(read) => read,
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "The body did not arrive within 10 seconds.",
        )),
    }
}

async fn collect(mut body: Incoming, announced: usize, max: usize) -> Result<Bytes, Problem> {
    let mut read = BytesMut::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let detail = format!("The body could not be read: {error}.");
            Problem::new(StatusCode::BAD_REQUEST, detail)
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        length += data.len();
        if length == data.len() && data.len() >= announced && data.len() <= max {
            // The usual case: the body is one piece, and needs no copy.
            if body.is_end_stream_now() {
                return Ok(data);
            }
        }
        if length > MAX_DISCARD {
            break;
        }
        if length <= max {
            read.extend_from_slice(&data);
        }
    }
    if length > max {
        let detail = format!("The body is longer than the {max} bytes this endpoint reads.");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    Ok(read.freeze())
}

trait EndOfStream {
    fn is_end_stream_now(&self) -> bool;
}

impl EndOfStream for Incoming {
    fn is_end_stream_now(&self) -> bool {
        hyper::body::Body::is_end_stream(self)
    }
}
