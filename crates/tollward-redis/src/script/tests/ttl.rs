//! How long keys live: until they are full again, and not much longer.

use redis::cmd;
use tollward_core::{Limit, Timestamp};
use tollward_testkit::conformance::{Pay, START, bucket, sliding};

use super::reference::Reference;
use super::{Lab, part};
use crate::part::{Op, Part};

const SLACK_MS: u64 = 60_000;

/// From one in 10,000 s to a million in 1 s, from one token to a million; and sliding windows.
fn grid() -> Vec<Limit> {
    let rates = [
        (1, 10_000),
        (1, 100),
        (7, 13),
        (1, 1),
        (100, 1),
        (10_000, 1),
        (1_000_000, 1),
        (u32::MAX, 1),
        (1, 366 * 86_400),
    ];
    let mut limits = Vec::new();
    for (rate, secs) in rates {
        for capacity in [1, 10, 1_000, 1_000_000, u32::MAX] {
            limits.push(bucket(rate, secs, capacity));
        }
        limits.push(sliding(rate, secs));
    }
    limits
}

fn drains(limits: &[Limit]) -> (Vec<Pay>, Vec<Part>) {
    let pays: Vec<Pay> = (0..)
        .zip(limits)
        .map(|(key, limit)| Pay::new(*limit, key, limit.capacity().into()))
        .collect();
    let parts = pays.iter().map(|pay| part(Op::Charge, &[*pay])).collect();
    (pays, parts)
}

#[test]
fn keys_live_until_they_are_full() {
    let mut lab = Lab::redis();
    let (pays, parts) = drains(&grid());
    assert_lives(&mut lab, &pays, &parts, START);
    // Written again a little later, and a little earlier: then the bucket's moment is ahead.
    for after_us in [300_000, 100_000] {
        let now = START.saturating_add(after_us);
        let touch = |pay: &Pay| {
            let op = Op::Credit { charged_at: now };
            part(op, &[Pay { cost: 0, ..*pay }])
        };
        let parts: Vec<Part> = pays.iter().map(touch).collect();
        assert_lives(&mut lab, &pays, &parts, now);
    }
}

/// Every key lives from now until it is full again, and for the slack; and half a minute more if it was
/// set anew.
fn assert_lives(lab: &mut Lab, pays: &[Pay], parts: &[Part], now: Timestamp) {
    let before_ms = server_ms(lab);
    let answers = lab.try_run(parts, Some(now), SLACK_MS);
    for (pay, answer) in pays.iter().zip(answers) {
        let ttl_ms = lab.ttl_ms(pay.key);
        let passed_ms = server_ms(lab) - before_ms + 1;
        let Some(state) = answer.charges[0].state else {
            assert_eq!(ttl_ms, -2, "{pay:?}: it is full");
            continue;
        };
        let left_ms = u128::try_from(ttl_ms).expect("no key, or one for ever");
        let full_us = pay.limit.level(Some(state), now).full_after_us();
        let full_ms = exact_full_us(pay, full_us.into()).div_ceil(1_000);
        let least = full_ms + u128::from(SLACK_MS);
        let most = least + 31_000 + full_ms / 1_000_000;
        if least < 1 << 53 {
            assert!(left_ms + passed_ms >= least, "{pay:?}: {left_ms} < {least}");
            assert!(left_ms <= most, "{pay:?}: {left_ms} > {most}");
        } else {
            assert!(left_ms + passed_ms >= 1 << 53, "{pay:?}: {left_ms}");
        }
    }
}

/// The core's answer saturates at 2^64 µs.
fn exact_full_us(pay: &Pay, full_us: u128) -> u128 {
    if full_us < u128::from(u64::MAX) {
        return full_us;
    }
    let parts = u128::from(pay.limit.capacity()) * u128::from(pay.limit.window().as_micros());
    parts / u128::from(pay.limit.rate())
}

fn server_ms(lab: &mut Lab) -> u128 {
    let (secs, micros): (u128, u128) = cmd("TIME").query(&mut lab.connection).unwrap();
    secs * 1_000 + micros.div_ceil(1_000)
}

/// After any wait the tokens are the core's; and once a key may have expired, it says the same whether it
/// has or not.
#[test]
fn expiry_changes_nothing() {
    let mut lab = Lab::redis();
    let (pays, parts) = drains(&grid());
    lab.try_run(&parts, Some(START), SLACK_MS);
    let mut reference = Reference::default();
    for pay in &pays {
        reference.decide(Op::Charge, &[*pay], START);
    }
    for pay in &pays {
        let full_us = reference.level(pay, START).full_after_us();
        if full_us > 1 << 52 {
            continue;
        }
        let slack_us = SLACK_MS * 1_000;
        for wait_us in [
            full_us / 10,
            full_us / 2,
            full_us - 1,
            full_us,
            full_us + 1,
            full_us + slack_us,
            full_us + slack_us + 2_000_000,
        ] {
            let now = START.saturating_add(wait_us);
            assert_eq!(peek(&mut lab, pay, now), expected(&mut reference, pay, now));
        }
        let gone = START.saturating_add(full_us);
        let kept = peek(&mut lab, pay, gone);
        lab.delete(pay.key);
        assert_eq!(kept, (true, pay.limit.capacity()), "it is full");
        assert_eq!(peek(&mut lab, pay, gone), kept);
    }
}

fn peek(lab: &mut Lab, pay: &Pay, now: Timestamp) -> (bool, u32) {
    let answer = &lab.run(&[part(Op::Peek, &[*pay])], now)[0];
    (answer.admitted, answer.charges[0].outcome.remaining)
}

fn expected(reference: &mut Reference, pay: &Pay, now: Timestamp) -> (bool, u32) {
    let (admitted, outcomes) = reference.decide(Op::Peek, &[*pay], now);
    (admitted, outcomes[0].remaining)
}
