//! A line of JSON for every request, written beside the traffic and never in its way.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::StatusCode;
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use serde::Serialize;
use tollward_core::Timestamp;
use tollward_engine::Clock;
use tollward_http::{CorsOutcome, Peer};
use tollward_policy::AccessLog as Destination;
use tollward_tower::Admitted;

use crate::front::Refused;
use crate::line_log::{LineLog, Written};
use crate::stats::Stats;

/// Lines that may wait to be written.
const MAX_WAITING: usize = 8192;
/// The status of a request whose client left before there was an answer, as nginx has it.
const CLIENT_HAS_GONE: u16 = 499;
/// The longest method that is logged.
const MAX_METHOD: usize = 32;
/// The longest path that is logged, in bytes.
const MAX_PATH: usize = 1024;

/// Takes down who came by. Cheap to clone.
#[derive(Clone)]
pub struct AccessLog {
    lines: LineLog<Box<Line>>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Serialize)]
struct Line {
    /// When the request came: Unix milliseconds.
    time_ms: u64,
    ip: IpAddr,
    /// The method and the path, if the request could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    status: u16,
    duration_us: u64,
    bytes: u64,
    /// Whether the answer reached its end.
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<Box<str>>,
    /// What CORS made of the request, if that is worth telling.
    #[serde(skip_serializing_if = "Option::is_none")]
    cors: Option<&'static str>,
    /// Why the request was refused before anybody looked at who sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl AccessLog {
    /// Opens a log; none if it is off. It ends when the last clone is gone, and [`Written`] tells when
    /// its last line is written.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn open(
        destination: &Destination,
        clock: Arc<dyn Clock>,
        stats: &Stats,
    ) -> io::Result<Option<(Self, Written)>> {
        let opened = LineLog::open(destination, "access-log", MAX_WAITING, stats.lost_lines())?;
        Ok(opened.map(|(lines, written)| (Self { lines, clock }, written)))
    }

    pub(crate) fn entry(&self, peer: Peer, head: &Parts) -> Box<Entry> {
        let start = self.clock.now();
        Box::new(Entry {
            log: self.clone(),
            start,
            line: Some(self.line(start, peer, Some(head))),
        })
    }

    /// Takes down a request that was refused before it came to be decided.
    pub fn refused(&self, refused: &Refused<'_>) {
        let mut line = self.line(self.clock.now(), refused.peer, refused.head);
        line.status = refused.status.as_u16();
        line.bytes = refused.bytes;
        line.complete = true;
        line.reason = Some(refused.reason);
        self.lines.write(line);
    }

    /// A line of which no more is known than who asks for what.
    fn line(&self, start: Timestamp, peer: Peer, head: Option<&Parts>) -> Box<Line> {
        let method = |head: &Parts| head.method.as_str().chars().take(MAX_METHOD).collect();
        let path = |head: &Parts| {
            let path = head.uri.path();
            path[..path.floor_char_boundary(MAX_PATH)].to_owned()
        };
        Box::new(Line {
            time_ms: self.clock.calendar(start).as_micros() / 1000,
            ip: peer.address.ip().to_canonical(),
            method: head.map(method),
            path: head.map(path),
            status: CLIENT_HAS_GONE,
            duration_us: 0,
            bytes: 0,
            complete: false,
            action: None,
            tenant: None,
            plan: None,
            user: None,
            upstream: None,
            cors: None,
            reason: None,
        })
    }
}

/// A line that is still being learnt. It is written when this is dropped, whatever becomes of the
/// request.
pub(crate) struct Entry {
    log: AccessLog,
    start: Timestamp,
    /// There until it is written.
    line: Option<Box<Line>>,
}

impl Entry {
    pub(crate) fn admitted(&mut self, admitted: &Admitted) {
        self.tell(|line| {
            line.action = Some(admitted.action.word());
            line.tenant = admitted.tenant.clone();
            line.plan = admitted.plan.clone();
            line.user = admitted.user.clone();
            line.upstream = admitted.upstream.as_ref().map(|it| it.name.clone());
            line.ip = admitted.ip.unwrap_or(line.ip);
        });
    }

    /// Of a request that may not go on nothing is known but where it comes from.
    pub(crate) fn refused(&mut self, ip: IpAddr) {
        self.tell(|line| line.ip = ip);
    }

    pub(crate) fn cross_origin(&mut self, outcome: CorsOutcome) {
        self.tell(|line| line.cors = outcome.word());
    }

    pub(crate) fn answered(&mut self, status: StatusCode) {
        self.tell(|line| line.status = status.as_u16());
    }

    fn tell(&mut self, what: impl FnOnce(&mut Line)) {
        if let Some(line) = &mut self.line {
            what(line);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(mut line) = self.line.take() else {
            return;
        };
        line.duration_us = self.log.clock.now().micros_since(self.start);
        self.log.lines.write(line);
    }
}

/// A body that is logged when it has ended, or was given up.
pub struct Logged<B: Body> {
    body: B,
    entry: Option<Box<Entry>>,
}

impl<B: Body> Logged<B> {
    pub(crate) fn new(body: B, entry: Option<Box<Entry>>) -> Self {
        Self { body, entry }
    }

    /// Writes the line, if that was not done yet.
    fn finish(&mut self, complete: bool) {
        if let Some(mut entry) = self.entry.take() {
            entry.tell(|line| line.complete = complete);
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Logged<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if self.entry.is_none() {
            return polled;
        }
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let length = frame.data_ref().map_or(0, Buf::remaining);
                if let Some(entry) = &mut self.entry {
                    entry.tell(|line| line.bytes += length as u64);
                }
            }
            Poll::Ready(None) => self.finish(true),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body> Drop for Logged<B> {
    fn drop(&mut self) {
        // A body of known length is not asked whether it has ended.
        self.finish(self.body.is_end_stream());
    }
}
