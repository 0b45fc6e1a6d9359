//! Thousands of requests that make no sense, and some that do: none of them hurts the server.

use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tollward_testkit::conformance::Dice;
use tollward_testkit::http::{Connection, Response};
use tollward_testkit::postgres::PostgresServer;

use crate::clash::PLANS;
use crate::desk::TOKEN;
use crate::node::Node;
use crate::served::{get, json};
use crate::words;

/// Names of things that were made, to ask for again.
const KNOWN: usize = 40;

/// What the document says of a method and a path.
struct Operation {
    method: String,
    path: String,
    queries: Vec<String>,
    body: Option<Value>,
}

fn operations(document: &Value) -> Vec<Operation> {
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let parameters = operation["parameters"].as_array();
            let queries = parameters.into_iter().flatten();
            let queries = queries.filter(|it| it["in"] == "query");
            let content = operation["requestBody"]["content"].as_object();
            let body = content.and_then(|it| it.values().next());
            operations.push(Operation {
                method: method.to_uppercase(),
                path: path.clone(),
                queries: queries
                    .map(|it| it["name"].as_str().unwrap().to_owned())
                    .collect(),
                body: body.map(|it| it["schema"].clone()),
            });
        }
    }
    operations
}

impl Operation {
    /// A request as bytes, and whether an answer is owed to it: not to one that is no HTTP.
    fn request(&self, document: &Value, dice: &mut Dice, known: &[String]) -> (Vec<u8>, bool) {
        let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "BREW"];
        let method = match dice.one_in(15) {
            true => dice.pick(&methods),
            false => self.method.as_str(),
        };
        let body = match &self.body {
            Some(schema) => self::body(document, schema, dice, known),
            None if dice.one_in(10) => words::value(dice),
            None => Vec::new(),
        };
        let mut head = format!(
            "{method} {} HTTP/1.1\r\nhost: h\r\n",
            self.target(dice, known)
        );
        head += &format!("content-length: {}\r\n", body.len());
        let mut request = head.into_bytes();
        let mut is_http = true;
        let mut header = |name: &str, value: &[u8]| {
            is_http &= !value.contains(&b'\0');
            request.extend_from_slice(name.as_bytes());
            request.extend_from_slice(b": ");
            request.extend_from_slice(value);
            request.extend_from_slice(b"\r\n");
        };
        if dice.one_in(40) {
            header("authorization", words::header(dice));
        } else {
            header("authorization", format!("Bearer {TOKEN}").as_bytes());
        }
        let if_match = if dice.one_in(4) {
            words::header(dice)
        } else {
            b"*"
        };
        header("if-match", if_match);
        for name in [
            "idempotency-key",
            "content-type",
            "accept",
            "x-forwarded-for",
        ] {
            if dice.one_in(4) {
                header(name, words::header(dice));
            }
        }
        if dice.one_in(100) {
            header("x-odd", b"a\0b");
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(&body);
        (request, is_http)
    }

    fn target(&self, dice: &mut Dice, known: &[String]) -> String {
        let mut target = self.path.replace("{id}", &words::name(dice, known));
        let mut mark = '?';
        for query in &self.queries {
            if dice.one_in(2) {
                let value = match dice.one_in(3) {
                    true => dice
                        .pick(&["1", "1000", "1001", "0", "day", "true", "10.0.0.1"])
                        .to_string(),
                    false => words::name(dice, known),
                };
                target += &format!("{mark}{query}={value}");
                mark = '&';
            }
        }
        if dice.one_in(20) {
            target += &format!("{mark}odd[]=%00&&=&limit");
        }
        target
    }
}

fn body(document: &Value, schema: &Value, dice: &mut Dice, known: &[String]) -> Vec<u8> {
    let mut body = words::like(document, schema, dice, known, 0);
    if dice.one_in(15) && !body.is_empty() {
        let at = usize::try_from(dice.below(body.len() as u64)).unwrap();
        match dice.below(3) {
            0 => body.truncate(at),
            1 => body[at] = u8::try_from(dice.below(256)).unwrap(),
            _ => body.insert(at, *dice.pick(b"\0\xff\"{}[],:\\")),
        }
    }
    body
}

/// Sends it over a connection that is kept as long as the server keeps it. It may close one behind any answer.
fn send(kept: &mut Option<Connection>, admin: SocketAddr, request: &[u8]) -> io::Result<Response> {
    let over = |mut connection: Connection| {
        connection.send(request)?;
        let response = connection.read(request.starts_with(b"HEAD "))?;
        Ok((connection, response))
    };
    let answered = match kept.take().map(over) {
        Some(Ok(answered)) => answered,
        Some(Err(_)) | None => Connection::open(admin).and_then(over)?,
    };
    let (connection, response) = answered;
    *kept = Some(connection);
    Ok(response)
}

/// Remembers what was made.
fn learn(response: &Response, dice: &mut Dice, known: &mut Vec<String>) {
    let made = serde_json::from_slice(&response.body).unwrap_or(Value::Null);
    let Some(id) = made["id"].as_str() else {
        return;
    };
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "_-.".contains(it);
    if !id.chars().all(is_plain) || id.len() > 128 {
        return;
    }
    if known.len() >= KNOWN {
        let one = usize::try_from(dice.below(known.len() as u64)).unwrap();
        known.swap_remove(one);
    }
    known.push(id.to_owned());
}

#[test]
fn no_request_is_answered_with_an_error_of_the_server() {
    survives(&Node::start(PLANS, &[]), 5, 5000);
}

/// What one database keeps, another may not.
#[test]
fn nor_is_any_with_postgresql() {
    let postgres = PostgresServer::start();
    let url = postgres.database();
    survives(
        &Node::start(PLANS, &[("TOLLWARD_DIRECTORY", &url)]),
        6,
        1500,
    );
}

fn survives(node: &Node, seed: u64, requests: u32) {
    let admin = node.process.admin;
    let document = json(&get(admin, "/admin/openapi.json"));
    let operations = operations(&document);
    assert!(operations.len() > 40);
    let mut dice = Dice::new(seed);
    let (mut kept, mut known) = (None, Vec::new());
    let mut answered = [0_u32; 6];
    for number in 0..requests {
        let operation = dice.pick(&operations);
        let (request, is_http) = operation.request(&document, &mut dice, &known);
        let shown = || String::from_utf8_lossy(&request[..request.len().min(2000)]).into_owned();
        match send(&mut kept, admin, &request) {
            Ok(response) => {
                let text = response.text();
                assert!(response.status < 500, "{number}: {}\n\n{text}", shown());
                answered[usize::from(response.status / 100)] += 1;
                learn(&response, &mut dice, &mut known);
            }
            Err(error) => assert!(!is_http, "{number}: {}\n\n{error}", shown()),
        }
    }
    println!("answers by their first digit: {answered:?}");
    // Not only nonsense: much was done, and much was refused.
    assert!(answered[2] > requests / 10 && answered[4] > requests / 10);

    let output = node.process.output();
    assert!(!output.contains("panicked"), "{output}");
    assert_eq!(get(admin, "/healthz").status, 200);
    let desk = node.desk();
    for target in [
        "tenants", "users", "keys", "allow", "boosts", "tokens", "audit",
    ] {
        let mut page = desk.shown(&format!("{target}?limit=1000"));
        while let Some(after) = page["next"].as_str() {
            page = desk.shown(&format!("{target}?limit=1000&after={after}"));
        }
    }
    assert_eq!(
        desk.shown("status")["directory"]["oddities"],
        Value::Array(Vec::new())
    );
}
