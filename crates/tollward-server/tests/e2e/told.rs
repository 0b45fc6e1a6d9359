//! What an operator is told without having to ask: warnings, what a restart forgets, and entries that do not work.

use std::fs;

use serde_json::{Value, json};

use crate::cli_admin::{Office, TOKEN, assert_words, run_at};
use crate::process::{Process, arg, run, tollward};
use crate::served::{Client, Folder, example, get, until};

const LIKELY_MISTAKES: &str = "
tenants: { system: { rate_limit: { sustained: { rate: 1 } } } }
";

#[test]
fn check_config_warns_and_strictly_fails() {
    let folder = Folder::new();
    let file = folder.write("warned.yaml", LIKELY_MISTAKES);
    let said = run(&["check-config", arg(&file)]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert_words(
        &said.out,
        &[
            "warned.yaml:2:34: warning: tenants.system.rate_limit: ",
            "binds nobody",
            "sharing: enforce",
            "warned.yaml: valid, 1 limit, 1 warning",
        ],
    );
    let strict = run(&["check-config", "--strict", arg(&file)]);
    assert_eq!((strict.code, strict.out), (Some(1), said.out));
    let fine = folder.write("fine.yaml", "tenants: { acme: {} }");
    let said = run(&["check-config", "--strict", arg(&fine)]);
    assert_eq!(said.code, Some(0));
    assert!(said.out.ends_with("fine.yaml: valid, 0 limits\n"));
}

#[test]
fn no_example_has_a_warning() {
    let folder = example("ai-api.yaml");
    let folder = folder.parent().unwrap();
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let said = run(&["check-config", "--strict", arg(&path)]);
        assert_eq!(said.code, Some(0), "{path:?}: {}", said.out);
        count += 1;
    }
    assert!(count >= 5, "{count}");
}

#[test]
fn a_key_of_a_mistyped_tenant_is_a_fault() {
    let folder = Folder::new();
    let text = format!(
        "tenants: {{ acme: {{}} }}\nkeys: [ {{ sha256: {}, tenant: acmee }} ]\nallow: [ {{ tenant: amce }} ]\n",
        "ab".repeat(32)
    );
    let file = folder.write("typo.yaml", &text);
    let said = run(&["check-config", arg(&file)]);
    assert_eq!(said.code, Some(1));
    assert_words(
        &said.out,
        &[
            "typo.yaml:2:93: keys[0].tenant: there is no tenant `acmee`; did you mean `acme`?",
            "typo.yaml:3:20: allow[0].tenant: there is no tenant `amce`; did you mean `acme`?",
        ],
    );
}

fn config(process: &Process) -> Value {
    let mut client = Client::new(process.admin);
    let token = format!("Bearer {TOKEN}");
    let headers = [("authorization", token.as_str())];
    let answer = client.0.request("GET", "/admin/v1/config", &headers, b"");
    serde_json::from_slice(&answer.unwrap().body).unwrap()
}

#[test]
fn warnings_are_logged_and_shown_at_the_start_and_after_a_reload() {
    let office = Office::of(LIKELY_MISTAKES);
    let process = &office.process;
    assert_words(&process.output(), &["WARN", "tenants.system.rate_limit"]);
    let shown = config(process);
    assert_eq!(shown["warnings"].as_array().unwrap().len(), 1, "{shown}");
    let warning = &shown["warnings"][0];
    assert_eq!(warning["place"], "tenants.system.rate_limit");
    assert_eq!(warning["line"], 2);
    assert!(!warning["hint"].as_str().unwrap().is_empty());
    let file = office.folder.0.join("tollward.yaml");
    fs::write(&file, "tenants: { acme: {} }").unwrap();
    process.signal("HUP");
    until("the warning is gone", || {
        config(process)["warnings"] == json!([])
    });
    fs::write(&file, LIKELY_MISTAKES).unwrap();
    process.signal("HUP");
    until("the warning is back", || {
        config(process)["warnings"].as_array().unwrap().len() == 1
    });
    let told = process.output();
    assert_eq!(
        told.matches("tenants.system.rate_limit").count(),
        2,
        "{told}"
    );
}

/// Starts a server with these flags besides its token.
fn serve(flags: &[&str]) -> Process {
    let mut command = tollward();
    command.arg("serve").args(flags);
    Process::start(command.env("TOLLWARD_ADMIN_TOKEN", TOKEN))
}

#[test]
fn a_start_says_what_a_restart_forgets() {
    let process = serve(&[]);
    assert_words(
        &process.output(),
        &[
            "  counters      in memory: a restart makes every bucket full again",
            "  directory     in memory: a restart forgets",
            "directory.url",
        ],
    );
    for create in [
        &["tenants", "create", "acme"][..],
        &["keys", "create", "--tenant", "acme"],
        &["users", "create", "bob"],
        &["deny", "add", "--user", "eve", "--reason", "abuse"],
    ] {
        let said = run_at(process.admin, create);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert_words(
            &said.err,
            &["warning: ", "gone when the server stops", "--directory"],
        );
    }
    // Changes of what is there say it no more.
    let said = run_at(process.admin, &["tenants", "suspend", "acme"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));

    let folder = Folder::new();
    let url = format!("sqlite:{}/directory.db", folder.0.display());
    let process = serve(&["--directory", &url]);
    assert_words(&process.output(), &["  directory     sqlite:"]);
    let said = run_at(process.admin, &["tenants", "create", "acme"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
}

/// Nobody is there at the address: what is told does not depend on it.
#[test]
fn shared_counters_beside_a_directory_of_one_node_are_warned_of() {
    const REDIS: &str = "redis://127.0.0.1:1";
    const WORDS: &str = "counters are shared in Redis, but";
    let process = serve(&["--redis", REDIS]);
    let told = process.output();
    assert_words(
        &told,
        &[WORDS, "  counters      in Redis, redis://127.0.0.1:1"],
    );
    assert_eq!(config(&process)["warnings"].as_array().unwrap().len(), 1);
    let process = serve(&["--redis", REDIS, "--directory", "sqlite::memory:"]);
    assert!(!process.output().contains(WORDS), "{}", process.output());
    assert_eq!(config(&process)["warnings"], json!([]));
}

/// The directory names a plan, a tenant and a parent that the file no longer has.
#[test]
fn misconfigured_entries_are_named_wherever_an_operator_looks() {
    let folder = Folder::new();
    let directory = format!("sqlite:{}/directory.db", folder.0.display());
    let whole = "
plans: { pro: { rate_limit: { sustained: { rate: 9 } } } }
tenants: { partner: {}, acme: {} }
";
    let file = folder.write("tollward.yaml", whole);
    let flags = ["--config", arg(&file), "--directory", &directory];
    let mut process = serve(&flags);
    let page = |process: &Process, path: &str| get(process.admin, path).text();
    assert_eq!(page(&process, "/readyz"), "ready\n");
    let mut secrets = Vec::new();
    for create in [
        &["tenants", "create", "child", "--parent", "partner"][..],
        &["users", "create", "bob", "--tenant", "acme"],
        &["keys", "create", "--tenant", "child", "--secret-only"],
        &[
            "keys",
            "create",
            "--user",
            "ann",
            "--plan",
            "pro",
            "--secret-only",
        ],
        &["keys", "create", "--tenant", "acme", "--secret-only"],
    ] {
        let said = run_at(process.admin, create);
        assert_eq!(said.code, Some(0), "{}", said.err);
        if create[0] == "keys" {
            secrets.push(said.out.trim().to_owned());
        }
    }
    // A reload that would do it is refused.
    fs::write(&file, "{}").unwrap();
    process.signal("HUP");
    until("the file is refused", || {
        config(&process)["last_error"].is_object()
    });
    let why = config(&process)["last_error"]["message"].to_string();
    assert_words(&why, &["`partner`", "`acme`", "`pro`"]);
    process.signal("TERM");
    assert_eq!(process.wait(), Some(0));

    let process = serve(&flags);
    for (told, what) in [
        (page(&process, "/readyz"), "/readyz"),
        (config(&process)["clashes"].to_string(), "config"),
        (process.output(), "log"),
    ] {
        for words in ["`partner`", "`acme`", "`pro`", "misconfigured"] {
            assert!(told.contains(words), "{words} in {what}: {told}");
        }
    }
    let metrics = page(&process, "/metrics");
    for kind in ["missing_plan", "missing_tenant", "missing_parent"] {
        let line = format!("tollward_config_clashes{{kind=\"{kind}\"}} 1");
        assert!(metrics.contains(&line), "{line}");
    }
    for secret in &secrets {
        let (status, answer) = Client::new(process.api).check(json!({ "api_key": secret }));
        assert_eq!(status, 503, "{answer}");
        assert_eq!(answer["reason"], "misconfigured", "{answer}");
    }
    let (status, answer) = Client::new(process.api).check(json!({ "user": "bob" }));
    assert_eq!((status, &answer["reason"]), (503, &json!("misconfigured")));
    // Once the file is whole again, all is well, and said to be.
    fs::write(&file, whole).unwrap();
    until("the entries work", || {
        page(&process, "/readyz") == "ready\n"
    });
    for secret in &secrets {
        assert_eq!(
            Client::new(process.api)
                .check(json!({ "api_key": secret }))
                .0,
            200
        );
    }
}
