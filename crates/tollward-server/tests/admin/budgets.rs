//! Budgets, with the arithmetic in the answer.

use serde_json::{Value, json};
use tollward_policy::DirectoryUrl;

use crate::desk::{CONFIG, Desk, ok, per_minute, refused, served, with};
use crate::served::Folder;

fn numbers(value: &Value) -> [f64; 4] {
    ["sum", "budget", "ratio", "free"].map(|name| value[name].as_f64().unwrap())
}

fn child(id: &str, parent: &str, rate: u32) -> Value {
    json!({ "id": id, "parent": parent, "rate_limit": per_minute(rate) })
}

fn parent(id: &str, total: u32, ratio: f64) -> Value {
    json!({ "id": id, "rate_limit": {
        "sustained": { "rate": 5000, "window": "minute" },
        "budget": { "mode": "allocated", "total": total, "overcommit_ratio": ratio },
    } })
}

#[test]
fn the_arithmetic_of_the_reference() {
    let served = served();
    let desk = Desk::of(&served);
    desk.made("tenants", &parent("p", 5000, 1.0));
    desk.made("tenants", &child("a", "p", 2000));
    desk.made("tenants", &child("b", "p", 1000));
    let problem = refused(
        &desk.post("tenants", &child("c", "p", 3000)),
        409,
        "budget_exceeded",
    );
    assert_eq!(numbers(&problem), [6000.0, 5000.0, 1.0, 2000.0]);
    assert_eq!(problem["window_secs"], 60);
    assert_eq!(desk.get("tenants/c").status, 404);

    let raise = json!({ "rate_limit": { "budget": { "overcommit_ratio": 1.5 } } });
    ok(&desk.patch("tenants/p", "*", &raise), 200);
    let made = desk.made("tenants", &child("c", "p", 3000));
    let warning = &made["warnings"][0];
    assert_eq!(warning["reason"], "overcommitted");
    assert_eq!(numbers(warning), [6000.0, 5000.0, 1.5, 4500.0]);
    assert_eq!(
        numbers(&desk.shown("tenants/p")["budget"]),
        [6000.0, 5000.0, 1.5, 1500.0]
    );

    // Lowered below its children, by any of the three.
    for lower in [
        json!({ "rate_limit": { "budget": { "overcommit_ratio": 1.1 } } }),
        json!({ "rate_limit": { "budget": { "total": 3000 } } }),
        json!({ "rate_limit": { "sustained": { "window": "hour" } } }),
    ] {
        let answer = desk.patch("tenants/p", "*", &lower);
        refused(&answer, 409, "budget_exceeded");
    }
    // A child that asks for more, or moves in, is refused; one that asks for less is not.
    let more = json!({ "rate_limit": { "sustained": { "rate": 4600 } } });
    refused(&desk.patch("tenants/c", "*", &more), 409, "budget_exceeded");
    desk.made("tenants", &child("d", "system", 4000));
    refused(
        &desk.patch("tenants/d", "*", &json!({ "parent": "p" })),
        409,
        "budget_exceeded",
    );
    let less = json!({ "rate_limit": { "sustained": { "rate": 500 } } });
    ok(&desk.patch("tenants/c", "*", &less), 200);
    ok(&desk.delete("tenants/a", "*"), 200);
    assert_eq!(numbers(&desk.shown("tenants/p")["budget"])[0], 1500.0);
}

#[test]
fn windows_are_compared_in_the_parents() {
    let served = served();
    let desk = Desk::of(&served);
    desk.made("tenants", &parent("p", 5000, 1.0));
    let of = |id: &str, rate: u32, window: &str| json!({ "id": id, "parent": "p", "rate_limit": { "sustained": { "rate": rate, "window": window } } });
    desk.made("tenants", &of("s", 50, "second"));
    desk.made("tenants", &of("h", 60_000, "hour"));
    assert_eq!(
        numbers(&desk.shown("tenants/p")["budget"]),
        [4000.0, 5000.0, 1.0, 1000.0]
    );
    let problem = refused(
        &desk.post("tenants", &of("x", 17, "second")),
        409,
        "budget_exceeded",
    );
    assert_eq!(numbers(&problem), [5020.0, 5000.0, 1.0, 1000.0]);
    let fits = desk.made("tenants", &of("x", 1000, "minute"));
    assert_eq!(fits["warnings"], Value::Null);
}

#[test]
fn children_of_the_file_count_too() {
    let served = served();
    let desk = Desk::of(&served);
    assert_eq!(
        numbers(&desk.shown("tenants/partner")["budget"]),
        [1000.0, 5000.0, 1.0, 4000.0]
    );
    refused(
        &desk.post("tenants", &child("x", "partner", 4001)),
        409,
        "budget_exceeded",
    );
    desk.made("tenants", &child("x", "partner", 4000));
    let problem = refused(
        &desk.post("tenants", &child("y", "partner", 1)),
        409,
        "budget_exceeded",
    );
    assert_eq!(numbers(&problem), [5001.0, 5000.0, 1.0, 0.0]);
    // One without a limit takes nothing of it.
    desk.made("tenants", &json!({ "id": "z", "parent": "partner" }));
}

#[test]
fn who_gives_no_less_is_not_refused_for_what_was_given_before() {
    let folder = Folder::new();
    let file = folder.0.join("directory.db");
    let serve = |config: &str| {
        with(config, |options| {
            options.directory = Some(DirectoryUrl::Sqlite(file.clone()));
        })
    };
    {
        let served = serve(CONFIG);
        let desk = Desk::of(&served);
        desk.made("tenants", &parent("p", 100, 1.0));
        desk.made("tenants", &child("a", "p", 60));
        desk.made("tenants", &child("b", "p", 40));
    }
    {
        // While the file has one of them elsewhere, the other is given what it had.
        let config = CONFIG.replace("\ntenants:\n", "\ntenants:\n  b: {}\n");
        let served = serve(&config);
        let desk = Desk::of(&served);
        let more = json!({ "rate_limit": per_minute(100) });
        ok(&desk.patch("tenants/a", "*", &more), 200);
    }
    let served = serve(CONFIG);
    let desk = Desk::of(&served);
    let given = numbers(&desk.shown("tenants/p")["budget"]);
    assert_eq!(given[..2], [140.0, 100.0]);
    for (patch, status) in [
        (json!({ "attributes": { "since": 2020 } }), 200),
        (
            json!({ "rate_limit": { "sustained": { "rate": 6000 } } }),
            200,
        ),
        (json!({ "rate_limit": { "budget": { "total": 120 } } }), 200),
        (json!({ "rate_limit": { "budget": { "total": 119 } } }), 409),
        (json!({ "rate_limit": { "budget": { "total": 140 } } }), 200),
    ] {
        let answer = desk.patch("tenants/p", "*", &patch);
        assert_eq!(answer.status, status, "{patch}: {}", answer.text());
    }
}

#[test]
fn a_rate_below_what_is_given_is_refused() {
    let served = served();
    let desk = Desk::of(&served);
    desk.made("tenants", &parent("p", 5000, 1.0));
    desk.made("tenants", &child("a", "p", 4000));
    for rate in [4999, 3000, 1] {
        let lower = json!({ "rate_limit": { "sustained": { "rate": rate } } });
        let problem = refused(&desk.patch("tenants/p", "*", &lower), 422, "invalid_limit");
        let error = &problem["errors"][0];
        assert_eq!(error["place"], "rate_limit.budget.total", "{problem}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("5000") && message.contains(&rate.to_string()),
            "{message}"
        );
    }
    // With the total, it is the children that are in the way.
    let lower = |rate: u32| json!({ "rate_limit": { "sustained": { "rate": rate }, "budget": { "total": rate } } });
    let answer = desk.patch("tenants/p", "*", &lower(3999));
    refused(&answer, 409, "budget_exceeded");
    ok(&desk.patch("tenants/p", "*", &lower(4000)), 200);
    let mut more = parent("q", 5001, 1.0);
    refused(&desk.post("tenants", &more), 422, "invalid_limit");
    more["rate_limit"]["budget"]["total"] = json!(5000);
    desk.made("tenants", &more);
}
