//! The house rules that no other tool knows.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::{cargo, program, root};

/// Which of our crates a crate may use. An edge that is not here points the wrong way.
const EDGES: &[(&str, &[&str])] = &[
    ("tollward-core", &[]),
    ("tollward-policy", &["tollward-core"]),
    ("tollward-store", &["tollward-core"]),
    (
        "tollward-redis",
        &["tollward-core", "tollward-policy", "tollward-store"],
    ),
    (
        "tollward-engine",
        &["tollward-core", "tollward-policy", "tollward-store"],
    ),
    ("tollward-http", &["tollward-policy", "tollward-engine"]),
    (
        "tollward-tower",
        &[
            "tollward-core",
            "tollward-policy",
            "tollward-store",
            "tollward-engine",
            "tollward-http",
        ],
    ),
    (
        "tollward-gateway",
        &[
            "tollward-core",
            "tollward-policy",
            "tollward-engine",
            "tollward-http",
            "tollward-tower",
        ],
    ),
    (
        "tollward-directory",
        &["tollward-core", "tollward-policy", "tollward-engine"],
    ),
    (
        "tollward-server",
        &[
            "tollward-core",
            "tollward-policy",
            "tollward-store",
            "tollward-redis",
            "tollward-engine",
            "tollward-http",
            "tollward-tower",
            "tollward-gateway",
            "tollward-directory",
        ],
    ),
    (
        "tollward-testkit",
        &[
            "tollward-core",
            "tollward-policy",
            "tollward-store",
            "tollward-engine",
        ],
    ),
    ("xtask", &[]),
];

/// A file longer than this is more than one thing.
const MAX_LINES: usize = 600;

/// What must not be left in the code. Split, so that this file does not find itself.
const LEFTOVERS: &[(&str, &str)] = &[
    (concat!("todo", "!("), "finish it"),
    (concat!("unimplemented", "!("), "finish it"),
    (concat!("dbg", "!("), "remove it"),
    (concat!("FIX", "ME"), "fix it"),
    (concat!("XX", "X"), "fix it"),
    (concat!("#[ign", "ore"), "a test runs or is removed"),
];

/// American spellings of words that we write the British way.
const SPELLINGS: &[(&str, &str)] = &[
    (concat!("behav", "ior"), "behaviour"),
    (concat!("col", "or "), "colour"),
    (concat!("normal", "ize"), "normalise"),
    (concat!("initial", "ize"), "initialise"),
    (concat!("recogn", "ize"), "recognise"),
];

pub(crate) fn tidy() -> Result<()> {
    let mut faults = Vec::new();
    edges(&mut faults)?;
    for path in tracked()? {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else {
            continue;
        };
        file(Path::new(&path), &text, &mut faults);
    }
    for fault in &faults {
        println!("{fault}");
    }
    ensure!(faults.is_empty(), "{} untidy places", faults.len());
    println!("tidy");
    Ok(())
}

/// Dependencies point one way, and the core has none at all.
fn edges(faults: &mut Vec<String>) -> Result<()> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps"]).output()?;
    let metadata: Value = serde_json::from_slice(&metadata)?;
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    for package in metadata["packages"].as_array().context("no packages")? {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(allowed) = allowed.get(name) else {
            faults.push(format!(
                "{name}: say in xtask/src/tidy.rs what it may depend on"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let on = dependency["name"].as_str().unwrap_or_default();
            let is_ours = on.starts_with("tollward-");
            // Tests may use what they like.
            if dependency["kind"] == "dev" {
                continue;
            }
            if is_ours && !allowed.contains(&on) {
                faults.push(format!(
                    "{name} depends on {on}, which points the wrong way"
                ));
            }
            if name == "tollward-core" {
                faults.push(format!(
                    "{name} depends on {on}: the core depends on nothing"
                ));
            }
        }
    }
    Ok(())
}

/// Files that git knows or would add.
fn tracked() -> Result<Vec<String>> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let output = program("git", &list).output()?;
    let text = String::from_utf8(output)?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn file(path: &Path, text: &str, faults: &mut Vec<String>) {
    let shown = path.display();
    let kind = path.extension().and_then(|kind| kind.to_str());
    if !matches!(kind, Some("rs" | "md" | "yaml" | "toml")) {
        return;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        faults.push(format!("{shown}: the last line does not end"));
    }
    if kind == Some("rs") && text.lines().count() > MAX_LINES {
        faults.push(format!(
            "{shown}: more than {MAX_LINES} lines: is it one thing?"
        ));
    }
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        if line.ends_with([' ', '\t']) {
            faults.push(format!("{shown}:{number}: space at the end of the line"));
        }
        let code = kind == Some("rs");
        for (leftover, remedy) in LEFTOVERS.iter().filter(|_| code) {
            if line.contains(leftover) {
                faults.push(format!("{shown}:{number}: `{leftover}`: {remedy}"));
            }
        }
        for (american, british) in SPELLINGS {
            if line.contains(american) {
                faults.push(format!("{shown}:{number}: we write `{british}`"));
            }
        }
    }
}
