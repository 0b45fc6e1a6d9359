//! A node with a file is killed while it writes: what it said it had done is there afterwards.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tollward_testkit::conformance::Dice;

use crate::desk::{Desk, text};
use crate::node::{CONFIG, Node};
use crate::served::Folder;

const KILLS: u32 = 20;
const WRITERS: u32 = 2;

/// What was acknowledged.
#[derive(Default)]
struct Done {
    tenants: Vec<String>,
    keys: Vec<Value>,
    revoked: Vec<Value>,
    /// The last number that each writer wrote down.
    numbers: [u64; WRITERS as usize],
}

/// Changes things until nobody answers any more.
fn write(desk: &Desk, kill: u32, writer: u32, done: &Mutex<Done>) {
    let note = |it: &dyn Fn(&mut Done)| it(&mut done.lock().unwrap());
    for number in 0.. {
        let id = format!("t-{kill}-{writer}-{number}");
        let Some(_) = ask(desk, "POST", "tenants", json!({ "id": id })) else {
            return;
        };
        note(&|done| done.tenants.push(id.clone()));
        let Some(key) = ask(desk, "POST", "keys", json!({ "tenant": id })) else {
            return;
        };
        if number % 2 == 0 {
            note(&|done| done.keys.push(key["secret"].clone()));
        } else {
            let revoke = format!("keys/{}/revoke", text(&key["id"]));
            let Some(_) = ask(desk, "POST", &revoke, Value::Null) else {
                return;
            };
            note(&|done| done.revoked.push(key["secret"].clone()));
        }
        let count = u64::from(kill) * 1_000_000 + number;
        let counter = format!("tenants/counter-{writer}");
        let body = json!({ "attributes": { "count": count } });
        let Some(_) = ask(desk, "PATCH", &counter, body) else {
            return;
        };
        note(&|done| done.numbers[writer as usize] = count);
    }
}

/// What was acknowledged. Of what a slow machine did not do in time, nothing was promised.
fn ask(desk: &Desk, method: &str, target: &str, body: Value) -> Option<Value> {
    let answer = desk.try_ask(method, target, &body).ok()?;
    let text = answer.text();
    if answer.status == 503 {
        return None;
    }
    assert!(matches!(answer.status, 200 | 201), "{target}: {text}");
    Some(crate::served::json(&answer))
}

fn is_there(node: &Node, done: &Done) {
    let desk = node.desk();
    for id in &done.tenants {
        assert_eq!(desk.get(&format!("tenants/{id}")).status, 200, "{id}");
    }
    let mut client = node.client();
    for (secrets, status) in [(&done.keys, 200), (&done.revoked, 401)] {
        for secret in secrets {
            assert_eq!(client.check(json!({ "api_key": secret })).0, status);
        }
    }
    for (writer, number) in done.numbers.iter().enumerate() {
        let counter = desk.shown(&format!("tenants/counter-{writer}"));
        // It may have written one more, and not have said so.
        let found = counter["attributes"]["count"].as_u64();
        assert!(found >= Some(*number), "{found:?} instead of {number}");
    }
    let status = desk.shown("status");
    assert_eq!(status["directory"]["oddities"], json!([]));
}

#[test]
fn nothing_that_was_acknowledged_is_lost() {
    let folder = Folder::new();
    let url = format!("sqlite:{}", folder.0.join("directory.db").display());
    let env = [("TOLLWARD_DIRECTORY", url.as_str())];
    let node = Node::start(CONFIG, &env);
    for writer in 0..WRITERS {
        let counter = json!({ "id": format!("counter-{writer}"), "attributes": { "count": 0 } });
        node.desk().made("tenants", &counter);
    }
    drop(node);

    let mut dice = Dice::new(9);
    let mut all = Done::default();
    for kill in 0..KILLS {
        let done = Mutex::new(Done {
            numbers: all.numbers,
            ..Done::default()
        });
        let node = Node::start(CONFIG, &env);
        let desk = node.desk();
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (desk, done) = (&desk, &done);
                scope.spawn(move || write(desk, kill, writer, done));
            }
            thread::sleep(Duration::from_millis(20 + dice.below(300)));
            // By SIGKILL.
            drop(node);
        });
        let done = done.into_inner().unwrap();
        is_there(&Node::start(CONFIG, &env), &done);
        all.tenants.extend(done.tenants);
        all.keys.extend(done.keys);
        all.revoked.extend(done.revoked);
        all.numbers = done.numbers;
    }
    println!("{} tenants, {} keys", all.tenants.len(), all.keys.len());
    assert!(
        all.tenants.len() > KILLS as usize,
        "hardly anything was written"
    );
    is_there(&Node::start(CONFIG, &env), &all);
}
