//! What all commands over the admin API have in common: the door, its token, lost answers, mistakes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::process::{Process, Said, arg, run, tollward};
use crate::served::{ANY_PORT, Folder};

pub(crate) const TOKEN: &str = "s3cret-of-the-door";

const CONFIG: &str = "
plans:
  free: { rate_limit: { sustained: { rate: 1, window: day }, burst: { capacity: 3 }, scope: user } }
  pro: { rate_limit: { sustained: { rate: 1000, window: minute }, scope: user } }
tenants:
  partner:
    rate_limit:
      sustained: { rate: 5000, window: minute }
      burst: { capacity: 500 }
      sharing: enforce
      budget: { mode: allocated, total: 5000, overcommit_ratio: 1.5 }
routes: [ { match: /jobs/** } ]
allow: [ { cidr: 198.51.100.0/24, reason: monitoring } ]
usage: { interval: 1s }
audit: { interval: 1s }
";

/// A server with a directory of its own, to be asked by commands.
pub(crate) struct Office {
    pub(crate) process: Process,
    pub(crate) folder: Folder,
}

impl Office {
    pub(crate) fn open() -> Self {
        Self::of(CONFIG)
    }

    pub(crate) fn of(config: &str) -> Self {
        let folder = Folder::new();
        let file = folder.write("tollward.yaml", config);
        // What is made is kept, so that nothing warns of it.
        let directory = format!("sqlite:{}/directory.db", folder.0.display());
        let mut serve = tollward();
        serve.args(["serve", "--config", arg(&file), "--directory", &directory]);
        serve.env("TOLLWARD_ADMIN_TOKEN", TOKEN);
        Self {
            process: Process::start(&mut serve),
            folder,
        }
    }

    /// Runs a command over the admin API. Whatever comes of it, the token is not told.
    pub(crate) fn run(&self, args: &[&str]) -> Said {
        run_at(self.process.admin, args)
    }

    /// What a command that is done prints, when there is nothing to complain about.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!((said.code, &*said.err), (Some(0), ""), "{args:?}");
        said.out
    }

    /// What a command answers in JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let out = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// Asserts that a command is not done, with this code, and that these words say why.
    pub(crate) fn refused(&self, args: &[&str], code: i32, words: &[&str]) {
        let said = self.run(args);
        assert_eq!(
            (said.code, &*said.out),
            (Some(code), ""),
            "{args:?}: {}",
            said.err
        );
        assert_words(&said.err, words);
    }
}

pub(crate) fn run_at(admin: SocketAddr, args: &[&str]) -> Said {
    let mut command = tollward();
    command
        .args(args)
        .args(["--url", &format!("http://{admin}")]);
    let said = Said::new(command.env("TOLLWARD_ADMIN_TOKEN", TOKEN));
    for text in [&said.out, &said.err] {
        assert!(!text.contains(TOKEN), "{args:?}: {text}");
    }
    said
}

pub(crate) fn assert_words(text: &str, words: &[&str]) {
    for words in words {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// The cells of every line that are not empty.
pub(crate) fn cells(table: &str) -> Vec<Vec<&str>> {
    let mut rows = Vec::new();
    for line in table.lines() {
        let cells = line.split("  ").map(str::trim);
        rows.push(cells.filter(|cell| !cell.is_empty()).collect());
    }
    rows
}

/// Stands before a door, one connection after the other.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Relay {
    /// Passes requests on. Answers are passed back if `fate`, told how many came before, says so.
    pub(crate) fn open(door: SocketAddr, fate: impl Fn(usize) -> bool + Send + 'static) -> Self {
        let listener = TcpListener::bind(ANY_PORT).unwrap();
        let relay = Self {
            address: listener.local_addr().unwrap(),
            heads: Arc::default(),
        };
        let heads = relay.heads.clone();
        thread::spawn(move || {
            for (count, client) in listener.incoming().enumerate() {
                let mut client = client.unwrap();
                let request = read_request(&mut client);
                heads.lock().unwrap().push(request.clone());
                let mut server = TcpStream::connect(door).unwrap();
                let closing = request.replacen("\r\n\r\n", "\r\nconnection: close\r\n\r\n", 1);
                server.write_all(closing.as_bytes()).unwrap();
                let mut answer = Vec::new();
                server.read_to_end(&mut answer).unwrap();
                if fate(count) {
                    client.write_all(&answer).unwrap();
                }
            }
        });
        relay
    }

    /// A header of every request so far.
    pub(crate) fn header(&self, name: &str) -> Vec<Option<String>> {
        let heads = self.heads.lock().unwrap();
        let value = |head: &String| {
            let lines = head.lines();
            let mut headers = lines.filter_map(|line| line.split_once(": "));
            let found = headers.find(|(other, _)| other.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_owned())
        };
        heads.iter().map(value).collect()
    }
}

fn read_request(client: &mut TcpStream) -> String {
    let mut request = String::new();
    let mut buffer = [0; 4096];
    loop {
        let read = client.read(&mut buffer).unwrap();
        request.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        if let Some((head, body)) = request.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return request;
            }
        }
        assert!(read > 0, "{request}");
    }
}

#[test]
fn the_token_is_taken_from_a_file_or_the_environment() {
    let office = Office::open();
    let url = format!("http://{}", office.process.admin);
    let file = office.folder.write("token", &format!("{TOKEN}\n"));
    let empty = office.folder.write("empty", "\n");
    let list = ["tenants", "list", "--url", &url];
    let said = run(&[&list[..], &["--token-file", arg(&file)]].concat());
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    let said = run(&list);
    assert_eq!((said.code, &*said.out), (Some(2), ""));
    let ways = [
        "wants its admin token",
        "--token-file",
        "TOLLWARD_ADMIN_TOKEN",
    ];
    assert_words(&said.err, &ways);
    // The file goes before the variable.
    let wrong = office.folder.write("wrong", "another");
    office.refused(
        &["keys", "list", "--token-file", arg(&wrong)],
        2,
        &["not the admin token"],
    );
    office.refused(
        &["keys", "list", "--token-file", arg(&empty)],
        2,
        &["no token in it"],
    );
    office.refused(
        &["keys", "list", "--token-file", "/nowhere/t"],
        2,
        &["/nowhere/t"],
    );
    // Flags may stand before what is to be done.
    let said = run(&["tenants", "--url", &url, "--token-file", arg(&file), "list"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let nobody = TcpListener::bind(ANY_PORT).unwrap().local_addr().unwrap();
    for args in [
        &["tenants", "list"][..],
        &["tenants", "create", "a"],
        &["users", "show", "a"],
        &["keys", "revoke", "key_1"],
        &["allow", "add", "--user", "a", "--reason", "r"],
        &["audit", "list"],
        &["usage"],
    ] {
        let said = run_at(nobody, args);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{args:?}");
        let name = nobody.to_string();
        assert_words(&said.err, &[&name, "is `tollward serve` running?"]);
    }
}

#[test]
fn what_was_done_is_not_done_twice_when_an_answer_is_lost() {
    let office = Office::open();
    let relay = Relay::open(office.process.admin, |count| count > 0);
    let said = run_at(
        relay.address,
        &["tenants", "create", "acme", "--plan", "pro"],
    );
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert_words(&said.out, &["acme", "version  1"]);
    let keys = relay.header("idempotency-key");
    assert_eq!(keys.len(), 2);
    assert!(keys[0].is_some() && keys[0] == keys[1], "{keys:?}");

    // The secret went with the answer.
    let relay = Relay::open(office.process.admin, |count| count > 0);
    let said = run_at(relay.address, &["keys", "create", "--tenant", "acme"]);
    assert_eq!((said.code, &*said.out), (Some(2), ""));
    assert_words(&said.err, &["tollward keys rotate key_", "--overlap 0s"]);
    let listed = office.json(&["keys", "list"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);

    // Lost again: it is said how to go on.
    let relay = Relay::open(office.process.admin, |_| false);
    let said = run_at(relay.address, &["tenants", "create", "beta"]);
    assert_eq!((said.code, &*said.out), (Some(2), ""));
    let key = relay.header("idempotency-key")[0].clone().unwrap();
    assert_words(
        &said.err,
        &["may have been done", &format!("--idempotency-key {key}")],
    );
    office.ok(&["tenants", "create", "beta", "--idempotency-key", &key]);
    let words = ["422", "another request before"];
    office.refused(
        &["tenants", "create", "gamma", "--idempotency-key", &key],
        1,
        &words,
    );
}

#[test]
fn a_key_is_looked_at_before_it_is_replaced_or_revoked() {
    let office = Office::open();
    office.ok(&["tenants", "create", "acme"]);
    let key = office.json(&["keys", "create", "--tenant", "acme"]);
    let id = key["id"].as_str().unwrap();
    for action in ["rotate", "revoke"] {
        let tag = format!("\"{}\"", office.json(&["keys", "show", id])["version"]);
        let relay = Relay::open(office.process.admin, |_| true);
        let said = run_at(relay.address, &["keys", action, id]);
        assert_eq!(said.code, Some(0), "{action}: {}", said.err);
        assert_eq!(relay.header("if-match"), [None, Some(tag)], "{action}");
    }
}

#[test]
fn a_change_meanwhile_is_noticed() {
    let office = Office::open();
    office.ok(&["tenants", "create", "acme"]);
    let admin = office.process.admin;
    // Between the look and the change.
    let relay = Relay::open(admin, move |count| {
        if count == 0 {
            let said = run_at(admin, &["tenants", "change", "acme", "--plan", "free"]);
            assert_eq!(said.code, Some(0), "{}", said.err);
        }
        true
    });
    let said = run_at(
        relay.address,
        &["tenants", "change", "acme", "--plan", "pro"],
    );
    assert_eq!((said.code, &*said.out), (Some(1), ""));
    assert_words(
        &said.err,
        &["somebody else changed it meanwhile", "version 2", "repeat"],
    );
    assert_eq!(relay.header("if-match"), [None, Some("\"1\"".to_owned())]);
    assert_eq!(office.json(&["tenants", "show", "acme"])["plan"], "free");

    office.refused(
        &["tenants", "delete", "acme", "--if-match", "1"],
        1,
        &["meanwhile"],
    );
    let changed = office.json(&["tenants", "change", "acme", "--no-plan", "--if-match", "*"]);
    assert_eq!(
        (&changed["plan"], &changed["version"]),
        (&Value::Null, &3.into())
    );
    office.refused(
        &["tenants", "delete", "acme", "--if-match", "new"],
        2,
        &["--if-match"],
    );
    office.ok(&["tenants", "delete", "acme", "--if-match", "3"]);
}

#[test]
fn mistakes_are_answered_with_what_is_right() {
    let office = Office::open();
    for (args, words) in [
        (&["tenants", "lst"][..], "list"),
        (&["tenants", "create"], "TENANT"),
        (&["tenants", "create", ""], "TENANT"),
        (&["tenants", "create", "a", "--rate", "100"], "1000/minute"),
        (&["tenants", "create", "a", "--burst", "100"], "--rate"),
        (&["tenants", "create", "a", "--sharing", "all"], "enforce"),
        (&["tenants", "change", "a"], "nothing to change"),
        (
            &["tenants", "change", "a", "--plan", "b", "--no-plan"],
            "--no-plan",
        ),
        (&["tenants", "move", "a"], "PARENT"),
        (&["users", "change", "a"], "nothing to change"),
        (&["keys", "create"], "--tenant, --user or --client"),
        (
            &["keys", "create", "--user", "a", "--expires-in", "soon"],
            "7d",
        ),
        (&["keys", "rotate", "key_1", "--overlap", "1"], "24h"),
        (
            &["keys", "create", "--user", "a", "--secret-only", "--json"],
            "--secret-only",
        ),
        (&["allow", "add", "--reason", "r"], "--cidr"),
        (
            &[
                "allow", "add", "--user", "a", "--tenant", "b", "--reason", "r",
            ],
            "--tenant",
        ),
        (&["allow", "add", "--user", "a"], "--reason"),
        (&["audit", "list", "--since", "yesterday"], "15m"),
        (&["usage", "--by", "week"], "minute"),
    ] {
        let said = office.run(args);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{args:?}");
        assert_words(&said.err, &[words]);
    }
    // A key where its id should be is not repeated.
    let said = office.run(&["keys", "show", "tw_abcdefgh"]);
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.contains("not its id") && !said.err.contains("abcdefgh"),
        "{}",
        said.err
    );
}

#[test]
fn every_shell_gets_its_completions() {
    let said = run(&["completions", "tcsh"]);
    assert_eq!((said.code, &*said.out), (Some(2), ""));
    assert_words(&said.err, &["bash", "zsh", "fish", "powershell", "elvish"]);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let said = run(&["completions", shell]);
        assert_eq!((said.code, &*said.err), (Some(0), ""));
        assert_words(&said.out, &["tollward", "tenants", "rotate", "token-file"]);
    }
    for command in [
        "tenants",
        "users",
        "keys",
        "allow",
        "audit",
        "usage",
        "completions",
    ] {
        assert_words(&run(&["--help"]).out, &[command]);
        let said = run(&[command, "--help"]);
        assert_eq!((said.code, &*said.err), (Some(0), ""));
        assert_words(&said.out, &["Usage: tollward "]);
    }
}
