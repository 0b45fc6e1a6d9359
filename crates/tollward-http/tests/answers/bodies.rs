//! What is in answers, where a server in a test cannot bring it about.

use serde_json::json;
use tollward_engine::{Action, Clock, Decision, Reason, Source};
use tollward_http::Problem;
use tollward_policy::compile;
use tollward_testkit::clock::ManualClock;

use crate::{rendered, second_answer};

#[test]
fn a_store_that_does_not_answer_is_worth_another_try() {
    for body in ["problem", "nested", "flat", "oauth"] {
        let config = format!("response: {{ body: {body}, expose_headers: true }}");
        let policy = compile(config.as_bytes()).unwrap().policy;
        let decision = Decision {
            allowed: false,
            action: Action::Deny,
            reason: Some(Reason::StoreUnavailable),
            binding: None,
            wait_us: Some(1_000_000),
            degraded: None,
            source: Source::None,
            now: ManualClock::new().now(),
            at: ManualClock::new().now(),
            limits: Default::default(),
        };
        let (status, headers, media_type, body) = rendered(&decision, policy.response());
        assert_eq!(status, 503);
        assert_eq!(headers["retry-after"], "1");
        assert_eq!(headers["cache-control"], "no-store");
        assert_eq!(headers.len(), 2, "{headers:?}");
        assert_eq!(media_type, Problem::MEDIA_TYPE);
        assert_eq!(body["status"], 503);
    }
}

#[test]
fn the_largest_figures_are_still_structured_fields() {
    let (status, headers, _, _) = second_answer(
        "
plans:
  p:
    rate_limits:
      vast: { sustained: { rate: 1, window: 366d }, burst: { capacity: 4294967295 }, scope: user }
      once: { sustained: { rate: 1, window: 366d }, scope: user }
",
    );
    assert_eq!(status, 429);
    assert_eq!(
        headers["ratelimit-policy"],
        "\"plan:p/vast\";q=4294967295;w=999999999999999, \"plan:p/once\";q=1;w=31622400"
    );
    assert_eq!(
        headers["ratelimit"],
        "\"plan:p/vast\";r=4294967294;t=31622400, \"plan:p/once\";r=0;t=31622400"
    );
    assert_eq!(headers["retry-after"], "31622400");
    assert_eq!(headers["x-ratelimit-reset"], "1797033600");
}

#[test]
fn every_style_tells_the_same() {
    let config = |response: &str| {
        format!(
            "plans: {{ p: {{ rate_limit: {{ sustained: {{ rate: 2, window: minute }}, \
             burst: {{ capacity: 1 }}, scope: user }} }} }}\nresponse: {{ {response} }}\n"
        )
    };
    for (response, limit) in [
        ("body: nested", 1),
        ("body: nested, limit: capacity", 1),
        ("body: nested, limit: rate", 2),
    ] {
        let (status, headers, media_type, body) = second_answer(&config(response));
        assert_eq!((status, media_type), (429, "application/json"));
        assert_eq!(headers["x-ratelimit-limit"], limit.to_string().as_str());
        assert_eq!(
            body,
            json!({ "error": {
                "code": "RATE_LIMIT_EXCEEDED",
                "message": "Rate limit exceeded. Retry after 30 seconds.",
                "retryAfter": 30,
                "limit": limit,
                "remaining": 0,
                "resetAt": "2025-12-11T00:00:30.000Z",
            }})
        );
        // The structured field tells the capacity in any case.
        assert_eq!(headers["ratelimit-policy"], "\"plan:p\";q=1;w=30");
    }
    let (_, _, media_type, body) = second_answer(&config("body: flat, limit: rate"));
    assert_eq!(media_type, "application/json");
    assert_eq!(
        body,
        json!({
            "error": "Rate limit exceeded",
            "message": "Too many requests. Retry after 30 seconds.",
            "limit": 2,
            "remaining": 0,
            "resetAt": "2025-12-11T00:00:30.000Z",
        })
    );
    let (_, _, media_type, body) = second_answer(&config("body: oauth"));
    assert_eq!(media_type, "application/json");
    assert_eq!(
        body,
        json!({
            "error": "rate_limit_exceeded",
            "error_description": "Too many requests. Retry after 30 seconds.",
            "retry_after": 30,
        })
    );
    let (_, _, media_type, body) = second_answer(&config("body: problem"));
    assert_eq!(media_type, "application/problem+json");
    assert_eq!(
        body,
        json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Too Many Requests",
            "status": 429,
            "detail": "Too many requests. Retry after 30 seconds.",
            "violated-policies": ["plan:p"],
        })
    );
}

#[test]
fn a_limit_in_shadow_is_not_told() {
    let (status, headers, _, _) = second_answer(
        "
limits: { trial: { sustained: { rate: 1, window: day }, scope: user, shadow: true } }
plans: { p: { rate_limit: { sustained: { rate: 5, window: day }, scope: user } } }
",
    );
    assert_eq!(status, 200);
    assert_eq!(headers["ratelimit"], "\"plan:p\";r=3;t=34560");
    assert_eq!(headers["x-ratelimit-remaining"], "3");
    assert!(!headers.contains_key("cache-control"));
}
