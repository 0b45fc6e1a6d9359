//! A TCP proxy that does to connections what networks do.
#![expect(
    clippy::panic,
    reason = "a fixture that cannot do its work fails the test, and only tests use it"
)]

use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// More connections than these at once are closed.
const MAX_CONNECTIONS: usize = 512;
/// So many pieces of a connection's answers may be on their way.
const MAX_PIECES: usize = 1024;
const PIECE: usize = 16 << 10;
/// After which TCP sends again what was lost: Linux waits no less.
const RETRANSMISSION: Duration = Duration::from_millis(200);
/// The target is on this machine.
const CONNECT: Duration = Duration::from_secs(5);

/// A proxy before a server of this machine; its faults can be changed at any time and act at once.
///
/// TCP delivers in order or not at all. So when bytes of a connection are swallowed, none that are behind them pass
/// either, and when the fault is lifted, the connections that lost bytes are closed.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

impl FaultProxy {
    /// Starts a proxy without faults, on a free port of 127.0.0.1.
    #[track_caller]
    pub fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0));
        let bound = listener.and_then(|it| Ok((it.local_addr()?, it)));
        let (address, listener) = match bound {
            Ok(bound) => bound,
            Err(error) => panic!("the proxy cannot listen: {error}"),
        };
        let shared = Arc::new(Shared::default());
        let sharing = Arc::clone(&shared);
        Self {
            address,
            shared,
            listener: Some(thread::spawn(move || sharing.listen(&listener, target))),
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Delays every piece of what the server answers by a random time in this range; their order is kept.
    pub fn delay(&self, min: Duration, max: Duration) {
        self.shared.faults().delay = (min, max.max(min));
    }

    /// Delays so many of a thousand pieces, in either direction, as if a packet were lost and sent again: the
    /// connection stands still for 200 ms.
    pub fn lose(&self, per_mille: u16) {
        self.shared.faults().lose = per_mille;
    }

    /// Closes all connections now.
    pub fn cut(&self) {
        self.shared.close(|_| true);
    }

    /// Closes new connections at once, or no longer.
    pub fn refuse(&self, on: bool) {
        self.shared.faults().refuse = on;
    }

    /// Swallows everything in both directions, also the end of a connection, and closes nothing; or no longer.
    pub fn black_hole(&self, on: bool) {
        self.shared.change(on, |faults| faults.black_hole = on);
    }

    /// Lets requests through and swallows what the server answers, or no longer.
    pub fn drop_replies(&self, on: bool) {
        self.shared.change(on, |faults| faults.drop_replies = on);
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        let connections = lock(&self.shared.connections);
        let open = connections.iter().filter(|it| !it.link.is_closed());
        open.count()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.ends.store(true, SeqCst);
        // Wakes the listener. If it cannot be woken it is left behind rather than waited for.
        let woken = TcpStream::connect_timeout(&self.address, CONNECT).is_ok();
        if woken && let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        self.cut();
        let connections = std::mem::take(&mut *lock(&self.shared.connections));
        for thread in connections.into_iter().flat_map(|it| it.threads) {
            let _ = thread.join();
        }
    }
}

#[derive(Debug, Default)]
struct Faults {
    delay: (Duration, Duration),
    lose: u16,
    refuse: bool,
    black_hole: bool,
    drop_replies: bool,
}

#[derive(Debug, Default)]
struct Shared {
    /// Locked before `connections`, where both are.
    faults: Mutex<Faults>,
    connections: Mutex<Vec<Connection>>,
    ends: AtomicBool,
    dice: Dice,
}

impl Shared {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        lock(&self.faults)
    }

    /// Changes what is swallowed. The lock is held throughout, so that no connection loses bytes by a fault that is
    /// lifted and yet stays open.
    fn change(&self, on: bool, change: impl FnOnce(&mut Faults)) {
        let mut faults = self.faults();
        change(&mut faults);
        if !on {
            self.close(|link| link.has_lost());
        }
    }

    fn close(&self, which: impl Fn(&Link) -> bool) {
        let connections = lock(&self.connections);
        let chosen = connections.iter().filter(|it| which(&it.link));
        chosen.for_each(|it| it.link.close());
    }

    fn listen(self: &Arc<Self>, listener: &TcpListener, target: SocketAddr) {
        loop {
            let Ok((client, _)) = listener.accept() else {
                continue;
            };
            if self.ends.load(SeqCst) {
                return;
            }
            let full = {
                let mut connections = lock(&self.connections);
                connections.retain(|it| !it.is_over());
                connections.len() >= MAX_CONNECTIONS
            };
            if full || self.faults().refuse {
                continue;
            }
            // A server that is not there looks like this from behind a proxy: connected, and closed.
            if let Ok(server) = TcpStream::connect_timeout(&target, CONNECT) {
                self.open(client, server);
            }
        }
    }

    fn open(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        let link = Arc::new(Link {
            client,
            server,
            closed: Mutex::new(false),
            closing: Condvar::new(),
            lost: [AtomicBool::new(false), AtomicBool::new(false)],
        });
        let run = |work: fn(&Self, &Link)| {
            let (shared, link) = (Arc::clone(self), Arc::clone(&link));
            thread::spawn(move || work(&shared, &link))
        };
        let threads = [run(Self::pass_requests), run(Self::pass_replies)];
        lock(&self.connections).push(Connection { link, threads });
    }

    fn pass_requests(&self, link: &Link) {
        let mut piece = [0; PIECE];
        loop {
            let length = (&link.client).read(&mut piece).unwrap_or(0);
            // What comes behind a lost piece waits as well, so nothing else is to be done meanwhile.
            if self.is_lost() && !link.wait(RETRANSMISSION) {
                return;
            }
            let passes = self.passes(link, Direction::Requests);
            if length == 0 {
                if passes {
                    let _ = link.server.shutdown(Shutdown::Write);
                }
                return;
            }
            if passes && (&link.server).write_all(&piece[..length]).is_err() {
                // The other thread sees the end, behind the last answers.
                return;
            }
        }
    }

    /// Two threads: one stamps pieces with the time when they are due, the other waits for that.
    fn pass_replies(&self, link: &Link) {
        let (sender, receiver) = sync_channel(MAX_PIECES);
        thread::scope(|scope| {
            scope.spawn(move || self.deliver_replies(link, receiver));
            self.read_replies(link, sender);
            // The receiver hears of the end by the sender, which is gone.
        });
    }

    #[expect(clippy::disallowed_methods, reason = "delays are real")]
    fn read_replies(&self, link: &Link, sender: SyncSender<Piece>) {
        let mut due = Instant::now();
        loop {
            let mut bytes = vec![0; PIECE];
            let length = (&link.server).read(&mut bytes).unwrap_or(0);
            bytes.truncate(length);
            due = due.max(Instant::now() + self.some_delay());
            if sender.send(Piece { bytes, due }).is_err() || length == 0 {
                return;
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "delays are real")]
    fn deliver_replies(&self, link: &Link, receiver: Receiver<Piece>) {
        for Piece { bytes, due } in receiver {
            let early = due.saturating_duration_since(Instant::now());
            if !early.is_zero() && !link.wait(early) {
                return;
            }
            // Asked when it is due: a fault acts also on what was already on its way.
            if !self.passes(link, Direction::Replies) {
                continue;
            }
            let at_end = bytes.is_empty();
            if at_end || (&link.client).write_all(&bytes).is_err() {
                link.close();
            }
        }
    }

    /// Whether bytes that have come may pass; if not, the link has lost them.
    fn passes(&self, link: &Link, direction: Direction) -> bool {
        let faults = self.faults();
        let mine = matches!(direction, Direction::Replies) && faults.drop_replies;
        let lost = &link.lost[direction as usize];
        if faults.black_hole || mine {
            lost.store(true, SeqCst);
        }
        !lost.load(SeqCst)
    }

    fn some_delay(&self) -> Duration {
        let (min, max) = self.faults().delay;
        let delay = min + (max - min).mul_f64(self.dice.fraction());
        match self.is_lost() {
            true => delay + RETRANSMISSION,
            false => delay,
        }
    }

    fn is_lost(&self) -> bool {
        let lose = self.faults().lose;
        lose > 0 && self.dice.fraction() * 1000.0 < f64::from(lose)
    }
}

struct Piece {
    /// None are the end.
    bytes: Vec<u8>,
    due: Instant,
}

#[derive(Clone, Copy)]
enum Direction {
    Requests,
    Replies,
}

#[derive(Debug)]
struct Connection {
    link: Arc<Link>,
    threads: [JoinHandle<()>; 2],
}

impl Connection {
    fn is_over(&self) -> bool {
        self.link.is_closed() && self.threads.iter().all(JoinHandle::is_finished)
    }
}

/// A client's connection to the proxy and the proxy's to the server.
#[derive(Debug)]
struct Link {
    client: TcpStream,
    server: TcpStream,
    closed: Mutex<bool>,
    closing: Condvar,
    /// By [`Direction`].
    lost: [AtomicBool; 2],
}

impl Link {
    /// Closes both connections, whatever their threads are doing.
    fn close(&self) {
        *lock(&self.closed) = true;
        self.closing.notify_all();
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    fn is_closed(&self) -> bool {
        *lock(&self.closed)
    }

    fn has_lost(&self) -> bool {
        self.lost.iter().any(|it| it.load(SeqCst))
    }

    /// Waits; false if the link was closed.
    fn wait(&self, time: Duration) -> bool {
        let closed = lock(&self.closed);
        let waited = self.closing.wait_timeout_while(closed, time, |it| !*it);
        let (closed, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !*closed
    }
}

/// Chance, another one in each run.
#[derive(Debug, Default)]
struct Dice {
    seed: RandomState,
    thrown: AtomicU64,
}

impl Dice {
    /// From 0 to 1.
    fn fraction(&self) -> f64 {
        let thrown = self.thrown.fetch_add(1, SeqCst);
        let bits = u32::try_from(self.seed.hash_one(thrown) >> 32).unwrap_or(0);
        f64::from(bits) / f64::from(u32::MAX)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
