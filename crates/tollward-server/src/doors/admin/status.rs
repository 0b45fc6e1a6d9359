//! How this node is.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::answer::Answer;
use super::config;
use super::enforcement::Mode;
use super::failure::Failure;
use super::guard::{By, Read};
use super::moment::Moment;
use super::{Shared, aside};

/// How a node is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Status)]
pub(super) struct View {
    /// Its name.
    node: String,
    /// The version of Tollward.
    version_of_tollward: &'static str,
    /// What its clock shows.
    now: Moment,
    /// Whether it takes requests.
    ready: bool,
    /// Whether limits refuse.
    enforcement: Mode,
    /// The configuration in force.
    config: config::View,
    /// What it has of the directory.
    directory: DirectoryStatus,
    /// What is missing in the records, since the start.
    gaps: Gaps,
    /// Where counters are: `memory` or `redis`.
    store: &'static str,
}

/// What a node has of the directory.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DirectoryStatus {
    /// Whether other nodes share it.
    shared: bool,
    /// Whether it could be reached the last time.
    connected: bool,
    /// The last revision that this node holds.
    revision: i64,
    /// When this node last knew that it holds all there is; null if it never did.
    last_ok_at: Option<Moment>,
    /// Whether that is longer ago than `directory.max_stale`.
    stale: bool,
    /// Why it cannot be reached; null if it can.
    error: Option<String>,
    /// How many tenants this node knows, those of the file among them.
    tenants: usize,
    /// How many API keys of the directory this node knows.
    keys: usize,
    /// Entries that make no sense to this node and are left out, in sentences.
    oddities: Vec<String>,
}

/// What is missing in the records, since the start.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Gaps {
    /// Requests that are not counted under their tenant, plan and route.
    usage: u64,
    /// Events that are not in the directory.
    audit_directory: u64,
    /// Events that are not in the log.
    audit_log: u64,
    /// Uses of API keys that are not noted.
    key_uses: u64,
}

impl View {
    fn new(shared: &Shared) -> Self {
        let active = shared.engine.active();
        let policy = active.policy();
        let health = shared.mirror.health();
        let gaps = shared.records.gaps();
        Self {
            node: shared.records.node().to_owned(),
            version_of_tollward: env!("CARGO_PKG_VERSION"),
            now: Moment(shared.now_ms()),
            ready: *shared.ready.borrow() && !*shared.stopping.borrow(),
            enforcement: policy.enforcement().into(),
            config: config::View::new(shared),
            directory: DirectoryStatus {
                shared: shared.directory.is_shared(),
                connected: health.connected,
                revision: health.revision,
                last_ok_at: health.last_ok_unix_ms.map(Moment),
                stale: health.stale,
                error: health.error,
                tenants: policy.tenant_count(),
                keys: policy.directory_key_count(),
                oddities: shared.mirror.oddities(),
            },
            gaps: Gaps {
                usage: gaps.usage,
                audit_directory: gaps.audit_directory,
                audit_log: gaps.audit_log,
                key_uses: gaps.key_uses,
            },
            store: shared.store,
        }
    }
}

/// Shows how this node is
///
/// It is answered from memory, whatever became of the directory.
#[utoipa::path(get, path = "/admin/v1/status", tag = "status",
    responses((status = 200, description = "How this node is", body = View)))]
pub(super) async fn show_status(
    _: By<Read>,
    State(shared): State<Shared>,
) -> Result<Answer, Failure> {
    Answer::ok(&aside(move || View::new(&shared)).await?)
}
