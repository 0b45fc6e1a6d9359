use std::sync::Barrier;
use std::time::{Duration, Instant};

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    pub(crate) turn: Duration,
    pub(crate) http_rounds: usize,
    pub(crate) http_turn: Duration,
}

/// Lets contenders take turns, for so many rounds; every round begins with another one. Answers the
/// median of what each returned.
pub(crate) fn interleave<const N: usize>(
    rounds: usize,
    contenders: [&dyn Fn() -> f64; N],
) -> [f64; N] {
    let mut results = [const { Vec::new() }; N];
    for round in 0..rounds {
        for turn in 0..N {
            let who = (round + turn) % N;
            results[who].push(contenders[who]());
        }
    }
    results.map(median)
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Steps taken between two looks at the clock, so that looking costs nothing that can be seen.
const STEPS: u32 = 256;

/// Runs steps on so many threads at once for as long as a turn lasts. `start` makes each thread's step.
/// Answers steps per second, of all threads together.
pub(crate) fn throughput<S: FnMut()>(
    threads: usize,
    turn: Duration,
    start: impl Fn(usize) -> S + Sync,
) -> f64 {
    let barrier = Barrier::new(threads);
    let work = |thread| {
        let mut step = start(thread);
        barrier.wait();
        let began = Instant::now();
        let mut steps = 0.0;
        loop {
            for _ in 0..STEPS {
                step();
            }
            steps += f64::from(STEPS);
            let elapsed = began.elapsed();
            if elapsed >= turn {
                return steps / elapsed.as_secs_f64();
            }
        }
    };
    let work = &work;
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let own = work(0);
        others
            .into_iter()
            .map(|other| other.join().unwrap_or(f64::NAN))
            .sum::<f64>()
            + own
    })
}
