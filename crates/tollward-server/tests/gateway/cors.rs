//! Pages of other origins: what they are told, over real connections.

use std::io::Read;
use std::net::TcpListener;

use http::Request;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tollward_testkit::http::{Response, head};
use tollward_testkit::upstream::{Upstream, answer};

use crate::gated::{Gated, remaining, sha256};
use crate::http2;
use crate::process::arg;
use crate::served::{Folder, json, until};

const APP: &str = "https://app.example.com";
const EVIL: &str = "https://evil.example";
const KEY: (&str, &str) = ("x-api-key", "page-key");
const LIMITS: &str = "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit-Policy, RateLimit, Retry-After";
const PREFLIGHT_VARY: &str =
    "Origin, Access-Control-Request-Method, Access-Control-Request-Headers";

/// A gateway before an upstream of each kind. The key may make 50 requests, and one to `/once`.
struct Site {
    gated: Gated,
    app: Upstream,
    _slow: Upstream,
}

impl Site {
    fn of(more: &str) -> Self {
        let app = Upstream::answering(|request| {
            // As if it knew of CORS itself, and of other origins.
            let headers = [
                ("access-control-allow-origin", "*"),
                ("access-control-allow-credentials", "true"),
                ("access-control-expose-headers", "x-own"),
                ("vary", "Accept-Encoding"),
                ("x-own", "yes"),
            ];
            answer(200, &headers, request.method.as_bytes())
        });
        let slow = Upstream::doing(|_, wire| {
            // Until the gateway gives it up.
            let _ = wire.read(&mut [0; 1]);
            Err(std::io::ErrorKind::ConnectionAborted.into())
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let gated = Gated::of(&format!(
            "
plans: {{ p: {{ rate_limit: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 50 }}, scope: tenant }} }} }}
tenants: {{ acme: {{ plan: p }} }}
keys: [ {{ sha256: {}, tenant: acme }} ]
routes:
  - {{ match: /app/**, upstream: app }}
  - {{ match: /once, upstream: app, rate_limit: {{ sustained: {{ rate: 1, window: minute }} }} }}
  - {{ match: /dear, upstream: app, cost: 51 }}
  - {{ match: /closed, deny: true }}
  - {{ match: /gone, upstream: gone }}
  - {{ match: /slow, upstream: slow }}
  - {{ match: /full, upstream: full }}
  - {{ match: /own, upstream: app, cors: none }}
  - {{ match: DELETE /app/item, cors: {{ origins: [https://admin.example.com], methods: DELETE }} }}
upstreams:
  app: {{ url: {app} }}
  slow: {{ url: {slow}, response_timeout: 300ms }}
  full: {{ url: {slow}, response_timeout: 20s, max_connections: 1 }}
  gone: {{ url: {gone} }}
gateway: {{ workers: 1, max_body: 1000, {more} }}
cors: {{ origins: [{APP}] }}
",
            sha256(KEY.1),
            app = app.url(),
            slow = slow.url(),
        ));
        let _slow = slow;
        Self { gated, app, _slow }
    }

    fn preflight(&self, path: &str, origin: &str, method: &str, headers: &str) -> Response {
        let asked = [
            ("origin", origin),
            ("access-control-request-method", method),
            ("access-control-request-headers", headers),
        ];
        self.gated.ask("OPTIONS", path, &asked)
    }
}

/// Everything that an answer says about CORS, in the order of the names.
fn cors_lines(response: &Response) -> Vec<String> {
    let headers = response.headers.iter();
    let said = headers.filter(|(name, _)| name.starts_with("access-control-"));
    let mut lines: Vec<String> = said
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    lines.sort();
    lines
}

fn varies_by(response: &Response) -> Vec<&str> {
    let headers = response.headers.iter();
    let vary = headers.filter(|(name, _)| name == "vary");
    vary.map(|(_, value)| value.as_str()).collect()
}

fn readable_by(origin: &str) -> Vec<String> {
    vec![
        format!("access-control-allow-origin: {origin}"),
        format!("access-control-expose-headers: {LIMITS}"),
    ]
}

/// Every kind of answer that a request of a page may get.
const ANSWERS: [(&str, &str, bool, u16); 11] = [
    ("GET", "/app/a", true, 200),
    ("GET", "/app/a", false, 401),
    ("GET", "/once", true, 200),
    ("GET", "/once", true, 429),
    ("GET", "/dear", true, 422),
    ("GET", "/closed", true, 403),
    ("GET", "/nothing", true, 404),
    ("GET", "/app/%2F", true, 400),
    ("POST", "/gone", true, 502),
    ("GET", "/slow", true, 504),
    ("OPTIONS", "/app/a", true, 200),
];

#[test]
fn every_answer_can_be_read_by_pages_that_are_allowed() {
    let site = Site::of("");
    for (method, path, keyed, status) in ANSWERS {
        let mut headers = vec![("origin", APP)];
        headers.extend(keyed.then_some(KEY));
        let answer = site.gated.ask(method, path, &headers);
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
        assert_eq!(cors_lines(&answer), readable_by(APP), "{method} {path}");
        let mut expected = vec!["Origin"];
        if status == 200 {
            assert_eq!(answer.header("x-own"), Some("yes"));
            expected.insert(0, "Accept-Encoding");
        }
        assert_eq!(varies_by(&answer), expected, "{method} {path}");
        if status == 429 {
            assert_eq!(answer.header("retry-after"), Some("60"));
        }
    }
}

#[test]
fn no_answer_can_be_read_by_other_pages() {
    let site = Site::of("");
    for (method, path, keyed, status) in ANSWERS {
        for origin in [EVIL, "null"] {
            // The second one would be refused by `/once`.
            if path == "/once" && origin == "null" {
                continue;
            }
            let mut headers = vec![("origin", origin)];
            headers.extend(keyed.then_some(KEY));
            let answer = site.gated.ask(method, path, &headers);
            assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
            assert_eq!(cors_lines(&answer), [""; 0], "{method} {path}");
            assert_eq!(varies_by(&answer).last(), Some(&"Origin"));
        }
    }
}

/// A cache must not give a page what was kept of an answer to somebody else.
#[test]
fn answers_to_requests_without_an_origin_vary_too() {
    let site = Site::of("");
    for (path, status) in [("/app/a", 200), ("/nothing", 404)] {
        let answer = site.gated.get(path, &[KEY]);
        assert_eq!(answer.status, status);
        assert_eq!(cors_lines(&answer), [""; 0]);
        assert_eq!(varies_by(&answer).last(), Some(&"Origin"));
    }
}

#[test]
fn an_upstream_that_is_full_can_be_told_from_a_page_that_may_not_call() {
    let site = Site::of("");
    let mut first = site.gated.connect();
    let sent = head("GET", "/full", &[KEY, ("origin", APP)], 0);
    first.send(sent.as_bytes()).unwrap();
    let mut answer = None;
    until("the only connection is taken", || {
        let mut second = site.gated.connect();
        let sent = head("GET", "/full", &[KEY, ("origin", APP)], 0);
        second.send(sent.as_bytes()).unwrap();
        let stream = second.stream().get_ref();
        let patience = std::time::Duration::from_millis(500);
        stream.set_read_timeout(Some(patience)).unwrap();
        answer = second.read(false).ok();
        answer.is_some()
    });
    let answer = answer.unwrap();
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(cors_lines(&answer), readable_by(APP));
}

/// What the front refuses before the gateway has seen it.
#[test]
fn bodies_that_are_too_long_are_refused_readably() {
    let site = Site::of("");
    let origin = ("origin", APP);
    let mut connection = site.gated.connect();
    let answer = connection.request("POST", "/app/a", &[KEY, origin], &[b'x'; 1001]);
    let answer = answer.unwrap();
    assert_eq!(answer.status, 413);
    assert_eq!(cors_lines(&answer), readable_by(APP));
    assert_eq!(varies_by(&answer), ["Origin"]);
    // And when that is seen only on the way.
    let mut connection = site.gated.connect();
    let head = format!(
        "POST /app/a HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\norigin: {APP}\r\ntransfer-encoding: chunked\r\n\r\n",
        KEY.1
    );
    let body = format!("7d0\r\n{}\r\n0\r\n\r\n", "x".repeat(2000));
    connection.send((head + &body).as_bytes()).unwrap();
    let answer = connection.read(false).unwrap();
    assert_eq!(answer.status, 413);
    assert_eq!(cors_lines(&answer), readable_by(APP));
    assert_eq!(varies_by(&answer), ["Origin"]);
}

#[test]
fn preflights_are_answered_by_the_gateway() {
    let site = Site::of("");
    for _ in 0..3 {
        let answer = site.preflight("/app/a", APP, "POST", "content-type,x-api-key");
        assert_eq!(answer.status, 204, "{}", answer.text());
        assert_eq!(
            cors_lines(&answer),
            [
                "access-control-allow-headers: x-api-key, content-type",
                "access-control-allow-methods: GET, HEAD, POST",
                &format!("access-control-allow-origin: {APP}"),
                "access-control-max-age: 600",
            ]
        );
        assert_eq!(varies_by(&answer), [PREFLIGHT_VARY]);
        assert_eq!(answer.header("x-ratelimit-remaining"), None);
    }
    assert_eq!(site.app.count(), 0, "none is passed on");
    // None was charged.
    let answer = site.gated.get("/app/a", &[KEY]);
    assert_eq!((answer.status, remaining(&answer)), (200, 49));
}

#[test]
fn preflights_are_refused_with_a_reason() {
    let site = Site::of("");
    for (origin, method, headers, reason) in [
        (EVIL, "GET", "x-api-key", "origin_not_allowed"),
        ("null", "GET", "x-api-key", "origin_not_allowed"),
        (APP, "PUT", "x-api-key", "method_not_allowed"),
        (APP, "GET", "x-api-key, x-other", "header_not_allowed"),
    ] {
        let answer = site.preflight("/app/a", origin, method, headers);
        assert_eq!(answer.status, 403, "{reason}");
        assert_eq!(cors_lines(&answer), [""; 0], "{reason}");
        assert_eq!(varies_by(&answer), [PREFLIGHT_VARY]);
        let problem = json(&answer);
        assert_eq!(problem["reason"], reason, "{problem}");
        assert_eq!(problem["status"], 403);
    }
    let problem = json(&site.preflight("/app/a", APP, "GET", "X-Other"));
    let detail = "Pages may not send the header `x-other`: it is not in `cors.headers`.";
    assert_eq!(problem["detail"], detail);
    assert_eq!(site.app.count(), 0);
}

#[test]
fn preflights_are_for_the_method_that_they_ask_about() {
    let site = Site::of("");
    let admin = "https://admin.example.com";
    let status = |path, origin, method| site.preflight(path, origin, method, "").status;
    assert_eq!(status("/app/item", admin, "DELETE"), 204);
    assert_eq!(status("/app/item", APP, "DELETE"), 403);
    assert_eq!(status("/app/item", admin, "GET"), 403);
    assert_eq!(status("/app/item", APP, "GET"), 204);
    // Also where the request itself is refused: the page can read why.
    for path in ["/nothing", "/app/%2F", "/closed"] {
        let answer = site.preflight(path, APP, "GET", "");
        assert_eq!(answer.status, 204, "{path}");
        let origin = format!("access-control-allow-origin: {APP}");
        assert!(cors_lines(&answer).contains(&origin), "{path}");
    }
}

#[test]
fn routes_without_cors_are_left_to_the_upstream() {
    let site = Site::of("");
    let own = [
        "access-control-allow-credentials: true",
        "access-control-allow-origin: *",
        "access-control-expose-headers: x-own",
    ];
    let asked = [("origin", EVIL), ("access-control-request-method", "GET")];
    let answer = site.gated.ask("GET", "/own", &[KEY, ("origin", EVIL)]);
    assert_eq!(answer.status, 200);
    assert_eq!(cors_lines(&answer), own);
    assert_eq!(varies_by(&answer), ["Accept-Encoding"]);
    let answer = site
        .gated
        .ask("OPTIONS", "/own", &[KEY, asked[0], asked[1]]);
    assert_eq!((answer.status, answer.text().as_str()), (200, "OPTIONS"));
    assert_eq!(cors_lines(&answer), own);
    // As without any `cors`: a preflight is a request like any other, and shows no key.
    let answer = site.gated.ask("OPTIONS", "/own", &asked);
    assert_eq!(answer.status, 401);
    assert_eq!(cors_lines(&answer), [""; 0]);
    // And so is what is no preflight, on any route.
    for headers in [&asked[..1], &asked[1..], &[]] {
        assert_eq!(site.gated.ask("OPTIONS", "/app/a", headers).status, 401);
    }
    assert_eq!(site.app.count(), 2);
}

#[test]
fn credentials_any_origin_and_other_headers() {
    let upstream = Upstream::start();
    let gated = |cors: &str| {
        Gated::of(&format!(
            "
identity: {{ anonymous: allow }}
limits: {{ all: {{ sustained: {{ rate: 9 }}, scope: ip }} }}
response: {{ headers: ietf, expose_headers: true }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {} }} }}
cors: {{ {cors} }}
",
            upstream.url()
        ))
    };
    let lines = |gated: &Gated, origin| cors_lines(&gated.get("/", &[("origin", origin)]));
    let any = gated("origins: '*'");
    let exposed = "access-control-expose-headers: RateLimit-Policy, RateLimit, Retry-After";
    let star = "access-control-allow-origin: *";
    assert_eq!(lines(&any, APP), [star, exposed]);
    assert_eq!(lines(&any, "null"), [""; 0]);
    let cookies = gated("origins: ['https://*.example.com'], credentials: true, expose: [X-Total]");
    assert_eq!(
        lines(&cookies, APP),
        [
            "access-control-allow-credentials: true",
            "access-control-allow-origin: https://app.example.com",
            &format!("{exposed}, x-total"),
        ]
    );
    assert_eq!(lines(&cookies, "https://evilexample.com"), [""; 0]);
    let nothing = gated(&format!("origins: {APP}, expose: false"));
    assert_eq!(
        lines(&nothing, APP),
        ["access-control-allow-origin: https://app.example.com"]
    );
}

#[test]
fn http2_is_the_same() {
    let site = Site::of("");
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let stream = TcpStream::connect(site.gated.gateway).await.unwrap();
        let mut client = http2::speak(stream).await;
        for (method, path, keyed, status) in ANSWERS {
            let uri = format!("http://api.test{path}");
            let mut request = Request::builder().method(method).uri(uri);
            request = request.header("origin", APP);
            if keyed {
                request = request.header(KEY.0, KEY.1);
            }
            let request = request.body(()).unwrap();
            let answer = http2::ask(&mut client, request, b"", None).await;
            assert_eq!(answer.head.status, status, "{method} {path}");
            let headers = &answer.head.headers;
            let origins: Vec<_> = headers
                .get_all("access-control-allow-origin")
                .iter()
                .collect();
            assert_eq!(origins, [APP], "{method} {path}");
            assert_eq!(headers["access-control-expose-headers"], LIMITS);
        }
        let request = Request::options("http://api.test/app/a")
            .header("origin", APP)
            .header("access-control-request-method", "POST")
            .body(())
            .unwrap();
        let answer = http2::ask(&mut client, request, b"", None).await;
        assert_eq!(answer.head.status, 204);
        assert_eq!(answer.head.headers["access-control-allow-origin"], APP);
        assert_eq!(answer.head.headers["vary"], PREFLIGHT_VARY);
    });
}

#[test]
fn the_access_log_tells_why_a_page_may_not_call() {
    let folder = Folder::new();
    let file = folder.0.join("access.log");
    let site = Site::of(&format!("access_log: \"{}\"", arg(&file)));
    site.preflight("/app/a", APP, "GET", "x-api-key");
    site.preflight("/app/a", EVIL, "GET", "x-api-key");
    site.preflight("/app/a", APP, "PUT", "x-api-key");
    site.preflight("/app/a", APP, "GET", "x-other");
    site.gated.get("/app/a", &[KEY, ("origin", EVIL)]);
    site.gated.get("/app/a", &[KEY, ("origin", APP)]);
    site.gated.get("/app/a", &[KEY]);
    let lines = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let lines = text
            .lines()
            .map_while(|line| serde_json::from_str(line).ok());
        lines.collect::<Vec<Value>>()
    };
    until("seven lines", || lines().len() == 7);
    let told: Vec<(u64, String)> = lines()
        .iter()
        .map(|line| {
            let word = line.get("cors").map_or("", |word| word.as_str().unwrap());
            (line["status"].as_u64().unwrap(), word.to_owned())
        })
        .collect();
    let expected = [
        (204, "preflight"),
        (403, "origin_not_allowed"),
        (403, "method_not_allowed"),
        (403, "header_not_allowed"),
        (200, "origin_not_allowed"),
        (200, ""),
        (200, ""),
    ];
    let expected = expected.map(|(status, word)| (status, word.to_owned()));
    assert_eq!(told, expected);
}
