//! The admin API as schemathesis tries it, by what its document promises.

use std::process::Command;

use tollward_testkit::tools::SCHEMATHESIS;

use crate::clash::PLANS;
use crate::desk::TOKEN;
use crate::node::Node;
use crate::served::Folder;

const CHECKS: &str = "not_a_server_error,status_code_conformance,response_schema_conformance,content_type_conformance";

#[test]
fn the_document_is_true_of_every_answer() {
    let Some(program) = SCHEMATHESIS.find() else {
        println!("left out: there is no {}", SCHEMATHESIS.name);
        return;
    };
    let node = Node::start(PLANS, &[]);
    let folder = Folder::new();
    let mut command = Command::new(&program);
    // A copy in Python looks for the rest of itself above the folder that it is in.
    if let Some(beside) = program.ancestors().nth(2) {
        command.env("PYTHONPATH", beside);
    }
    // It leaves things where it is started.
    command.current_dir(&folder.0);
    command.arg("run");
    command.arg(format!("http://{}/admin/openapi.json", node.process.admin));
    command.args(["--header", &format!("Authorization: Bearer {TOKEN}")]);
    command.args(["--checks", CHECKS]);
    command.args(["--phases", "examples,coverage,fuzzing"]);
    command.args(["--max-examples", "15", "--seed", "5", "--workers", "2"]);
    command.arg("--generation-deterministic");
    command.args(["--request-timeout", "60", "--no-color", "--warnings", "off"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaint}");
    // It did something.
    let events = node.desk().shown("audit?event=tenant_created");
    assert_ne!(events["items"][0], serde_json::Value::Null, "{said}");
    let log = node.process.output();
    assert!(!log.contains("panicked"), "{log}");
}
