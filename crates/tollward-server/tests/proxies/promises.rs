//! What holds behind every proxy.

use std::net::Ipv4Addr;

use tollward_testkit::http::Response;

use crate::recipe::Proxy;
use crate::site::{ACME, BRAVO, Site, key};

/// A test of each promise for each proxy.
macro_rules! promises {
    ($($promise:ident),* $(,)?) => {
        promises!(@of nginx Nginx: $($promise),*);
        promises!(@of traefik Traefik: $($promise),*);
        promises!(@of caddy Caddy: $($promise),*);
        promises!(@of envoy Envoy: $($promise),*);
    };
    (@of $name:ident $proxy:ident: $($promise:ident),*) => {
        mod $name {
            use super::{Proxy, Site};

            $(
                #[test]
                fn $promise() {
                    if let Some(site) = Site::start(Proxy::$proxy) {
                        super::$promise(site);
                    }
                }
            )*
        }
    };
}

promises![
    allowed_requests_pass_and_the_next_is_refused,
    the_service_is_told_who_calls,
    nobody_else_tells_the_service,
    unknown_keys_and_closed_routes_are_refused,
    method_and_path_are_the_clients,
    no_client_chooses_what_it_is_limited_as,
    paths_are_limited_as_they_are_served,
    bodies_pass_whole,
    addresses_are_not_invented,
    ambiguous_paths_are_refused,
    calls_of_grpc_are_refused_too,
    degraded_requests_are_marked,
    requests_wait_for_their_tokens,
    refusals_of_the_service_are_its_own,
    without_tollward_nothing_passes,
];

/// The headers of limits.
const OF_LIMITS: [&str; 5] = [
    "ratelimit",
    "ratelimit-policy",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
];

fn allowed_requests_pass_and_the_next_is_refused(site: Site) {
    for left in (0..5).rev() {
        let answer = site.get("/things?page=2", &key(ACME));
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.text(), "GET /things?page=2");
        assert_eq!(answer.header("retry-after"), None, "{answer:?}");
        if site.proxy == Proxy::Traefik {
            // It can hand them to the service only.
            assert!(OF_LIMITS.iter().all(|name| answer.header(name).is_none()));
        } else {
            assert_limits(&answer, left);
        }
    }
    for _ in 0..3 {
        let refusal = site.get("/things?page=2", &key(ACME));
        assert_eq!(refusal.status, 429, "{refusal:?}");
        let wait: u32 = refusal.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=17_280).contains(&wait), "{wait}");
        assert_limits(&refusal, 0);
        let media_type = refusal.header("content-type");
        assert_eq!(media_type, Some("application/problem+json"));
        let problem: serde_json::Value = serde_json::from_slice(&refusal.body).unwrap();
        assert_eq!(problem["status"], 429);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&wait.to_string()), "{detail}");
        // nginx says what the recipe says.
        let named = problem["violated-policies"].as_array();
        assert_eq!(named.is_none(), site.proxy == Proxy::Nginx, "{problem}");
        assert_eq!(refusal.header("cache-control"), Some("no-store"));
        let secret = refusal.header("x-tollward-status");
        assert_eq!(secret, None, "{refusal:?}");
    }
    assert_eq!(site.passed(), 5);
    // Nobody else is touched.
    assert_eq!(site.get("/things", &key(BRAVO)).status, 200);
}

#[track_caller]
fn assert_limits(answer: &Response, left: u32) {
    let header = |name| {
        answer
            .header(name)
            .unwrap_or_else(|| panic!("{name}: {answer:?}"))
    };
    assert!(header("ratelimit").starts_with(&format!("\"plan:free\";r={left};t=")));
    assert_eq!(header("ratelimit-policy"), "\"plan:free\";q=5;w=86400");
    assert_eq!(header("x-ratelimit-limit"), "5");
    assert_eq!(header("x-ratelimit-remaining"), left.to_string());
    assert!(header("x-ratelimit-reset").parse::<u64>().is_ok());
}

fn the_service_is_told_who_calls(site: Site) {
    assert_eq!(site.ask("POST", "/things", &key(ACME)).status, 200);
    let seen = site.service.last();
    assert_eq!(seen.header("x-tollward-tenant"), Some("acme"));
    assert_eq!(seen.header("x-tollward-plan"), Some("free"));
    assert_eq!(seen.header("x-tollward-user"), Some("ann"));
    assert_eq!(seen.header("x-api-key").unwrap_or(""), "", "{seen:?}");
    assert_eq!(seen.body, b"a body");
    assert_eq!(site.get("/things", &[]).status, 200);
    let seen = site.service.last();
    assert_eq!(seen.header("x-tollward-tenant"), None);
    assert_eq!(seen.header("x-tollward-plan"), Some("anonymous"));
    assert_eq!(seen.header("x-tollward-user"), None);
}

fn nobody_else_tells_the_service(site: Site) {
    let lies = [
        ("x-tollward-tenant", "bravo"),
        ("x-tollward-plan", "pro"),
        ("x-tollward-user", "root"),
        ("x-ratelimit-degraded", "true"),
    ];
    assert_eq!(site.get("/things", &lies).status, 200);
    let seen = site.service.last();
    assert_eq!(seen.header("x-tollward-plan"), Some("anonymous"));
    for name in [
        "x-tollward-tenant",
        "x-tollward-user",
        "x-ratelimit-degraded",
    ] {
        let values = seen.headers.iter().filter(|(header, _)| header == name);
        assert_eq!(values.count(), 0, "{name}: {seen:?}");
    }
    // Where nothing is limited nothing but this is known.
    assert_eq!(site.get("/open", &lies).status, 200);
    let seen = site.service.last();
    let lied = |(name, value): &(String, String)| lies.contains(&(name, value));
    assert!(!seen.headers.iter().any(lied), "{seen:?}");
    assert!(!seen.headers.iter().any(|(_, value)| value.contains('{')));
    // Nor does anybody take away what Tollward says.
    let nominated = "x-tollward-tenant, X-Tollward-Plan, x-tollward-user";
    let headers = [key(ACME)[0], ("connection", nominated)];
    assert_eq!(site.get("/things", &headers).status, 200);
    let seen = site.service.last();
    assert_eq!(seen.header("x-tollward-tenant"), Some("acme"), "{seen:?}");
    assert_eq!(seen.header("x-tollward-plan"), Some("free"));
    assert_eq!(seen.header("x-tollward-user"), Some("ann"));
    // A service may read an underscore as a hyphen.
    if site.proxy != Proxy::Traefik {
        let before = site.service.count();
        site.get("/open", &[("x_tollward_tenant", "bravo")]);
        let seen = site.service.seen().split_off(before);
        let lied = |(name, _): &(String, String)| name.contains("tenant");
        assert!(
            !seen.iter().any(|it| it.headers.iter().any(lied)),
            "{seen:?}"
        );
    }
}

fn unknown_keys_and_closed_routes_are_refused(site: Site) {
    let refusal = site.get("/things", &key("key-of-nobody"));
    assert_eq!(refusal.status, 401, "{refusal:?}");
    assert_eq!(refusal.header("www-authenticate"), Some("ApiKey"));
    assert_eq!(site.get("/closed", &key(ACME)).status, 403);
    let refusal = site.get("/huge", &key(BRAVO));
    assert_eq!(refusal.status, 422, "{refusal:?}");
    assert_eq!(refusal.header("retry-after"), None);
    assert_eq!(site.passed(), 0);
}

/// What bravo has left, asked for free of charge but one token.
fn spent(site: &Site, ask: impl FnOnce() -> u16) -> u64 {
    let left = || {
        let headers = [
            ("x-original-method", "GET"),
            ("x-original-uri", "/peek"),
            ("x-forwarded-for", "192.0.2.1"),
            ("x-api-key", BRAVO),
        ];
        let api = site.tollward.api;
        let mut door = tollward_testkit::http::Connection::open(api).unwrap();
        let answer = door.request("GET", "/auth/nginx", &headers, b"").unwrap();
        let left = answer.header("x-ratelimit-remaining").unwrap();
        left.parse::<u64>().unwrap()
    };
    let before = left();
    assert_eq!(ask(), 200);
    before - left() - 1
}

fn method_and_path_are_the_clients(site: Site) {
    for (method, target, cost) in [
        ("GET", "/things", 1),
        ("POST", "/things", 1),
        ("POST", "/v1/chat", 100),
        ("POST", "/v1/chat?stream=true&to=/things", 100),
        ("POST", "/V1/Ch%61t", 100),
        ("GET", "/v1/chat", 10),
        ("DELETE", "/v1/chat", 10),
        ("HEAD", "/v1/chat", 10),
        ("OPTIONS", "/v1/chat", 10),
        ("PATCH", "/things?x=/v1/chat", 1),
    ] {
        let asked = spent(&site, || site.ask(method, target, &key(BRAVO)).status);
        assert_eq!(asked, cost, "{method} {target}");
        let seen = site.service.last();
        // Traefik decodes what means the same.
        let (asked, passed) = (target.replace("%61", "a"), seen.target.replace("%61", "a"));
        assert_eq!((&*seen.method, passed), (method, asked));
    }
}

fn no_client_chooses_what_it_is_limited_as(site: Site) {
    for lies in [
        &[("x-original-uri", "/things")][..],
        &[("x-original-method", "GET")],
        &[("x-original-url", "/things"), ("x-rewrite-url", "/things")],
        &[
            ("x-forwarded-uri", "/things"),
            ("x-forwarded-path", "/things"),
        ],
        &[("x-forwarded-method", "GET")],
        &[("X-Forwarded-Uri", "/open"), ("X-Forwarded-Uri", "/open")],
        &[("X-Original-URI", "/open"), ("X-Original-URI", "/open")],
        &[(
            "connection",
            "x-forwarded-uri, x-forwarded-method, x-original-uri",
        )],
        &[("x-envoy-original-path", "/things")],
    ] {
        let headers = [&key(BRAVO)[..], lies].concat();
        let asked = spent(&site, || site.ask("POST", "/v1/chat", &headers).status);
        assert_eq!(asked, 100, "{lies:?}");
    }
    // The service may take these at their word.
    let passed = site.passed();
    for name in [
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
    ] {
        for (method, other) in [("GET", "POST"), ("POST", "GET")] {
            let headers = [key(BRAVO)[0], (name, other)];
            let refusal = site.ask(method, "/v1/chat", &headers);
            assert_eq!(refusal.status, 400, "{name}: {other}: {refusal:?}");
        }
    }
    assert_eq!(site.passed(), passed);
}

fn paths_are_limited_as_they_are_served(site: Site) {
    for target in ["/v1/chat/", "http://tollward.test/v1/chat"] {
        let asked = spent(&site, || site.ask("POST", target, &key(BRAVO)).status);
        assert_eq!(asked, 100, "{target}");
    }
    // The service may make another route of these. Some proxies resolve them themselves; where they do not,
    // nothing passes.
    for target in ["//v1//chat", "/x/../v1/./chat"] {
        let passed = site.passed();
        let answer = site.ask("POST", target, &key(BRAVO));
        if site.passed() == passed {
            assert_eq!(answer.status, 400, "{target}: {answer:?}");
        } else {
            assert_ne!(site.proxy, Proxy::Nginx, "{target}");
            assert_eq!(site.service.last().target, "/v1/chat", "{target}");
        }
    }
    // There is no fragment in a request. Caddy escapes it, and then it is part of the path.
    let passed = site.passed();
    let target = "/things#/../v1/chat";
    assert_eq!(site.ask("POST", target, &key(BRAVO)).status, 400);
    assert_eq!(site.passed(), passed);
}

fn bodies_pass_whole(site: Site) {
    let head = format!("POST /v1/chat HTTP/1.1\r\nhost: tollward.test\r\nx-api-key: {BRAVO}\r\n");
    for rest in [
        "content-length: 6\r\n\r\na body",
        "transfer-encoding: chunked\r\n\r\n2\r\na \r\n4\r\nbody\r\n0\r\n\r\n",
        "expect: 100-continue\r\ncontent-length: 6\r\n\r\na body",
    ] {
        let asked = spent(&site, || site.send(&format!("{head}{rest}")).status);
        assert_eq!(asked, 100, "{rest:?}");
        assert_eq!(site.service.last().body, b"a body", "{rest:?}");
    }
}

fn addresses_are_not_invented(site: Site) {
    let client = Ipv4Addr::new(127, 0, 0, 2);
    let mut passed = 0;
    for invented in 0..12 {
        let ip = format!("192.0.2.{invented}");
        let forwarded = format!("for={ip}");
        for name in ["x-forwarded-for", "x-real-ip", "forwarded", "client-ip"] {
            let value = if name == "forwarded" { &forwarded } else { &ip };
            let headers = [(name, value.as_str()), ("connection", "x-forwarded-for")];
            // With and without a request to leave the header out.
            for headers in [&headers[..1], &headers[..]] {
                passed += usize::from(site.status_from(client, headers) == 200);
            }
        }
    }
    assert_eq!((passed, site.passed()), (3, 3));
    // Others have their own.
    let other = Ipv4Addr::new(127, 0, 0, 3);
    let statuses: Vec<u16> = (0..4).map(|_| site.status_from(other, &[])).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert_eq!(site.get("/things", &[]).status, 200);
}

fn ambiguous_paths_are_refused(site: Site) {
    for path in ["/a%2Fb", "/a%2fb", "/v1%2Fchat", "/a%5Cb", "/a%00b"] {
        let refusal = site.get(path, &key(BRAVO));
        assert_eq!(refusal.status, 400, "{path}: {refusal:?}");
    }
    assert_eq!(site.passed(), 0);
}

fn calls_of_grpc_are_refused_too(site: Site) {
    for media_type in ["application/grpc", "application/grpc-web+proto"] {
        let headers = [("content-type", media_type), ("x-api-key", "wrong")];
        let refusal = site.ask("POST", "/things", &headers);
        // Envoy puts it into the words of gRPC itself, which have a status of their own.
        let told = refusal.header("grpc-status").is_some_and(|it| it != "0");
        assert!(refusal.status == 401 || told, "{refusal:?}");
        let headers = [("content-type", media_type)];
        for _ in 0..4 {
            site.ask("POST", "/things", &headers);
        }
    }
    assert_eq!(site.passed(), 3);
}

fn degraded_requests_are_marked(site: Site) {
    for mark in [None, Some("true"), Some("true")] {
        assert_eq!(site.get("/reports", &key(BRAVO)).status, 200);
        assert_eq!(site.service.last().header("x-ratelimit-degraded"), mark);
    }
}

fn requests_wait_for_their_tokens(site: Site) {
    // There is one token, and the next comes half a second later.
    for _ in 0..3 {
        assert_eq!(site.get("/patient", &key(BRAVO)).status, 200);
    }
}

fn refusals_of_the_service_are_its_own(site: Site) {
    let refusal = site.get("/own/403", &key(BRAVO));
    assert_eq!((refusal.status, &*refusal.text()), (403, "GET /own/403"));
    let refusal = site.get("/own/429", &key(BRAVO));
    assert_eq!((refusal.status, &*refusal.text()), (429, "GET /own/429"));
    assert_eq!(refusal.header("retry-after"), Some("7"), "{refusal:?}");
}

fn without_tollward_nothing_passes(mut site: Site) {
    assert_eq!(site.get("/things", &key(ACME)).status, 200);
    site.tollward.signal("KILL");
    site.tollward.wait();
    let status = match site.proxy {
        Proxy::Nginx | Proxy::Traefik => 500,
        Proxy::Caddy => 502,
        Proxy::Envoy => 503,
    };
    for _ in 0..3 {
        let refusal = site.get("/things", &key(ACME));
        assert_eq!(refusal.status, status, "{refusal:?}");
    }
    assert_eq!(site.passed(), 1);
}
