use crate::config::written;

#[test]
fn every_value_has_its_path() {
    let text = "
store: { backend: redis, url: 'redis://user:s3cret@host:6379' }
plans: { free: { rate_limit: { sustained: &s { rate: 10, window: minute } } }, pro: { rate_limit: { sustained: *s } } }
routes: [ { match: /a, deny: true }, { match: /b } ]
tenants: { acme: {} }
allow: []
";
    let values = written(text.as_bytes()).unwrap();
    let lines: Vec<String> = values
        .iter()
        .map(|(path, value)| format!("{path} = {value}"))
        .collect();
    assert_eq!(
        lines,
        [
            "store.backend = redis",
            "store.url = redis://***@host:6379",
            "plans.free.rate_limit.sustained.rate = 10",
            "plans.free.rate_limit.sustained.window = minute",
            "plans.pro.rate_limit.sustained.rate = 10",
            "plans.pro.rate_limit.sustained.window = minute",
            "routes[0].match = /a",
            "routes[0].deny = true",
            "routes[1].match = /b",
            "tenants.acme = {}",
            "allow = []",
        ]
    );
}

#[test]
fn a_password_is_never_a_value() {
    let shown = |url: &str| {
        let text = format!("store: {{ backend: redis, url: '{url}' }}");
        let values = written(text.as_bytes()).unwrap();
        values
            .into_iter()
            .find(|(path, _)| path == "store.url")
            .unwrap()
            .1
    };
    assert_eq!(
        shown("redis+unix:///run/redis.sock?user=u&pass=s3cret&db=1"),
        "redis+unix:///run/redis.sock?user=u&pass=***&db=1"
    );
    assert_eq!(shown("rediss://u:s3%40c@host:1/"), "rediss://***@host:1/");
}

#[test]
fn nothing_and_what_cannot_be_read() {
    assert_eq!(written(b"").unwrap(), []);
    assert_eq!(written(b"{}").unwrap(), []);
    assert!(written(b"plans: [").is_err());
    assert!(written(b"limts: {}").is_err());
    assert!(written(b"\xff").is_err());
}
