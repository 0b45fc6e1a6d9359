//! Callers who go on whatever happens, and note what they are told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::json;

use crate::node::now;
use crate::served::Client;

/// Each thread asks so often.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks all nodes, by two threads each, a hundred times a second each.
pub(crate) struct Load {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Told>>,
}

/// What was told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) requests: u64,
    pub(crate) refusals: u64,
    pub(crate) slowest: Duration,
    /// Answers that are not what they were before, some of them.
    pub(crate) wrong: Vec<String>,
}

impl Load {
    /// The key `admitted` always is, and the key `refused` always is.
    pub(crate) fn start(apis: &[SocketAddr], admitted: &str, refused: &str) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let threads = apis.iter().chain(apis).map(|api| {
            let (api, ends) = (*api, Arc::clone(&ends));
            let cases = [(admitted.to_owned(), 200), (refused.to_owned(), 429)];
            thread::spawn(move || ask(api, &cases, &ends))
        });
        Self {
            threads: threads.collect(),
            ends,
        }
    }

    /// Ends it, and sums up.
    pub(crate) fn end(self) -> Told {
        self.ends.store(true, Relaxed);
        let mut sum = Told::default();
        for thread in self.threads {
            let told = thread.join().unwrap();
            sum.requests += told.requests;
            sum.refusals += told.refusals;
            sum.slowest = sum.slowest.max(told.slowest);
            sum.wrong.extend(told.wrong);
        }
        sum
    }
}

fn ask(api: SocketAddr, cases: &[(String, u16)], ends: &AtomicBool) -> Told {
    let mut told = Told::default();
    let mut client = Client::new(api);
    for (key, expected) in cases.iter().cycle() {
        if ends.load(Relaxed) {
            return told;
        }
        let start = now();
        let (status, decision) = client.check(json!({ "api_key": key }));
        told.slowest = told.slowest.max(start.elapsed());
        told.requests += 1;
        told.refusals += u64::from(status == 429);
        // A node that was told of a refusal need not ask again.
        let by_redis = decision["source"] == "redis" || decision["source"] == "remembered";
        if !(status == *expected && by_redis) && told.wrong.len() < 10 {
            told.wrong.push(format!("{status}: {decision}"));
        }
        thread::sleep(PAUSE);
    }
    told
}
