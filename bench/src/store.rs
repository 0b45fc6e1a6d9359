//! One limit in memory: tollward's store and governor.

use std::time::Duration;

use crate::bars::Bars;
use crate::contender::{Contender, Governor, Load, Nobody, Tollward};
use crate::keys::Keys;
use crate::policy::DEFAULT_MAX_BUCKETS;
use crate::table::{Row, Table};
use crate::turns::{Effort, interleave, throughput};

pub(crate) const THREADS: [usize; 2] = [1, 2];
const KEYS: [u32; 4] = [1, 1000, 100_000, 1_000_000];

pub(crate) fn run(effort: Effort, table: &mut Table, bars: &mut Bars) {
    let making_keys = drive(&Nobody, Load::Admitted, 1_000_000, 1, effort.turn);
    table.push(Row::time("making a key (in all below)", making_keys).grid(1_000_000, 1));
    for keys in KEYS {
        for load in Load::ALL {
            let tollward = Tollward::<1>::new(load, keys, DEFAULT_MAX_BUCKETS);
            let governor = Governor::<1>::new(load, keys);
            for threads in THREADS {
                let [ours, theirs] = interleave(
                    effort.rounds,
                    [
                        &|| drive(&tollward, load, keys, threads, effort.turn),
                        &|| drive(&governor, load, keys, threads, effort.turn),
                    ],
                );
                let what = format!("one limit, {}", load.word());
                table.push(
                    Row::time(what, ours)
                        .grid(keys, threads)
                        .against_time("governor", theirs),
                );
                bars.store(keys, threads, load, ours / theirs);
            }
        }
    }
}

/// Decisions per second of a contender.
pub(crate) fn drive<C: Contender>(
    contender: &C,
    load: Load,
    keys: u32,
    threads: usize,
    turn: Duration,
) -> f64 {
    let expected = load == Load::Admitted;
    throughput(threads, turn, |thread| {
        let mut keys = Keys::new(keys, thread);
        move || {
            let admitted = contender.decide(keys.next());
            assert_eq!(admitted, expected, "this load is not what it says");
        }
    })
}
