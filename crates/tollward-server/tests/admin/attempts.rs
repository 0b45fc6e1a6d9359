//! Wrong tokens.

use crate::desk::{CONFIG, Desk, refused, served, with};
use crate::served::until;

#[test]
fn guessing_is_slow_and_the_right_token_always_works() {
    let served = served();
    let guess = Desk::bearing(&served, "guess");
    for _ in 0..20 {
        refused(&guess.get("status"), 401, "unauthorised");
    }
    let told = guess.get("status");
    refused(&told, 429, "wrong_tokens");
    assert_eq!(told.header("retry-after"), Some("6"));
    // Whoever sends none guesses nothing.
    let none = crate::desk::send(served.admin, "GET", "status", &[], b"");
    assert_eq!(none.status, 401);
    assert_eq!(Desk::of(&served).get("status").status, 200);
    served.advance_secs(6);
    refused(&guess.get("status"), 401, "unauthorised");
    refused(&guess.get("status"), 429, "wrong_tokens");
    served.advance_secs(600);
    for _ in 0..20 {
        refused(&guess.get("tokens"), 401, "unauthorised");
    }
    refused(&guess.get("tokens"), 429, "wrong_tokens");
    assert_eq!(Desk::of(&served).get("tokens").status, 200);
}

#[test]
fn wrong_tokens_are_counted_and_told() {
    let config = format!("{CONFIG}audit: {{ interval: 1s }}\n");
    let served = with(&config, |_| {});
    let desk = Desk::of(&served);
    let metric = |name: &str| -> u64 {
        let page = served.admin_page("/metrics").text();
        let value = page.lines().find_map(|line| {
            let value = line.strip_prefix(name)?.strip_prefix(' ')?;
            value.parse().ok()
        });
        value.unwrap_or_else(|| panic!("no {name} in\n{page}"))
    };
    assert_eq!(metric("tollward_admin_wrong_tokens_total"), 0);
    let guess = Desk::bearing(&served, "a-guess-of-somebody");
    for _ in 0..25 {
        assert!(matches!(guess.get("status").status, 401 | 429));
    }
    // None at all is no guess.
    crate::desk::send(served.admin, "GET", "status", &[], b"");
    assert_eq!(metric("tollward_admin_wrong_tokens_total"), 25);
    let events = || desk.shown("audit?event=admin_wrong_token");
    until("all of them are told", || {
        let events = events();
        let events = events["items"].as_array().unwrap();
        let counts = events.iter().map(|event| event["count"].as_u64().unwrap());
        counts.sum::<u64>() == 25
    });
    let events = events();
    // One for each interval, not one for each.
    assert!(events["items"].as_array().unwrap().len() < 25, "{events}");
    assert_eq!(events["items"][0]["severity"], "critical");
    assert_eq!(events["items"][0]["identifier"], "ip:127.0.0.1");
    assert!(!events.to_string().contains("a-guess"), "{events}");
}

#[test]
fn what_a_node_has_of_the_directory_is_measured() {
    let served = served();
    let desk = Desk::of(&served);
    let page = || served.admin_page("/metrics").text();
    desk.made("tenants", &serde_json::json!({ "id": "acme" }));
    let revision = &desk.shown("status")["directory"]["revision"];
    for line in [
        "tollward_directory_up 1\n".to_owned(),
        format!("tollward_directory_revision {revision}\n"),
        "tollward_directory_odd_rows 0\n".to_owned(),
    ] {
        assert!(page().contains(&line), "no {line} in\n{}", page());
    }
}
