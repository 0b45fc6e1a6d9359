//! The language, its faults, hostile texts and the schema.

mod date_time;
mod directory_url;
mod faults;
mod gateway;
mod hostile;
mod http_url;
mod language;
mod people;
mod records;
mod redis_url;
mod schema;
mod values;
mod written;

use super::{File, parse};

/// All of the language, as far as this version has it.
const FULL: &str = include_str!("tests/full.yaml");

fn parsed(text: &str) -> File {
    match parse(text) {
        Ok(file) => file,
        Err(_) => panic!("{:#?}\nin\n{text}", shown(text)),
    }
}

/// The faults of a text, as they are shown.
fn shown(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

/// That a text has these faults and no others.
#[track_caller]
fn assert_faults(text: &str, expected: &[&str]) {
    assert_eq!(shown(text), expected, "in\n{text}");
}
