//! Users.

use serde_json::{Value, json};

use crate::desk::{Desk, ok, refused, served, tag};

#[test]
fn a_user_from_making_to_deleting() {
    let served = served();
    let desk = Desk::of(&served);
    let body =
        json!({ "id": "alice", "tenant": "partner", "plan": "free", "attributes": { "a": 1 } });
    let made = desk.made("users", &body);
    assert_eq!(made["email_verified"], false);
    assert_eq!(desk.shown("users/alice"), made);
    refused(&desk.post("users", &body), 409, "exists");
    let patch = json!({ "email_verified": true, "plan": null, "attributes": { "b": 2 } });
    let changed = ok(&desk.patch("users/alice", &tag(&made), &patch), 200);
    assert_eq!(changed["email_verified"], true);
    assert_eq!(changed["plan"], Value::Null);
    assert_eq!(changed["attributes"], json!({ "a": 1, "b": 2 }));
    desk.made("users", &json!({ "id": "bob" }));
    let of_partner = desk.shown("users?tenant=partner");
    assert_eq!(of_partner["items"].as_array().unwrap().len(), 1);
    let nowhere = desk.patch("users/alice", "*", &json!({ "tenant": "nobody" }));
    refused(&nowhere, 422, "unknown_tenant");
    ok(&desk.delete("users/alice", &tag(&changed)), 200);
    refused(&desk.get("users/alice"), 404, "not_found");
    let events = desk.shown("audit?identifier=user:alice");
    let names: Vec<&str> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["user_deleted", "user_changed", "user_created"]);
}

#[test]
fn a_users_plan_goes_before_the_tenants() {
    let served = served();
    let desk = Desk::of(&served);
    desk.made("users", &json!({ "id": "alice", "plan": "free" }));
    let explained = desk.shown("explain?user=alice&tenant=partner");
    assert_eq!(explained["plan"], "free", "{explained}");
    assert_eq!(desk.shown("explain?user=bob&tenant=partner")["plan"], "pro");
}
