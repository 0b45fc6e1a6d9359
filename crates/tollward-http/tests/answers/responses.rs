//! Whole answers.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tollward_http::{Asker, Problem, challenge, problem_response, refusal_response, rejected};
use tollward_policy::{Facts, IdentityOptions, compile};
use tollward_testkit::conformance::at_once;

use crate::second_decision;

const CONFIG: &str = "
plans: { p: { rate_limit: { sustained: { rate: 1, window: minute }, scope: user } } }
response: { body: oauth }
";

fn asker(method: &str, media_type: Option<&str>) -> Asker {
    let mut request = Request::builder().method(method);
    if let Some(media_type) = media_type {
        request = request.header("content-type", media_type);
    }
    (&request.body(()).unwrap().into_parts().0).into()
}

fn body(response: Response<Full<Bytes>>) -> Bytes {
    at_once(Box::pin(response.into_body().collect()))
        .unwrap()
        .to_bytes()
}

fn refused(asker: Asker) -> Response<Full<Bytes>> {
    second_decision(CONFIG, |decision, options| {
        refusal_response(decision, options, asker)
    })
}

#[test]
fn a_refusal_has_status_headers_and_body() {
    let response = refused(asker("POST", Some("application/json")));
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.headers()["retry-after"], "60");
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert_eq!(response.headers()["x-ratelimit-remaining"], "0");
    let body: Value = serde_json::from_slice(&body(response)).unwrap();
    assert_eq!(body["error"], "rate_limit_exceeded");
}

#[test]
fn a_question_for_the_head_gets_no_body() {
    let response = refused(asker("HEAD", None));
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["retry-after"], "60");
    assert!(body(response).is_empty());
    let problem = Problem::new(StatusCode::BAD_GATEWAY, "gone");
    let response = problem_response(&problem, asker("HEAD", None));
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(response.headers()["content-type"], Problem::MEDIA_TYPE);
    assert!(body(response).is_empty());
}

#[test]
fn calls_of_grpc_are_refused_in_its_own_words() {
    for (asked, answered) in [
        ("application/grpc", "application/grpc"),
        ("application/grpc+proto", "application/grpc"),
        ("Application/GRPC;x=y", "application/grpc"),
        ("application/grpc-web+proto", "application/grpc-web"),
        ("application/grpc-web-text", "application/grpc-web-text"),
    ] {
        let response = refused(asker("POST", Some(asked)));
        let headers = response.headers();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(headers["content-type"], answered);
        assert_eq!(headers["grpc-status"], "8");
        assert_eq!(
            headers["grpc-message"],
            "Too many requests. Retry after 60 seconds."
        );
        assert_eq!(headers["retry-after"], "60");
        assert_eq!(headers["x-ratelimit-remaining"], "0");
        assert!(headers.contains_key("ratelimit"));
        assert_eq!(headers["cache-control"], "no-store");
        assert!(body(response).is_empty());
    }
    // Only a POST is a call.
    for method in ["GET", "HEAD", "PUT", "OPTIONS", "post"] {
        let response = refused(asker(method, Some("application/grpc")));
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS, "{method}");
        assert!(!response.headers().contains_key("grpc-status"), "{method}");
    }
    for other in ["application/grp", "text/plain", "x-application/grpc"] {
        assert_eq!(
            refused(asker("POST", Some(other))).status(),
            StatusCode::TOO_MANY_REQUESTS
        );
    }
}

#[test]
fn problems_have_their_grpc_status() {
    for (status, grpc) in [
        (400, "3"),
        (401, "16"),
        (403, "7"),
        (404, "12"),
        (413, "8"),
        (418, "2"),
        (422, "3"),
        (429, "8"),
        (500, "13"),
        (502, "14"),
        (503, "14"),
        (504, "14"),
    ] {
        let problem = Problem::new(StatusCode::from_u16(status).unwrap(), "50 % of \u{e9}\nno");
        let response = problem_response(&problem, asker("POST", Some("application/grpc")));
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["grpc-status"], grpc, "{status}");
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert_eq!(response.headers()["grpc-message"], "50 %25 of %C3%A9%0Ano");
    }
}

#[test]
fn a_503_says_when_to_retry() {
    for media_type in [None, Some("application/grpc")] {
        for status in [400, 401, 404, 500, 502, 503, 504] {
            let problem = Problem::new(StatusCode::from_u16(status).unwrap(), "no");
            let response = problem_response(&problem, asker("POST", media_type));
            let retry_after = response.headers().get("retry-after");
            let expected = (status == 503).then_some("1");
            assert_eq!(retry_after.map(|it| it.to_str().unwrap()), expected);
        }
    }
}

#[test]
fn problems_are_json() {
    let problem = Problem::new(StatusCode::BAD_GATEWAY, "The upstream is gone.").with("x", 1);
    let response = problem_response(&problem, asker("GET", None));
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(response.headers()["content-type"], Problem::MEDIA_TYPE);
    assert!(!response.headers().contains_key("www-authenticate"));
    let body: Value = serde_json::from_slice(&body(response)).unwrap();
    assert_eq!(body, problem.to_json());
}

#[test]
fn who_is_not_authorised_is_told_how_to_be() {
    let policy = compile(b"identity: { anonymous: reject }").unwrap().policy;
    let anonymous = policy.request(&Facts::default()).unwrap_err();
    let unknown = Facts {
        api_key: Some("k"),
        ..Facts::default()
    };
    let unknown = policy.request(&unknown).unwrap_err();
    for (rejection, reason) in [(anonymous, "anonymous"), (unknown, "unknown_key")] {
        let problem = rejected(&rejection);
        assert_eq!(problem.to_json()["reason"], reason);
        let mut response = problem_response(&problem, asker("GET", None));
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        let mut options = IdentityOptions::default();
        challenge(&options, response.headers_mut());
        assert_eq!(response.headers()["www-authenticate"], "ApiKey");
        options.basic = true;
        challenge(&options, response.headers_mut());
        assert_eq!(
            response
                .headers()
                .get_all("www-authenticate")
                .iter()
                .count(),
            2
        );
        options.basic = false;
        options.api_key.header = http::header::AUTHORIZATION;
        challenge(&options, response.headers_mut());
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
    }
}
