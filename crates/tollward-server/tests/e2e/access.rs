//! Doors that strangers could reach need a lock.

use std::net::SocketAddr;

use serde_json::json;
use tokio::runtime::Runtime;
use tollward_server::{Options, Server, Source};

use crate::process::{arg, run, tollward};
use crate::served::{ANY_PORT, Folder, Served};

/// Why a server does not start; none if it does.
fn refusal(change: impl FnOnce(&mut Options)) -> Option<String> {
    let mut options = Options::new(Source::BuiltIn);
    (options.api, options.admin) = (Some(ANY_PORT), Some(ANY_PORT));
    change(&mut options);
    let runtime = Runtime::new().unwrap();
    let started = runtime.block_on(Server::start(options));
    started.err().map(|error| format!("{error:#}"))
}

const OPEN: [&str; 3] = ["0.0.0.0:0", "[::]:0", "[::ffff:0.0.0.0]:0"];

#[test]
fn a_decision_api_open_to_all_does_not_start() {
    for address in OPEN {
        let address: SocketAddr = address.parse().unwrap();
        for token in [None, Some(String::new())] {
            let why = refusal(|options| {
                options.api = Some(address);
                options.api_token = token;
                options.admin_token = Some("other".into());
            });
            let why = why.unwrap();
            for remedy in ["TOLLWARD_API_TOKEN", "listen.api_peers", "127.0.0.1"] {
                assert!(why.contains(remedy), "{why}");
            }
        }
    }
}

#[test]
fn an_admin_door_open_to_all_does_not_start() {
    for address in OPEN {
        let address: SocketAddr = address.parse().unwrap();
        for token in [None, Some(String::new())] {
            let why = refusal(|options| {
                options.admin = Some(address);
                options.admin_token = token;
                options.api_token = Some("other".into());
            });
            let why = why.unwrap();
            for remedy in ["TOLLWARD_ADMIN_TOKEN", "127.0.0.1"] {
                assert!(why.contains(remedy), "{why}");
            }
        }
    }
}

#[test]
fn loopback_needs_no_lock() {
    assert_eq!(refusal(|_| {}), None);
    let mapped = "[::ffff:127.0.0.1]:0".parse().unwrap();
    assert_eq!(refusal(|options| options.api = Some(mapped)), None);
}

#[test]
fn a_locked_door_is_open_to_this_machine() {
    let served = Served::with("listen: { api_peers: [10.0.0.0/8] }\n", |options| {
        options.api_token = Some("s3cret".into());
    });
    let mut client = served.client();
    for headers in [
        &[][..],
        &[("authorization", "Bearer s3cret")],
        &[("authorization", "Bearer wrong")],
    ] {
        let answer = client.0.request("POST", "/v1/check", headers, b"{}");
        assert_eq!(answer.unwrap().status, 200, "{headers:?}");
    }
    assert_eq!(client.check(json!({})).0, 200);
}

#[test]
fn the_command_line_says_how_to_lock_a_door() {
    for (flag, remedy) in [
        ("--api", "TOLLWARD_API_TOKEN"),
        ("--admin", "TOLLWARD_ADMIN_TOKEN"),
    ] {
        let said = run(&["serve", flag, "0.0.0.0:0"]);
        assert_eq!(said.code, Some(2), "{}", said.err);
        assert!(said.err.contains(remedy), "{}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
        let mut command = tollward();
        command.args(["serve", flag, "0.0.0.0:0"]).env(remedy, "");
        let said = crate::process::Said::new(&mut command);
        assert!(
            said.err.contains(remedy),
            "an empty token is none: {}",
            said.err
        );
    }
}

#[test]
fn a_file_without_doors_does_not_start() {
    let folder = Folder::new();
    let config = folder.write("tollward.yaml", "listen: { max_connections: 5 }\n");
    let said = run(&["serve", "--config", arg(&config)]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("no door is open"), "{}", said.err);
}

#[test]
fn a_door_that_is_not_named_is_closed() {
    let folder = Folder::new();
    let config = folder.write("tollward.yaml", "listen: { admin: '127.0.0.1:0' }\n");
    let runtime = Runtime::new().unwrap();
    let start = Server::start(Options::new(Source::File(config)));
    let server = runtime.block_on(start).unwrap();
    assert!(server.api().is_none() && server.admin().is_some());
    let stop = server.stop();
    let running = runtime.spawn(server.run());
    stop.stop();
    runtime.block_on(running).unwrap();
}

#[test]
fn an_address_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind(ANY_PORT).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (flag, other) in [("--api", "--admin"), ("--admin", "--api")] {
        let said = run(&["serve", flag, &address, other, "127.0.0.1:0"]);
        assert_eq!(said.code, Some(2));
        assert!(
            said.err.contains(&address) && said.err.contains(flag),
            "{}",
            said.err
        );
    }
}
