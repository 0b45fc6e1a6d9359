//! Both ends of a gateway, the clients before it and the upstream behind it, on one thread: a gateway
//! with one worker has the other core of two to itself, and does most of the work that there is.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use super::message;

/// Connections of clients to one gateway.
pub(super) const CONNECTIONS: usize = 32;
/// How long a gateway may be silent that owes an answer.
const PATIENCE: Duration = Duration::from_secs(10);
const BUFFER: usize = 16 * 1024;

/// What the upstream says to everybody: a body of a hundred bytes.
const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n";
const BODY: &str = r#"{"player":"0123456789abcdef","score":123456,"rank":42,"board":"weekly","season":7,"updated":1700000}"#;
// With a byte more or less, no connection would be used twice.
const _: () = assert!(BODY.len() == 100);

const LISTENER: Token = Token(0);

pub(super) struct Lab {
    poll: Poll,
    listener: TcpListener,
    /// Where the upstream listens.
    pub(super) upstream: SocketAddr,
    answer: Vec<u8>,
    /// The upstream's connections; their tokens are odd.
    served: Vec<Option<Wire>>,
    /// The clients of all gateways; their tokens are even.
    clients: Vec<Client>,
}

struct Client {
    wire: Wire,
    /// When the request was to be sent whose answer has not come.
    asked: Option<Instant>,
}

struct Wire {
    stream: TcpStream,
    buffer: Box<[u8]>,
    filled: usize,
}

/// The clients of one gateway, and what they ask for.
pub(super) struct Lane {
    clients: Range<usize>,
    request: Vec<u8>,
    status: &'static str,
}

/// When clients ask.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// As soon as they have an answer.
    Full,
    /// So many times a second, evenly, whether or not those before are answered.
    PerSecond(f64),
}

impl Pace {
    /// How long to wait for something to happen. Who waits for a point in time looks all the while: a
    /// sleep would be too coarse.
    fn wait(self) -> Duration {
        match self {
            Self::Full => PATIENCE,
            Self::PerSecond(_) => Duration::ZERO,
        }
    }
}

/// The requests of a turn.
struct Schedule {
    pace: Pace,
    began: Instant,
    end: Instant,
    asked: u32,
}

impl Schedule {
    fn new(pace: Pace, turn: Duration) -> Self {
        let began = Instant::now();
        Self {
            pace,
            began,
            end: began + turn,
            asked: 0,
        }
    }

    /// When the next request is to be sent, if there is one.
    fn due(&self, now: Instant) -> Option<Instant> {
        let due = match self.pace {
            Pace::Full => now,
            Pace::PerSecond(rate) => {
                self.began + Duration::from_secs_f64(f64::from(self.asked) / rate)
            }
        };
        (due < self.end).then_some(due)
    }
}

/// What a turn gave.
pub(super) struct Turn {
    pub(super) elapsed: Duration,
    /// The time of each answer since its request was to be sent; sorted.
    pub(super) micros: Vec<f64>,
}

impl Lab {
    pub(super) fn new() -> anyhow::Result<Self> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self {
            poll,
            upstream: listener.local_addr()?,
            listener,
            answer: [HEAD, BODY].concat().into_bytes(),
            served: Vec::new(),
            clients: Vec::new(),
        })
    }

    /// Connects clients to a gateway that answers `request` with `status`.
    pub(super) fn connect(
        &mut self,
        gateway: SocketAddr,
        request: &[u8],
        status: &'static str,
    ) -> anyhow::Result<Lane> {
        let first = self.clients.len();
        for index in first..first + CONNECTIONS {
            let stream = std::net::TcpStream::connect(gateway)?;
            stream.set_nonblocking(true)?;
            let wire = Wire::new(
                TcpStream::from_std(stream),
                Token(2 * index + 2),
                &self.poll,
            )?;
            self.clients.push(Client { wire, asked: None });
        }
        Ok(Lane {
            clients: first..first + CONNECTIONS,
            request: request.to_vec(),
            status,
        })
    }

    /// Closes all lanes.
    pub(super) fn disconnect(&mut self) {
        self.clients.clear();
    }

    /// Lets the clients of a lane ask for as long as a turn lasts, and waits for the last answer.
    pub(super) fn turn(&mut self, lane: &Lane, pace: Pace, turn: Duration) -> anyhow::Result<Turn> {
        let mut events = Events::with_capacity(4 * CONNECTIONS);
        let mut idle: VecDeque<usize> = lane.clients.clone().collect();
        let mut micros = Vec::with_capacity(1 << 16);
        let mut strange = 0;
        let mut schedule = Schedule::new(pace, turn);
        let mut heard = schedule.began;
        loop {
            let now = Instant::now();
            while let Some(due) = schedule.due(now).filter(|due| *due <= now)
                && let Some(client) = idle.pop_front()
            {
                self.clients[client].ask(&lane.request, due)?;
                schedule.asked += 1;
            }
            if idle.len() == CONNECTIONS && schedule.due(now).is_none() {
                break;
            }
            self.poll.poll(&mut events, Some(pace.wait()))?;
            if events.is_empty() {
                ensure!(heard.elapsed() < PATIENCE, "a gateway does not answer");
                // Nobody is to wait for a core because somebody looks.
                std::thread::yield_now();
            }
            for event in &events {
                heard = now;
                if let Some(client) = self.turn_to(event)?
                    && let Some((took, is_strange)) = self.clients[client].answered(lane.status)?
                {
                    micros.push(took.as_secs_f64() * 1e6);
                    strange += usize::from(is_strange);
                    idle.push_back(client);
                }
            }
        }
        let elapsed = schedule.began.elapsed();
        // A limit that refuses lets one through now and then.
        let answers = micros.len();
        if strange * 1000 > answers + 1000 {
            bail!("{strange} of {answers} answers are not {}", lane.status);
        }
        micros.sort_unstable_by(f64::total_cmp);
        Ok(Turn { elapsed, micros })
    }

    /// Does the upstream's work; a client whose answer has come, or a part of it, is returned.
    fn turn_to(&mut self, event: &Event) -> anyhow::Result<Option<usize>> {
        let token = event.token();
        if token == LISTENER {
            self.accept()?;
        } else if token.0.is_multiple_of(2) {
            return Ok(Some(token.0 / 2 - 1));
        } else {
            let place = &mut self.served[token.0 / 2];
            let goes_on = match place {
                Some(wire) => wire.serve(&self.answer)? && !event.is_read_closed(),
                None => false,
            };
            if !goes_on {
                *place = None;
            }
        }
        Ok(None)
    }

    fn accept(&mut self) -> anyhow::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let free = self.served.iter().position(Option::is_none);
            let place = free.unwrap_or(self.served.len());
            let wire = Wire::new(stream, Token(2 * place + 1), &self.poll)?;
            match self.served.get_mut(place) {
                Some(free) => *free = Some(wire),
                None => self.served.push(Some(wire)),
            }
        }
    }
}

impl Client {
    fn ask(&mut self, request: &[u8], due: Instant) -> anyhow::Result<()> {
        self.wire.send(request)?;
        self.asked = Some(due);
        Ok(())
    }

    /// How long the answer took, if all of it is there, and whether it is another than expected.
    fn answered(&mut self, status: &str) -> anyhow::Result<Option<(Duration, bool)>> {
        let Some(asked) = self.asked else {
            return Ok(None);
        };
        if !self.wire.read()? {
            bail!("a gateway closed a connection");
        }
        let Some(length) = self.wire.message() else {
            return Ok(None);
        };
        let is_strange = message::status(&self.wire.buffer) != status.as_bytes();
        self.wire.take(length);
        self.asked = None;
        Ok(Some((asked.elapsed(), is_strange)))
    }
}

impl Wire {
    fn new(mut stream: TcpStream, token: Token, poll: &Poll) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        poll.registry()
            .register(&mut stream, token, Interest::READABLE)?;
        Ok(Self {
            stream,
            buffer: vec![0; BUFFER].into(),
            filled: 0,
        })
    }

    /// Reads what there is; false if nothing will come any more.
    fn read(&mut self) -> anyhow::Result<bool> {
        loop {
            let room = &mut self.buffer[self.filled..];
            ensure!(!room.is_empty(), "a message is too long");
            let size = room.len();
            match self.stream.read(room) {
                Ok(0) => return Ok(false),
                Ok(read) => {
                    self.filled += read;
                    // Less than there was room for: there is no more, or there will be an event.
                    if read < size {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The length of a message that has been read to its end.
    fn message(&self) -> Option<usize> {
        let read = &self.buffer[..self.filled];
        message::length(read).filter(|length| *length <= self.filled)
    }

    fn take(&mut self, length: usize) {
        self.buffer.copy_within(length..self.filled, 0);
        self.filled -= length;
    }

    /// Answers as many requests as have come; false if that were the last.
    fn serve(&mut self, answer: &[u8]) -> anyhow::Result<bool> {
        let goes_on = self.read()?;
        while let Some(length) = self.message() {
            self.take(length);
            self.send(answer)?;
        }
        Ok(goes_on)
    }

    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let sent = self.stream.write(bytes)?;
        ensure!(sent == bytes.len(), "a socket's buffer is full");
        Ok(())
    }
}
