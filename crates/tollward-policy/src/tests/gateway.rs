//! What the gateway is started with.

use std::time::Duration;

use super::{assert_faults, faults_of};
use crate::{AccessLog, GatewaySettings, ServerTls, Settings, compile};

fn settings(text: &str) -> Settings {
    match compile(text.as_bytes()) {
        Ok(compiled) => compiled.settings,
        Err(_) => panic!("{:#?}\nin\n{text}", faults_of(text)),
    }
}

#[test]
fn what_holds_unless_the_file_says() {
    let expected = GatewaySettings {
        workers: 0,
        header_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(60),
        max_connections: 10_000,
        max_header_bytes: 65_536,
        max_body: None,
        access_log: AccessLog::Off,
        tls: None,
    };
    for text in ["", "gateway: {}", "gateway: { access_log: off }"] {
        let settings = settings(text);
        assert_eq!(settings.gateway, expected);
        assert!(
            settings
                .listen
                .is_none_or(|listen| listen.gateway.is_none())
        );
    }
    assert_eq!(GatewaySettings::default(), expected);
}

#[test]
fn what_the_file_says() {
    let settings = settings(
        "
listen: { gateway: 127.0.0.1:8080 }
upstreams: { app: { url: http://127.0.0.1:9000 } }
gateway:
  workers: 3
  header_timeout: 1s
  idle_timeout: 2m
  max_connections: 7
  max_header_bytes: 8192
  max_body: 5000000000
  access_log: logs/access.log
  tls: { cert: a.pem, key: a.key }
",
    );
    let listen = settings.listen.unwrap();
    assert_eq!(listen.gateway, Some(([127, 0, 0, 1], 8080).into()));
    assert_eq!((listen.api, listen.admin), (None, None));
    assert_eq!(
        settings.gateway,
        GatewaySettings {
            workers: 3,
            header_timeout: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(120),
            max_connections: 7,
            max_header_bytes: 8192,
            max_body: Some(5_000_000_000),
            access_log: AccessLog::File("logs/access.log".into()),
            tls: Some(ServerTls {
                cert: "a.pem".into(),
                key: "a.key".into(),
            }),
        }
    );
}

#[test]
fn a_gateway_leads_somewhere() {
    let nowhere = "1:20: listen.gateway: a gateway that has nowhere to send a request; add `upstreams`, and name one in `routes`; or remove this";
    assert_faults("listen: { gateway: 127.0.0.1:8080 }", &[nowhere]);
    assert_faults(
        "listen: { gateway: 127.0.0.1:8080 }\nupstreams: {}",
        &[nowhere],
    );
    // Upstreams are there, but broken: they are not missed as well.
    assert_faults(
        "listen: { gateway: 127.0.0.1:8080 }\nupstreams: { a: { url: a } }",
        &["2:24: upstreams.a.url: not a URL; write for example `http://127.0.0.1:9000`"],
    );
    assert_faults(
        "listen: { gateway: 127.0.0.1:8080 }\nupstreams: []",
        &["2:12: upstreams: expected a mapping, found a list"],
    );
}

#[test]
fn jitter_is_part_of_answers() {
    let jitter = |text: &str| compile(text.as_bytes()).unwrap().policy.response().jitter;
    assert_eq!(jitter(""), Duration::ZERO);
    assert_eq!(jitter("response: { jitter: 2s }"), Duration::from_secs(2));
}
