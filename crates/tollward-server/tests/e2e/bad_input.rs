//! What callers get wrong, and what they try: every answer has its status, and nothing is charged.

use serde_json::{Value, json};
use tollward_testkit::http::Connection;

use crate::served::{Client, Served, assert_problem, get, json as body};

pub(crate) const CONFIG: &str = "
identity: { anonymous: { plan: free } }
plans:
  free: { rate_limit: { sustained: { rate: 1, window: hour }, burst: { capacity: 10 }, scope: global } }
routes:
  - match: /api/v1/payments/**
    rate_limit: { sustained: { rate: 1, window: hour }, burst: { capacity: 4 }, scope: user }
";

/// Bodies that are a check, and cost no more than the bucket holds.
pub(crate) const FINE: &[&str] = &[
    "{}",
    " \r\n\t{ } ",
    r#"{"cost":0}"#,
    r#"{"cost":10}"#,
    r#"{"cost":10.0}"#,
    r#"{"cost":1e1}"#,
    r#"{"cost":-0.0}"#,
    r#"{"tenant":null,"plan":null,"user":null,"client":null,"api_key":null}"#,
    r#"{"ip":null,"method":null,"path":null,"peek":null}"#,
    r#"{"peek":false}"#,
    r#"{"tenant":"","plan":"","user":"","client":"","api_key":"","method":"","path":""}"#,
    r#"{"user":"\u0000"}"#,
    r#"{"user":"\r\nX-Evil: 1"}"#,
    r#"{"user":"{}"}"#,
    r#"{"user":"a:b","tenant":":"}"#,
    r#"{"user":"😀","client":"\ud83d\ude00"}"#,
    r#"{"ip":"192.0.2.1"}"#,
    r#"{"ip":"2001:db8::1"}"#,
    r#"{"ip":"::ffff:192.0.2.1"}"#,
    r#"{"method":"get"}"#,
    r#"{"method":"M-SEARCH"}"#,
    r#"{"path":"/"}"#,
    r#"{"path":"/a?b=%zz#c"}"#,
    r#"{"path":"/ü/😀"}"#,
];

/// Bodies that cost more than there can ever be.
pub(crate) const TOO_DEAR: &[&str] = &[
    r#"{"cost":11}"#,
    r#"{"cost":4294967295}"#,
    r#"{"cost":4294967295.0}"#,
];

/// Bodies that are JSON, but not a check.
pub(crate) const NO_CHECK: &[&str] = &[
    r#"{"cost":-1}"#,
    r#"{"cost":1.5}"#,
    r#"{"cost":15e-1}"#,
    r#"{"cost":1e10}"#,
    r#"{"cost":4294967295.00000001}"#,
    r#"{"cost":4294967296.0}"#,
    r#"{"cost":1e308}"#,
    r#"{"cost":1e400}"#,
    r#"{"cost":4294967296}"#,
    r#"{"cost":9223372036854775808}"#,
    r#"{"cost":18446744073709551616}"#,
    r#"{"cost":99999999999999999999999999999999999999999}"#,
    r#"{"cost":"5"}"#,
    r#"{"cost":null}"#,
    r#"{"cost":true}"#,
    r#"{"cost":[]}"#,
    r#"{"cost":{}}"#,
    r#"{"costs":1}"#,
    r#"{"Cost":1}"#,
    r#"{"user":"a","x":1}"#,
    r#"{"user":"a","user":"b"}"#,
    r#"{"cost":1,"cost":1}"#,
    r#"{"user":5}"#,
    r#"{"user":["a"]}"#,
    r#"{"user":{"id":"a"}}"#,
    r#"{"peek":1}"#,
    r#"{"peek":"true"}"#,
    r#"{"ip":"localhost"}"#,
    r#"{"ip":"192.0.2"}"#,
    r#"{"ip":"192.0.2.256"}"#,
    r#"{"ip":"192.0.2.01"}"#,
    r#"{"ip":"192.0.2.1:80"}"#,
    r#"{"ip":" 192.0.2.1"}"#,
    r#"{"ip":"[2001:db8::1]"}"#,
    r#"{"ip":"fe80::1%eth0"}"#,
    r#"{"ip":3221225985}"#,
    r#"{"method":"GE T"}"#,
    r#"{"method":"GET\r\n"}"#,
    r#"{"method":"\u0000"}"#,
    r#"{"method":"MÉTHODE"}"#,
    r#"{"method":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}"#,
    r#"{"path":"a"}"#,
    r#"{"path":"*"}"#,
    r#"{"path":"http://a/b"}"#,
    r#"{"path":"/a%2Fb"}"#,
    r#"{"path":"/a%5cb"}"#,
    r#"{"path":"/a\\b"}"#,
    r#"{"path":"/a%00"}"#,
    r#"{"path":"/a\u0000"}"#,
    r#"{"path":"/a%"}"#,
    r#"{"path":"/a%4"}"#,
    r#"{"path":"/a%zz"}"#,
    r#"{"path":"/a#b"}"#,
    r#"{"path":"/api/v1/payments;v=1/x"}"#,
    r#"{"path":"/api/v1;/payments"}"#,
    r#"{"plan":"gold"}"#,
    r#"{"plan":"FREE"}"#,
    "[]",
    "[{}]",
    r#"["acme","free","bob"]"#,
    "null",
    "true",
    "5",
    r#""{}""#,
];

/// Bodies that are not JSON.
pub(crate) const NO_JSON: &[&[u8]] = &[
    b"",
    b" ",
    b"{",
    b"{}{}",
    b"{} x",
    b"{\"user\":\"a\"",
    b"{\"cost\":NaN}",
    b"{\"cost\":Infinity}",
    b"{\"cost\":00}",
    b"{\"cost\":+5}",
    b"{\"cost\":0x10}",
    b"{\"cost\":5,}",
    b"{'cost':5}",
    b"{\"user\":\"\\ud800\"}",
    b"{\"user\":\"\\udc00\\ud800\"}",
    b"{\"user\":\"\xff\xfe\"}",
    b"{\"user\":\"\xc0\xaf\"}",
    b"{\"user\":\"\xed\xa0\x80\"}",
    b"{\"user\":\"a\nb\"}",
    b"\xef\xbb\xbf{}",
    b"{\0}\0",
    b"\0\0\0\0",
    b"user=alice&cost=1",
];

/// Nothing that was tried before this has cost anything.
fn assert_untouched(client: &mut Client, what: &str) {
    let (_, answer) = client.check(json!({ "peek": true }));
    assert_eq!(answer["remaining"], 10, "after {what}");
}

#[test]
fn a_check_has_its_status_and_a_mistake_costs_nothing() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    for text in FINE {
        let response = client.post("/v1/check", text);
        assert_eq!(response.status, 200, "{text}: {}", response.text());
        assert_eq!(body(&response)["allowed"], true, "{text}");
        served.advance_secs(24 * 3600);
    }
    for text in TOO_DEAR {
        let response = client.post("/v1/check", text);
        assert_eq!(response.status, 422, "{text}");
        let answer = body(&response);
        assert_eq!(answer["reason"], "cost_exceeds_capacity");
        assert!(answer["retry_after"].is_null() && answer["retry_after_ms"].is_null());
        assert_eq!(answer["remaining"], 10);
        assert_eq!(response.header("retry-after"), None);
        assert_untouched(&mut client, text);
    }
    for text in NO_CHECK
        .iter()
        .map(|text| text.as_bytes())
        .chain(NO_JSON.iter().copied())
    {
        let what = String::from_utf8_lossy(text);
        let response = client.post("/v1/check", text);
        let problem = assert_problem(&response, 400, &what);
        assert!(problem["reason"].is_string(), "{what}: {problem}");
        let response = client.post("/v1/check?answer=client", text);
        assert_problem(&response, 400, &what);
        assert_untouched(&mut client, &what);
    }
}

#[test]
fn what_is_not_http_is_told_so() {
    let served = Served::of(CONFIG);
    let long = format!(
        "GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
        "x".repeat(300_000)
    );
    for address in [served.api, served.admin] {
        for (request, status) in [
            ("garbage\r\n\r\n", 400),
            ("GET / HTTP/7.5\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
            (&*long, 431),
        ] {
            let mut connection = Connection::open(address).unwrap();
            // Also behind a request that was answered.
            let first = connection.request("GET", "/nowhere", &[], b"").unwrap();
            assert_eq!(first.status, 404);
            connection.send(request.as_bytes()).unwrap();
            let response = connection.read(false).unwrap();
            assert_problem(&response, status, request.get(..40).unwrap_or(request));
            assert_eq!(response.header("connection"), Some("close"));
            assert_eq!(connection.read_to_end(), b"");
        }
    }
}

#[test]
fn a_bad_item_of_a_batch_spoils_only_itself() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    let expected = (FINE.iter().map(|text| (text, 200)))
        .chain(TOO_DEAR.iter().map(|text| (text, 422)))
        .chain(NO_CHECK.iter().map(|text| (text, 400)));
    for (text, status) in expected {
        let zero = r#"{"cost":0}"#;
        let batch = format!("{{\"checks\":[{zero},{text},{zero}]}}");
        let response = client.post("/v1/check/batch", batch);
        assert_eq!(response.status, 200, "{text}: {}", response.text());
        let answer = body(&response);
        let results = answer["results"].as_array().unwrap();
        let statuses: Vec<_> = results
            .iter()
            .map(|it| it["status"].as_u64().unwrap())
            .collect();
        assert_eq!(statuses, [200, status, 200], "{text}");
        if status == 400 {
            assert!(results[1]["detail"].is_string() && results[1]["reason"].is_string());
        }
        served.advance_secs(24 * 3600);
    }
    assert_untouched(&mut client, "all of them");
}

#[test]
fn an_unknown_key_is_unauthorised() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    let response = client.ask(json!({ "api_key": "guess" }));
    let problem = assert_problem(&response, 401, "a key nobody has");
    assert_eq!(problem["reason"], "unknown_key");
    assert!(!response.text().contains("guess"), "keys are not repeated");
    assert_untouched(&mut client, "an unknown key");
}

#[test]
fn other_spellings_of_a_path_are_no_way_around_its_limit() {
    let served = Served::of(CONFIG);
    let mut client = served.client();
    let pay = |path: &str| json!({ "user": "u", "path": path });
    assert_eq!(client.exhaust(&pay("/api/v1/payments/1")).0, 4);
    for path in [
        "/api/v1/payments",
        "/api/v1/payments/",
        "/API/V1/PAYMENTS/1",
        "/api//v1///payments/1",
        "/api/./v1/payments/1",
        "/api/v1/x/../payments/1",
        "/../api/v1/payments/1",
        "/api/v1/x/%2e%2E/payments/1",
        "/%61pi/v1/p%41yments/1",
        "/api/v1/payments/1?a=b",
        "/api/v1/payments/😀",
    ] {
        let (status, answer) = client.check(pay(path));
        assert_eq!(status, 429, "{path}: {answer}");
        assert_eq!(answer["binding"], "route:/api/v1/payments/**", "{path}");
    }
    let other = client.check(pay("/api/v1/payments2"));
    assert_eq!(other.0, 200, "{}", other.1);
}

#[test]
fn other_methods_paths_and_queries_are_told_what_there_is() {
    let served = Served::of(CONFIG);
    let mut connection = Connection::open(served.api).unwrap();
    for method in [
        "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW", "post",
    ] {
        for target in ["/v1/check", "/v1/check/batch", "/v1/check?answer=client"] {
            let response = connection.request(method, target, &[], b"").unwrap();
            assert_eq!(response.status, 405, "{method} {target}");
            assert_eq!(response.header("allow"), Some("POST"), "{method} {target}");
            if method != "HEAD" {
                assert_problem(&response, 405, method);
            }
        }
    }
    let mut client = Client(connection);
    for target in [
        "/",
        "/v1",
        "/v1/check/",
        "//v1/check",
        "/v1//check",
        "/V1/check",
        "/v1/x/../check",
        "/v1/check%2Fbatch",
        "/v1/%63heck",
        "/v1/check;a=b",
        "/v1/check/batch/1",
        "/healthz",
        "/metrics",
        "*",
    ] {
        assert_problem(&client.post(target, "{}"), 404, target);
    }
    for target in [
        "/v1/check?x",
        "/v1/check?answer",
        "/v1/check?answer=",
        "/v1/check?answer=clients",
        "/v1/check?answer=client&answer=client",
        "/v1/check?Answer=client",
        "/v1/check?cost=5",
        "/v1/check/batch?answer=client",
    ] {
        assert_problem(&client.post(target, "{}"), 400, target);
    }
    for target in ["/v1/check?", "http://elsewhere.test/v1/check"] {
        assert_eq!(client.post(target, r#"{"cost":0}"#).status, 200, "{target}");
    }
    assert_untouched(&mut client, "all of them");
}

#[test]
fn the_admin_door_answers_like_the_other() {
    let served = Served::of(CONFIG);
    let mut connection = Connection::open(served.admin).unwrap();
    for target in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(served.admin, target).status, 200, "{target}");
        let response = connection.request("HEAD", target, &[], b"").unwrap();
        assert_eq!(response.status, 200, "{target}");
        let response = connection.request("POST", target, &[], b"{}").unwrap();
        assert_problem(&response, 405, target);
        assert_eq!(response.header("allow"), Some("GET, HEAD"), "{target}");
    }
    for target in ["/", "/v1/check", "/metrics/", "/../metrics"] {
        let response = connection.request("GET", target, &[], b"").unwrap();
        assert_problem(&response, 404, target);
    }
    assert_eq!(Value::from(served.admin_page("/readyz").text()), "ready\n");
}
