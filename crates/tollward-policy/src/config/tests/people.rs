//! Limits of tenants, and limits read alone.

use super::super::*;
use super::{FULL, assert_faults, parsed};

fn tenant_limit(fields: &str) -> String {
    format!("tenants:\n  acme: {{ rate_limit: {{ sustained: {{ rate: 10 }}, {fields} }} }}\n")
}

#[test]
fn tenants_of_a_full_file_have_limits() {
    let file = parsed(FULL);
    let acme = file.tenants[0].1.rate_limit.as_ref().unwrap();
    assert_eq!(acme.sharing.as_ref().unwrap().value, Sharing::Inherit);
    let budget = acme.budget.as_ref().unwrap();
    assert_eq!(budget.mode.as_ref().unwrap().value, BudgetMode::Shared);
    assert!(budget.total.is_none() && budget.overcommit_ratio.is_none());
    let partner = file.tenants[1].1.rate_limit.as_ref().unwrap();
    assert_eq!(partner.sharing.as_ref().unwrap().value, Sharing::Enforce);
    let budget = partner.budget.as_ref().unwrap();
    assert_eq!(budget.mode.as_ref().unwrap().value, BudgetMode::Allocated);
    assert_eq!(budget.total.as_ref().unwrap().value, 5000);
    assert_eq!(budget.overcommit_ratio.as_ref().unwrap().value, 1250);
    let expires_at = file.keys[0].expires_at.as_ref().unwrap();
    assert_eq!(expires_at.value, 1_798_761_600);
    assert!(file.keys[1].expires_at.is_none());
}

#[test]
fn ratios_are_exact_thousandths() {
    for (text, thousandths) in [
        ("1", 1000),
        ("1.0", 1000),
        ("1.2", 1200),
        ("1.001", 1001),
        ("1.999", 1999),
        ("2.000", 2000),
        ("2", 2000),
    ] {
        let file = parsed(&tenant_limit(&format!(
            "budget: {{ overcommit_ratio: {text} }}"
        )));
        let limit = file.tenants[0].1.rate_limit.as_ref().unwrap();
        let ratio = limit.budget.as_ref().unwrap().overcommit_ratio.as_ref();
        assert_eq!(ratio.unwrap().value, thousandths, "{text}");
    }
    let write = "write a number from 1 to 2 with at most three decimals";
    for (text, message) in [
        ("0.999", "is out of range"),
        ("2.001", "is out of range"),
        ("99999999999", "is out of range"),
        ("1.2000", "is not a decimal number"),
        ("120%", "is not a decimal number"),
        ("-1", "is not a decimal number"),
        ("1e0", "is not a decimal number"),
    ] {
        let fault = format!(
            "2:78: tenants.acme.rate_limit.budget.overcommit_ratio: `{text}` {message}; {write}"
        );
        let text = tenant_limit(&format!("budget: {{ overcommit_ratio: {text} }}"));
        assert_faults(&text, &[&fault]);
    }
}

#[test]
fn faults_of_a_tenants_limit_have_places_and_remedies() {
    let at = "tenants.acme.rate_limit";
    let table = [
        (
            "sharing: inherits",
            format!("2:59: {at}.sharing: unknown word `inherits`; did you mean `inherit`?"),
        ),
        (
            "sharing: all",
            format!(
                "2:59: {at}.sharing: unknown word `all`; write `private`, `inherit` or `enforce`"
            ),
        ),
        (
            "budget: shared",
            format!("2:58: {at}.budget: expected a mapping, found a single value"),
        ),
        (
            "budget: { mode: alocated }",
            format!("2:66: {at}.budget.mode: unknown word `alocated`; did you mean `allocated`?"),
        ),
        (
            "budget: { total: 0 }",
            format!(
                "2:67: {at}.budget.total: `0` is out of range; write a whole number from 1 to 4294967295"
            ),
        ),
        (
            "budget: { ratio: 1 }",
            format!(
                "2:60: {at}.budget.ratio: unknown field `ratio`; the fields here are mode, total, overcommit_ratio"
            ),
        ),
        (
            "budget: ~",
            format!("2:58: {at}.budget: has no value; remove the line or give one"),
        ),
        (
            "sync_interval: 1s",
            format!(
                "2:50: {at}.sync_interval: `sync_interval` is not supported by this version of Tollward; remove it"
            ),
        ),
    ];
    for (fields, fault) in table {
        assert_faults(&tenant_limit(fields), &[&fault]);
    }
    assert_faults(
        "tenants: { acme: { rate_limits: {} } }",
        &[
            "1:20: tenants.acme.rate_limits: unknown field `rate_limits`; a tenant has one limit: write it as `rate_limit`",
        ],
    );
}

fn faults_of(text: &[u8]) -> Vec<String> {
    let faults = read_limit(text).unwrap_err();
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn one_limit_is_read_alone() {
    let yaml = "sustained:\n  rate: 5\n  window: minute\nsharing: enforce\n";
    let json = r#"{"sustained": {"rate": 5, "window": "minute"}, "sharing": "enforce"}"#;
    for text in [yaml, json] {
        let limit = read_limit(text.as_bytes()).unwrap();
        assert_eq!(limit.sustained.rate.value, 5);
        assert_eq!(limit.sustained.window.unwrap().value, 60);
        assert_eq!(limit.sharing.unwrap().value, Sharing::Enforce);
        assert_eq!(&*limit.place.path, "rate_limit");
        assert_eq!(
            &*limit.sustained.rate.place.path,
            "rate_limit.sustained.rate"
        );
    }
}

#[test]
fn faults_of_one_limit_begin_with_its_name() {
    let missing =
        "rate_limit: the field `sustained` is missing; add `sustained`: a mapping with `rate`";
    assert_eq!(faults_of(b""), [format!("1:1: {missing}")]);
    assert_eq!(faults_of(b"{}"), [format!("1:1: {missing}")]);
    assert_eq!(
        faults_of(b"null"),
        ["1:1: rate_limit: has no value; remove the line or give one"]
    );
    assert_eq!(
        faults_of(b"[]"),
        ["1:1: rate_limit: expected a mapping with `sustained`, found a list"]
    );
    assert_eq!(
        faults_of(b"{\"sustained\": {\"rate\": 1.5}, \"burts\": {}}"),
        [
            "1:24: rate_limit.sustained.rate: `1.5` is not a whole number; write a whole number from 1 to 4294967295",
            "1:30: rate_limit.burts: unknown field `burts`; did you mean `burst`?",
        ]
    );
    assert_eq!(
        faults_of(b"sustained: { rate: !!int 1 }"),
        ["1:20: rate_limit: YAML tags (`!…`) are not supported; remove the tag"]
    );
    assert_eq!(
        faults_of(b"{\xFF}"),
        ["1:2: rate_limit: the text is not UTF-8; save the file in the encoding UTF-8"]
    );
    let broken = faults_of(b"{\"sustained\": ");
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].contains(": rate_limit: "), "{broken:?}");
}
