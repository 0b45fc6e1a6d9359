use std::path::PathBuf;
use std::time::Duration;

use tollward_core::OnFailure;

use super::{Compiler, word};
use crate::config::{self, Backend, File, Place, RedisUrl, Spanned, Store, StoreClock, StoreTls};

const DEFAULT_PREFIX: &str = "tollward:";
const DEFAULT_DEADLINE: Duration = Duration::from_millis(5);

/// How to use a Redis, wherever it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisOptions {
    /// What all keys begin with: 1 to [`config::MAX_PREFIX`] bytes of printable ASCII, no braces.
    pub prefix: String,
    /// How long a decision waits; whole milliseconds.
    pub deadline: Duration,
    /// Whose clock counts.
    pub clock: StoreClock,
    /// The certificates, where the URL asks for TLS.
    pub tls: RedisTls,
}

/// The certificates of connections to Redis. Nothing here has been read yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// A PEM file of those who may have signed the server's certificate; none for those whom the
    /// system trusts.
    pub ca: Option<PathBuf>,
    /// What is shown to the server.
    pub client: Option<ClientCertificate>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// A PEM file with the certificate, and those above it.
    pub cert: PathBuf,
    /// A PEM file with its private key.
    pub key: PathBuf,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            prefix: DEFAULT_PREFIX.to_owned(),
            deadline: DEFAULT_DEADLINE,
            clock: StoreClock::Server,
            tls: RedisTls::default(),
        }
    }
}

impl Compiler {
    /// The Redis that counters live in, if they do.
    pub(super) fn redis_url(&mut self, file: &File) -> Option<RedisUrl> {
        let store = file.store.as_ref()?;
        let backend = store.backend.as_ref();
        match (backend.map(|backend| backend.value), &store.url) {
            (Some(Backend::Redis), Some(url)) => return Some(url.value.clone()),
            (Some(Backend::Memory), Some(url)) => self.fault(
                &url.place,
                "a `url` with `backend: memory`",
                "remove one of the two, or write `backend: redis`",
            ),
            (None, Some(url)) if !self.is_broken("store.backend") => self.fault(
                &url.place,
                "a `url` without `backend: redis`",
                "add `backend: redis`",
            ),
            (Some(Backend::Redis), None) if !self.is_broken("store.url") => self.fault(
                backend.map_or(&store.place, |backend| &backend.place),
                "`backend: redis` without a `url`",
                "add `url: redis://HOST:6379`; or remove `backend`, and start with `--redis URL`",
            ),
            _ => {}
        }
        None
    }

    pub(super) fn redis_options(&mut self, file: &File) -> RedisOptions {
        let default = RedisOptions::default();
        let Some(store) = &file.store else {
            return default;
        };
        let prefix = store.prefix.as_ref().map(|prefix| prefix.value.clone());
        RedisOptions {
            prefix: prefix.unwrap_or(default.prefix),
            deadline: word(store.deadline.as_ref()).unwrap_or(default.deadline),
            clock: word(store.clock.as_ref()).unwrap_or(default.clock),
            tls: match &store.tls {
                Some(tls) => self.redis_tls(tls, store),
                None => default.tls,
            },
        }
    }

    fn redis_tls(&mut self, tls: &StoreTls, store: &Store) -> RedisTls {
        let (ca, cert) = (tls.ca.as_ref(), tls.cert.as_ref());
        let client = self.client_certificate(&tls.place, ca, cert, tls.key.as_ref());
        // Without a URL here, `--redis` may bring one that has it.
        if store.url.as_ref().is_some_and(|url| !url.value.tls) {
            self.fault(
                &tls.place,
                "`tls` with a `url` that does not use it",
                "remove it, or write `rediss://`, `rediss-cluster://` or `rediss-sentinel://`",
            );
        }
        RedisTls {
            ca: ca.map(|ca| PathBuf::from(&ca.value)),
            client,
        }
    }

    /// What is shown to a server, from a `tls` at `place` with these fields.
    pub(super) fn client_certificate(
        &mut self,
        place: &Place,
        ca: Option<&Spanned<String>>,
        cert: Option<&Spanned<String>>,
        key: Option<&Spanned<String>>,
    ) -> Option<ClientCertificate> {
        let (message, hint) = match (cert, key) {
            (Some(cert), Some(key)) => {
                return Some(ClientCertificate {
                    cert: PathBuf::from(&cert.value),
                    key: PathBuf::from(&key.value),
                });
            }
            (Some(_), None) => ("`cert` without `key`", "give both or neither"),
            (None, Some(_)) => ("`key` without `cert`", "give both or neither"),
            (None, None) if ca.is_some() => return None,
            (None, None) => (
                "a `tls` that says nothing",
                "give it `ca`, or `cert` and `key`, or remove it",
            ),
        };
        self.fault(place, message, hint);
        None
    }
}

/// What holds for limits that do not say.
pub(super) fn on_failure(file: &File) -> OnFailure {
    let store = file.store.as_ref();
    match word(store.and_then(|store| store.on_failure.as_ref())) {
        Some(written) => decided(written),
        None => OnFailure::default(),
    }
}

/// The word as decisions know it.
pub(super) fn decided(written: config::OnFailure) -> OnFailure {
    match written {
        config::OnFailure::Local => OnFailure::Local,
        config::OnFailure::Open => OnFailure::Open,
        config::OnFailure::Closed => OnFailure::Closed,
    }
}
