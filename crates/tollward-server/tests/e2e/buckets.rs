//! `GET /admin/v1/buckets`, `POST /admin/v1/buckets/reset`, and `tollward buckets` that asks them.

use std::net::{SocketAddr, TcpListener};

use serde_json::{Value, json};
use tollward_testkit::http::{Connection, Response};
use tollward_testkit::redis::RedisServer;

use crate::process::{Process, Said, arg, run, tollward};
use crate::served::{ANY_PORT, Client, Folder, Served, assert_problem, get, json, until};

const CONFIG: &str = "
limits: { all: { sustained: { rate: 1, window: minute }, burst: { capacity: 50 }, scope: global } }
plans:
  free: { rate_limit: { sustained: { rate: 1, window: minute }, burst: { capacity: 10 }, scope: user } }
  pro: { rate_limit: { sustained: { rate: 10, window: minute }, burst: { capacity: 100 }, scope: user } }
identity: { anonymous: { plan: free } }
";
const TOKEN: &str = "s3cret";
const BUCKETS: &str = "/admin/v1/buckets";
const RESET: &str = "/admin/v1/buckets/reset";

fn served() -> Served {
    Served::with(CONFIG, |options| options.admin_token = Some(TOKEN.into()))
}

fn send(
    admin: SocketAddr,
    method: &str,
    target: &str,
    token: Option<&str>,
    body: &str,
) -> Response {
    let token = token.map(|token| format!("Bearer {token}"));
    let header = token.as_deref().map(|token| ("authorization", token));
    let mut connection = Connection::open(admin).unwrap();
    connection
        .request(method, target, header.as_slice(), body.as_bytes())
        .unwrap()
}

fn show(served: &Served, query: &str) -> Response {
    let target = format!("{BUCKETS}?{query}");
    send(served.admin, "GET", &target, Some(TOKEN), "")
}

fn reset(served: &Served, body: &Value) -> Response {
    send(served.admin, "POST", RESET, Some(TOKEN), &body.to_string())
}

/// The buckets of an answer, as `LIMIT REMAINING/CAPACITY`.
fn rows(response: &Response) -> Vec<String> {
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.header("cache-control"), Some("no-store"));
    let row = |it: &Value| {
        let name = it["limit"].as_str().unwrap();
        format!("{name} {}/{}", it["remaining"], it["capacity"])
    };
    let answer = json(response);
    answer["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(row)
        .collect()
}

/// The key of alice's bucket, as a server tells it.
fn key_of_alice(served: &Served) -> String {
    let buckets = json(&show(served, "user=alice"));
    buckets["buckets"][1]["key"].as_str().unwrap().to_owned()
}

fn encoded(key: &str) -> String {
    key.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn buckets_are_seen_before_and_after_spending() {
    let served = served();
    let mut client = served.client();
    assert_eq!(
        rows(&show(&served, "user=alice")),
        ["limit:all 50/50", "plan:free 10/10"]
    );
    client.check(json!({"user": "alice", "cost": 4}));
    let seen = show(&served, "user=alice");
    assert_eq!(rows(&seen), ["limit:all 46/50", "plan:free 6/10"]);
    let bucket = &json(&seen)["buckets"][1];
    assert!(
        bucket["key"]
            .as_str()
            .unwrap()
            .ends_with("}plan|user=alice")
    );
    assert_eq!(bucket["scope"], "user");
    assert_eq!(
        (&bucket["rate"], &bucket["window_secs"]),
        (&json!(1), &json!(60))
    );
    assert_eq!(bucket["full_after_ms"], 240_000);
    assert_eq!(bucket["source"], "memory");
    // By its key, it is what each plan would have it be.
    let by_key = show(&served, &format!("key={}", encoded(&key_of_alice(&served))));
    assert_eq!(rows(&by_key), ["plan:free 6/10", "plan:pro 96/100"]);
    served.advance_secs(60);
    assert_eq!(
        rows(&show(&served, "user=alice&plan=pro"))[1],
        "plan:pro 100/100"
    );
    assert_eq!(
        rows(&show(&served, "user=alice&method=GET&path=/a")).len(),
        2
    );
    // Looking takes nothing, and is counted as no decision.
    assert!(served.admin_page("/metrics").text().contains("tollward_"));
    assert_eq!(rows(&show(&served, "user=alice"))[1], "plan:free 7/10");
}

#[test]
fn a_reset_makes_buckets_full() {
    let served = served();
    let mut client = served.client();
    let (alice, bob) = (json!({"user": "alice"}), json!({"user": "bob", "cost": 9}));
    client.exhaust(&alice);
    client.check(bob.clone());
    // By key: that bucket.
    let key = key_of_alice(&served);
    let after = reset(&served, &json!({"keys": [key]}));
    assert_eq!(rows(&after), ["plan:free 10/10", "plan:pro 100/100"]);
    assert_eq!(rows(&show(&served, "user=alice"))[0], "limit:all 31/50");
    assert_eq!(client.check(alice.clone()).0, 200);
    // By facts: all that such a request is charged to.
    client.exhaust(&alice);
    let after = reset(&served, &json!({"facts": {"user": "alice", "plan": null}}));
    assert_eq!(rows(&after), ["limit:all 50/50", "plan:free 10/10"]);
    assert_eq!(rows(&show(&served, "user=bob"))[1], "plan:free 1/10");
    assert_eq!(client.check(alice).0, 200);
}

#[test]
fn nothing_is_told_without_the_token() {
    let served = served();
    served.client().exhaust(&json!({"user": "alice"}));
    let facts = json!({"facts": {"user": "alice"}}).to_string();
    let show = format!("{BUCKETS}?user=alice");
    for token in [
        None,
        Some(""),
        Some("s3cre"),
        Some("s3cret2"),
        Some("S3CRET"),
    ] {
        for (method, target) in [
            ("GET", &*show),
            ("POST", RESET),
            ("GET", "/admin/v1/"),
            ("GET", "/admin/v1/config"),
            ("DELETE", BUCKETS),
        ] {
            let refused = send(served.admin, method, target, token, &facts);
            let problem = assert_problem(&refused, 401, target);
            assert_eq!(
                refused.header("www-authenticate"),
                Some("Bearer"),
                "{target}"
            );
            assert!(!problem.to_string().contains(TOKEN), "{problem}");
        }
    }
    assert_eq!(served.client().check(json!({"user": "alice"})).0, 429);
    for open in ["/healthz", "/readyz", "/metrics"] {
        until(open, || get(served.admin, open).status == 200);
    }
}

#[test]
fn what_makes_no_sense_is_named() {
    let served = served();
    let many = vec!["key=x"; 101].join("&");
    let table = [
        ("", "Name a bucket"),
        ("usr=alice", "\"usr\""),
        ("user=alice&cost=1&peek=true", "\"cost\", \"peek\""),
        ("user=alice&user=bob", "`user` is given twice"),
        ("user=", "`user` is empty"),
        ("ip=localhost", "`ip`"),
        ("user=alice&plan=gold", "no plan \"gold\""),
        ("api_key=guess", "not known"),
        ("path=/a%252Fb", "%2F"),
        ("user=alice&key=x", "not both"),
        ("key=", "is not a key"),
        ("key=plan|user=alice", "tag in braces"),
        ("key={00000}plan|user=alice", "not that of the rest"),
        ("key={00000}%23abc", "--user"),
        ("key=tollward:{00000}plan", "prefix"),
        (&many, "At most 100 keys"),
    ];
    for (query, words) in table {
        let problem = assert_problem(&show(&served, query), 400, query);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{query}: {detail}");
        assert!(problem["reason"].is_string(), "{query}");
        assert!(!detail.contains("guess"), "keys are not repeated: {detail}");
    }
    let table = [
        (json!([]), "JSON object"),
        (json!({}), "Name a bucket"),
        (json!({"keys": []}), "Name a bucket"),
        (json!({"facts": {}}), "Name a bucket"),
        (json!({"users": ["alice"]}), "`users`"),
        (json!({"facts": {"usr": "alice"}}), "\"usr\""),
        (json!({"facts": {"user": 7}}), "string"),
        (json!({"facts": ["alice"]}), "map"),
        (json!({"facts": {"user": ""}}), "`user` is empty"),
        (json!({"keys": [7]}), "string"),
        (json!({"keys": ["x"], "facts": {"user": "a"}}), "not both"),
        (json!({"keys": vec!["x"; 101]}), "At most 100 keys"),
    ];
    for (body, words) in table {
        let problem = assert_problem(&reset(&served, &body), 400, words);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{body}: {detail}");
    }
    // One bad key among good ones: nothing is reset.
    served.client().exhaust(&json!({"user": "alice"}));
    let keys = [key_of_alice(&served), "{00000}x".into()];
    assert_problem(&reset(&served, &json!({"keys": keys})), 400, "a bad key");
    assert_eq!(served.client().check(json!({"user": "alice"})).0, 429);
}

#[test]
fn a_key_of_no_limit_is_refused() {
    let served = served();
    let other = Served::with(
        "limits: { gone: { sustained: { rate: 1 }, scope: user } }",
        |options| options.admin_token = Some(TOKEN.into()),
    );
    let theirs = json(&show(&other, "user=alice"));
    let key = theirs["buckets"][0]["key"].as_str().unwrap();
    let problem = assert_problem(&reset(&served, &json!({"keys": [key]})), 400, key);
    assert!(problem["detail"].as_str().unwrap().contains("`limit:gone`"));
}

#[test]
fn methods_and_sizes_are_bounded() {
    let served = served();
    let ask = |method, target, body: &str| send(served.admin, method, target, Some(TOKEN), body);
    for (method, target, allow) in [
        ("POST", BUCKETS, "GET, HEAD"),
        ("GET", RESET, "POST"),
        ("PUT", RESET, "POST"),
    ] {
        let refused = ask(method, target, "");
        assert_problem(&refused, 405, target);
        assert_eq!(refused.header("allow"), Some(allow));
    }
    assert_problem(&ask("GET", "/admin/v1/bucket", ""), 404, "no such page");
    assert_problem(
        &ask("POST", "/admin/v1/buckets/reset?user=a", "{}"),
        400,
        "a query",
    );
    let long = format!("{{\"keys\": [\"{}\"]}}", "x".repeat(64 * 1024));
    assert_problem(&ask("POST", RESET, &long), 413, "a long body");
    let long = format!("{{\"keys\": [\"{}\"]}}", "x".repeat(60 * 1024));
    let problem = assert_problem(&ask("POST", RESET, &long), 400, "a long key");
    assert!(problem.to_string().len() < 1000, "{problem}");
}

/// Runs `tollward buckets` against the admin door of a server.
fn buckets(admin: SocketAddr, token: &str, args: &[&str]) -> Said {
    let url = format!("http://{admin}");
    let asked = ["--url", &url, "--token", token];
    run(&[&["buckets"], args, &asked].concat())
}

#[test]
fn the_command_shows_a_table() {
    let served = served();
    served.client().check(json!({"user": "alice", "cost": 4}));
    let key = key_of_alice(&served);
    let said = buckets(served.admin, TOKEN, &["show", "--user", "alice"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    let lines: Vec<Vec<&str>> = said
        .out
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|it| !it.is_empty())
                .collect()
        })
        .collect();
    assert_eq!(lines[0], ["KEY", "LIMIT", "REMAINING", "FULL AGAIN IN"]);
    assert_eq!(lines[1][1..], ["limit:all", "46 of 50", "4 min"]);
    assert_eq!(lines[2], [&*key, "plan:free", "6 of 10", "4 min"]);
    assert_eq!(lines.len(), 3);

    let said = buckets(served.admin, TOKEN, &["show", &key]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    for words in ["as plan:free  6 of 10", "as plan:pro   96 of 100"] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    let said = buckets(served.admin, TOKEN, &["reset", &key]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert!(said.out.contains("10 of 10    full"), "{}", said.out);
    let said = buckets(served.admin, TOKEN, &["show", "--user", "alice", "--json"]);
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(answer["buckets"][1]["remaining"], 10);
    assert_eq!(answer["buckets"][0]["remaining"], 46);

    // Whatever is in a name, it arrives as it is.
    let odd = "a b&user=c+%41/ü";
    served.client().check(json!({"user": odd, "cost": 3}));
    let said = buckets(served.admin, TOKEN, &["show", "--user", odd]);
    assert!(said.out.contains("7 of 10"), "{}", said.out);
    let hashed = said.out.lines().last().unwrap().split(' ').next().unwrap();
    assert!(hashed.contains("}#"), "{hashed}");
    let said = buckets(served.admin, TOKEN, &["reset", hashed]);
    assert_eq!((said.code, &*said.out), (Some(2), ""));
    assert!(said.err.contains("--user"), "{}", said.err);
    let said = buckets(served.admin, TOKEN, &["reset", "--user", odd]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert_eq!(said.out.matches("full").count(), 2, "{}", said.out);
}

#[test]
fn the_command_says_what_is_missing() {
    let served = served();
    let by_alice = ["show", "--user", "alice"];
    let none: &[&str] = &["show"];
    for (args, words) in [
        (none, "which buckets?"),
        (&["reset"], "which buckets?"),
        (&["show", "x", "--user", "alice"], "not both"),
        (&["show", "--user", ""], "`user` is empty"),
        (&["show", "plan|user=alice"], "tollward explain"),
        (
            &["show", "--user", "alice", "--plan", "gold"],
            "no plan \"gold\"",
        ),
        (&["show", "--ip", "localhost"], "--ip"),
        (&["show", "--usr", "alice"], "--user"),
        (&["show", "--user", "alice", "--cost", "2"], "--cost"),
    ] {
        let said = buckets(served.admin, TOKEN, args);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{args:?}");
        assert!(said.err.contains(words), "{args:?}: {}", said.err);
    }
    let said = buckets(served.admin, "wrong", &by_alice);
    assert_eq!((said.code, &*said.out), (Some(2), ""));
    assert!(said.err.contains("not the admin token"), "{}", said.err);
    let said = buckets(
        served.admin,
        "wrong",
        &[&by_alice[..], &["--json"]].concat(),
    );
    assert_eq!(said.code, Some(2));
    assert_eq!(
        serde_json::from_str::<Value>(&said.out).unwrap()["status"],
        401
    );

    let url = format!("http://{}", served.admin);
    let said = run(&[&["buckets"], &by_alice[..], &["--url", &url]].concat());
    assert_eq!((said.code, &*said.out), (Some(2), ""));
    for words in ["wants its admin token", "--token", "TOLLWARD_ADMIN_TOKEN"] {
        assert!(said.err.contains(words), "{words}: {}", said.err);
    }
    let mut command = tollward();
    command.arg("buckets").args(by_alice);
    command.env("TOLLWARD_ADMIN_TOKEN", TOKEN);
    command.env("TOLLWARD_ADMIN_URL", url);
    assert_eq!(Said::new(&mut command).code, Some(0));

    let closed = TcpListener::bind(ANY_PORT).unwrap().local_addr().unwrap();
    let said = buckets(closed, TOKEN, &by_alice);
    assert_eq!((said.code, &*said.out), (Some(2), ""));
    assert!(
        said.err.contains("is `tollward serve` running?"),
        "{}",
        said.err
    );
    let said = buckets(served.api, TOKEN, &by_alice);
    assert_eq!((said.code, &*said.out), (Some(2), ""));
    assert!(said.err.contains("404"), "{}", said.err);
}

#[test]
fn every_action_has_help() {
    for (action, words) in [("show", "how full"), ("reset", "Make buckets full")] {
        let said = run(&["buckets", action, "--help"]);
        assert_eq!((said.code, &*said.err), (Some(0), ""));
        for words in [words, "KEY", "--user", "--token", "--url", "--json"] {
            assert!(said.out.contains(words), "{words}: {}", said.out);
        }
    }
}

/// The token that a server has printed.
fn printed_token(process: &Process) -> String {
    let mut token = None;
    until("the token is printed", || {
        let output = process.output();
        let mut lines = output.lines();
        token = lines.find_map(|line| Some(line.strip_prefix("  admin token   ")?.to_owned()));
        token.is_some()
    });
    token.unwrap()
}

#[test]
fn a_token_is_made_and_printed_unless_there_is_one() {
    let processes = [Process::serve(&[]), Process::serve(&[])];
    let tokens = processes.each_ref().map(printed_token);
    assert_ne!(tokens[0], tokens[1]);
    for (process, token) in processes.iter().zip(&tokens) {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        assert!(token.len() == 32 && token.bytes().all(is_digit), "{token}");
        let said = buckets(process.admin, token, &["show", "--user", "alice"]);
        assert_eq!((said.code, &*said.err), (Some(0), ""));
        assert!(said.out.contains("100 of 100"), "{}", said.out);
    }
    let swapped = buckets(processes[0].admin, &tokens[1], &["show", "--user", "a"]);
    assert_eq!(swapped.code, Some(2));

    let mut command = tollward();
    let process = Process::start(command.arg("serve").env("TOLLWARD_ADMIN_TOKEN", TOKEN));
    let said = buckets(process.admin, TOKEN, &["reset", "--user", "alice"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    until("the reset is logged", || {
        process.stderr().contains("bucket reset")
    });
    assert!(!process.output().contains("admin token"));
    assert!(!process.output().contains(TOKEN));
    assert!(
        process.stderr().contains("plan|user=alice"),
        "{}",
        process.stderr()
    );
}

#[test]
fn a_reset_through_one_node_holds_on_the_other() {
    let redis = RedisServer::start();
    let folder = Folder::new();
    // A machine that runs other tests may be slow at times.
    let store = format!(
        "store: {{ backend: redis, url: \"{}\", deadline: 1s }}",
        redis.url()
    );
    let file = folder.write("redis.yaml", &format!("{CONFIG}{store}"));
    let nodes = [(); 2].map(|()| Process::serve(&["--config", arg(&file)]));
    let check = json!({"user": "alice", "cost": 5});
    let mut clients = nodes.each_ref().map(|node| Client::new(node.api));
    for (node, client) in nodes.iter().zip(&mut clients) {
        until("Redis is asked", || {
            let answer = client.check(json!({"user": "other", "peek": true})).1;
            answer["source"] == "redis"
        });
        // Refused, and remembered to be.
        until("alice is refused", || client.check(check.clone()).0 == 429);
        assert_eq!(node.stderr().matches("panicked").count(), 0);
    }
    let token = printed_token(&nodes[0]);
    let said = buckets(nodes[0].admin, &token, &["show", "--user", "alice"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert!(said.out.contains("0 of 10"), "{}", said.out);
    // A key without the prefix is what the command takes.
    let names = redis.command(&["KEYS", "*user=alice"]);
    let name = names.as_array()[0].as_text().unwrap();
    let key = name.strip_prefix("tollward:").unwrap();

    let said = buckets(nodes[0].admin, &token, &["reset", key]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert!(said.out.contains("10 of 10 "), "{}", said.out);
    // The bucket would take five minutes. A refusal may be remembered for 250 ms, in which there is time for
    // 25 tries; on a slow machine for fewer.
    let mut tries = 0;
    until("alice is admitted on the other node", || {
        tries += 1;
        clients[1].check(check.clone()).0 == 200
    });
    assert!(tries <= 40, "{tries} tries");
    // This node knows at once.
    assert_eq!(clients[0].check(check.clone()).0, 200);

    // Without Redis, what can be said is said by this node; it is not said that all was reset.
    redis.kill();
    until("the loss is noticed", || {
        let said = buckets(nodes[0].admin, &token, &["reset", key]);
        said.code == Some(2) && said.err.contains("503") && said.err.contains("do it again")
    });
    let said = buckets(nodes[0].admin, &token, &["show", key, "--json"]);
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(answer["buckets"][0]["source"], "local", "{answer}");
}
