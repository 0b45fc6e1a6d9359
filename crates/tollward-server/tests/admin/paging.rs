//! Lists, page by page.

use serde_json::json;

use crate::desk::{Desk, served};

fn walked(desk: &Desk<'_>, list: &str, limit: usize) -> Vec<String> {
    let mut ids = Vec::new();
    let mut after = String::new();
    for _ in 0..100 {
        let separator = if list.contains('?') { '&' } else { '?' };
        let page = desk.shown(&format!("{list}{separator}limit={limit}{after}"));
        let items = page["items"].as_array().unwrap();
        ids.extend(
            items
                .iter()
                .map(|item| item["id"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => {
                let encoded: String = next.bytes().map(|byte| format!("%{byte:02x}")).collect();
                after = format!("&after={encoded}");
            }
            None => return ids,
        }
    }
    panic!("no end of {list}");
}

#[test]
fn every_item_comes_once() {
    let served = served();
    let desk = Desk::of(&served);
    for index in 0..7 {
        desk.made(
            "tenants",
            &json!({ "id": format!("t{index}"), "parent": "partner" }),
        );
        desk.made(
            "users",
            &json!({ "id": format!("u{index}"), "tenant": "t0" }),
        );
        desk.made("keys", &json!({ "tenant": "t0" }));
    }
    let below = ["partner-child", "t0", "t1", "t2", "t3", "t4", "t5", "t6"];
    for limit in [1, 2, 3, 7, 8, 9, 100] {
        assert_eq!(
            walked(&desk, "tenants?parent=partner", limit),
            below,
            "{limit}"
        );
        assert_eq!(walked(&desk, "tenants", limit).len(), 9);
        assert_eq!(walked(&desk, "users", limit).len(), 7);
        let mut keys = walked(&desk, "keys?tenant=t0", limit);
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 7);
    }
    for query in [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=-1",
        "limit=",
        "limit=1&limit=2",
        "first=1",
    ] {
        for list in [
            "tenants", "users", "keys", "allow", "boosts", "tokens", "audit", "usage",
        ] {
            assert_eq!(
                desk.get(&format!("{list}?{query}")).status,
                400,
                "{list} {query}"
            );
        }
    }
}
