//! What is promised besides the arithmetic: the clock, foreign values, odd calls and odd replies.

use redis::{Value, cmd};
use tollward_core::{Judgement, Timestamp};
use tollward_testkit::conformance::{Pay, START, bucket, sliding};

use super::{LONG_SLACK_MS, Lab, name, part};
use crate::part::{Answer, Op};
use crate::script::{BadReply, Call, MAX_KEYS};
use crate::wire::Packer;

#[test]
fn the_server_tells_the_time() {
    let mut lab = Lab::redis();
    let parts = [part(Op::Charge, &[Pay::new(bucket(1, 60, 100), 0, 1)])];
    let mut last = server_time(&mut lab);
    for _ in 0..100 {
        let at = lab.try_run(&parts, None, LONG_SLACK_MS)[0].at;
        assert!(at >= last);
        last = at;
    }
    assert!(last <= server_time(&mut lab));
}

fn server_time(lab: &mut Lab) -> Timestamp {
    let (secs, micros): (u64, u64) = cmd("TIME").query(&mut lab.connection).unwrap();
    Timestamp::from_micros(secs * 1_000_000 + micros)
}

/// They refuse, as an empty bucket does, and then they are one.
#[test]
fn foreign_values_are_empty_buckets() {
    let mut lab = Lab::redis();
    let bytes = |tag: u32, at: u64, whole: u32, rest: u64| {
        let mut value = tag.to_le_bytes().to_vec();
        value.extend_from_slice(&at.to_le_bytes());
        value.extend_from_slice(&whole.to_le_bytes());
        value.extend_from_slice(&rest.to_le_bytes());
        value
    };
    let at = START.as_micros();
    let foreign = [
        vec![],
        b"hello".to_vec(),
        vec![0; 24],
        vec![0xff; 24],
        vec![1; 25],
        bytes(0, at, 1, 0),
        bytes(1 << 31, at, 1, 0),
        bytes(31_622_401, at, 1, 0),
        bytes(60, 1 << 53, 1, 0),
        bytes(60, at, 1, 60_000_000),
        bytes(60, at, u32::MAX, 1),
        bytes(60 | 1 << 31, at, 1, 1 << 32),
    ];
    for (key, value) in (0..).zip(foreign) {
        for limit in [bucket(10, 60, 20), sliding(20, 60)] {
            lab.set(key, &value);
            let one = |op| part(op, &[Pay::new(limit, key, 1)]);
            let peeked = &lab.run(&[one(Op::Peek)], START)[0];
            assert!(!peeked.admitted, "{value:?}");
            assert_eq!(lab.values(&[key]), [Some(value.clone())], "a peek wrote");

            let refused = &lab.run(&[one(Op::Charge), one(Op::Charge)], START)[1];
            assert!(!refused.admitted);
            assert_eq!(refused.charges[0].outcome.remaining, 0);
            assert!(lab.ttl_ms(key) > 0, "it is still there for ever");
            let Judgement::Refuse { wait_us } = refused.charges[0].outcome.judgement else {
                panic!("{refused:?}");
            };
            let later = START.saturating_add(wait_us);
            assert!(lab.run(&[one(Op::Charge)], later)[0].admitted);
        }
    }
}

/// `MGET` does not see what is not a string; it is overwritten.
#[test]
fn keys_of_another_type_are_overwritten() {
    let mut lab = Lab::redis();
    let mut push = cmd("RPUSH");
    push.arg(name(0).as_bytes()).arg("x");
    push.exec(&mut lab.connection).unwrap();
    let one = part(Op::Charge, &[Pay::new(bucket(1, 1, 1), 0, 1)]);
    let answers = lab.run(&[one.clone(), one], START);
    assert!(answers[0].admitted && !answers[1].admitted);
    assert!(lab.ttl_ms(0) > 0);
}

#[test]
fn calls_of_nothing() {
    let mut lab = Lab::redis();
    assert!(lab.run(&[], START).is_empty());
    let answers = lab.run(&[part(Op::Charge, &[]), part(Op::Settle, &[])], START);
    assert!(answers.iter().all(|answer| answer.admitted));
}

#[test]
fn as_many_keys_as_are_allowed() {
    let mut lab = Lab::redis();
    let pays: Vec<Pay> = (0..MAX_KEYS as u64)
        .map(|key| Pay::new(bucket(1, 60, 1), key, 1))
        .collect();
    let parts: Vec<_> = pays.iter().map(|pay| part(Op::Charge, &[*pay])).collect();
    let admitted = |answers: Vec<Answer>| answers.iter().filter(|one| one.admitted).count();
    assert_eq!(admitted(lab.run(&parts, START)), MAX_KEYS);
    assert_eq!(admitted(lab.run(&parts, START)), 0);
}

#[test]
fn replies_that_are_not_the_scripts() {
    let parts = [part(Op::Charge, &[Pay::new(bucket(1, 60, 1), 0, 1)])];
    let call = Call::new(&parts, Some(START), 0);
    let reply = |now: i64, verdicts: &str, values: Vec<Value>| {
        let verdicts = Value::BulkString(verdicts.into());
        Value::Array(vec![Value::Int(now), verdicts, Value::Array(values)])
    };
    let read = |reply: Value| call.read(&parts, &reply).map(|answers| answers.len());
    assert_eq!(read(reply(1, "1", vec![Value::Nil])), Ok(1));
    assert_eq!(
        read(reply(1, "0", vec![Value::Nil])),
        Err(BadReply::Disagreement)
    );
    for malformed in [
        Value::Nil,
        Value::Okay,
        Value::Array(vec![]),
        reply(-1, "1", vec![Value::Nil]),
        reply(1, "", vec![Value::Nil]),
        reply(1, "11", vec![Value::Nil]),
        reply(1, "x", vec![Value::Nil]),
        reply(1, "1", vec![]),
        reply(1, "1", vec![Value::Nil, Value::Nil]),
        reply(1, "1", vec![Value::Int(1)]),
    ] {
        assert_eq!(read(malformed), Err(BadReply::Malformed));
    }
}

#[test]
fn numbers_of_every_width_arrive() {
    let mut lab = Lab::redis();
    let mut numbers = vec![0, (1 << 53) - 1];
    for bits in [7, 8, 16, 32, 52] {
        numbers.extend([(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1]);
    }
    let mut packer = Packer::default();
    numbers.iter().for_each(|number| packer.push(*number));
    let mut eval = cmd("EVAL");
    eval.arg("return cmsgpack.unpack(ARGV[1])").arg(0);
    eval.arg(Packer::array(&[packer]));
    let back: Vec<u64> = eval.query(&mut lab.connection).unwrap();
    assert_eq!(back, numbers);
}
