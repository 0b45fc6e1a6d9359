use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Compiler, word};
use crate::config::{self, File, HostHeader, HttpUrl, MAX_TARGETS, Protocol, Spanned};
use crate::policy::LimitId;
use crate::upstream::{Target, Upstream, UpstreamTls};

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
const DEFAULT_MAX_CONNECTIONS: u32 = 1024;

impl Compiler {
    /// The upstreams, and the limits of each.
    pub(super) fn upstreams(&mut self, file: &File) -> (Vec<Arc<Upstream>>, Vec<Vec<LimitId>>) {
        let compiled = file.upstreams.iter().map(|(name, written)| {
            let upstream = Arc::new(self.upstream(&name.value, written));
            (upstream, self.upstream_limits(&name.value, written, file))
        });
        compiled.unzip()
    }

    fn upstream(&mut self, name: &str, written: &config::Upstream) -> Upstream {
        let targets = self.targets(written);
        let tls = targets.iter().any(|target| target.tls);
        let host = if tls {
            HostHeader::Target
        } else {
            HostHeader::Keep
        };
        let max_connections = word(written.max_connections.as_ref());
        let max_connections = max_connections.unwrap_or(DEFAULT_MAX_CONNECTIONS);
        Upstream {
            name: name.into(),
            tls: match &written.tls {
                Some(written) => self.upstream_tls(written, tls),
                None => UpstreamTls::default(),
            },
            targets,
            connect_timeout: word(written.connect_timeout.as_ref())
                .unwrap_or(DEFAULT_CONNECT_TIMEOUT),
            response_timeout: word(written.response_timeout.as_ref())
                .unwrap_or(DEFAULT_RESPONSE_TIMEOUT),
            idle_timeout: word(written.idle_timeout.as_ref()).unwrap_or(DEFAULT_IDLE_TIMEOUT),
            protocol: word(written.protocol.as_ref()).unwrap_or(Protocol::Http1),
            host: word(written.host.as_ref()).unwrap_or(host),
            max_connections: usize::try_from(max_connections).unwrap_or(usize::MAX),
        }
    }

    fn targets(&mut self, written: &config::Upstream) -> Vec<Target> {
        let urls: Vec<&Spanned<HttpUrl>> = written.url.iter().chain(&written.urls).collect();
        if urls.is_empty() {
            let hint = "add one such as `http://127.0.0.1:9000`";
            self.fault(&written.place, "the list of `urls` is empty", hint);
        }
        if urls.len() > MAX_TARGETS {
            let message = format!("{} servers, more than {MAX_TARGETS}", urls.len());
            self.fault(&written.place, message, "make two upstreams of it");
            return Vec::new();
        }
        for (index, url) in urls.iter().enumerate() {
            let earlier = urls.get(..index).unwrap_or_default();
            if earlier.iter().any(|earlier| earlier.value == url.value) {
                self.fault(&url.place, "the same server twice", "remove one");
            }
            if earlier
                .first()
                .is_some_and(|first| first.value.tls != url.value.tls)
            {
                self.fault(
                    &url.place,
                    "`http://` and `https://` in one upstream",
                    "make two upstreams of it, or write the same for all",
                );
            }
        }
        let targets = urls.iter().map(|url| Target {
            tls: url.value.tls,
            host: url.value.host.clone(),
            port: url.value.port,
            prefix: url.value.path.clone(),
        });
        targets.collect()
    }

    fn upstream_tls(&mut self, written: &config::UpstreamTls, used: bool) -> UpstreamTls {
        if !used {
            self.fault(
                &written.place,
                "`tls` for servers that are asked without it",
                "remove it, or write `https://`",
            );
        }
        let ca = written.ca.as_ref();
        UpstreamTls {
            ca: ca.map(|ca| PathBuf::from(&ca.value)),
            client: self.client_certificate(
                &written.place,
                ca,
                written.cert.as_ref(),
                written.key.as_ref(),
            ),
        }
    }

    /// An upstream that is named must exist.
    pub(super) fn named_upstream(&mut self, name: &Spanned<String>, file: &File) -> Option<usize> {
        let index = self.upstream_names.get(name.value.as_str()).copied();
        if index.is_none() && !self.may_be_broken("upstreams", &name.value) {
            let names = file.upstreams.iter().map(|(name, _)| name.value.as_str());
            let hint = self.hint_of_name(&name.value, names, "upstreams");
            let message = format!("there is no upstream `{}`", name.value);
            self.fault(&name.place, message, hint);
        }
        index
    }
}
