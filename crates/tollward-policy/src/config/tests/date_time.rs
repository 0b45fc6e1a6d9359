//! Points in time, sound and not.

use proptest::prelude::*;

use super::{assert_faults, parsed};

const HASH: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

fn key(expires_at: &str) -> String {
    format!("keys:\n- sha256: {HASH}\n  tenant: t\n  expires_at: {expires_at}\n")
}

fn seconds(text: &str) -> u64 {
    let file = parsed(&key(text));
    file.keys[0].expires_at.as_ref().unwrap().value
}

#[test]
fn points_in_time_are_unix_seconds() {
    let table = [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.999999999999Z", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00-23:59", 86_340),
        ("1972-02-29T00:00:00Z", 68_169_600),
        ("2000-02-29T12:34:56Z", 951_827_696),
        ("2000-03-01T00:00:00Z", 951_868_800),
        ("2027-01-01T00:00:00Z", 1_798_761_600),
        ("2027-01-01t00:00:00z", 1_798_761_600),
        ("\"2027-01-01T00:00:00Z\"", 1_798_761_600),
        ("2027-01-01T05:30:00+05:30", 1_798_761_600),
        ("2026-12-31T16:00:00-08:00", 1_798_761_600),
        ("2027-01-01T00:00:00-00:00", 1_798_761_600),
        ("2100-03-01T00:00:00Z", 4_107_542_400),
        ("9999-12-31T23:59:59.9Z", 253_402_300_799),
    ];
    for (text, expected) in table {
        assert_eq!(seconds(text), expected, "{text}");
    }
}

#[test]
fn faults_say_what_to_write() {
    let example = "write a date with a time and an offset, such as `2027-01-01T00:00:00Z`";
    let range = "is out of range; write `1970-01-01T00:00:00Z` to `9999-12-31T23:59:59Z`";
    let table = [
        (
            "2027-01-01",
            "is a date without a time; write `2027-01-01T00:00:00Z`",
        ),
        (
            "2027-01-01T00:00:00",
            "has no offset; write `2027-01-01T00:00:00Z` if it is in UTC",
        ),
        (
            "2027-02-29T00:00:00Z",
            &format!("has a day that no calendar has; {example}"),
        ),
        (
            "2100-02-29T00:00:00Z",
            &format!("has a day that no calendar has; {example}"),
        ),
        (
            "2027-04-31",
            &format!("has a day that no calendar has; {example}"),
        ),
        (
            "2027-13-01T00:00:00Z",
            &format!("has a day that no calendar has; {example}"),
        ),
        (
            "2027-00-01T00:00:00Z",
            &format!("has a day that no calendar has; {example}"),
        ),
        (
            "2027-01-00T00:00:00Z",
            &format!("has a day that no calendar has; {example}"),
        ),
        (
            "2027-01-01T24:00:00Z",
            "has a time that no clock shows; write `00:00:00` to `23:59:59`",
        ),
        (
            "2027-01-01T00:60:00Z",
            "has a time that no clock shows; write `00:00:00` to `23:59:59`",
        ),
        (
            "2016-12-31T23:59:60Z",
            "has a time that no clock shows; write `00:00:00` to `23:59:59`",
        ),
        (
            "2027-01-01T00:00:00+24:00",
            "has an offset that no clock has; write `Z`, or `+00:00` to `+23:59` with `+` or `-`",
        ),
        ("1969-12-31T23:59:59Z", range),
        ("1969-12-31T23:59:59-01:00", range),
        ("1970-01-01T00:00:00+00:01", range),
        ("9999-12-31T23:59:59-00:01", range),
    ];
    for (text, fault) in table {
        let fault = format!("4:15: keys[0].expires_at: `{text}` {fault}");
        assert_faults(&key(text), &[&fault]);
    }
    for text in [
        "tomorrow",
        "1798761600",
        "2027-1-1T00:00:00Z",
        "2027-01-01 00:00:00Z",
        "2027-01-01T00:00Z",
        "2027-01-01T00:00:00.Z",
        "2027-01-01T00:00:00,5Z",
        "2027-01-01T00:00:00ZZ",
        "2027-01-01T00:00:00+0100",
        "2027-01-01T00:00:00+1:00",
        "2027-01-01T00:00:00 UTC",
        "+2027-01-01T00:00:00Z",
        "12027-01-01T00:00:00Z",
        "２０２７-01-01T00:00:00Z",
    ] {
        let fault = format!(
            "4:15: keys[0].expires_at: `{text}` is not a date with a time and an offset; {example}"
        );
        assert_faults(&key(text), &[&fault]);
    }
    assert_faults(
        &key("[]"),
        &[
            "4:15: keys[0].expires_at: expected a date with a time and an offset, such as `2027-01-01T00:00:00Z`, found a list",
        ],
    );
}

/// The date of a day since 1970, by walking through the years and months.
fn walked(mut day: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| match year % 400 {
        0 => true,
        100 | 200 | 300 => false,
        rest => rest & 3 == 0,
    };
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month, day + 1)
}

proptest! {
    #[test]
    fn every_second_is_read(
        unix in 86_400_u64..253_402_300_799 - 86_400,
        ahead in -1439_i64..=1439,
    ) {
        let local = unix.checked_add_signed(ahead * 60).unwrap();
        let (year, month, day) = walked(local / 86_400);
        let (hour, minute, second) = (local / 3600 % 24, local / 60 % 60, local % 60);
        let sign = if ahead < 0 { '-' } else { '+' };
        let (hours, minutes) = (ahead.abs() / 60, ahead.abs() % 60);
        let text = format!(
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{sign}{hours:02}:{minutes:02}"
        );
        prop_assert_eq!(seconds(&text), unix);
    }
}
