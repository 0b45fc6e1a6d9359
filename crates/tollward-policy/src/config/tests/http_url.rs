//! URLs of servers of HTTP: what is read, and what is refused without being shown.

use super::super::http_url::HttpUrl;
use super::{assert_faults, shown};

#[test]
fn what_is_read() {
    let table = [
        ("http://127.0.0.1:9000", (false, "127.0.0.1", 9000, "")),
        ("http://127.0.0.1:9000/", (false, "127.0.0.1", 9000, "")),
        ("http://app", (false, "app", 80, "")),
        ("https://app", (true, "app", 443, "")),
        (
            "HTTPS://App.Example.COM/",
            (true, "app.example.com", 443, ""),
        ),
        (
            "https://my_app-1:65535/A/b",
            (true, "my_app-1", 65535, "/A/b"),
        ),
        ("http://app/base/", (false, "app", 80, "/base")),
        ("http://app/a%20b/%2F", (false, "app", 80, "/a%20b/%2F")),
        ("http://app/@scope", (false, "app", 80, "/@scope")),
        ("http://[::1]", (false, "::1", 80, "")),
        (
            "https://[2001:DB8:0::1]:8443/x",
            (true, "2001:db8::1", 8443, "/x"),
        ),
    ];
    for (text, expected) in table {
        let url = HttpUrl::parse(text, false).unwrap();
        assert_eq!(
            (url.tls, &*url.host, url.port, &*url.path),
            expected,
            "{text}"
        );
    }
    let url = HttpUrl::parse("https://h/keys?v=1", true).unwrap();
    assert_eq!(&*url.path, "/keys");
}

#[test]
fn what_is_refused() {
    let example = "write for example `http://127.0.0.1:9000`";
    let table = [
        ("app:9000", format!("not a URL; {example}")),
        ("''", format!("not a URL; {example}")),
        ("ftp://app", format!("neither `http://` nor `https://`; {example}")),
        ("file:///a", format!("neither `http://` nor `https://`; {example}")),
        ("http://", "a host is missing; write for example `127.0.0.1:9000`".into()),
        ("http:///x", "a host is missing; write for example `127.0.0.1:9000`".into()),
        ("http://:80", "a host is missing; write for example `127.0.0.1:9000`".into()),
        ("http://a,b", "not the name of a host; write a name such as `app.example.com`, or an address".into()),
        ("http://a*b", "not the name of a host; write a name such as `app.example.com`, or an address".into()),
        ("http://2001:db8::1", "an IPv6 address without brackets; write it as `[2001:db8::1]`".into()),
        ("'http://[::1'", "not an IPv6 address; write it as `[2001:db8::1]`".into()),
        ("http://[app]", "not an IPv6 address; write it as `[2001:db8::1]`".into()),
        ("http://a:0", "the port is not a number from 1 to 65535; write `HOST:PORT`".into()),
        ("http://a:65536", "the port is not a number from 1 to 65535; write `HOST:PORT`".into()),
        ("http://a:+80", "the port is not a number from 1 to 65535; write `HOST:PORT`".into()),
        ("'http://a:'", "the port is not a number from 1 to 65535; write `HOST:PORT`".into()),
        ("http://[::1]80", "the port is not a number from 1 to 65535; write `HOST:PORT`".into()),
        ("http://a/?x", "a query in the URL; remove the `?` and what follows".into()),
        ("http://a?x", "a query in the URL; remove the `?` and what follows".into()),
        ("'http://a/#x'", "a `#` in the URL; remove it and what follows".into()),
        ("http://é", "the URL has a character that no URL has; write other characters as their escapes, as `%20` for a space".into()),
        ("http://a/b c", "the URL has a character that no URL has; write other characters as their escapes, as `%20` for a space".into()),
        ("http://a//b", "a path that is not normal; write `/b`".into()),
        ("http://a/x/../b/", "a path that is not normal; write `/b/`".into()),
        ("http://a/%7euser", "a path that is not normal; write `/~user`".into()),
        ("http://a/%2g", "the path has a `%` without two hexadecimal digits behind it; write for example `/base`".into()),
        ("http://a/b\\c", "the path has a backslash; write for example `/base`".into()),
    ];
    for (url, expected) in table {
        assert_faults(
            &format!("upstreams:\n  a:\n    url: {url}\n"),
            &[&format!("3:10: upstreams.a.url: {expected}")],
        );
    }
    let long = format!("http://a/{}", "b".repeat(2048));
    assert_faults(
        &format!("upstreams: {{ a: {{ url: {long} }} }}"),
        &["1:24: upstreams.a.url: the URL has 2057 bytes, more than 2048; write a shorter one"],
    );
}

#[test]
fn passwords_are_refused_and_never_shown() {
    let urls = [
        "http://hunter2@a",
        "http://ann:hunter2@a:80/x",
        "http://ann:hunter2",
        "https://ann:x@hunter2@a",
        "ann:hunter2@a",
        "http://a/?hunter2",
        "ftp://ann:hunter2@a",
    ];
    for url in urls {
        for text in [
            format!("upstreams: {{ a: {{ url: '{url}' }} }}"),
            format!("upstreams: {{ a: {{ urls: ['{url}'] }} }}"),
            format!("identity: {{ user: {{ jwt: {{ jwks: '{url}#' }} }} }}"),
        ] {
            let faults = shown(&text);
            assert!(
                !faults.iter().any(|it| it.contains("hunter2")),
                "{faults:?}"
            );
            assert!(
                faults.len() == 1 || text.contains("jwks"),
                "{faults:?}\nin {text}"
            );
        }
    }
}
