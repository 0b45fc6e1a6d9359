//! What the store logs, for tests that read it.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// All lines logged so far, of every level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn has(&self, text: &str) -> bool {
        self.0
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.contains(text))
    }
}

/// Runs a test on this thread alone, and keeps what is logged.
pub(crate) fn logged(test: impl AsyncFnOnce(Log)) -> Log {
    let log = Log::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let keeper = Keeper(log.clone());
    tracing::subscriber::with_default(keeper, || runtime.block_on(test(log.clone())));
    log
}

struct Keeper(Log);

impl Subscriber for Keeper {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        let meta = event.metadata();
        let mut line = Line(format!("{} {}", meta.level(), meta.target()));
        event.record(&mut line);
        self.0.0.lock().unwrap().push(line.0);
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(span.metadata().name().to_owned());
        span.record(&mut line);
        self.0.0.lock().unwrap().push(line.0);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        self.0.0.lock().unwrap().push(line.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}
