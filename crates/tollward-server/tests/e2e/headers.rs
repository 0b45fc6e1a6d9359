//! What answers tell in headers.

use serde_json::{Value, json};
use tollward_testkit::http::Response;

use crate::served::{Served, json as body};
use crate::structured;

const SEVERAL: &str = "
limits:
  system: { sustained: { rate: 1000, window: minute }, burst: { capacity: 5000 }, scope: global }
  quiet: { sustained: { rate: 9000, window: second }, scope: user, response_headers: false }
  trial: { sustained: { rate: 1, window: day }, scope: user, shadow: true }
plans:
  free:
    rate_limits:
      per-second: { sustained: { rate: 3, window: second }, burst: { capacity: 10 }, scope: user }
      per-day: { sustained: { rate: 100, window: day }, scope: user }
routes:
  - match: POST /v1/jobs/**
    rate_limit: { algorithm: sliding_window, sustained: { rate: 20, window: 30s }, scope: user }
";

fn job(cost: u32) -> Value {
    json!({ "user": "a", "plan": "free", "method": "POST", "path": "/v1/jobs/1", "cost": cost })
}

fn ratelimit_headers(response: &Response) -> Vec<&str> {
    let names = response.headers.iter().map(|(name, _)| &**name);
    names.filter(|name| name.contains("ratelimit")).collect()
}

#[test]
fn every_limit_is_told_as_a_structured_field() {
    let served = Served::of(SEVERAL);
    let mut client = served.client();
    for (cost, status) in [(4, 200), (0, 200), (6, 200), (1, 429), (200, 422)] {
        let response = client.ask(job(cost));
        assert_eq!(response.status, status);
        let answer = body(&response);
        let policies = structured::list(response.header("ratelimit-policy").unwrap());
        let states = structured::list(response.header("ratelimit").unwrap());
        let names: Vec<_> = policies.iter().map(|it| &*it.name).collect();
        assert_eq!(
            names,
            [
                "limit:system",
                "plan:free/per-second",
                "plan:free/per-day",
                "route:POST /v1/jobs/**"
            ]
        );
        // Capacity, and the seconds to fill it.
        let windows: Vec<_> = policies
            .iter()
            .map(|it| (it.get("q"), it.get("w")))
            .collect();
        assert_eq!(windows, [(5000, 300), (10, 4), (100, 86_400), (20, 30)]);
        assert_eq!(states.len(), policies.len());
        for (state, policy) in states.iter().zip(&policies) {
            assert_eq!(state.name, policy.name);
            let limits = answer["limits"].as_array().unwrap();
            let limit = limits.iter().find(|it| it["name"] == *state.name).unwrap();
            assert_eq!(limit["remaining"], state.get("r"), "{}", state.name);
            let denied = limit["denied"].as_bool().unwrap();
            let expected = match answer["retry_after"].as_i64() {
                Some(wait) if denied => wait,
                // The clock stands at a whole second, so this is exact.
                _ => limit["reset_at"].as_i64().unwrap() - 1_765_411_200,
            };
            assert_eq!(state.get("t"), expected, "{}", state.name);
        }
    }
}

#[test]
fn the_limit_that_binds_is_told_in_three_headers() {
    let served = Served::of(SEVERAL);
    let mut client = served.client();
    for cost in [2, 8, 1, 101] {
        let response = client.ask(job(cost));
        let answer = body(&response);
        for (header, field) in [
            ("x-ratelimit-limit", "limit"),
            ("x-ratelimit-remaining", "remaining"),
            ("x-ratelimit-reset", "reset_at"),
        ] {
            assert_eq!(
                response.header(header).unwrap(),
                answer[field].to_string(),
                "{header}"
            );
        }
        let retry = response.header("retry-after").map(str::to_owned);
        assert_eq!(
            retry,
            answer["retry_after"].as_u64().map(|secs| secs.to_string())
        );
        let refused = response.status != 200;
        assert_eq!(
            response.header("cache-control"),
            refused.then_some("no-store")
        );
    }
}

#[test]
fn the_operator_chooses_the_headers() {
    let x = [
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    ];
    let ietf = ["ratelimit-policy", "ratelimit"];
    let both = [&x[..], &ietf[..]].concat();
    for (response, expected) in [
        ("", &*both),
        ("response: { headers: [x-ratelimit, ietf] }", &*both),
        ("response: { headers: x-ratelimit }", &x),
        ("response: { headers: [ietf] }", &ietf),
        ("response: { headers: none }", &[]),
        ("response: { headers: [] }", &[]),
    ] {
        let served = Served::of(&format!("{SEVERAL}{response}\n"));
        let mut client = served.client();
        for target in ["/v1/check", "/v1/check?answer=client"] {
            for (cost, status) in [(0, 200), (200, 422)] {
                let answer = client.post(target, job(cost).to_string());
                assert_eq!(answer.status, status);
                assert_eq!(ratelimit_headers(&answer), expected, "{response} {target}");
                assert_eq!(answer.header("access-control-expose-headers"), None);
            }
        }
        client.ask(job(10));
        let refusal = client.ask(job(10));
        assert_eq!(refusal.status, 429);
        assert!(
            refusal.header("retry-after").is_some(),
            "whatever the headers"
        );
        assert_eq!(refusal.header("cache-control"), Some("no-store"));
    }
}

#[test]
fn pages_in_a_browser_may_read_them_if_told_so() {
    let served = Served::of(&format!("{SEVERAL}response: {{ expose_headers: true }}\n"));
    let mut client = served.client();
    let response = client.client_answer(job(1));
    let exposed = response.header("access-control-expose-headers").unwrap();
    let exposed: Vec<_> = exposed.split(", ").map(str::to_ascii_lowercase).collect();
    for name in ratelimit_headers(&response)
        .into_iter()
        .chain(["retry-after"])
    {
        assert!(exposed.iter().any(|it| it == name), "{name}: {exposed:?}");
    }
    // Nothing to expose where nothing is told.
    let response = client.client_answer(json!({ "path": "/x" }));
    assert!(
        response.header("x-ratelimit-limit").is_some(),
        "limit:system"
    );
}

#[test]
fn a_degrading_limit_is_told_while_it_has_tokens() {
    let served = Served::of(
        "plans: { free: { rate_limit: { sustained: { rate: 2, window: minute }, scope: user, \
         strategy: degrade } } }",
    );
    let mut client = served.client();
    for (remaining, action) in [("1", "allow"), ("0", "allow"), ("0", "degrade")] {
        let response = client.ask(json!({ "user": "a", "plan": "free" }));
        let answer = body(&response);
        assert_eq!(answer["action"], action);
        assert_eq!(answer["binding"], "plan:free");
        assert_eq!(answer["limit"], 2);
        assert_eq!(answer["remaining"].to_string(), remaining);
        assert_eq!(response.header("x-ratelimit-limit"), Some("2"));
        assert_eq!(response.header("x-ratelimit-remaining"), Some(remaining));
        assert!(response.header("x-ratelimit-reset").is_some());
    }
}

#[test]
fn a_limit_can_keep_its_state_to_itself() {
    let served = Served::of(
        "
limits: { system: { sustained: { rate: 100, window: second }, scope: global } }
plans:
  secret: { rate_limit: { sustained: { rate: 1, window: minute }, scope: user, response_headers: false } }
",
    );
    let mut client = served.client();
    let check = json!({ "user": "a", "plan": "secret" });
    for status in [200, 429] {
        let response = client.client_answer(check.clone());
        assert_eq!(response.status, status);
        // It is the one to show, so the headers that show one limit are left out; the others tell
        // of the rest.
        assert_eq!(
            ratelimit_headers(&response),
            ["ratelimit-policy", "ratelimit"]
        );
        let states = structured::list(response.header("ratelimit").unwrap());
        assert_eq!((states.len(), &*states[0].name), (1, "limit:system"));
        let wait = response.header("retry-after");
        assert_eq!(wait, (status == 429).then_some("60"));
    }
}

#[test]
fn without_a_limit_there_is_nothing_to_tell() {
    let served = Served::of("response: { expose_headers: true }\nallow: [{ user: root }]\n");
    let mut client = served.client();
    for check in [json!({}), json!({ "user": "root" })] {
        let response = client.client_answer(check);
        assert_eq!((response.status, response.body.len()), (200, 0));
        let names: Vec<_> = response.headers.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["content-length", "date"]);
    }
}

#[test]
fn the_default_body_is_a_problem_that_names_what_was_violated() {
    let served = Served::of(SEVERAL);
    let mut client = served.client();
    client.ask(job(10));
    let response = client.client_answer(job(10));
    assert_eq!(response.status, 429);
    assert_eq!(
        response.header("content-type"),
        Some("application/problem+json")
    );
    let problem = body(&response);
    let kind = problem["type"].as_str().unwrap();
    assert!(kind.ends_with("#quota-exceeded"), "{kind}");
    assert_eq!(problem["status"], 429);
    assert_eq!(problem["title"], "Too Many Requests");
    assert_eq!(
        problem["violated-policies"],
        json!(["plan:free/per-second"])
    );
    let wait = response.header("retry-after").unwrap();
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains(&format!("after {wait} seconds")),
        "{detail}"
    );
}
