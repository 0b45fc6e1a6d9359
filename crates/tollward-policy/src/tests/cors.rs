//! Which pages of other origins may call the gateway.

use http::{HeaderName, Method};

use super::{assert_faults, faults_of, policy};
use crate::{Cors, Origin, Policy};

const APP: &str = "upstreams: { app: { url: http://127.0.0.1:9000 } }";

fn exact(origin: &str) -> Origin {
    Origin::Exact(origin.into())
}

fn headers(names: &[&'static str]) -> Vec<HeaderName> {
    names
        .iter()
        .map(|name| HeaderName::from_static(name))
        .collect()
}

/// The CORS rules of a policy for a GET.
fn of<'p>(policy: &'p Policy, path: &str) -> Option<&'p Cors> {
    policy.cors("GET", path)
}

#[test]
fn a_file_without_cors_has_none() {
    let policy = policy(&format!(
        "{APP}\nroutes: [ {{ match: /**, upstream: app }} ]"
    ));
    assert!(!policy.has_cors());
    assert_eq!(of(&policy, "/a"), None);
}

#[test]
fn the_defaults() {
    let policy = policy("cors: { origins: [https://app.example.com] }");
    assert!(policy.has_cors());
    assert_eq!(
        of(&policy, "/a"),
        Some(&Cors {
            origins: vec![exact("https://app.example.com")],
            methods: vec![Method::GET, Method::HEAD, Method::POST],
            headers: headers(&["x-api-key", "content-type"]),
            expose: Some(vec![]),
            credentials: false,
            max_age_secs: 600,
        })
    );
}

#[test]
fn what_the_file_says() {
    let policy = policy(
        "cors: { origins: ['https://*.example.com:8443', 'http://localhost:3000', 'http://[::1]:3000', 'capacitor://localhost'], \
         methods: [get, PURGE], headers: [X-One], expose: [ETag, X-Total], credentials: true, max_age: 1d }",
    );
    assert_eq!(
        of(&policy, "/a"),
        Some(&Cors {
            origins: vec![
                Origin::Subdomain {
                    scheme: "https://".into(),
                    domain: ".example.com:8443".into(),
                },
                exact("http://localhost:3000"),
                exact("http://[::1]:3000"),
                exact("capacitor://localhost"),
            ],
            methods: vec![Method::GET, Method::from_bytes(b"PURGE").unwrap()],
            headers: headers(&["x-one"]),
            expose: Some(headers(&["etag", "x-total"])),
            credentials: true,
            max_age_secs: 86_400,
        })
    );
}

#[test]
fn single_values_need_no_list() {
    let policy = policy(
        "cors: { origins: '*', methods: PUT, headers: [], expose: false, credentials: false, max_age: 0s }",
    );
    let cors = of(&policy, "/").unwrap();
    assert_eq!(cors.origins, [Origin::Any]);
    assert_eq!(cors.methods, [Method::PUT]);
    assert_eq!((&*cors.headers, &cors.expose), (&[][..], &None));
    assert_eq!(cors.max_age_secs, 0);
}

#[test]
fn headers_of_credentials_are_allowed_by_default() {
    let of = |identity: &str| {
        let policy = policy(&format!(
            "identity: {{ {identity} }}\ncors: {{ origins: '*' }}"
        ));
        policy.cors("GET", "/").unwrap().headers.clone()
    };
    let key = headers(&["x-key", "content-type"]);
    assert_eq!(of("api_key: { header: X-Key }"), key);
    let key = headers(&["authorization", "content-type"]);
    assert_eq!(of("api_key: { header: Authorization }"), key);
    let both = headers(&["x-api-key", "content-type", "authorization"]);
    assert_eq!(of("user: { jwt: { jwks: keys.json } }"), both);
    assert_eq!(of("client: { basic: true }"), both);
    let one = headers(&["x-api-key", "content-type"]);
    assert_eq!(of("client: { header: X-Client }"), one);
}

/// The first origin of the rules of each request, which tells them apart.
#[test]
fn the_most_specific_route_with_cors_decides() {
    let text = format!(
        "
{APP}
cors: {{ origins: [https://file] }}
routes:
  - {{ match: /**, upstream: app }}
  - {{ match: /a/**, cors: {{ origins: [https://a] }} }}
  - {{ match: /a/deep/** }}
  - {{ match: POST /a/deep, cors: {{ origins: [https://post] }} }}
  - {{ match: /a/own/**, cors: none }}
  - {{ match: GET /a/own/back, cors: {{ origins: [https://back] }} }}
"
    );
    let policy = policy(&text);
    for (method, path, expected) in [
        ("GET", "/", Some("https://file")),
        ("GET", "/other", Some("https://file")),
        ("GET", "/a", Some("https://a")),
        ("GET", "/a/deep", Some("https://a")),
        ("POST", "/a/deep", Some("https://post")),
        ("PUT", "/A//deep/", Some("https://a")),
        ("GET", "/a/own", None),
        ("GET", "/a/own/x", None),
        ("GET", "/a/own/back", Some("https://back")),
        ("HEAD", "/a/own/back", Some("https://back")),
        ("POST", "/a/own/back", None),
        // Not comparable with any route.
        ("GET", "/a/%2F", Some("https://file")),
        ("OPTIONS", "*", Some("https://file")),
    ] {
        let cors = policy.cors(method, path);
        let origin = cors.map(|cors| cors.origins[0].clone());
        assert_eq!(origin, expected.map(exact), "{method} {path}");
    }
}

#[test]
fn routes_alone_may_have_cors() {
    let policy = policy("routes: [ { match: /a, cors: { origins: [https://a] } }, { match: /b } ]");
    assert!(policy.has_cors());
    assert!(of(&policy, "/a").is_some());
    assert_eq!(of(&policy, "/b"), None);
    assert_eq!(of(&policy, "/%2F"), None);
}

#[test]
fn origins_that_are_none() {
    let fault = |origin: &str| {
        let mut faults = faults_of(&format!("cors: {{ origins: ['{origin}'] }}"));
        assert_eq!(faults.len(), 1, "{origin}: {faults:?}");
        let fault = faults.remove(0);
        let fault = fault.strip_prefix("1:19: cors.origins[0]: ").unwrap();
        fault.to_owned()
    };
    for (origin, expected) in [
        (
            "app.example.com",
            "`app.example.com`: not an origin: it has no scheme; write `https://app.example.com`",
        ),
        (
            "App.example.com:8443",
            "`App.example.com:8443`: not an origin: it has no scheme; write `https://app.example.com:8443`",
        ),
        (
            "what is this",
            "`what is this`: not an origin: it has no scheme; write for example `https://app.example.com`",
        ),
        (
            "https://app.example.com/",
            "`https://app.example.com/`: an origin has no slash at its end; write `https://app.example.com`",
        ),
        (
            "https://app.example.com/a",
            "`https://app.example.com/a`: an origin has no path, query or fragment; write `https://app.example.com`",
        ),
        (
            "https://app.example.com?a",
            "`https://app.example.com?a`: an origin has no path, query or fragment; write `https://app.example.com`",
        ),
        (
            "https://u:p@app.example.com",
            "`https://***@app.example.com`: a user or password in the origin; remove what stands before the `@`, and the `@`",
        ),
        (
            "HTTPS://App.Example.com",
            "`HTTPS://App.Example.com`: browsers send origins in lower case; write `https://app.example.com`",
        ),
        (
            "https://a.example:443",
            "`https://a.example:443`: browsers send this origin in another form; write `https://a.example`",
        ),
        (
            "http://a.example:080",
            "`http://a.example:080`: browsers send this origin in another form; write `http://a.example`",
        ),
        (
            "http://[0:0::1]",
            "`http://[0:0::1]`: browsers send this origin in another form; write `http://[::1]`",
        ),
        (
            "https://a.example:0",
            "`https://a.example:0`: the port is not a number from 1 to 65535; write `https://HOST:PORT`",
        ),
        (
            "https://bücher.example",
            "`https://bücher.example`: not the name of a host; write a name such as `app.example.com` (as `xn--…` if it is not ASCII), or an address",
        ),
        (
            "https://",
            "`https://`: a host is missing; write for example `https://app.example.com`",
        ),
        (
            "1https://a",
            "`1https://a`: not an origin: its scheme is none; write for example `https://app.example.com`",
        ),
        (
            "file:///home",
            "`file:///home`: no page has an origin with the scheme `file`; write for example `https://app.example.com`",
        ),
        (
            "null",
            "`null`: `null` is sent by every page without an origin, of whatever site; serve the page from an origin of its own, and name that",
        ),
        (
            "https://*",
            "`https://*`: `*` stands for one whole label, the first of the host; write `https://*.example.com`, or `\"*\"` alone for every origin",
        ),
        (
            "https://*.*.com",
            "`https://*.*.com`: `*` stands for one whole label, the first of the host; write `https://*.example.com`, or `\"*\"` alone for every origin",
        ),
        (
            "https://a*.example.com",
            "`https://a*.example.com`: `*` stands for one whole label, the first of the host; write `https://*.example.com`, or `\"*\"` alone for every origin",
        ),
        (
            "https://*.com",
            "`https://*.com`: `*` needs a domain of two labels or more behind it; write `https://*.example.com`",
        ),
        (
            "https://*.com.",
            "`https://*.com.`: `*` needs a domain of two labels or more behind it; write `https://*.example.com`",
        ),
        (
            "https://*.0.0.1",
            "`https://*.0.0.1`: `*` needs a domain of two labels or more behind it; write `https://*.example.com`",
        ),
        (
            "https://*.example.com/",
            "`https://*.example.com/`: an origin has no slash at its end; write `https://*.example.com`",
        ),
    ] {
        assert_eq!(fault(origin), expected);
    }
}

#[test]
fn other_faults() {
    assert_faults(
        "
cors: { methods: [GET] }
routes:
  - { match: /a, cors: { origins: [] } }
  - { match: /b, cors: off }
  - { match: /c, cors: anything }
  - { match: /d, cors: { origins: '*', credentials: true } }
  - { match: /e, cors: { origins: ['*', 'https://a'] } }
  - { match: /f, cors: { origins: ['https://a', 'https://a'], methods: [GET, get], headers: [A, a], expose: [B, b] } }
  - { match: /g, cors: { origins: 'https://a', methods: [], max_age: 25h } }
  - { match: /h, cors: { origins: 'https://a', methods: ['*', 'G T', TRACE], headers: ['*', 'X Y'], max_age: 1500ms } }
  - { match: /i, cors: { origins: 'https://a', expose: maybe, credentials: 'true', max_age: 600, origin: x } }
",
        &[
            "2:7: cors: the field `origins` is missing; add `origins`: an origin such as `https://app.example.com`, or a list of them",
            "4:35: routes[0].cors.origins: the list is empty; name an origin such as `https://app.example.com`, or remove `cors`",
            "5:24: routes[1].cors: unknown word `off`; write `none`",
            "6:24: routes[2].cors: expected `none` or a mapping with `origins`, found a single value",
            "7:53: routes[3].cors.credentials: `origins: \"*\"` with credentials: browsers refuse it, and any site could act as its visitors; list the origins, or remove `credentials`; API keys and tokens that a page sends itself need none",
            "8:36: routes[4].cors.origins[0]: `*` is every origin: it cannot stand beside others; remove it, or the others",
            "9:49: routes[5].cors.origins[1]: `https://a` is given twice; remove one of the two",
            "9:78: routes[5].cors.methods[1]: `GET` is given twice; remove one of the two",
            "9:97: routes[5].cors.headers[1]: `a` is given twice; remove one of the two",
            "9:113: routes[5].cors.expose[1]: `b` is given twice; remove one of the two",
            "10:57: routes[6].cors.methods: the list is empty; name a method such as `GET`, or remove the field",
            "10:70: routes[6].cors.max_age: `25h` is out of range; write `0ms` to `1d`",
            "11:58: routes[7].cors.methods[0]: `*` is not a method; list the methods, such as `[GET, POST, PUT, DELETE]`",
            "11:63: routes[7].cors.methods[1]: `G T` is not a method; write a method such as `PUT`",
            "11:70: routes[7].cors.methods[2]: browsers let no page send `TRACE`; remove it",
            "11:88: routes[7].cors.headers[0]: `*` is not the name of a header; list the names: browsers do not take `*` for every header",
            "11:93: routes[7].cors.headers[1]: `X Y` cannot be the name of a header; write a header such as `X-Api-Key`",
            "11:110: routes[7].cors.max_age: `max_age` is in whole seconds; write `2s`",
            "12:56: routes[8].cors.expose: `maybe` is neither true nor false; write `true` or `false`",
            "12:76: routes[8].cors.credentials: the text `true` is neither true nor false; drop the quotes",
            "12:93: routes[8].cors.max_age: `600` has no unit; write `600s`",
            "12:98: routes[8].cors.origin: unknown field `origin`; did you mean `origins`?",
        ],
    );
}

#[test]
fn lists_have_a_bound() {
    let list = |count: usize| {
        let origins = (0..count).map(|it| format!("https://a{it}.example"));
        let origins: Vec<String> = origins.collect();
        faults_of(&format!("cors: {{ origins: [{}] }}", origins.join(", ")))
    };
    assert_eq!(list(256), [""; 0]);
    assert_eq!(
        list(257),
        ["1:18: cors.origins: 257 entries, more than 256; shorten the list"]
    );
}
