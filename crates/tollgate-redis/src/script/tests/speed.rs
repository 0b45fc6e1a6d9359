//! What a part costs the server. Run in release, alone: the figures go to stdout.

use redis::cmd;
use tollgate_testkit::conformance::{Pay, START, bucket, sliding};

use super::{Lab, part};
use crate::part::Op;

const BATCH: u64 = 64;
const CALLS: u64 = 3_000;

#[test]
#[ignore = "a measurement"]
fn cpu_per_part() {
    for charges in [1, 4] {
        let buckets = cpu_us(|key| Pay::new(bucket(1_000, 1, 100_000), key, 1), charges);
        println!("{charges} token buckets: {buckets:.2} us of Redis per part");
        let windows = cpu_us(|key| Pay::new(sliding(1_000_000, 60), key, 1), charges);
        println!("{charges} sliding windows: {windows:.2} us of Redis per part");
    }
}

fn cpu_us(pay: impl Fn(u64) -> Pay, charges: u64) -> f64 {
    let mut lab = Lab::redis();
    let batches: Vec<Vec<_>> = (0..20)
        .map(|batch| {
            let keys = |i: u64| (batch * BATCH + i) * charges..(batch * BATCH + i + 1) * charges;
            (0..BATCH)
                .map(|i| part(Op::Charge, &keys(i).map(&pay).collect::<Vec<_>>()))
                .collect()
        })
        .collect();
    let run = |lab: &mut Lab, call: u64| {
        let parts = &batches[usize::try_from(call % 20).unwrap()];
        let answers = lab.run(parts, START.saturating_add(call * 137));
        assert!(answers.iter().all(|answer| answer.admitted));
    };
    (0..100).for_each(|call| run(&mut lab, call));
    let before = cpu(&lab);
    (100..100 + CALLS).for_each(|call| run(&mut lab, call));
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let parts = (CALLS * BATCH) as f64;
    (cpu(&lab) - before) * 1e6 / parts
}

/// Seconds that the server's process has computed.
fn cpu(lab: &Lab) -> f64 {
    let client = redis::Client::open(lab.server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let info: String = cmd("INFO").arg("cpu").query(&mut connection).unwrap();
    info.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| ["used_cpu_user", "used_cpu_sys"].contains(name))
        .map(|(_, seconds)| seconds.trim().parse::<f64>().unwrap())
        .sum()
}
