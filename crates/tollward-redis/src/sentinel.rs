//! Which server the sentinels say is the primary.

use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{MultiplexedConnection, PubSubStream};
use redis::{ErrorKind, Value};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::connect::{Address, Dialer, within};
use crate::jitter::jittered;

/// How often the sentinels are asked, besides listening to them.
const ASK_EVERY: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_millis(500);

/// Asks sentinels and listens to them, for ever.
pub(crate) struct Watcher {
    pub(crate) sentinels: Vec<Address>,
    pub(crate) master: String,
    pub(crate) dialer: Dialer,
    pub(crate) primary: watch::Sender<Option<Address>>,
}

impl Watcher {
    pub(crate) async fn run(mut self) {
        let mut silent = true;
        loop {
            match self.find().await {
                Some(sentinel) => {
                    silent = true;
                    self.follow(sentinel).await;
                }
                None => {
                    if silent {
                        silent = false;
                        warn!(master = %self.master, "no sentinel knows the primary: the last one known is used");
                    }
                    tokio::time::sleep(jittered(ASK_EVERY / 4)).await;
                }
            }
        }
    }

    /// Listens to a sentinel and asks it now and then, until it fails.
    async fn follow(&self, mut sentinel: Sentinel) {
        loop {
            match tokio::time::timeout(ASK_EVERY, sentinel.news.next()).await {
                Ok(Some(message)) => {
                    if let Some(primary) = self.switched(message.get_payload_bytes()) {
                        self.tell(primary);
                    }
                }
                Ok(None) => return,
                Err(_) => match self.ask(&mut sentinel.questions).await {
                    Some(primary) => self.tell(primary),
                    None => return,
                },
            }
        }
    }

    /// Asks the sentinels in turn. The first that knows will be the first to be asked the next time.
    async fn find(&mut self) -> Option<Sentinel> {
        for index in 0..self.sentinels.len() {
            let address = self.sentinels[index].clone();
            if let Some((sentinel, primary)) = self.meet(&address).await {
                self.sentinels.rotate_left(index);
                self.tell(primary);
                return Some(sentinel);
            }
        }
        None
    }

    async fn meet(&self, address: &Address) -> Option<(Sentinel, Address)> {
        let strangers = self.dialer.clone().without_credentials();
        let (mut news, dialer) = match self.dialer.listen(address).await {
            Ok(news) => (news, &self.dialer),
            Err(error) if error.kind() == ErrorKind::AuthenticationFailed => {
                (strangers.listen(address).await.ok()?, &strangers)
            }
            Err(_) => return None,
        };
        // First listen, so that nothing is missed behind the question.
        let listening = within(TIMEOUT, news.subscribe("+switch-master")).await;
        listening.ok()?;
        let mut questions = dialer.dial(address).await.ok()?;
        let primary = self.ask(&mut questions).await?;
        let news = news.into_on_message();
        Some((Sentinel { questions, news }, primary))
    }

    async fn ask(&self, sentinel: &mut MultiplexedConnection) -> Option<Address> {
        let mut command = redis::cmd("SENTINEL");
        command.arg("get-master-addr-by-name").arg(&self.master);
        let reply = within(TIMEOUT, sentinel.send_packed_command(&command)).await;
        let Ok(Value::Array(parts)) = reply else {
            return None;
        };
        let [Value::BulkString(host), Value::BulkString(port)] = &parts[..] else {
            return None;
        };
        address(str::from_utf8(host).ok()?, str::from_utf8(port).ok()?)
    }

    /// The new address, from `NAME OLD-HOST OLD-PORT HOST PORT`.
    fn switched(&self, message: &[u8]) -> Option<Address> {
        let words: Vec<&str> = str::from_utf8(message).ok()?.split(' ').collect();
        match words[..] {
            [name, _, _, host, port] if name == self.master => address(host, port),
            _ => None,
        }
    }

    fn tell(&self, primary: Address) {
        self.primary.send_if_modified(|known| {
            if known.as_ref() == Some(&primary) {
                return false;
            }
            info!(master = %self.master, %primary, "the sentinels name the primary");
            *known = Some(primary);
            true
        });
    }
}

/// A sentinel that answers.
struct Sentinel {
    questions: MultiplexedConnection,
    news: PubSubStream,
}

fn address(host: &str, port: &str) -> Option<Address> {
    Some(Address::Tcp {
        host: host.to_owned(),
        port: port.parse().ok()?,
    })
}
