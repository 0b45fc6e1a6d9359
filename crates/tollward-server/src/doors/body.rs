use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Body;
use serde::Deserialize;
use tollward_http::Problem;

/// Of a body that is too long, this much is read and thrown away so that the client sees the answer.
const MAX_DISCARD: usize = 32 << 20;

/// Reads a whole body of at most `max` bytes, which has to arrive within `timeout`.
pub(crate) async fn read<B>(body: B, max: usize, timeout: Duration) -> Result<Bytes, Problem>
where
    B: Body<Data = Bytes, Error: fmt::Display> + Unpin,
{
    match tokio::time::timeout(timeout, collect(body, max)).await {
        Ok(read) => read,
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("The body did not arrive within {timeout:?}."),
        )),
    }
}

/// Reads a JSON object that is to be `what`. A list is not one, though serde would take its items for the
/// fields in their order.
pub(crate) fn read_object<'a, T: Deserialize<'a>>(
    text: &'a [u8],
    what: &str,
) -> Result<T, Problem> {
    let bad_input = |why: &dyn fmt::Display| {
        let detail = format!("The body is not {what}: {why}.");
        Problem::new(StatusCode::BAD_REQUEST, detail).with("reason", "bad_input")
    };
    match text.trim_ascii_start().first() {
        None | Some(b'{') => serde_json::from_slice(text).map_err(|error| bad_input(&error)),
        Some(_) => Err(bad_input(&"expected a JSON object")),
    }
}

async fn collect<B>(mut body: B, max: usize) -> Result<Bytes, Problem>
where
    B: Body<Data = Bytes, Error: fmt::Display> + Unpin,
{
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
        if length > MAX_DISCARD {
            break;
        }
        if length > max {
            continue;
        }
        if read.is_empty() && body.is_end_stream() {
            // The usual case: the body is one piece, and needs no copy.
            return Ok(data);
        }
        read.extend_from_slice(&data);
    }
    if length > max {
        let detail = format!("The body is longer than the {max} bytes this endpoint reads.");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    Ok(read.freeze())
}
