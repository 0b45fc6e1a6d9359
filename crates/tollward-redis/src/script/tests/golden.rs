//! Cases written down, so that neither side can change with the other: `golden.txt`, one to a line:
//!
//! `op limit cost now state => admitted state`
//!
//! with `bucket:rate/seconds:capacity` or `sliding:rate/seconds` for a limit, and for a state `-` or
//! `bucket/seconds@moment:tokens+parts` or `sliding/seconds@moment:current+previous`.

use std::fmt::Write;

use tollward_core::{Limit, Spending, State, Timestamp, Window};
use tollward_testkit::conformance::{Pay, bucket, sliding};

use super::reference::Reference;
use super::{Lab, part, value, without_life};
use crate::part::Op;

const GOLDEN: &str = include_str!("../golden.txt");

struct Case {
    op: Op,
    pay: Pay,
    now: Timestamp,
    state: Option<State>,
}

/// With `TOLLWARD_BLESS` set, the right side of every line is written anew: what has changed is then to
/// be read with care.
#[test]
fn core_says_so() {
    if std::env::var_os("TOLLWARD_BLESS").is_some() {
        return write_golden();
    }
    for (line, asked, said) in cases() {
        assert_eq!(by_core(&case(asked)), said, "{line}");
    }
}

#[test]
fn script_says_so() {
    let mut lab = Lab::redis();
    for (line, asked, said) in cases() {
        let Case {
            op,
            pay,
            now,
            state,
        } = case(asked);
        match &state {
            Some(state) => lab.set(pay.key, &value(state)),
            None => lab.delete(pay.key),
        }
        let answer = &lab.run(&[part(op, &[pay])], now)[0];
        assert_eq!(
            text(answer.admitted, answer.charges[0].state),
            said,
            "{line}"
        );
        let stored = lab.values(&[pay.key]).remove(0);
        let state = answer.charges[0].state.as_ref();
        assert_eq!(
            stored.map(without_life),
            state.map(value).map(without_life),
            "{line}"
        );
    }
}

fn write_golden() {
    let mut text = String::new();
    for line in GOLDEN.lines() {
        match line.split(" =>").next() {
            Some(asked) if !asked.is_empty() && !asked.starts_with('#') => {
                writeln!(text, "{asked} => {}", by_core(&case(asked))).unwrap();
            }
            _ => writeln!(text, "{line}").unwrap(),
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/script/golden.txt");
    std::fs::write(path, text).unwrap();
}

fn cases() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    GOLDEN
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (asked, said) = line.split_once(" => ").expect(line);
            (line, asked, said)
        })
}

fn by_core(case: &Case) -> String {
    let mut reference = Reference::default();
    if let Some(state) = case.state {
        reference.states.insert(case.pay.key, state);
    }
    let (admitted, _) = reference.decide(case.op, &[case.pay], case.now);
    text(admitted, reference.states.get(&case.pay.key).copied())
}

fn case(asked: &str) -> Case {
    let words: Vec<&str> = asked.split(' ').collect();
    let [op, limit, cost, now, state] = words[..] else {
        panic!("{asked}");
    };
    Case {
        op: match op.split_once('@') {
            None if op == "charge" => Op::Charge,
            None if op == "peek" => Op::Peek,
            None if op == "settle" => Op::Settle,
            Some(("credit", at)) => Op::Credit {
                charged_at: Timestamp::from_micros(at.parse().unwrap()),
            },
            _ => panic!("{asked}"),
        },
        pay: Pay::new(limit_of(limit), 0, cost.parse().unwrap()),
        now: Timestamp::from_micros(now.parse().unwrap()),
        state: (state != "-").then(|| state_of(state)),
    }
}

fn limit_of(text: &str) -> Limit {
    let mut words = text.split([':', '/']);
    let kind = words.next();
    let numbers: Vec<u32> = words.map(|word| word.parse().unwrap()).collect();
    match (kind, &numbers[..]) {
        (Some("bucket"), &[rate, secs, capacity]) => bucket(rate, secs, capacity),
        (Some("sliding"), &[rate, secs]) => sliding(rate, secs),
        _ => panic!("{text}"),
    }
}

fn state_of(text: &str) -> State {
    let mut words = text.split(['/', '@', ':', '+']);
    let kind = words.next();
    let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
    let [secs, at, whole, rest] = numbers[..] else {
        panic!("{text}");
    };
    let window = Window::from_secs(u32::try_from(secs).unwrap()).unwrap();
    State {
        at: Timestamp::from_micros(at),
        window,
        spending: match kind {
            Some("bucket") => Spending::Bucket {
                parts: u128::from(whole) * u128::from(window.as_micros()) + u128::from(rest),
            },
            _ => Spending::Windows {
                current: u32::try_from(whole).unwrap(),
                previous: u32::try_from(rest).unwrap(),
            },
        },
    }
}

fn text(admitted: bool, state: Option<State>) -> String {
    let admitted = u8::from(admitted);
    let Some(state) = state else {
        return format!("{admitted} -");
    };
    let (secs, at) = (state.window.as_secs(), state.at.as_micros());
    match state.spending {
        Spending::Bucket { parts } => {
            let length = u128::from(state.window.as_micros());
            let (whole, rest) = (parts / length, parts % length);
            format!("{admitted} bucket/{secs}@{at}:{whole}+{rest}")
        }
        Spending::Windows { current, previous } => {
            format!("{admitted} sliding/{secs}@{at}:{current}+{previous}")
        }
    }
}
