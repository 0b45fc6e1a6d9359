//! URLs of directories, sound and not.

use std::path::Path;

use proptest::prelude::*;

use super::super::DirectoryUrl;

fn url(text: &str) -> DirectoryUrl {
    match text.parse() {
        Ok(url) => url,
        Err(fault) => panic!("{fault} in {text}"),
    }
}

fn fault(text: &str) -> String {
    match text.parse::<DirectoryUrl>() {
        Ok(url) => panic!("{url} in {text}"),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn memory() {
    for text in ["sqlite::memory:", "SQLite::memory:", "sqlite://:memory:"] {
        assert_eq!(url(text), DirectoryUrl::Memory, "{text}");
        assert_eq!(url(text).expose(), "sqlite::memory:");
        assert_eq!(url(text).to_string(), "sqlite::memory:");
    }
}

#[test]
fn files() {
    let table = [
        ("sqlite:tollward.db", "tollward.db", "sqlite:tollward.db"),
        ("sqlite://tollward.db", "tollward.db", "sqlite:tollward.db"),
        ("sqlite:./a/b", "./a/b", "sqlite:./a/b"),
        ("sqlite:/var/t.db", "/var/t.db", "sqlite:/var/t.db"),
        ("sqlite:///var/t.db", "/var/t.db", "sqlite:/var/t.db"),
        ("sqlite://///var/t.db", "/var/t.db", "sqlite:/var/t.db"),
        (
            "sqlite:a b%3F%23%25é.db",
            "a b?#%é.db",
            "sqlite:a%20b%3F%23%25%C3%A9.db",
        ),
    ];
    for (text, path, exposed) in table {
        let url = url(text);
        let DirectoryUrl::Sqlite(found) = &url else {
            panic!("{url}");
        };
        assert_eq!(found, Path::new(path), "{text}");
        assert_eq!(url.expose(), exposed, "{text}");
        assert_eq!(url.to_string(), exposed, "{text}");
    }
}

#[test]
fn servers() {
    let same = |text| (text, text);
    let table = [
        same("postgres://h"),
        same("postgres://h/gate"),
        same("postgres://u@h:5433/gate"),
        ("postgresql://u@h:5432/", "postgres://u@h"),
        ("POSTGRES://U@Db.example.com", "postgres://U@Db.example.com"),
        (
            "postgres://u%40x:p%3a%2F%25@10.0.0.1/a%2Fb",
            "postgres://u%40x:p%3A%2F%25@10.0.0.1/a%2Fb",
        ),
        ("postgres://u:p:q!@h", "postgres://u:p%3Aq%21@h"),
        (
            "postgres://h/d?sslmode=verify-full&sslrootcert=/etc/ca%20x.pem&application_name=a+b",
            "postgres://h/d?sslmode=verify-full&sslrootcert=/etc/ca%20x.pem&application_name=a%2Bb",
        ),
        (
            "postgres://h?options=-c%20search_path=gate",
            "postgres://h?options=-c%20search_path%3Dgate",
        ),
        same("postgres://h/d?sslcert=c.pem&sslkey=k.pem&statement-cache-capacity=0"),
        // What stands in for a host that is not there, and for one in brackets.
        (
            "postgres:///d?host=/run/postgresql",
            "postgres://localhost/d?host=/run/postgresql",
        ),
        (
            "postgres://u@:5433/d?host=/run",
            "postgres://u@localhost:5433/d?host=/run",
        ),
        (
            "postgres://u@[2001:DB8::1]:1/d",
            "postgres://u@localhost:1/d?hostaddr=2001%3Adb8%3A%3A1",
        ),
        (
            "postgres://[::1]?sslmode=disable",
            "postgres://localhost?hostaddr=%3A%3A1&sslmode=disable",
        ),
    ];
    for (text, exposed) in table {
        let url = url(text);
        assert!(matches!(url, DirectoryUrl::Postgres(_)), "{text}");
        assert_eq!(url.expose(), exposed, "{text}");
    }
}

#[test]
fn passwords_are_hidden() {
    let table = [
        (
            "postgres://u:hunter2@h:1/d?sslmode=require",
            "postgres://u:***@h:1/d?sslmode=require",
        ),
        ("postgres://u:hunter2@[::1]/d", "postgres://u:***@[::1]/d"),
        (
            "postgres://u:hunter2@/d?host=/run",
            "postgres://u:***@/d?host=/run",
        ),
        ("postgres://u@h/d", "postgres://u@h/d"),
    ];
    for (text, shown) in table {
        let url = url(text);
        assert_eq!(url.to_string(), shown);
        assert_eq!(format!("{url:?}"), format!("DirectoryUrl({shown})"));
        let DirectoryUrl::Postgres(inner) = &url else {
            panic!("{url}");
        };
        assert_eq!(inner.to_string(), shown);
        assert_eq!(format!("{inner:?}"), format!("PostgresUrl({shown})"));
        assert_eq!(url.expose().contains("hunter2"), text.contains("hunter2"));
    }
}

#[test]
fn faults_say_what_to_write() {
    let example = "write for example `sqlite:tollward.db` or `postgres://HOST/DATABASE`";
    let file = "write for example `sqlite:tollward.db` or `sqlite:/var/lib/tollward.db`";
    let escape = "in a user or password write `/` as `%2F`, `?` as `%3F`, `#` as `%23`; elsewhere `@` as `%40`";
    let table = [
        ("", format!("not a URL; {example}")),
        ("tollward.db", format!("not a URL; {example}")),
        ("mysql://h/d", format!("`mysql:` is not known; {example}")),
        ("sqlit:a", "`sqlit:` is not known; did you mean `sqlite:`?".to_owned()),
        ("postgre://h", "`postgre:` is not known; did you mean `postgres://`?".to_owned()),
        ("/tmp/a:b", format!("what stands before the first `:` is not known; {example}")),
        ("sqlite:", format!("no path behind `sqlite:`; {file}")),
        ("sqlite://", format!("no path behind `sqlite:`; {file}")),
        ("sqlite:/var/", format!("not the path of a file; {file}")),
        ("sqlite:a%00", format!("not the path of a file; {file}")),
        ("sqlite::memory", "not the path of a file; write `sqlite:PATH`, or `sqlite::memory:`".to_owned()),
        ("sqlite:file:a", "not the path of a file; write `sqlite:PATH`, or `sqlite::memory:`".to_owned()),
        ("sqlite:a.db?mode=rwc", "a `?` or `#` behind the path; remove it and what follows, or write `%3F` and `%23` in the name of a file".to_owned()),
        ("sqlite:a%2", "a `%` in the path without two hexadecimal digits; write `%` as `%25`".to_owned()),
        ("sqlite:%FF", "the path is not UTF-8 behind its escapes; write the escapes of UTF-8, as `%C3%A9` for `é`".to_owned()),
        ("sqlite:a\nb", "a control character in the URL; remove it".to_owned()),
        ("postgres:h/d", "no `//` behind `postgres:`; write `postgres://HOST/DATABASE`".to_owned()),
        ("postgres://u:p q@h", "a space in the URL; remove it, or write it as `%20`".to_owned()),
        ("postgres://", "a host is missing; write for example `127.0.0.1:5432`, or `?host=/run/postgresql` for a socket".to_owned()),
        ("postgres://u@/d", "a host is missing; write for example `127.0.0.1:5432`, or `?host=/run/postgresql` for a socket".to_owned()),
        ("postgres://::1/d", "an IPv6 address without brackets; write it as `[2001:db8::1]`".to_owned()),
        ("postgres://%2Frun/d", "not the name of a host; write a name such as `db.example.com`, or an address".to_owned()),
        ("postgres://a,b/d", "more than one host; keep one".to_owned()),
        ("postgres://u:p/q@h", format!("an `@` behind the first `/`, `?` or `#`; {escape}")),
        ("postgres://u:p@q@h", "more than one `@`; in a user or password write `@` as `%40`".to_owned()),
        ("postgres://@h", "nothing before the `@`; remove it, or write `USER@` or `USER:PASSWORD@`".to_owned()),
        ("postgres://:p@h", "a password without a user; write `USER@` or `USER:PASSWORD@`".to_owned()),
        ("postgres://u:@h", "the password is empty; remove the `:`, or give one".to_owned()),
        ("postgres://u:%zz@h", "a `%` in the password without two hexadecimal digits; write `%` as `%25`".to_owned()),
        ("postgres://h/a/b", "more than a database behind the host; write `HOST/DATABASE`; in its name write `/` as `%2F`".to_owned()),
        ("postgres://h/a#b", "a `#` in the URL; write it as `%23`".to_owned()),
        ("postgres://h?password=p", "the parameter `password` behind `?`; write `USER:PASSWORD@` before the host".to_owned()),
        ("postgres://h?sslmod=require", "an unknown parameter behind `?`; remove it; there are sslmode, sslrootcert, sslcert, sslkey, host, application_name, options, statement-cache-capacity".to_owned()),
        ("postgres://h?sslmode=on", "not a value of the parameter `sslmode`; write one of disable, allow, prefer, require, verify-ca, verify-full".to_owned()),
        ("postgres://h?sslmode=require&sslmode=allow", "the parameter `sslmode` is given twice; remove one".to_owned()),
        ("postgres://h?sslkey=", "not a value of the parameter `sslkey`; remove it, or give it a value".to_owned()),
        ("postgres://h?statement-cache-capacity=-1", "not a value of the parameter `statement-cache-capacity`; write a number from 0 to 65535".to_owned()),
        ("postgres:///d?host=h", "not a value of the parameter `host`; write the folder of a socket, such as `/run/postgresql`; a host stands before the path".to_owned()),
        ("postgres://h/d?host=/run", "a host before the path and a parameter `host`; keep one: a parameter `host` is for a socket of this machine".to_owned()),
    ];
    for (text, expected) in table {
        assert_eq!(fault(text), expected, "{text}");
    }
    let long = format!("sqlite:{}", "a".repeat(5000));
    assert_eq!(
        fault(&long),
        "the URL has 5007 bytes, more than 4096; write a shorter one"
    );
}

proptest! {
    #[test]
    fn what_is_exposed_reads_the_same(
        user in "[ -~é]{1,12}",
        password in "[ -~é]{1,12}",
        database in "[ -~é]{1,12}",
        path in "[a-zé%?# ][ -.0-~é]{0,12}",
    ) {
        let mut text = "postgres://".to_owned();
        let escaped = |text: &str| text.bytes().map(|b| format!("%{b:02x}")).collect::<String>();
        text += &format!("{}:{}@h/{}", escaped(&user), escaped(&password), escaped(&database));
        let server = url(&text);
        prop_assert_eq!(&url(&server.expose()), &server);
        prop_assume!(!path.starts_with("file:"));
        let file = url(&format!("sqlite:{}", escaped(&path)));
        prop_assert_eq!(&file, &DirectoryUrl::Sqlite(path.into()));
        prop_assert_eq!(&url(&file.expose()), &file);
    }

    #[test]
    fn no_fault_shows_a_password(noise in "[ -~]{0,20}", place in 0_usize..30) {
        let secret = "Zq8hunter2Zq8";
        let mut text = format!("postgres://user:{secret}@host:5432/db?sslmode=require");
        let at = place.min(text.len());
        text.insert_str(at, &noise);
        let shown = match text.parse::<DirectoryUrl>() {
            Ok(DirectoryUrl::Postgres(url)) => format!("{url} {url:?}"),
            // A path is no secret.
            Ok(_) => String::new(),
            Err(fault) => format!("{fault} {fault:?}"),
        };
        // What is left of the secret behind the noise counts too.
        prop_assert!(!shown.contains("hunter2"), "{} from {}", shown, text);
    }
}
