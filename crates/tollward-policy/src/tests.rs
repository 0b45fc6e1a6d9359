//! Paths, routes, scopes, charges, faults and explanations of whole policies.

mod access;
mod charges;
mod cors;
mod explain;
mod faults;
mod forward;
mod gateway;
mod identifier;
mod identity;
mod owned_key;
mod path_properties;
mod paths;
mod people;
mod plans;
mod route_properties;
mod routes;
mod scopes;
mod servers;
mod store;
mod strategies;
mod tenants;
mod upstreams;
mod warnings;

use sha2::{Digest, Sha256};

use crate::scope::hex;
use crate::{Facts, KeyText, Policy, Rejection, compile};

fn policy(text: &str) -> Policy {
    match compile(text.as_bytes()) {
        Ok(compiled) => compiled.policy,
        Err(_) => panic!("{:#?}\nin\n{text}", faults_of(text)),
    }
}

/// The faults of a text, as they are shown.
fn faults_of(text: &str) -> Vec<String> {
    match compile(text.as_bytes()) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

/// That a text has these faults and no others.
#[track_caller]
fn assert_faults(text: &str, expected: &[&str]) {
    assert_eq!(faults_of(text), expected, "in\n{text}");
}

/// The route that is matched, by its canonical pattern.
fn route_of<'p>(policy: &'p Policy, facts: &Facts<'p>) -> Result<Option<&'p str>, Rejection> {
    let request = policy.request(facts)?;
    Ok(request.route.map(|route| &*route.name))
}

/// As [`route_of`], for a path alone.
fn route_of_path<'p>(policy: &'p Policy, path: &'p str) -> Result<Option<&'p str>, Rejection> {
    let facts = Facts {
        path: Some(path),
        method: Some("GET"),
        ..Facts::default()
    };
    route_of(policy, &facts)
}

/// The charges as `NAME KEY COST`, the key without its tag, a shadow one with `shadow` behind it.
#[track_caller]
fn charged<'p>(policy: &'p Policy, facts: &Facts<'p>) -> Vec<String> {
    let charges = policy.request(facts).unwrap().charges();
    let texts = charges.iter().map(|(id, limit, charge)| {
        // Those of tenants have no place there.
        if let Some(of_rules) = policy.limits().get(id) {
            assert_eq!(of_rules.name, limit.name);
        }
        assert_eq!(charge.name, &*limit.name);
        let shadow = if charge.shadow { " shadow" } else { "" };
        let key = KeyText(charge.key).to_string();
        let (_, text) = tagged(&key);
        format!("{} {text} {}{shadow}", charge.name, charge.cost)
    });
    texts.collect()
}

/// The tag of a bucket's name, and its text.
#[track_caller]
fn tagged(name: &str) -> (&str, &str) {
    let parts = name.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    let (tag, text) = parts.unwrap();
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    assert!(tag.len() == 5 && tag.bytes().all(is_digit), "{name}");
    (tag, text)
}

/// A key's hash as the file has it.
fn sha256(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}
