//! Four limits in one request, all or nothing, beside one limit.

use crate::bars::Bars;
use crate::contender::{Governor, Load, Tollward};
use crate::policy::DEFAULT_MAX_BUCKETS;
use crate::store::{THREADS, drive};
use crate::table::{Row, Table};
use crate::turns::{Effort, interleave};

const KEYS: [u32; 3] = [1, 1000, 1_000_000];

pub(crate) fn run(effort: Effort, table: &mut Table, bars: &mut Bars) {
    let load = Load::Admitted;
    for keys in KEYS {
        let one = Tollward::<1>::new(load, keys, DEFAULT_MAX_BUCKETS);
        let four = Tollward::<4>::new(load, keys, 4 * DEFAULT_MAX_BUCKETS);
        let governor = Governor::<4>::new(load, keys);
        for threads in THREADS {
            let [single, fourfold, theirs] = interleave(
                effort.rounds,
                [
                    &|| drive(&one, load, keys, threads, effort.turn),
                    &|| drive(&four, load, keys, threads, effort.turn),
                    &|| drive(&governor, load, keys, threads, effort.turn),
                ],
            );
            let times = single / fourfold;
            table.push(
                Row::time("four limits, all or nothing", fourfold)
                    .grid(keys, threads)
                    .against_time("tollward, one limit", single)
                    .ratio(format!("{times:.2} of one")),
            );
            table.push(
                Row::time("four limits, all or nothing", fourfold)
                    .grid(keys, threads)
                    .against_time("governor, 4 calls", theirs),
            );
            bars.four(keys, threads, times);
        }
    }
}
