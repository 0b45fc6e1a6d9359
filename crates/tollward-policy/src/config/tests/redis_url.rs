//! URLs of Redis, sound and not.

use proptest::prelude::*;
use proptest::sample::select;

use super::super::{MAX_REDIS_HOSTS, RedisHost, RedisKind, RedisUrl};

fn url(text: &str) -> RedisUrl {
    match text.parse() {
        Ok(url) => url,
        Err(fault) => panic!("{fault} in {text}"),
    }
}

fn host(host: &str, port: u16) -> RedisHost {
    RedisHost {
        host: host.to_owned(),
        port,
    }
}

fn at(kind: RedisKind) -> RedisUrl {
    RedisUrl {
        kind,
        tls: false,
        user: None,
        password: None,
        database: 0,
    }
}

#[test]
fn one_server() {
    let local = at(RedisKind::Standalone(host("localhost", 6379)));
    for text in [
        "redis://localhost",
        "redis://localhost/",
        "redis://localhost:6379/0",
        "valkey://localhost",
        "REDIS://localhost",
    ] {
        assert_eq!(url(text), local, "{text}");
    }
    for text in ["rediss://localhost", "valkeys://localhost"] {
        let tls = true;
        assert_eq!(
            url(text),
            RedisUrl {
                tls,
                ..local.clone()
            },
            "{text}"
        );
    }
    let hosts = [
        ("redis://10.0.0.1:1", host("10.0.0.1", 1)),
        ("redis://[::1]", host("::1", 6379)),
        ("redis://[2001:DB8:0::1]:65535", host("2001:db8::1", 65535)),
        ("redis://my_redis-1.local.:7", host("my_redis-1.local.", 7)),
    ];
    for (text, host) in hosts {
        assert_eq!(url(text), at(RedisKind::Standalone(host)), "{text}");
    }
    assert_eq!(url("redis://h/4294967295").database, u32::MAX);
}

#[test]
fn users_and_passwords() {
    let table = [
        ("redis://h", None, None),
        ("redis://:p@h", None, Some("p")),
        ("redis://u:p@h", Some("u"), Some("p")),
        ("redis://u:@h", Some("u"), Some("")),
        ("redis://u:p:q@h", Some("u"), Some("p:q")),
        (
            "redis://a%40b%3a:%2F%3f%23%25%20%C3%A9é@h",
            Some("a@b:"),
            Some("/?#% éé"),
        ),
        ("redis-cluster://u:a,b@h,i", Some("u"), Some("a,b")),
        ("unix:///r?user=u&pass=%26p%3D=", Some("u"), Some("&p==")),
        ("unix:///r?pass=p", None, Some("p")),
        ("unix:///r?user=u&pass=", Some("u"), Some("")),
    ];
    for (text, user, password) in table {
        let url = url(text);
        assert_eq!(url.user.as_deref(), user, "{text}");
        assert_eq!(url.password.as_deref(), password, "{text}");
    }
}

#[test]
fn sockets_clusters_and_sentinels() {
    for text in [
        "unix:///run/a%20b.sock?db=3",
        "redis+unix:///run/a%20b.sock?db=3",
        "valkey+unix:///run/a%20b.sock?db=3",
    ] {
        let path = "/run/a b.sock".into();
        let expected = RedisUrl {
            database: 3,
            ..at(RedisKind::Unix { path })
        };
        assert_eq!(url(text), expected, "{text}");
    }
    let seeds = vec![host("a", 6379), host("b", 7000), host("::1", 6379)];
    let cluster = at(RedisKind::Cluster { seeds });
    for text in [
        "redis-cluster://a,b:7000,[::1]",
        "redis-cluster://a,b:7000,[::1]/",
        "valkey-cluster://a,b:7000,[::1]/0",
    ] {
        assert_eq!(url(text), cluster, "{text}");
    }
    for text in ["rediss-cluster://a", "valkeys-cluster://a"] {
        assert!(url(text).tls, "{text}");
    }
    let sentinel = RedisUrl {
        database: 2,
        ..at(RedisKind::Sentinel {
            sentinels: vec![host("a", 26379), host("b", 5)],
            master: "my.Master-1_".to_owned(),
        })
    };
    assert_eq!(url("redis-sentinel://a,b:5/my.Master-1_/2"), sentinel);
    assert_eq!(url("valkey-sentinel://a,b:5/my.Master-1_/2"), sentinel);
    assert!(url("rediss-sentinel://a/m").tls);
    let many: Vec<_> = (0..MAX_REDIS_HOSTS).map(|n| format!("h{n}")).collect();
    assert!(
        format!("redis-cluster://{}", many.join(","))
            .parse::<RedisUrl>()
            .is_ok()
    );
}

#[test]
fn shown_without_the_password() {
    let table = [
        ("redis://h", "redis://h:6379"),
        ("valkeys://:p@[::1]/2", "rediss://:***@[::1]:6379/2"),
        ("redis://a%40b:p@h", "redis://a%40b:***@h:6379"),
        ("unix:///r", "redis+unix:///r"),
        ("unix:///a%20%3F?pass=p", "redis+unix:///a%20%3F?pass=***"),
        (
            "unix:///r?user=u&pass=p&db=1",
            "redis+unix:///r?db=1&user=u&pass=***",
        ),
        (
            "redis-cluster://u:p@a,b:1",
            "redis-cluster://u:***@a:6379,b:1",
        ),
        (
            "rediss-sentinel://:p@a,b/m/1",
            "rediss-sentinel://:***@a:26379,b:26379/m/1",
        ),
    ];
    for (text, shown) in table {
        assert_eq!(url(text).to_string(), shown);
        assert_eq!(format!("{:?}", url(text)), format!("RedisUrl({shown})"));
    }
}

#[test]
fn every_fault_has_its_remedy() {
    let write_host = "write for example `127.0.0.1:6379`";
    let port = "a port is not a number from 1 to 65535; write `HOST:PORT`; behind a user and password an `@`, as in `:PASSWORD@HOST:PORT`";
    let no_host = format!("a host is missing; {write_host}");
    let name = "not the name of a host; write a name such as `redis.example.com`, or an address";
    let v6 = "not an IPv6 address; write it as `[2001:db8::1]`";
    let bare_v6 = "an IPv6 address without brackets; write it as `[2001:db8::1]`";
    let database = "the database is not a number; write for example `0`";
    let user = "a user without a password; write `:PASSWORD@` or `USER:PASSWORD@`, or `USER:@` for a user that needs none";
    let nobody = "nothing before the `@`; remove it, or write `:PASSWORD@` or `USER:PASSWORD@`";
    let slash = "an `@` behind the first `/`, `?` or `#`; in a user or password write `/` as `%2F`, `?` as `%3F`, `#` as `%23`";
    let query = "a `?` or `#` behind the hosts; remove it and what follows; in a password write `%3F` and `%23`";
    let blank = "a space or a control character in the URL; remove it, or write it as `%20` in a user or password";
    let cluster = "a cluster has only the database 0; remove the `/…`";
    let master = "not the name of a master; write letters, digits, `.`, `-` and `_`, as in the sentinels' configuration";
    let no_socket = "write for example `unix:///run/redis.sock`, with three slashes";
    let not_url = "not a URL; write for example `redis://127.0.0.1:6379`";
    let schemes =
        "write `redis://`, `rediss://`, `unix://`, `redis-cluster://` or `redis-sentinel://`";
    let table = [
        ("", not_url),
        ("localhost:6379", not_url),
        ("redis:h", not_url),
        (
            "redi://h",
            "`redi://` is not known; did you mean `redis://`?",
        ),
        (
            "redis_cluster://h",
            "what stands before `://` is not known; did you mean `redis-cluster://`?",
        ),
        ("http://h", &format!("`http://` is not known; {schemes}")),
        ("://h", &format!("`://` is not known; {schemes}")),
        ("redis://", &no_host),
        ("redis://:6379", &no_host),
        ("redis://:p@", &no_host),
        ("redis:///0", &no_host),
        ("redis-cluster://a,,b", &no_host),
        ("redis-cluster://a,", &no_host),
        ("redis://h:", port),
        ("redis://h:0", port),
        ("redis://h:65536", port),
        ("redis://h:+1", port),
        ("redis://h:1:2", port),
        ("redis://u:p", port),
        ("redis://[::1]x", port),
        ("redis://[::1]:x", port),
        ("redis://[::1", v6),
        ("redis://[fe80::1%25eth0]", v6),
        ("redis://[127.0.0.1]", v6),
        ("redis://::1", bare_v6),
        ("redis://2001:db8::1", bare_v6),
        ("redis://é", name),
        ("redis://a%20b", name),
        ("redis://a;b", name),
        ("redis://h/x", database),
        ("redis://h/-1", database),
        ("redis://h/4294967296", database),
        ("unix:///r?db=", database),
        (
            "redis://h/0/1",
            "more than a database behind the host; write `HOST/0`",
        ),
        ("redis://u@h", user),
        ("redis://@h", user),
        ("redis://:@h", nobody),
        (
            "redis://u:a@b@h",
            "more than one `@`; in a user or password write `@` as `%40`",
        ),
        ("redis://u:a/b@h", slash),
        ("redis://u:a?b@h", slash),
        ("redis://u:a#b@h", slash),
        ("redis://h?db=1", query),
        ("redis://h/1#x", query),
        (" redis://h", blank),
        ("redis://u:a b@h", blank),
        ("redis://h\n", blank),
        (
            "redis://u:%2@h",
            "a `%` in the password without two hexadecimal digits; write `%` as `%25`",
        ),
        (
            "redis://%zz:p@h",
            "a `%` in the user without two hexadecimal digits; write `%` as `%25`",
        ),
        (
            "redis://u:%ff@h",
            "the password is not UTF-8 behind its escapes; write the escapes of UTF-8, as `%C3%A9` for `é`",
        ),
        (
            "redis://a,b",
            "more than one host; keep one, or write `redis-cluster://` or `redis-sentinel://`",
        ),
        ("redis-cluster://a/1", cluster),
        ("redis-cluster://a/0/0", cluster),
        (
            "redis-cluster://a,b,a:6379",
            "the same host twice; remove one",
        ),
        (
            "redis-sentinel://a,b",
            "no name of a master behind the sentinels; write `redis-sentinel://HOST,HOST,HOST/MASTER`",
        ),
        ("redis-sentinel://a//0", master),
        ("redis-sentinel://a/m%20", master),
        ("redis-sentinel://a/m/x", database),
        (
            "redis-sentinel://a/m/0/1",
            "more than a master and a database behind the sentinels; write `redis-sentinel://HOST,HOST,HOST/MASTER` or `…/MASTER/0`",
        ),
        ("unix://h/r", &format!("a socket has no host; {no_socket}")),
        ("unix://", &format!("a socket has no host; {no_socket}")),
        (
            "unix:///",
            &format!("not the path of a socket; {no_socket}"),
        ),
        (
            "unix:///r%00",
            &format!("not the path of a socket; {no_socket}"),
        ),
        ("unix:///r#x", "a `#` in the URL; write it as `%23`"),
        (
            "unix:///r?database=1",
            "a parameter behind `?` other than `db`, `user` and `pass`; remove it; in a password write `&` as `%26`",
        ),
        (
            "unix:///r?db=1&db=1",
            "a parameter behind `?` is given twice; remove one",
        ),
        (
            "unix:///r?user=u",
            "a user without a password; add `pass=PASSWORD`, or an empty `pass=` for a user that needs none",
        ),
        (
            "unix:///r?user=&pass=p",
            "the user is empty; remove `user` for the default one",
        ),
        (
            "unix:///r?pass=",
            "the password is empty; remove `pass`, or give one",
        ),
    ];
    for (text, expected) in table {
        let fault = text.parse::<RedisUrl>().unwrap_err();
        assert_eq!(fault.to_string(), expected, "in {text:?}");
    }
}

#[test]
fn what_is_too_much() {
    let many: Vec<_> = (0..=MAX_REDIS_HOSTS).map(|n| format!("h{n}")).collect();
    let fault = |text: String| text.parse::<RedisUrl>().unwrap_err().to_string();
    assert_eq!(
        fault(format!("redis-cluster://{}", many.join(","))),
        "more than 32 hosts; name a few: they know the others"
    );
    assert_eq!(
        fault(format!("redis://{}", "h".repeat(4089))),
        "the URL has 4097 bytes, more than 4096; name fewer hosts"
    );
    assert_eq!(
        fault(format!("redis://{}", "h".repeat(254))),
        "not the name of a host; write a name such as `redis.example.com`, or an address"
    );
}

/// Texts made of what URLs are made of.
fn pieces() -> impl Strategy<Value = String> {
    let pieces = select(
        &[
            "redis",
            "rediss",
            "valkey",
            "unix",
            "redis+unix",
            "-cluster",
            "-sentinel",
            "s",
            "://",
            ":",
            "/",
            "//",
            "@",
            ",",
            "?",
            "&",
            "=",
            "#",
            "%",
            "%41",
            "%2F",
            "%ff",
            "[",
            "]",
            "[::1]",
            "h",
            "a.b",
            "é",
            " ",
            "\0",
            "0",
            "1",
            "6379",
            "65536",
            "db",
            "user",
            "pass",
            "m",
        ][..],
    );
    proptest::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat())
}

/// Mostly sound ones, none with a password.
fn open_urls() -> impl Strategy<Value = String> {
    let name = "[a-zA-Z0-9._-]{1,12}|\\[(::1|2001:db8::[0-9a-f]{1,4}|::ffff:1\\.2\\.3\\.4)\\]";
    let host = (name, proptest::option::of(1_u16..)).prop_map(|(host, port)| match port {
        Some(port) => format!("{host}:{port}"),
        None => host,
    });
    let hosts = proptest::collection::vec(host.clone(), 1..5).prop_map(|hosts| hosts.join(","));
    let s = select(&["", "s"][..]);
    let vendor = select(&["redis", "valkey"][..]);
    let scheme = (vendor, s).prop_map(|(vendor, s)| format!("{vendor}{s}"));
    prop_oneof![
        (scheme.clone(), host, any::<u32>()).prop_map(|(s, host, db)| format!("{s}://{host}/{db}")),
        (scheme.clone(), hosts.clone()).prop_map(|(s, hosts)| format!("{s}-cluster://{hosts}")),
        (scheme, hosts, "[a-zA-Z0-9._-]{1,9}", any::<u32>())
            .prop_map(|(s, hosts, master, db)| format!("{s}-sentinel://{hosts}/{master}/{db}")),
        (
            "(/([a-z.~@é&=]|%[2-7][0-9A-E]|%C3%A9){1,8}){1,3}",
            any::<u32>()
        )
            .prop_map(|(path, db)| format!("unix://{path}?db={db}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in prop_oneof![any::<String>(), pieces()]) {
        match text.parse::<RedisUrl>() {
            Ok(url) => {
                let shown = url.to_string();
                prop_assert!(shown.is_ascii() && !shown.contains(char::is_whitespace));
                let again = shown.parse::<RedisUrl>();
                let hidden = url.password.is_some().then(|| "***".to_owned());
                prop_assert_eq!(again, Ok(RedisUrl { password: hidden, ..url }));
            }
            Err(fault) => prop_assert!(!fault.message.is_empty() && !fault.hint.is_empty()),
        }
    }

    #[test]
    fn what_is_shown_is_the_same_url(text in open_urls()) {
        match text.parse::<RedisUrl>() {
            Ok(url) => prop_assert_eq!(url.to_string().parse::<RedisUrl>(), Ok(url)),
            Err(fault) => prop_assert_eq!(fault.message, "the same host twice"),
        }
    }
}
