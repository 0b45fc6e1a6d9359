//! A real browser, with pages of two origins: one that may call the gateway, one that may not.

use std::path::Path;

use serde_json::{Value, json};
use tollward_testkit::browser::Browser;
use tollward_testkit::tools::CHROMIUM;
use tollward_testkit::upstream::{Request, Upstream, answer};

use crate::gated::{Gated, sha256};
use crate::served::{Folder, until};

/// What both pages try, one after the other. A `fetch` that the browser refuses throws a `TypeError`.
const PAGE: &str = r#"<!doctype html>
<title>page</title>
<script>
const gateway = "GATEWAY";
const key = { "X-Api-Key": "page-key" };
const tries = {
  admitted: ["/orders", { headers: key }],
  posted: ["/orders", { method: "POST", headers: { ...key, "Content-Type": "application/json" }, body: "{}" }],
  refused: ["/orders", { headers: key }],
  unproven: ["/orders", {}],
  missing: ["/nothing", { headers: key }],
  method: ["/orders", { method: "DELETE", headers: key }],
  header: ["/orders", { headers: { ...key, "X-Other": "1" } }],
  cookies: ["/orders", { headers: key, credentials: "include" }],
};
async function attempt([path, options]) {
  try {
    const answer = await fetch(gateway + path, { cache: "no-store", ...options });
    return {
      status: answer.status,
      remaining: answer.headers.get("X-RateLimit-Remaining"),
      retry_after: answer.headers.get("Retry-After"),
      secret: answer.headers.get("X-Secret"),
      body: await answer.text(),
    };
  } catch (error) {
    return error.name;
  }
}
(async () => {
  const findings = {};
  for (const name in tries) findings[name] = await attempt(tries[name]);
  await fetch("/findings", { method: "POST", body: JSON.stringify(findings) });
})();
</script>
"#;

/// A server of a page that calls a gateway, on an origin of its own.
fn page_server(page: impl Fn() -> String + Send + Sync + 'static) -> Upstream {
    Upstream::answering(move |request: &Request| match &*request.target {
        "/" => answer(200, &[("content-type", "text/html")], page().as_bytes()),
        "/findings" => answer(204, &[], b""),
        _ => answer(404, &[], b""),
    })
}

/// What a page found out in a browser.
fn findings(chromium: &Path, server: &Upstream) -> Value {
    let mut browser = Browser::open(chromium, &server.url());
    browser.told(|| {
        let seen = server.seen();
        let told = seen.iter().find(|request| request.target == "/findings");
        told.map(|request| serde_json::from_slice(&request.body).unwrap())
    })
}

#[test]
fn pages_call_the_gateway_from_another_origin() {
    let Some(chromium) = CHROMIUM.find() else {
        println!("left out: there is no {}", CHROMIUM.name);
        return;
    };
    let upstream = Upstream::answering(|request| {
        let headers = [("x-secret", "not exposed")];
        answer(
            200,
            &headers,
            format!("served {}", request.method).as_bytes(),
        )
    });
    let gateway = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let serve = || {
        let gateway = gateway.clone();
        page_server(move || PAGE.replace("GATEWAY", gateway.get().unwrap()))
    };
    let (friend, stranger) = (serve(), serve());
    let folder = Folder::new();
    let log = folder.0.join("access.log");
    let gated = Gated::of(&format!(
        "
plans: {{ p: {{ rate_limit: {{ sustained: {{ rate: 1, window: minute }}, burst: {{ capacity: 2 }} }} }} }}
tenants: {{ acme: {{ plan: p }} }}
keys: [ {{ sha256: {}, tenant: acme }} ]
routes: [ {{ match: /orders, upstream: app }} ]
upstreams: {{ app: {{ url: {} }} }}
gateway: {{ access_log: \"{}\" }}
cors: {{ origins: [\"{}\"] }}
",
        sha256("page-key"),
        upstream.url(),
        log.display(),
        friend.url(),
    ));
    gateway.set(format!("http://{}", gated.gateway)).unwrap();

    let mut found = findings(&chromium, &friend);
    let served = |remaining: &str, words: &str| json!({ "status": 200, "remaining": remaining, "retry_after": null, "secret": null, "body": words });
    assert_eq!(found["admitted"], served("1", "served GET"), "{found}");
    assert_eq!(found["posted"], served("0", "served POST"), "{found}");
    for (name, status, retry_after) in [
        ("refused", 429, json!("60")),
        ("unproven", 401, json!(null)),
        // Its preflight was granted, so that the page can read the answer.
        ("missing", 404, json!(null)),
    ] {
        let answer = found[name].take();
        assert_eq!(answer["status"], status, "{name}: {answer}");
        assert_eq!(answer["retry_after"], retry_after, "{name}: {answer}");
        let problem: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
        assert_eq!(problem["status"], status, "{problem}");
    }
    for name in ["method", "header", "cookies"] {
        assert_eq!(found[name], "TypeError", "{name}");
    }
    let methods: Vec<String> = upstream.seen().into_iter().map(|it| it.method).collect();
    assert_eq!(methods, ["GET", "POST"], "no preflight is passed on");
    let count = |word: &str| {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.matches(&format!("\"cors\":\"{word}\"")).count()
    };
    // Lines are written beside the traffic.
    until("a line for every preflight", || {
        let refused = (count("method_not_allowed"), count("header_not_allowed"));
        refused == (1, 1) && count("preflight") > 0
    });
    assert_eq!(count("origin_not_allowed"), 0);

    gated.advance_ms(3_600_000);
    let found = findings(&chromium, &stranger);
    for (name, answer) in found.as_object().unwrap() {
        assert_eq!(answer, "TypeError", "{name}");
    }
    until("lines", || count("origin_not_allowed") > 0);
    // Without a preflight a request arrives, but nobody is charged for it and its answer stays unread.
    assert_eq!(upstream.count(), 2);
}
