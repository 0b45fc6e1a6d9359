//! `tollward check` against a running server, and `tollward serve` without a file.

use std::net::TcpListener;

use serde_json::Value;

use crate::process::{Process, Said, run, tollward};
use crate::served::{ANY_PORT, Served};

const CONFIG: &str = "
plans: { p: { rate_limit: { sustained: { rate: 1, window: minute }, burst: { capacity: 3 }, scope: user } } }
";

fn check(served: &Served, args: &[&str]) -> Said {
    let url = format!("http://{}", served.api);
    run(&[&["check", "--url", &url], args].concat())
}

#[test]
fn the_exit_code_is_the_answer() {
    let served = Served::of(CONFIG);
    let user = ["--user", "a", "--plan", "p"];
    let asking =
        |cost: &str, more: &[&str]| check(&served, &[&user[..], &["--cost", cost], more].concat());
    let said = asking("2", &["--peek"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert_eq!(said.out, "allowed, plan:p has 3 of 3 left\n");
    let said = asking("2", &[]);
    assert_eq!(said.code, Some(0));
    assert_eq!(said.out, "allowed, plan:p has 1 of 3 left\n");
    let said = asking("2", &[]);
    assert_eq!((said.code, &*said.err), (Some(1), ""));
    assert_eq!(
        said.out,
        "refused, reason limit, plan:p has 1 of 3 left, retry in 60000 ms\n"
    );
    let said = asking("4", &[]);
    assert_eq!((said.code, &*said.err), (Some(1), ""));
    assert!(said.out.contains("cost_exceeds_capacity"), "{}", said.out);
    let said = asking("2", &["--json"]);
    assert_eq!((said.code, &*said.err), (Some(1), ""));
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(answer["retry_after"], 60);
    assert_eq!(check(&served, &[]).out, "allowed\n");
}

#[test]
fn bad_input_is_neither_yes_nor_no() {
    let served = Served::of(CONFIG);
    for (args, word) in [
        (
            ["--plan", "gold"],
            "400 Bad Request: there is no plan \"gold\"",
        ),
        (["--path", "nowhere"], "a path begins with `/`"),
        (["--api-key", "guess"], "401 Unauthorized"),
    ] {
        let said = check(&served, &args);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{args:?}");
        assert!(said.err.contains(word), "{word}: {}", said.err);
        let said = check(&served, &[&args[..], &["--json"]].concat());
        assert_eq!(said.code, Some(2), "{args:?}");
        let problem: Value = serde_json::from_str(&said.out).unwrap();
        assert!(problem["detail"].is_string());
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let port = TcpListener::bind(ANY_PORT).unwrap().local_addr().unwrap();
    let url = format!("http://{port}");
    let said = run(&["check", "--url", &url]);
    assert_eq!((said.code, &*said.out), (Some(2), ""));
    assert!(
        said.err.contains(&format!("cannot reach {url}")),
        "{}",
        said.err
    );
    assert!(said.err.contains("tollward serve"), "{}", said.err);
    for url in ["https://127.0.0.1:1", "127.0.0.1:1", "ftp://a", "/v1/check"] {
        let said = run(&["check", "--url", url]);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{url}");
        assert!(said.err.contains(url), "{}", said.err);
    }
}

#[test]
fn a_server_that_is_something_else_is_recognised() {
    let served = Served::of(CONFIG);
    let url = format!("http://{}", served.admin);
    let said = run(&["check", "--url", &url]);
    assert_eq!((said.code, &*said.out), (Some(2), ""));
    assert!(said.err.contains("404"), "{}", said.err);
}

#[test]
fn the_server_can_be_named_by_the_environment() {
    let served = Served::of(CONFIG);
    let mut command = tollward();
    command
        .arg("check")
        .env("TOLLWARD_URL", format!("http://{}", served.api));
    let said = Said::new(&mut command);
    assert_eq!(
        (said.code, &*said.out),
        (Some(0), "allowed\n"),
        "{}",
        said.err
    );
}

#[test]
fn a_server_without_a_file_has_the_built_in_plans() {
    let process = Process::serve(&[]);
    let url = format!("http://{}", process.api);
    let args = ["check", "--url", &url, "--user", "a", "--path", "/v1/jobs"];
    let said = run(&args);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert_eq!(said.out, "allowed, plan:free has 97 of 100 left\n");
}
