//! The headers that tell of limits.

use std::collections::HashSet;

use http::HeaderMap;
use sfv::{BareItem, FieldType, List, ListEntry, Parser};
use tollward_http::{LimitHeaders, Told};

use crate::{second_answer, second_decision};

/// Two limits: the tighter one gives a token every 30 seconds, and is full after as long.
fn config(response: &str) -> String {
    format!(
        "
plans:
  p:
    rate_limits:
      tight: {{ sustained: {{ rate: 2, window: minute }}, burst: {{ capacity: 1 }}, scope: user }}
      wide: {{ sustained: {{ rate: 10, window: minute }}, scope: user }}
response: {{ {response} }}
"
    )
}

fn headers(response: &str) -> HeaderMap {
    second_answer(&config(response)).1
}

/// Names and integers of a structured field, as a parser reads it that is not ours.
fn structured(field: &str) -> Vec<(String, Vec<(String, i64)>)> {
    let list: List = Parser::new(field).parse().unwrap();
    assert_eq!(
        list.serialize().unwrap(),
        field,
        "not in its canonical form"
    );
    let entries = list.iter().map(|entry| {
        let ListEntry::Item(item) = entry else {
            panic!("an inner list in {field}")
        };
        let BareItem::String(name) = &item.bare_item else {
            panic!("no string in {field}")
        };
        let number = |value: &BareItem| i64::from(value.as_integer().unwrap());
        let parameters = item.params.iter();
        let parameters = parameters.map(|(key, value)| (key.as_str().to_owned(), number(value)));
        (name.as_str().to_owned(), parameters.collect())
    });
    entries.collect()
}

fn item(name: &str, parameters: [(&str, i64); 2]) -> (String, Vec<(String, i64)>) {
    let parameters = parameters.map(|(key, value)| (key.to_owned(), value));
    (name.to_owned(), parameters.into())
}

#[test]
fn ietf_fields_are_structured_fields() {
    let headers = headers("headers: ietf");
    let field = |name: &str| structured(headers[name].to_str().unwrap());
    assert_eq!(
        field("ratelimit-policy"),
        [
            item("plan:p/tight", [("q", 1), ("w", 30)]),
            item("plan:p/wide", [("q", 10), ("w", 60)]),
        ]
    );
    assert_eq!(
        field("ratelimit"),
        [
            item("plan:p/tight", [("r", 0), ("t", 30)]),
            item("plan:p/wide", [("r", 9), ("t", 6)]),
        ]
    );
    let vast = "plans: { p: { rate_limit: { sustained: { rate: 1, window: 366d }, \
                burst: { capacity: 4294967295 }, scope: user } } }";
    let (_, headers, _, _) = second_answer(vast);
    let policies = structured(headers["ratelimit-policy"].to_str().unwrap());
    let longest = item("plan:p", [("q", 4_294_967_295), ("w", 999_999_999_999_999)]);
    assert_eq!(policies, [longest]);
}

#[test]
fn the_older_draft_tells_of_one_limit() {
    let headers = headers("headers: ietf-06");
    assert_eq!(headers["ratelimit-limit"], "1");
    assert_eq!(headers["ratelimit-remaining"], "0");
    assert_eq!(headers["ratelimit-reset"], "30");
    assert_eq!(headers["retry-after"], "30");
    for other in ["ratelimit", "ratelimit-policy", "x-ratelimit-limit"] {
        assert!(!headers.contains_key(other), "{other}");
    }
    let rate = self::headers("headers: ietf-06, limit: rate");
    assert_eq!(rate["ratelimit-limit"], "2");
    // Admitted: until it is full.
    let open = "plans: { p: { rate_limit: { sustained: { rate: 2, window: minute }, scope: user } } }\n\
                response: { headers: [ietf-06] }";
    let (status, headers, _, _) = second_answer(open);
    assert_eq!(status, 200);
    assert_eq!(headers["ratelimit-remaining"], "0");
    assert_eq!(headers["ratelimit-reset"], "60");
}

#[test]
fn browsers_are_shown_what_is_sent() {
    let exposed = |styles: &str| {
        let headers = headers(&format!("headers: {styles}, expose_headers: true"));
        let value = headers.get("access-control-expose-headers");
        value.map(|value| value.to_str().unwrap().to_ascii_lowercase())
    };
    for (styles, names) in [
        (
            "x-ratelimit",
            &[
                "x-ratelimit-limit",
                "x-ratelimit-remaining",
                "x-ratelimit-reset",
            ][..],
        ),
        ("ietf", &["ratelimit-policy", "ratelimit"]),
        (
            "ietf-06",
            &["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
        ),
        (
            "[ietf, ietf-06]",
            &[
                "ratelimit-policy",
                "ratelimit",
                "ratelimit-limit",
                "ratelimit-remaining",
                "ratelimit-reset",
            ],
        ),
    ] {
        let told = exposed(styles).unwrap();
        let told: HashSet<_> = told.split(", ").collect();
        let expected: HashSet<_> = names.iter().copied().chain(["retry-after"]).collect();
        assert_eq!(told, expected, "{styles}");
        // None is named that is not there.
        let headers = headers(&format!("headers: {styles}"));
        assert!(
            told.iter().all(|name| headers.contains_key(*name)),
            "{headers:?}"
        );
    }
    assert_eq!(exposed("none"), None);
}

#[test]
fn jitter_is_added_and_told_the_same_everywhere() {
    let mut seen = HashSet::new();
    for _ in 0..200 {
        let response = "body: nested, headers: [ietf, ietf-06, x-ratelimit], jitter: 5s";
        let (_, headers, _, body) = second_answer(&config(response));
        let after: u64 = headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((30..=35).contains(&after), "{after}");
        assert_eq!(body["error"]["retryAfter"], after);
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains(&format!(" {after} seconds")), "{message}");
        assert_eq!(headers["ratelimit-reset"], after.to_string().as_str());
        let states = structured(headers["ratelimit"].to_str().unwrap());
        let told = i64::try_from(after).unwrap();
        assert_eq!(states[0], item("plan:p/tight", [("r", 0), ("t", told)]));
        // What is not the wait stays what it is.
        assert_eq!(states[1], item("plan:p/wide", [("r", 9), ("t", 6)]));
        assert_eq!(headers["x-ratelimit-reset"], "1765411230");
        seen.insert(after);
    }
    assert!(seen.len() > 2, "{seen:?}");
    for body in ["oauth", "flat", "problem"] {
        let response = format!("body: {body}, jitter: 60s");
        let (_, headers, _, body) = second_answer(&config(&response));
        let after = headers["retry-after"].to_str().unwrap();
        assert!(
            body.to_string()
                .contains(&format!("Retry after {after} seconds.")),
            "{body}"
        );
    }
}

#[test]
fn jitter_is_drawn_once_for_an_answer() {
    second_decision(&config("jitter: 1h"), |decision, options| {
        let told = Told::new(decision, options);
        let (secs, ms) = (
            told.retry_after_secs().unwrap(),
            told.retry_after_ms().unwrap(),
        );
        assert_eq!(ms.div_ceil(1000), secs);
        assert!(ms >= decision.retry_after_ms().unwrap());
        for _ in 0..10 {
            assert_eq!(told.retry_after_secs(), Some(secs));
        }
    });
}

#[test]
fn what_the_upstream_tells_is_not_made_looser() {
    let response = "headers: [ietf, x-ratelimit], expose_headers: true";
    let ours = headers(response);
    let mut answer = HeaderMap::new();
    for (name, value) in [
        ("ratelimit", "\"own\";r=0;t=9"),
        ("x-ratelimit-remaining", "77"),
        ("x-ratelimit-remaining", "78"),
        ("access-control-expose-headers", "ETag"),
        ("etag", "\"x\""),
    ] {
        answer.append(name, value.parse().unwrap());
    }
    second_decision(&config(response), |decision, options| {
        LimitHeaders::of(decision, options).write_to(&mut answer);
    });
    let lines = |name: &str| {
        let lines = answer.get_all(name).iter();
        lines.map(|it| it.to_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(lines("ratelimit").len(), 2);
    assert_eq!(structured(&lines("ratelimit").join(", ")).len(), 3);
    assert_eq!(lines("x-ratelimit-remaining"), ["0"]);
    assert_eq!(lines("access-control-expose-headers").len(), 2);
    assert_eq!(lines("etag"), ["\"x\""]);
    assert_eq!(answer["ratelimit-policy"], ours["ratelimit-policy"]);
}

#[test]
fn a_request_that_is_let_wait_is_not_told_to_come_again() {
    let config = "
plans:
  p:
    rate_limit:
      sustained: { rate: 2, window: minute }
      burst: { capacity: 1 }
      scope: user
      strategy: queue
      queue: { max_wait: 60s, max_queue: 10 }
response: { jitter: 1h, headers: [ietf, ietf-06] }
";
    let (decided, headers) = second_decision(config, |decision, options| {
        let told = Told::new(decision, options);
        let mut headers = HeaderMap::new();
        told.write_headers(&mut headers);
        assert!(decision.allowed);
        assert_eq!(told.retry_after_ms(), Some(30_000));
        (decision.wait_us, headers)
    });
    assert_eq!(decided, Some(30_000_000));
    assert!(!headers.contains_key("retry-after"));
    assert_eq!(headers["ratelimit"], "\"plan:p\";r=0;t=60");
    assert_eq!(headers["ratelimit-reset"], "60");
}
