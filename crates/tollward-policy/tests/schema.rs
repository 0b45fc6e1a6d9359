//! The published schema is the one the parser gives.

#[test]
fn the_published_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.schema.json");
    let published = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        published == tollward_policy::config::json_schema(),
        "docs/config.schema.json is not current: run `cargo xtask schema`"
    );
}
