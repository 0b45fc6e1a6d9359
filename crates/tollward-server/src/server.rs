//! The composition root: a policy, a store, a clock, and the doors before them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollward_directory::{Directory, Mirror};
use tollward_engine::{Clock, Engine, SystemClock};
use tollward_gateway::Stats;
use tollward_policy::config::RedisUrl;
use tollward_policy::{DirectorySettings, DirectoryUrl, Listen};
use tracing::info;

use crate::clashes::Clashes;
use crate::config_state::ConfigState;
use crate::counters::Counters;
use crate::doors::admin::{Admin, Office};
use crate::doors::api::Api;
use crate::doors::{Limits, listener, token};
use crate::gateway::{self, Gates};
use crate::jwks;
use crate::kept::Kept;
use crate::metrics::Metrics;
use crate::records::{Records, node_name};
use crate::reload::{Hangup, Reload, tell_warnings};
use crate::source::Source;

/// What a server is started with.
pub struct Options {
    /// Where the configuration comes from.
    pub source: Source,
    /// Overrides the configuration's address of the gateway.
    pub gateway: Option<SocketAddr>,
    /// Overrides the configuration's address of the decision API.
    pub api: Option<SocketAddr>,
    /// Overrides the configuration's address of the admin door.
    pub admin: Option<SocketAddr>,
    /// Redis to keep the counters in, whatever the configuration says.
    pub redis: Option<RedisUrl>,
    /// Where tenants, users and keys live, whatever the configuration says.
    pub directory: Option<DirectoryUrl>,
    /// The token of the decision API; an empty one is none.
    pub api_token: Option<String>,
    /// The token of the admin door; an empty one is none. If there is none, the door listens on this
    /// machine only, and a token is made for it.
    pub admin_token: Option<String>,
    /// How long a client may take over the head of a request.
    pub head_timeout: Duration,
    /// How long a client may take over the body of a request.
    pub body_timeout: Duration,
    /// How long a client may take nothing of an answer.
    pub write_timeout: Duration,
    /// Tells the time instead of this machine's clock.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Options {
    /// The configuration as it stands.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            gateway: None,
            api: None,
            admin: None,
            redis: None,
            directory: None,
            api_token: None,
            admin_token: None,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
            clock: None,
        }
    }
}

/// Who may use the decision API, besides this machine.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Whoever has this token.
    pub token: Option<String>,
    /// Whoever calls from these networks.
    pub peers: Vec<IpNet>,
}

/// A server whose doors are open.
pub struct Server {
    engine: Arc<Engine>,
    gateway: Option<SocketAddr>,
    has_tls: bool,
    api: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    made_token: Option<String>,
    kept: Kept,
    doors: JoinSet<()>,
    admin_door: JoinSet<()>,
    background: JoinSet<()>,
    /// Follows the directory as long as it is held.
    _mirror: Mirror,
    /// What is recorded is written to the end.
    recorder: JoinSet<()>,
    stopping: watch::Sender<bool>,
    /// The admin door is the last to close: what goes on behind the others can be seen till the end.
    closing: watch::Sender<bool>,
    /// Nothing more is decided.
    closed: watch::Sender<bool>,
}

/// Tells a server to stop.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<bool>);

impl Stop {
    /// Accept no more, finish what is under way.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

const DEFAULT_API: SocketAddr = SocketAddr::new(LOOPBACK, 8081);
const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(LOOPBACK, 8082);
const LOOPBACK: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
/// What is wrong with a configuration that a gateway cannot use.
pub(crate) const NO_UPSTREAM: &str = "the gateway has nowhere to send requests: name an upstream under `upstreams`, and routes to it";
/// How long all of the directory may take to be read.
const LOAD_TIMEOUT: Duration = Duration::from_secs(120);
const FOLLOW_CALENDAR_EVERY: Duration = Duration::from_secs(1);

impl Server {
    /// Reads the configuration and opens the doors.
    ///
    /// # Errors
    ///
    /// The configuration has faults, an address cannot be had, or a door would be open to strangers.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        // Looked at before it is read, so that a change meanwhile is noticed later.
        let stamp = options.source.stamp();
        let text = options.source.read()?;
        let compiled = options.source.compile(&text)?;
        let settings = compiled.settings;
        let listen = settings.listen.unwrap_or(Listen {
            gateway: None,
            api: Some(DEFAULT_API),
            admin: Some(DEFAULT_ADMIN),
        });
        let access = Access {
            token: options.api_token.filter(|token| !token.is_empty()),
            peers: settings.api_peers.clone(),
        };
        let gateway = options.gateway.or(listen.gateway);
        let api = options.api.or(listen.api);
        let admin = options.admin.or(listen.admin);
        let admin_token = options.admin_token.filter(|token| !token.is_empty());
        check_doors([gateway, api, admin], &access, admin_token.as_deref())?;
        ensure!(
            gateway.is_none() || !compiled.policy.upstreams().is_empty(),
            NO_UPSTREAM
        );

        let mut background = JoinSet::new();
        let clock = options
            .clock
            .unwrap_or_else(|| system_clock(&mut background));
        let kept = Kept::new(
            &settings,
            options.redis.as_ref(),
            options.directory,
            admin.is_some(),
        );
        let warnings = kept.warnings(compiled.warnings);
        tell_warnings(&options.source, &warnings);
        let counters = Counters::start(&settings, options.redis, &clock)?;
        let store = counters.store();
        let store_name = counters.name();
        let directory = Directory::open(&kept.directory).await;
        let directory =
            directory.with_context(|| format!("cannot open the directory {}", kept.directory))?;
        let (audit, usage) = (&settings.audit, &settings.usage);
        let records = Records::open(&node_name(), directory.clone(), clock.clone(), audit, usage);
        let (records, recorder) = records.context("cannot open the audit log")?;
        let engine = Engine::new(compiled.policy, store, clock.clone());
        let engine = Arc::new(engine.observed_by(Arc::new(records.clone())));
        let mirror = loaded(directory.clone(), engine.clone(), &settings.directory).await?;
        let clashes = Clashes::default();
        clashes.look(&engine);
        background.spawn(clashes.clone().watch(engine.clone()));
        let now_ms = i64::try_from(clock.calendar(clock.now()).as_micros() / 1000)?;
        let source = options.source.to_string();
        let (state, asked) = ConfigState::new(&source, text, warnings, settings.clone(), now_ms);
        let stats = Arc::new(Stats::default());
        let watched = gateway.map(|_| stats.clone());
        let metrics = Metrics::new(
            engine.clone(),
            counters.clone(),
            watched,
            records.clone(),
            clashes.clone(),
        );
        let metrics = Arc::new(metrics);
        let gates = Gates {
            engine: engine.clone(),
            proofs: Arc::default(),
            finishes: counters.finishes(),
            timed: {
                let metrics = metrics.clone();
                Arc::new(move |micros| metrics.decided(micros))
            },
        };
        background.spawn(jwks::follow(engine.clone(), gates.proofs.clone()));
        let ready = readiness(counters, &mut background);
        let (stopping, stop) = watch::channel(false);
        let (closing, close) = watch::channel(false);
        let (closed, is_closed) = watch::channel(false);
        let limits = Limits {
            connections: settings.max_connections,
            head_timeout: options.head_timeout,
            write_timeout: options.write_timeout,
        };

        let mut server = Self {
            engine: engine.clone(),
            gateway: None,
            has_tls: settings.gateway.tls.is_some(),
            api: None,
            admin: None,
            made_token: None,
            kept: kept.clone(),
            doors: JoinSet::new(),
            admin_door: JoinSet::new(),
            background,
            _mirror: mirror.clone(),
            recorder: JoinSet::new(),
            stopping,
            closing,
            closed,
        };
        server.recorder.spawn(recorder.run(is_closed));
        if let Some(address) = gateway {
            let (listener, address) = bind(address, "the gateway", "--gateway").await?;
            let failed = Some(records.upstream_failed(engine.clone()));
            let open = gateway::open(listener, &settings.gateway, &gates, clock, stats, failed)?;
            server.doors.spawn(open.run(stop.clone()));
            server.gateway = Some(address);
        }
        if let Some(address) = api {
            let (listener, address) = bind(address, "the decision API", "--api").await?;
            let door = Api {
                engine: engine.clone(),
                gate: gates.plain(),
                metrics: metrics.clone(),
                access,
                body_timeout: options.body_timeout,
                finishes: gates.finishes,
            };
            let open = metrics.connections().clone();
            let serve = listener::serve(listener, Arc::new(door), limits, open, stop.clone());
            server.doors.spawn(serve);
            server.api = Some(address);
        }
        if let Some(address) = admin {
            let (listener, address) = bind(address, "the admin door", "--admin").await?;
            let token = match admin_token {
                Some(token) => token,
                None => {
                    let made = token::made().context("cannot make a token for the admin door")?;
                    server.made_token.insert(made).clone()
                }
            };
            let office = Office {
                engine: engine.clone(),
                metrics: metrics.clone(),
                directory,
                mirror: mirror.clone(),
                records: records.clone(),
                config: state.clone(),
                clashes: clashes.clone(),
                store: store_name,
                ready,
                stopping: stop,
                body_timeout: options.body_timeout,
            };
            let door = Admin::new(office, token)?;
            let open = metrics.connections().clone();
            let serve = listener::serve(listener, Arc::new(door), limits, open, close);
            server.admin_door.spawn(serve);
            server.admin = Some(address);
        }
        let reload = Reload {
            source: options.source,
            stamp,
            settings,
            engine,
            metrics,
            records,
            mirror: mirror.clone(),
            has_gateway: server.gateway.is_some(),
            clashes,
            kept,
            hangup: Hangup::new(),
            state,
            asked,
        };
        server.background.spawn(reload.watch());
        Ok(server)
    }

    /// The address of the gateway.
    pub fn gateway(&self) -> Option<SocketAddr> {
        self.gateway
    }

    /// Whether the gateway speaks TLS.
    pub fn has_tls(&self) -> bool {
        self.has_tls
    }

    /// The address of the decision API.
    pub fn api(&self) -> Option<SocketAddr> {
        self.api
    }

    /// The address of the admin door.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// The token that was made for the admin door because none was given.
    pub fn made_admin_token(&self) -> Option<&str> {
        self.made_token.as_deref()
    }

    /// Where counters and the directory live.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// What decides.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Tells it to stop, from anywhere.
    pub fn stop(&self) -> Stop {
        Stop(self.stopping.clone())
    }

    /// Serves until it is told to stop and every request under way is answered.
    pub async fn run(mut self) {
        let mut stopping = self.stopping.subscribe();
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => {}
            // A door does not end by itself; should it, the others end with it.
            Some(_) = self.doors.join_next() => {}
            Some(_) = self.admin_door.join_next() => {}
        }
        self.stopping.send_replace(true);
        while self.doors.join_next().await.is_some() {}
        self.closing.send_replace(true);
        while self.admin_door.join_next().await.is_some() {}
        self.closed.send_replace(true);
        while self.recorder.join_next().await.is_some() {}
        self.background.shutdown().await;
        info!("stopped");
    }
}

fn system_clock(background: &mut JoinSet<()>) -> Arc<dyn Clock> {
    let clock = Arc::new(SystemClock::new());
    let following = clock.clone();
    background.spawn(async move {
        loop {
            tokio::time::sleep(FOLLOW_CALENDAR_EVERY).await;
            following.follow_calendar();
        }
    });
    clock
}

/// A copy of the directory that has everything: nobody is refused for a key that was not read yet.
async fn loaded(
    directory: Directory,
    engine: Arc<Engine>,
    settings: &DirectorySettings,
) -> anyhow::Result<Mirror> {
    let mirror = Mirror::start(directory, engine, settings);
    let loading = tokio::time::timeout(LOAD_TIMEOUT, mirror.caught_up(0)).await;
    loading.map_err(|_| {
        let why = mirror.health().error;
        let why = why.unwrap_or_else(|| "it takes too long".to_owned());
        anyhow!("cannot read the directory: {why}")
    })?;
    Ok(mirror)
}

/// Becomes true when the store was tried, with whatever result: what it does not decide, `on_failure`
/// does.
fn readiness(counters: Counters, background: &mut JoinSet<()>) -> watch::Receiver<bool> {
    let (sender, ready) = watch::channel(false);
    background.spawn(async move {
        counters.tried().await;
        sender.send_replace(true);
    });
    ready
}

async fn bind(
    address: SocketAddr,
    door: &str,
    flag: &str,
) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok::<_, io::Error>((listener, address))
    };
    bound.await.with_context(|| {
        format!("cannot listen on {address} for {door}; another address can be given with {flag}")
    })
}

/// A door that strangers can reach has to have a lock.
fn check_doors(
    doors: [Option<SocketAddr>; 3],
    access: &Access,
    admin_token: Option<&str>,
) -> anyhow::Result<()> {
    ensure!(
        doors.iter().any(Option::is_some),
        "no door is open: name one under `listen`, or with --gateway, --api or --admin"
    );
    // The gateway asks whoever comes who it is.
    let [_, api, admin] = doors;
    let is_open = |address: Option<SocketAddr>| {
        address.is_some_and(|address| !address.ip().to_canonical().is_loopback())
    };
    if is_open(api) && access.token.is_none() && access.peers.is_empty() {
        bail!(
            "the decision API is for trusted callers and would be open to all on {}: set \
             TOLLWARD_API_TOKEN, or name the callers' networks in `listen.api_peers`, or listen on \
             127.0.0.1",
            api.unwrap_or(DEFAULT_API)
        );
    }
    if is_open(admin) && admin_token.is_none() {
        bail!(
            "the admin door would be open to all on {}: set TOLLWARD_ADMIN_TOKEN (health and metrics \
             need no token even then), or listen on 127.0.0.1",
            admin.unwrap_or(DEFAULT_ADMIN)
        );
    }
    Ok(())
}
