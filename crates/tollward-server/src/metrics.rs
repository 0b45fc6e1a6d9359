//! What `/metrics` shows. No label ever holds a caller's name.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use tollward_directory::Mirror;
use tollward_engine::{Count, Engine, Source};
use tollward_gateway::Stats;
use tollward_policy::Clash;

use crate::clashes::Clashes;
use crate::counters::Counters;
use crate::records::Records;

/// The media type of what [`Metrics::render`] gives.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of the process.
pub(crate) struct Metrics {
    registry: Registry,
    latency: Arc<Latency>,
    reloads: Family<[(&'static str, &'static str); 1], Counter>,
    reload_ok: Gauge,
    connections: Gauge,
    wrong_tokens: Counter,
    directory: Arc<OnceLock<Mirror>>,
}

impl Metrics {
    /// `gateway` is what is counted of the gateway, if there is one.
    pub(crate) fn new(
        engine: Arc<Engine>,
        counters: Counters,
        gateway: Option<Arc<Stats>>,
        records: Records,
        clashes: Clashes,
    ) -> Self {
        let mut registry = Registry::with_prefix("tollward");
        let latency = Arc::new(Latency::default());
        let reloads = Family::default();
        let (reload_ok, connections) = (Gauge::default(), Gauge::default());
        let wrong_tokens = Counter::default();
        let directory = Arc::default();
        reload_ok.set(1);
        registry.register(
            "build",
            "The version that runs",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        registry.register(
            "config_reloads",
            "Configurations read while running, by result",
            reloads.clone(),
        );
        registry.register(
            "config_last_reload_successful",
            "Whether the configuration last read is in force",
            reload_ok.clone(),
        );
        registry.register(
            "connections",
            "Connections open on all doors but the gateway",
            connections.clone(),
        );
        registry.register(
            "admin_wrong_tokens",
            "Requests to the admin door with a token that is none",
            wrong_tokens.clone(),
        );
        registry.register_collector(Box::new(Decisions(engine.clone())));
        registry.register_collector(Box::new(Sources(engine.clone())));
        registry.register_collector(Box::new(Buckets {
            counters: counters.clone(),
            engine,
        }));
        registry.register_collector(Box::new(Redis(counters)));
        if let Some(stats) = gateway {
            registry.register_collector(Box::new(Gateway(stats)));
        }
        registry.register_collector(Box::new(DirectoryCopy(Arc::clone(&directory))));
        registry.register_collector(Box::new(Gaps(records)));
        registry.register_collector(Box::new(ConfigClashes(clashes)));
        registry.register_collector(Box::new(latency.clone()));
        Self {
            registry,
            latency,
            reloads,
            reload_ok,
            connections,
            wrong_tokens,
            directory,
        }
    }

    /// Shows from now on how this copy of the directory is.
    pub(crate) fn follow(&self, mirror: Mirror) {
        // The first is the only one that a process has.
        let _ = self.directory.set(mirror);
    }

    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            // Writing to a string does not fail.
            Err(fmt::Error) => String::new(),
        }
    }

    /// One decision took this long, from the facts to the answer.
    pub(crate) fn decided(&self, micros: u64) {
        self.latency.observe(micros);
    }

    pub(crate) fn reloaded(&self, ok: bool) {
        let result = if ok { "ok" } else { "failed" };
        self.reloads.get_or_create(&[("result", result)]).inc();
        self.reload_ok.set(ok.into());
    }

    /// Somebody came to the admin door with a token that is none.
    pub(crate) fn wrong_token(&self) {
        self.wrong_tokens.inc();
    }

    pub(crate) fn connections(&self) -> &Gauge {
        &self.connections
    }
}

/// Decisions by the limit that was shown and by outcome.
struct Decisions(Arc<Engine>);

impl fmt::Debug for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decisions")
    }
}

impl Collector for Decisions {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(
            "decisions",
            "Decisions, by the limit that bound or came nearest to it, and by outcome",
            None,
            MetricType::Counter,
        )?;
        let active = self.0.active();
        let none = std::iter::once(("none", self.0.unlimited()));
        for (policy, tally) in active.tallies().chain(none) {
            for count in Count::ALL {
                let labels = [("policy", policy), ("outcome", count.word())];
                metric
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, u64>(&tally.sum(count), None)?;
            }
        }
        Ok(())
    }
}

/// Decisions by who made them.
struct Sources(Arc<Engine>);

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sources")
    }
}

impl Collector for Sources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(
            "decision_sources",
            "Decisions, by who made them",
            None,
            MetricType::Counter,
        )?;
        for source in Source::ALL {
            let labels = [("source", source.word())];
            metric
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, _, u64>(&self.0.sources(source), None)?;
        }
        Ok(())
    }
}

/// What is kept in this process.
struct Buckets {
    counters: Counters,
    engine: Arc<Engine>,
}

impl fmt::Debug for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Buckets")
    }
}

impl Collector for Buckets {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let usage = self.counters.memory().usage(self.engine.clock().now());
        let gauges = [
            ("buckets", "Buckets that are not full", usage.buckets),
            (
                "buckets_max",
                "Buckets that memory has room for",
                usage.max_buckets,
            ),
            ("buckets_bytes", "Memory held by buckets", usage.bytes),
            (
                "overflow_lanes",
                "Buckets shared by newcomers because memory was full",
                usage.overflow_lanes,
            ),
        ];
        for (name, help, value) in gauges {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            encoder
                .encode_descriptor(name, help, None, MetricType::Gauge)?
                .encode_gauge(&value)?;
        }
        encoder
            .encode_descriptor(
                "overflowed",
                "Charges decided on a shared bucket because memory was full",
                None,
                MetricType::Counter,
            )?
            .encode_counter::<NoLabelSet, _, u64>(&usage.overflowed, None)
    }
}

/// What the store in Redis does.
struct Redis(Counters);

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redis")
    }
}

impl Collector for Redis {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(store) = self.0.redis() else {
            return Ok(());
        };
        let mut up = encoder.encode_descriptor(
            "redis_up",
            "Whether a server is asked; if not, `on_failure` decides",
            None,
            MetricType::Gauge,
        )?;
        for shard in store.shards() {
            let labels = [("server", shard.name.as_str())];
            up.encode_family(&labels)?
                .encode_gauge(&i64::from(shard.up))?;
        }
        let gauges = [
            (
                "redis_nodes",
                "Nodes that share the limits, as last counted",
                i64::from(store.nodes()),
            ),
            (
                "redis_debts",
                "Buckets whose spending during an outage is still to be made good",
                i64::try_from(store.debts()).unwrap_or(i64::MAX),
            ),
        ];
        for (name, help, value) in gauges {
            encoder
                .encode_descriptor(name, help, None, MetricType::Gauge)?
                .encode_gauge(&value)?;
        }
        for (name, help, counter) in store.stats().all() {
            encoder
                .encode_descriptor(&format!("redis_{name}"), help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, u64>(&counter.get(), None)?;
        }
        Ok(())
    }
}

/// What comes and goes through the gateway.
#[derive(Debug)]
struct Gateway(Arc<Stats>);

impl Collector for Gateway {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encoder
            .encode_descriptor(
                "gateway_connections",
                "Connections open on the gateway",
                None,
                MetricType::Gauge,
            )?
            .encode_gauge(&self.0.open())?;
        let mut answers = encoder.encode_descriptor(
            "gateway_answers",
            "Answers of the gateway, by the class of their status",
            None,
            MetricType::Counter,
        )?;
        for (class, count) in self.0.answers() {
            answers
                .encode_family(&[("class", class)])?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        let mut failures = encoder.encode_descriptor(
            "gateway_failures",
            "Requests that have no answer of their upstream, by the reason",
            None,
            MetricType::Counter,
        )?;
        for (reason, count) in self.0.failures() {
            failures
                .encode_family(&[("reason", reason)])?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        encoder
            .encode_descriptor(
                "gateway_unlogged",
                "Lines left out of the access log because it could not be written",
                None,
                MetricType::Counter,
            )?
            .encode_counter::<NoLabelSet, _, u64>(&self.0.unlogged(), None)
    }
}

/// What this node has of the directory.
#[derive(Debug)]
struct DirectoryCopy(Arc<OnceLock<Mirror>>);

impl Collector for DirectoryCopy {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(mirror) = self.0.get() else {
            return Ok(());
        };
        let health = mirror.health();
        for (name, help, value) in [
            (
                "directory_up",
                "Whether the directory answered when it was last asked",
                i64::from(health.connected),
            ),
            (
                "directory_revision",
                "The last change of the directory that this node decides by",
                health.revision,
            ),
            (
                "directory_odd_rows",
                "Rows of the directory that made no sense to this node, since its start",
                i64::try_from(health.odd_rows).unwrap_or(i64::MAX),
            ),
        ] {
            encoder
                .encode_descriptor(name, help, None, MetricType::Gauge)?
                .encode_gauge(&value)?;
        }
        Ok(())
    }
}

/// What is missing in the records.
struct Gaps(Records);

impl fmt::Debug for Gaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gaps")
    }
}

impl Collector for Gaps {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let gaps = self.0.gaps();
        let mut audit = encoder.encode_descriptor(
            "audit_dropped",
            "Events that are missing in the audit log or in the directory",
            None,
            MetricType::Counter,
        )?;
        for (sink, count) in [("log", gaps.audit_log), ("directory", gaps.audit_directory)] {
            audit
                .encode_family(&[("sink", sink)])?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        for (name, help, count) in [
            (
                "usage_dropped",
                "Requests that are not counted under their tenant, plan and route",
                gaps.usage,
            ),
            (
                "key_uses_dropped",
                "Uses of API keys that are not noted in the directory",
                gaps.key_uses,
            ),
        ] {
            encoder
                .encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        Ok(())
    }
}

/// What the file and the directory say that does not go together.
#[derive(Debug)]
struct ConfigClashes(Clashes);

impl Collector for ConfigClashes {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let found = self.0.found();
        let mut clashes = encoder.encode_descriptor(
            "config_clashes",
            "Contradictions of the configuration file and the directory, by kind; see /admin/v1/config",
            None,
            MetricType::Gauge,
        )?;
        for kind in Clash::WORDS {
            let count = found.iter().filter(|clash| clash.word() == kind).count();
            clashes
                .encode_family(&[("kind", kind)])?
                .encode_gauge(&i64::try_from(count).unwrap_or(i64::MAX))?;
        }
        Ok(())
    }
}

/// A histogram of decision times that threads add to without a lock.
#[derive(Debug, Default)]
struct Latency {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

const BOUNDS_US: [u64; 16] = [
    1, 2, 5, 10, 25, 50, 100, 250, 1_000, 2_500, 5_000, 10_000, 15_000, 25_000, 55_000, 100_000,
];

impl Latency {
    fn observe(&self, micros: u64) {
        let bucket = BOUNDS_US.partition_point(|bound| *bound < micros);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(micros, Relaxed);
    }
}

impl Collector for Latency {
    #[expect(clippy::cast_precision_loss, reason = "a sum shown to people")]
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let seconds = |micros: u64| micros as f64 / 1e6;
        let bounds = BOUNDS_US.iter().map(|bound| seconds(*bound));
        let counts: Vec<u64> = self.buckets.iter().map(|it| it.load(Relaxed)).collect();
        let buckets: Vec<(f64, u64)> = bounds
            .chain([f64::INFINITY])
            .zip(counts.iter().copied())
            .collect();
        encoder
            .encode_descriptor(
                "decision_duration",
                "From the facts of a request to its decision",
                Some(&Unit::Seconds),
                MetricType::Histogram,
            )?
            .encode_histogram::<NoLabelSet>(
                seconds(self.sum_us.load(Relaxed)),
                counts.iter().sum(),
                &buckets,
                None,
            )
    }
}
