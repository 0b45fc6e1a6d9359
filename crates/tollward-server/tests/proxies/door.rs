//! The doors themselves, asked as a proxy would ask that is set up wrongly.

use tollward_testkit::http::{Connection, Response};

use crate::process::{Process, arg};
use crate::served::Folder;

const CONFIG: &str = "
identity: { anonymous: allow }
limits: { all: { scope: ip, sustained: { rate: 2, window: day } } }
";
const METHOD: (&str, &str) = ("x-forwarded-method", "GET");
const URI: (&str, &str) = ("x-forwarded-uri", "/a");

fn serve() -> (Process, Folder) {
    let folder = Folder::new();
    let config = folder.write("tollward.yaml", CONFIG);
    (Process::serve(&["--config", arg(&config)]), folder)
}

fn ask(server: &Process, target: &str, headers: &[(&str, &str)]) -> Response {
    let mut door = Connection::open(server.api).unwrap();
    door.request("GET", target, headers, b"").unwrap()
}

#[test]
fn what_was_asked_is_said_once() {
    let (server, _folder) = serve();
    for headers in [
        &[][..],
        &[METHOD],
        &[URI],
        &[METHOD, METHOD, URI],
        &[METHOD, URI, URI],
        &[METHOD, URI, ("x-forwarded-uri", "/b")],
        &[METHOD, ("x-forwarded-uri", "")],
        &[METHOD, ("x-forwarded-uri", "a")],
        &[METHOD, ("x-forwarded-uri", "http://host/a")],
        &[METHOD, ("x-forwarded-uri", "/a#b")],
        &[METHOD, ("x-forwarded-uri", "/a b")],
        &[("x-forwarded-method", "G T"), URI],
        &[("x-forwarded-method", ""), URI],
    ] {
        for target in ["/auth/traefik", "/auth/caddy"] {
            let answer = ask(&server, target, headers);
            assert_eq!(answer.status, 400, "{target} {headers:?}: {answer:?}");
        }
    }
    // Nothing was charged, and the two that are allowed are.
    for status in [200, 200, 429] {
        let answer = ask(&server, "/auth/caddy", &[METHOD, URI]);
        assert_eq!(answer.status, status);
    }
    // nginx knows 403, and what it means.
    let answer = ask(&server, "/auth/nginx", &[METHOD, URI]);
    assert_eq!(
        (answer.status, answer.header("x-tollward-status")),
        (403, Some("400"))
    );
}

#[test]
fn an_allow_is_200_and_nothing_else_is() {
    let (server, _folder) = serve();
    let headers = [
        METHOD,
        URI,
        ("x-original-method", "GET"),
        ("x-original-uri", "/a"),
        ("content-type", "application/grpc"),
    ];
    let proxies = [
        ("/auth/nginx", 403),
        ("/auth/traefik", 429),
        ("/auth/caddy?with=a&query", 429),
        ("/auth/envoy", 429),
        ("/auth/envoy/", 429),
        ("/auth/envoy/a/b?c", 429),
    ];
    for (number, (target, refused)) in proxies.into_iter().enumerate() {
        let client = format!("192.0.2.{number}");
        let headers = [&headers[..], &[("x-forwarded-for", &client)]].concat();
        for status in [200, 200, refused] {
            let answer = ask(&server, target, &headers);
            assert_eq!(answer.status, status, "{target}: {answer:?}");
            assert_eq!(answer.body.is_empty(), status == 200, "{target}");
        }
    }
    for target in [
        "/auth",
        "/auth/",
        "/auth/nginx/",
        "/auth/envoyage",
        "/auth/haproxy",
    ] {
        assert_eq!(ask(&server, target, &headers).status, 404, "{target}");
    }
}
