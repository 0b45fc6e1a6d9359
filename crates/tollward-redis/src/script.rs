//! The script that decides a batch, what it is given, and what it answers.
//!
//! The script says whether each part is admitted, and keeps what is spent. It is not asked how long to
//! wait or how much is left: it returns the states that it began with, and the core, which computes the
//! same, says the rest.

use std::collections::HashMap;
use std::fmt;

use redis::Value;
use tollward_core::{Limit, Timestamp};

use crate::key::KeyName;
use crate::part::{Answer, Op, Part};
use crate::wire::{self, LAST_MOMENT, Packer};

mod replay;
#[cfg(test)]
mod tests;

use replay::Replay;

/// The script.
pub(crate) const SOURCE: &str = include_str!("script.lua");
/// The SHA-1 of [`SOURCE`], by which `EVALSHA` calls it. A test asks a server whether it is.
pub(crate) const SHA1: &str = "43bfaae4bf89ba63dfe8036f80ed2c351e553cf8";
/// The most different keys of one call: Lua passes them all to one `MGET`, on a stack of 8,000.
pub(crate) const MAX_KEYS: usize = 4_000;

/// More than any capacity, and never admitted.
const NEVER: u64 = 1 << 32;
/// Limits begin after the clock, the slack and the place of the first part.
const FIRST_LIMIT: u32 = 4;

/// The arguments of one call of the script: parts that are decided one after the other, at one moment.
#[derive(Debug)]
pub(crate) struct Call {
    keys: Vec<KeyName>,
    /// The limit of the first charge to each key.
    askers: Vec<Limit>,
    /// The place in `keys` of each charge of each part.
    places: Vec<u32>,
    packed: Vec<u8>,
}

impl Call {
    /// A call for these parts, at the moment of `clock` or of the server's own. A moment beyond the year
    /// 2255 is taken for the last one before. Keys are kept for `ttl_slack_ms` longer than they matter.
    ///
    /// There are to be at most [`MAX_KEYS`] different keys.
    pub(crate) fn new<'a>(
        parts: impl IntoIterator<Item = &'a Part>,
        clock: Option<Timestamp>,
        ttl_slack_ms: u64,
    ) -> Self {
        let parts = parts.into_iter();
        let mut book = Book::with_capacity(parts.size_hint().0);
        for part in parts {
            book.enter(part);
        }
        book.call(clock, ttl_slack_ms)
    }

    /// The keys, each once.
    pub(crate) fn keys(&self) -> &[KeyName] {
        &self.keys
    }

    /// The one argument.
    pub(crate) fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// What the reply says to the parts, which are those that the call was made of.
    pub(crate) fn read<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a Part>,
        reply: &Value,
    ) -> Result<Vec<Answer>, BadReply> {
        let (now, verdicts, values) = shape(reply).ok_or(BadReply::Malformed)?;
        if values.len() != self.keys.len() {
            return Err(BadReply::Malformed);
        }
        let mut states = Vec::with_capacity(values.len());
        for (value, asker) in values.iter().zip(&self.askers) {
            states.push(match value {
                Value::Nil => None,
                Value::BulkString(value) => Some(wire::state(value, asker)),
                _ => return Err(BadReply::Malformed),
            });
        }
        let mut replay = Replay::new(now, states);
        let mut places = self.places.as_slice();
        let mut verdicts = verdicts.iter();
        let mut answers = Vec::with_capacity(verdicts.len());
        for part in parts {
            let count = part.charges.len();
            let (ours, rest) = places.split_at_checked(count).ok_or(BadReply::Malformed)?;
            places = rest;
            let answer = replay.decide(part, ours);
            match (verdicts.next(), answer.admitted) {
                (Some(b'1'), true) | (Some(b'0'), false) => answers.push(answer),
                (Some(b'0' | b'1'), _) => return Err(BadReply::Disagreement),
                _ => return Err(BadReply::Malformed),
            }
        }
        match verdicts.next() {
            None => Ok(answers),
            Some(_) => Err(BadReply::Malformed),
        }
    }
}

/// The moment, the verdicts, the values.
fn shape(reply: &Value) -> Option<(Timestamp, &[u8], &[Value])> {
    let Value::Array(fields) = reply else {
        return None;
    };
    let [Value::Int(now), Value::BulkString(verdicts), values] = fields.as_slice() else {
        return None;
    };
    let now = Timestamp::from_micros(u64::try_from(*now).ok()?);
    match values {
        Value::Array(values) => Some((now, verdicts, values)),
        _ => None,
    }
}

/// Why a reply is of no use. What the call took is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadReply {
    /// It is not what the script answers.
    Malformed,
    /// The script admitted what the core refuses from the same states, or the other way round.
    Disagreement,
}

impl fmt::Display for BadReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the reply is not one of the script's",
            Self::Disagreement => "the script and the core decide differently",
        })
    }
}

impl std::error::Error for BadReply {}

/// A call in the making.
struct Book<'a> {
    places_of: HashMap<&'a [u8], u32, foldhash::fast::RandomState>,
    limits_of: HashMap<Limit, u32, foldhash::fast::RandomState>,
    limits: Packer,
    parts: Packer,
    keys: Vec<KeyName>,
    askers: Vec<Limit>,
    places: Vec<u32>,
}

impl<'a> Book<'a> {
    /// Room for this many parts of a few charges.
    fn with_capacity(parts: usize) -> Self {
        let charges = parts.saturating_mul(4).min(MAX_KEYS);
        Self {
            places_of: HashMap::with_capacity_and_hasher(charges, Default::default()),
            limits_of: HashMap::default(),
            limits: Packer::default(),
            parts: Packer::with_capacity(charges * 8),
            keys: Vec::with_capacity(charges),
            askers: Vec::with_capacity(charges),
            places: Vec::with_capacity(charges),
        }
    }

    fn enter(&mut self, part: &'a Part) {
        let start = self.places.len();
        for charge in &part.charges {
            let place = self.place(&charge.key, &charge.limit);
            self.places.push(place);
        }
        let places = &self.places[start..];
        self.parts.push(code(part.op, places));
        self.parts.push(part.charges.len() as u64);
        if let Op::Credit { charged_at } | Op::Undo { charged_at } = part.op {
            self.parts.push(charged_at.min(LAST_MOMENT).as_micros());
        }
        let mut traces = part.traces.iter();
        for (charge, &place) in part.charges.iter().zip(places) {
            let limit = limit_place(&mut self.limits_of, &mut self.limits, &charge.limit);
            // Lua counts from 1.
            self.parts.push(u64::from(place) + 1);
            self.parts.push(u64::from(limit));
            self.parts.push(charge.cost.min(NEVER));
            self.parts.push(u64::from(charge.shadow));
            if let Op::Undo { .. } = part.op {
                let trace = traces.next();
                for state in [trace.map(|it| it.after), trace.map(|it| it.before)] {
                    for number in wire::numbers(state.flatten().as_ref()) {
                        self.parts.push(number);
                    }
                }
            }
        }
    }

    fn place(&mut self, key: &'a KeyName, limit: &Limit) -> u32 {
        let next = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        let place = *self.places_of.entry(key.as_bytes()).or_insert(next);
        if place == next {
            self.keys.push(*key);
            self.askers.push(*limit);
        }
        place
    }

    fn call(self, clock: Option<Timestamp>, ttl_slack_ms: u64) -> Call {
        let mut head = Packer::with_capacity(32);
        head.push(clock.map_or(0, |now| now.min(LAST_MOMENT).as_micros().max(1)));
        head.push(ttl_slack_ms.min(LAST_MOMENT.as_micros()));
        head.push(u64::from(FIRST_LIMIT + self.limits.count()));
        Call {
            keys: self.keys,
            askers: self.askers,
            places: self.places,
            packed: Packer::array(&[head, self.limits, self.parts]),
        }
    }
}

/// Where the script finds this limit.
fn limit_place(
    known: &mut HashMap<Limit, u32, foldhash::fast::RandomState>,
    limits: &mut Packer,
    limit: &Limit,
) -> u32 {
    *known.entry(*limit).or_insert_with(|| {
        let place = FIRST_LIMIT + limits.count();
        let tag = wire::tag(limit.algorithm(), limit.window());
        limits.push(u64::from(tag));
        limits.push(u64::from(limit.rate()));
        limits.push(limit.window().as_micros());
        limits.push(u64::from(limit.capacity()));
        place
    })
}

/// The script's number for an operation. Charges to one key have to see each other, which takes longer.
fn code(op: Op, places: &[u32]) -> u64 {
    match (op, has_twins(places)) {
        (Op::Charge, false) => 0,
        (Op::Peek, false) => 1,
        (Op::Credit { .. }, _) => 2,
        (Op::Settle, _) => 3,
        (Op::Undo { .. }, _) => 6,
        (Op::Charge, true) => 4,
        (Op::Peek, true) => 5,
    }
}

/// Whether a number is there twice. Parts are short.
fn has_twins(places: &[u32]) -> bool {
    places
        .iter()
        .enumerate()
        .any(|(i, place)| places[..i].contains(place))
}
