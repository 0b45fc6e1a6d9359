//! Boosts.

use serde_json::json;

use crate::desk::{Desk, ok, per_minute, refused, served, tag};
use crate::served::until;

#[test]
fn a_boost_holds_until_its_end() {
    let served = served();
    let desk = Desk::of(&served);
    desk.made(
        "tenants",
        &json!({ "id": "acme", "rate_limit": per_minute(100) }),
    );
    let rate = || {
        desk.shown("tenants/acme")["effective"]["rate"]
            .as_u64()
            .unwrap()
    };
    let boost = json!({ "tenant": "acme", "factor": 2.5, "duration": "1h", "reason": "launch" });
    let made = desk.made("boosts", &boost);
    assert_eq!(
        (&made["factor"], &made["active"]),
        (&json!(2.5), &json!(true))
    );
    assert_eq!(rate(), 250);
    served.advance_secs(3601);
    until("the boost is over", || rate() == 100);
    let target = format!("boosts/{}", made["id"].as_str().unwrap());
    assert_eq!(desk.shown(&target)["active"], false);

    let made = desk.made("boosts", &boost);
    assert_eq!(rate(), 250);
    let target = format!("boosts/{}", made["id"].as_str().unwrap());
    ok(&desk.delete(&target, &tag(&made)), 200);
    assert_eq!(rate(), 100);
    refused(&desk.get(&target), 404, "not_found");
}

#[test]
fn what_is_no_boost() {
    let served = served();
    let desk = Desk::of(&served);
    for (boost, status) in [
        (
            json!({ "tenant": "partner", "factor": 1, "duration": "1h" }),
            400,
        ),
        (
            json!({ "tenant": "partner", "factor": 2.0001, "duration": "1h" }),
            400,
        ),
        (
            json!({ "tenant": "partner", "factor": "2", "duration": "1h" }),
            400,
        ),
        (
            json!({ "tenant": "partner", "factor": 1e300, "duration": "1h" }),
            400,
        ),
        (
            json!({ "tenant": "partner", "factor": 2, "duration": "soon" }),
            400,
        ),
        (json!({ "tenant": "partner", "factor": 2 }), 422),
        (
            json!({ "tenant": "partner", "factor": 2, "duration": "0s" }),
            422,
        ),
        (
            json!({ "tenant": "partner", "factor": 2, "duration": "999999999d" }),
            422,
        ),
        (
            json!({ "tenant": "nobody", "factor": 2, "duration": "1h" }),
            422,
        ),
        (
            json!({ "user": "nobody", "factor": 2, "duration": "1h" }),
            422,
        ),
        (
            json!({ "tenant": "partner", "user": "a", "factor": 2, "duration": "1h" }),
            422,
        ),
        (json!({ "factor": 2, "duration": "1h" }), 422),
    ] {
        assert_eq!(desk.post("boosts", &boost).status, status, "{boost}");
    }
}
