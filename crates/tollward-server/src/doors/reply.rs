use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde::Serialize;
use tollward_http::{Problem, add_retry_after};

/// An answer with a body of this type. With status 503, it says when to retry.
pub(crate) fn reply(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    add_retry_after(status, response.headers_mut());
    response
}

/// An answer in JSON.
pub(crate) fn json(
    status: StatusCode,
    media_type: &'static str,
    body: &impl Serialize,
) -> Response<Full<Bytes>> {
    match serde_json::to_vec(body) {
        Ok(body) => reply(status, media_type, body),
        Err(error) => problem(&Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            error.to_string(),
        )),
    }
}

/// An error.
pub(crate) fn problem(problem: &Problem) -> Response<Full<Bytes>> {
    reply(
        problem.status,
        Problem::MEDIA_TYPE,
        problem.to_json().to_string(),
    )
}

/// An error, with the headers that belong to its status; `allow` are the methods that would have been
/// answered.
pub(crate) fn failure(why: &Problem, allow: &'static str) -> Response<Full<Bytes>> {
    let mut response = problem(why);
    let headers = response.headers_mut();
    match why.status {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        StatusCode::UNAUTHORIZED => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => return closing(response),
        _ => {}
    }
    response
}

/// Asks the client to end the connection: what it has still to send is not wanted.
fn closing(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
