//! Nodes that are started while their database is away.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use tollward_testkit::postgres::{PASSWORD, PostgresServer};

use crate::desk::TOKEN;
use crate::node::{CONFIG, Node, now};
use crate::process::{Said, arg, tollward};
use crate::served::Folder;

/// It gives up within this, and whoever started it can try again.
const PATIENCE: Duration = Duration::from_secs(20);

/// What `serve` says of a directory that it cannot have.
fn refused(url: &str) -> String {
    let folder = Folder::new();
    let file = folder.write("tollward.yaml", CONFIG);
    let mut command: Command = tollward();
    command.args(["serve", "--config", arg(&file)]);
    command.args(["--api", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.env("TOLLWARD_DIRECTORY", url);
    command.env("TOLLWARD_ADMIN_TOKEN", TOKEN);
    let start = now();
    let said = Said::new(command.stdin(Stdio::null()));
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert_eq!(said.code, Some(2), "{}", said.err);
    // No door was open, not for a moment.
    assert_eq!(said.out, "");
    assert!(!said.err.contains(PASSWORD), "{}", said.err);
    assert!(said.err.contains("directory"), "{}", said.err);
    said.err
}

/// It does not start without its keys: all callers would be refused, and that by a node that says it is ready. It
/// says what is missing, and where, and ends.
#[test]
fn a_node_without_its_database_does_not_start() {
    let postgres = PostgresServer::start();
    let url = postgres.database();
    let address = postgres.addr().to_string();

    postgres.kill();
    let said = refused(&url);
    assert!(said.contains(&address), "it does not say where: {said}");
    assert!(said.contains("refused"), "{said}");

    postgres.restart();
    let wrong = url.replace(PASSWORD, "another-password");
    let said = refused(&wrong);
    assert!(said.contains("password"), "{said}");
    assert!(!said.contains("another-password"), "{said}");
    let said = refused(&url.replace("/test0", "/nothing"));
    assert!(said.contains("nothing"), "{said}");

    postgres.stop();
    let hung = thread::spawn(move || refused(&url));
    let said = hung.join();
    postgres.cont();
    let said = said.unwrap();
    assert!(said.contains(&address), "it does not say where: {said}");

    // Started again, it is there.
    let url = postgres.url(postgres.addr(), "test0");
    let node = Node::start(CONFIG, &[("TOLLWARD_DIRECTORY", &url)]);
    assert_eq!(node.desk().shown("status")["directory"]["connected"], true);
}
