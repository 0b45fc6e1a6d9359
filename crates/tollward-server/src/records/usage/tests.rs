use std::sync::atomic::AtomicBool;
use std::thread;

use tollward_testkit::clock::ManualClock;
use tollward_testkit::conformance::Dice;

use super::*;

type Model = BTreeMap<Who<'static>, Sums>;

/// A minute, a tenant, a plan and a route of some.
fn somebody(dice: &mut Dice, tenants: u64) -> Who<'static> {
    let owned = |name: String| Cow::Owned(name);
    Who {
        minute: ManualClock::START_SECS / 60 + 50 + dice.below(3) * 10,
        tenant: owned(format!("tenant-{}", dice.below(tenants))),
        plan: Cow::Borrowed(*dice.pick(&["", "free", "pro"])),
        route: owned(format!("/{}/**", dice.below(4))),
    }
}

fn something(dice: &mut Dice) -> Sums {
    Sums {
        requests: 1,
        refusals: dice.below(2),
        tokens: dice.below(100),
        errors: dice.below(2),
    }
}

/// A database that adds up what it is given, if it is there.
#[derive(Default)]
struct Database(BTreeMap<(Granularity, i64, [String; 3]), [i64; 4]>);

impl Database {
    fn add_usage(&mut self, rows: &[UsageRow]) {
        for row in rows {
            let names = [&row.tenant, &row.plan, &row.route].map(Clone::clone);
            let span = (row.granularity, row.start, names);
            let sums = self.0.entry(span).or_default();
            let more = [row.requests, row.refusals, row.tokens, row.errors];
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum += more;
            }
        }
    }
}

/// What a database holds in the end of what is in a model.
fn expected(model: &Model) -> Database {
    let mut database = Database::default();
    for (who, sums) in model {
        for granularity in Granularity::ALL {
            let at = number(who.minute * 60);
            let start = at.div_euclid(granularity.secs()) * granularity.secs();
            database.add_usage(&[usage_row((granularity, start, who.clone()), *sums)]);
        }
    }
    database
}

fn merge(into: &mut Model, from: Model) {
    for (who, sums) in from {
        into.entry(who).or_default().add(&sums);
    }
}

/// Whatever threads add while somebody takes, and a database that is away half the time: in the end all of
/// it is there, once.
#[test]
fn what_is_written_is_what_was_added() {
    const THREADS: u64 = 8;
    const EACH: usize = 5000;
    for tenants in [3, 400] {
        let (usage, done) = (Usage::new(), AtomicBool::new(false));
        let (mut unwritten, mut database) = (Unwritten::new(), Database::default());
        let add = |seed| {
            let (mut dice, mut model) = (Dice::new(seed), Model::new());
            for _ in 0..EACH {
                let (who, sums) = (somebody(&mut dice, tenants), something(&mut dice));
                usage.add(who.clone(), sums);
                model.entry(who).or_default().add(&sums);
            }
            model
        };
        let model = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|seed| scope.spawn(move || add(seed)))
                .collect();
            let taking = scope.spawn(|| {
                let mut dice = Dice::new(tenants);
                while !done.load(Relaxed) {
                    assert_eq!(unwritten.add(usage.take()), 0);
                    while !unwritten.batch().is_empty() && !dice.one_in(2) {
                        database.add_usage(unwritten.batch());
                        unwritten.written();
                    }
                    thread::yield_now();
                }
            });
            let mut model = Model::new();
            for thread in threads {
                merge(&mut model, thread.join().unwrap());
            }
            done.store(true, Relaxed);
            taking.join().unwrap();
            model
        });
        assert_eq!(unwritten.add(usage.take()), 0);
        while !unwritten.batch().is_empty() {
            database.add_usage(unwritten.batch());
            unwritten.written();
        }
        assert_eq!(database.0, expected(&model).0, "{tenants} tenants");
        assert_eq!((usage.misplaced(), unwritten.requests()), (0, 0));
        assert_eq!(usage.take(), []);
    }
}

/// Beyond its bound, all that is lost is whose it was.
#[test]
fn what_has_no_room_is_counted_under_other() {
    const CALLERS: u64 = 5000;
    let usage = Usage::with_room(100);
    for round in 0..2 {
        let mut alone = 0;
        for number in 0..CALLERS {
            let tenant = format!("t{number}");
            let at = Timestamp::from_micros(number % 2 * 60_000_000);
            let sums = Sums {
                requests: 1,
                tokens: 3,
                ..Sums::default()
            };
            usage.add(Who::new(at, Some(&tenant), None, None), sums);
        }
        let (mut sum, mut others) = (Sums::default(), 0);
        for (who, sums) in usage.take() {
            sum.add(&sums);
            match &*who.tenant {
                OTHER => others += sums.requests,
                _ => alone += 1,
            }
        }
        assert_eq!((sum.requests, sum.tokens), (CALLERS, 3 * CALLERS));
        assert!((100..1000).contains(&alone), "{alone}");
        assert_eq!(others, CALLERS - alone);
        assert_eq!(usage.misplaced(), others * (round + 1));
    }
}

#[test]
fn what_waits_is_merged_and_bounded() {
    let mut unwritten = Unwritten::with_room(3);
    let row = |minute: u64, tenant: &'static str| {
        let at = Timestamp::from_micros(minute * 60_000_000);
        let one = Sums {
            requests: 1,
            ..Sums::default()
        };
        (Who::new(at, Some(tenant), None, None), one)
    };
    for _ in 0..1000 {
        let misplaced = unwritten.add(vec![row(1, "a"), row(1, "b"), row(61, "a")]);
        assert_eq!(misplaced, 0);
    }
    assert_eq!(
        unwritten.add(vec![row(1, "c"), row(2, "a"), row(1, "a")]),
        2
    );
    assert_eq!(unwritten.requests(), 3003);
    let told = |row: &UsageRow| (row.granularity, row.start, row.tenant.clone(), row.requests);
    let batch: Vec<_> = unwritten.batch().iter().map(told).collect();
    let again: Vec<_> = unwritten.batch().iter().map(told).collect();
    assert_eq!(batch, again, "it stays the same until it is written");
    let row = |granularity, start, tenant: &str, requests| {
        (granularity, start, tenant.to_owned(), requests)
    };
    use Granularity::{Day, Hour, Minute};
    assert_eq!(
        batch,
        [
            row(Minute, 60, OTHER, 1),
            row(Minute, 60, "a", 1001),
            row(Minute, 60, "b", 1000),
            row(Minute, 120, OTHER, 1),
            row(Minute, 3660, "a", 1000),
            row(Hour, 0, OTHER, 2),
            row(Hour, 0, "a", 1001),
            row(Hour, 0, "b", 1000),
            row(Hour, 3600, "a", 1000),
            row(Day, 0, OTHER, 2),
            row(Day, 0, "a", 2001),
            row(Day, 0, "b", 1000),
        ]
    );
    assert_eq!(unwritten.written(), 3003);
    assert!(unwritten.batch().is_empty());
    assert_eq!(unwritten.requests(), 0);
}

/// A long absence is written piece by piece.
#[test]
fn a_batch_is_bounded() {
    let mut unwritten = Unwritten::new();
    let rows = (0..2 * BATCH as u64 + 1).map(|number| {
        let tenant = Cow::Owned(format!("t{number}"));
        let who = Who::new(Timestamp::from_micros(0), None, None, None);
        let one = Sums {
            requests: 1,
            ..Sums::default()
        };
        (Who { tenant, ..who }, one)
    });
    unwritten.add(rows.collect());
    let mut lengths = Vec::new();
    while !unwritten.batch().is_empty() {
        lengths.push(unwritten.batch().len());
        unwritten.written();
    }
    assert_eq!(lengths, [3 * BATCH, 3 * BATCH, 3]);
}
