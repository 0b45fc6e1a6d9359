//! One request: which servers hold its buckets, what they say, and what holds where they say nothing.

mod reset;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Sleep;
use tollward_core::{Charge, Judgement, OnFailure, Timestamp};
use tollward_store::{Mode, Outcome, Source, StoreError, Verdict};

use crate::key::KeyName;
use crate::lane::Lane;
use crate::part::{Answer, Op, Part, PartCharge, Trace};
use crate::queue::{Failure, Job, Refused, Ticket};
use crate::store::Inner;

/// A request under way.
pub(crate) struct Request<'a> {
    inner: &'a Inner,
    charges: &'a [Charge<'a>],
    keys: SmallVec<[KeyName; 4]>,
    mode: Mode,
    now: Timestamp,
}

/// The charges of a request whose buckets are in one slot, by their places in the request.
struct Piece {
    slot: u16,
    charges: SmallVec<[usize; 4]>,
}

/// A piece that was sent.
struct Flight {
    piece: Piece,
    lane: Arc<Lane>,
    ticket: Ticket,
    /// The same, to be sent elsewhere.
    copy: Option<Part>,
    /// It gives something back: it is to be sent though nobody waits any longer.
    gives: bool,
    hops: u8,
}

/// A piece that was answered.
struct Landed {
    piece: Piece,
    answer: Answer,
}

/// A piece without an answer.
struct Lost {
    piece: Piece,
    /// Whether it may have been executed.
    unknown: bool,
}

/// A slot that moves more often than this while a request waits is not followed.
const MAX_HOPS: u8 = 5;
/// Before a request is sent again whose slot is on its way.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(1);

impl<'a> Request<'a> {
    pub(crate) fn new(
        inner: &'a Inner,
        charges: &'a [Charge<'a>],
        mode: Mode,
        now: Timestamp,
    ) -> Self {
        let name = |charge: &Charge<'_>| KeyName::new(&inner.prefix, charge.key);
        Self {
            inner,
            charges,
            keys: charges.iter().map(name).collect(),
            mode,
            now,
        }
    }

    /// Every charge or none.
    pub(crate) async fn decide(
        &self,
        outcomes: &mut [Outcome],
        mut patience: Pin<&mut Sleep>,
    ) -> Result<Verdict, StoreError> {
        outcomes.fill(Outcome::UNKNOWN);
        let op = match self.mode {
            Mode::Charge => Op::Charge,
            Mode::Peek => Op::Peek,
        };
        let mut lost: SmallVec<[Lost; 1]> = SmallVec::new();
        let mut up: SmallVec<[(Piece, Arc<Lane>); 1]> = SmallVec::new();
        for piece in self.pieces() {
            match self.inner.shards.lane(piece.slot) {
                Some(lane) if lane.is_up() => up.push((piece, lane)),
                _ => lost.push(Lost {
                    piece,
                    unknown: false,
                }),
            }
        }
        // What is known to be away is decided first: a refusal here need not be undone elsewhere.
        let known_lost = lost.len();
        if !self.fall_back(&lost, outcomes, self.mode)? {
            return Ok(verdict(false, &lost, self.charges));
        }
        let mut landed: SmallVec<[Landed; 1]> = SmallVec::new();
        let mut flights: SmallVec<[Flight; 1]> = SmallVec::new();
        for (piece, lane) in up {
            let part = self.part(&piece, op);
            match self.send(piece, lane, part, false, 0) {
                Ok(flight) => flights.push(flight),
                Err(piece) => lost.push(Lost {
                    piece,
                    unknown: false,
                }),
            }
        }
        for flight in flights {
            match self.land(flight, patience.as_mut()).await {
                Ok(it) => landed.push(it),
                Err(it) => lost.push(it),
            }
        }
        let mut admitted = landed.iter().all(|it| it.answer.admitted);
        for it in &landed {
            for (place, charge) in it.piece.charges.iter().zip(&it.answer.charges) {
                outcomes[*place] = charge.outcome;
            }
        }
        // What is refused already is not to be charged here.
        let mode = if admitted { self.mode } else { Mode::Peek };
        let late = &lost[known_lost..];
        let fallen_back = self.fall_back(late, outcomes, mode);
        admitted &= *fallen_back.as_ref().unwrap_or(&false);
        if self.mode == Mode::Charge {
            if admitted {
                self.owe(&lost, outcomes);
            } else {
                self.undo(&landed, outcomes, patience).await;
                self.credit_local(&lost[..known_lost], outcomes);
            }
        }
        fallen_back?;
        if !admitted && lost.is_empty() {
            self.remember(&landed);
        }
        Ok(verdict(admitted, &lost, self.charges))
    }

    /// Gives back what was taken at `charged_at`, by this node's clock: here what this node took by itself
    /// and still owes, in Redis all else.
    pub(crate) async fn give_back(
        &self,
        charged_at: Timestamp,
        mut patience: Pin<&mut Sleep>,
    ) -> Result<(), Failure> {
        if let Some(remembered) = &self.inner.remembered {
            for charge in self.charges {
                remembered.forget(charge.key);
            }
        }
        let op = Op::Credit {
            charged_at: self.inner.shared.by_script_clock(charged_at),
        };
        let mut result = Ok(());
        let mut flights: SmallVec<[Flight; 1]> = SmallVec::new();
        for mut piece in self.pieces() {
            let local = &self.inner.local;
            piece.charges.retain(|place| {
                let (key, charge) = (&self.keys[*place], &self.charges[*place]);
                !local.give_back(key, charge, charged_at, self.now)
            });
            if piece.charges.is_empty() {
                continue;
            }
            let lane = self.inner.shards.lane(piece.slot);
            let part = self.part(&piece, op);
            match lane.map(|lane| self.send(piece, lane, part, false, 0)) {
                Some(Ok(flight)) => flights.push(flight),
                _ => result = Err(Failure::NotSent),
            }
        }
        for flight in flights {
            if self.land(flight, patience.as_mut()).await.is_err() {
                result = Err(Failure::Unknown);
            }
        }
        result
    }

    /// The charges by slot: all in one piece where there are no slots.
    fn pieces(&self) -> SmallVec<[Piece; 1]> {
        let mut pieces: SmallVec<[Piece; 1]> = SmallVec::new();
        for (place, key) in self.keys.iter().enumerate() {
            let slot = self.inner.shards.slot(key);
            match pieces.iter_mut().find(|piece| piece.slot == slot) {
                Some(piece) => piece.charges.push(place),
                None => pieces.push(Piece {
                    slot,
                    charges: SmallVec::from_slice(&[place]),
                }),
            }
        }
        pieces
    }

    fn part(&self, piece: &Piece, op: Op) -> Part {
        let charge = |place: &usize| {
            let charge = &self.charges[*place];
            PartCharge {
                key: self.keys[*place],
                limit: *charge.limit,
                cost: charge.cost,
                shadow: charge.shadow,
            }
        };
        Part {
            op,
            charges: piece.charges.iter().map(charge).collect(),
            traces: Vec::new(),
        }
    }

    fn send(
        &self,
        piece: Piece,
        lane: Arc<Lane>,
        part: Part,
        asking: bool,
        hops: u8,
    ) -> Result<Flight, Piece> {
        let gives = matches!(part.op, Op::Credit { .. } | Op::Undo { .. });
        // Only on a cluster may it have to be sent again.
        let copy = self.inner.shards.is_cluster().then(|| part.clone());
        let sent = lane.queue.push(|reply| Job {
            part,
            slot: piece.slot,
            // Sent on before: its slot is on the move.
            alone: hops > 0,
            asking,
            now: self.now,
            reply: Some(reply),
        });
        match sent {
            Ok(ticket) => Ok(Flight {
                piece,
                lane,
                ticket,
                copy,
                gives,
                hops,
            }),
            Err(refused) => {
                if matches!(refused, Refused::Full) {
                    self.inner.shared.stats.shed.increment();
                }
                Err(piece)
            }
        }
    }

    /// Waits for the answer, following the slot if it moves.
    async fn land(
        &self,
        mut flight: Flight,
        mut patience: Pin<&mut Sleep>,
    ) -> Result<Landed, Lost> {
        loop {
            let answer = tokio::select! {
                biased;
                answer = &mut flight.ticket.answer => answer.unwrap_or(Err(Failure::Unknown)),
                () = patience.as_mut() => {
                    let unsent = !flight.gives && flight.lane.queue.take_back(&flight.ticket);
                    return Err(Lost { piece: flight.piece, unknown: !unsent });
                }
            };
            let piece = flight.piece;
            let shards = &self.inner.shards;
            let (next, asking) = match answer {
                Ok(answer) => return Ok(Landed { piece, answer }),
                Err(Failure::Unknown) => {
                    return Err(Lost {
                        piece,
                        unknown: true,
                    });
                }
                Err(Failure::NotSent) => (None, false),
                Err(Failure::Moved { to }) => {
                    shards.moved(piece.slot, &to);
                    (shards.at(&to), false)
                }
                Err(Failure::Ask { to }) => (shards.at(&to), true),
                Err(Failure::Again) => {
                    tokio::select! {
                        () = tokio::time::sleep(TRY_AGAIN_AFTER) => {}
                        () = patience.as_mut() => {}
                    }
                    (shards.lane(piece.slot), false)
                }
            };
            let unsent = |piece| Lost {
                piece,
                unknown: false,
            };
            let next = next.filter(|_| flight.hops < MAX_HOPS);
            let (Some(lane), Some(part)) = (next, flight.copy) else {
                return Err(unsent(piece));
            };
            flight = self
                .send(piece, lane, part, asking, flight.hops + 1)
                .map_err(unsent)?;
        }
    }

    /// Decides without Redis, as the limits say. Whether all of it is admitted.
    fn fall_back(
        &self,
        lost: &[Lost],
        outcomes: &mut [Outcome],
        mode: Mode,
    ) -> Result<bool, StoreError> {
        let places: SmallVec<[usize; 4]> = places(lost).collect();
        let modes = || places.iter().map(|place| on_failure(&self.charges[*place]));
        if modes().any(|mode| mode == OnFailure::Closed) {
            return Err(StoreError::Unavailable);
        }
        let local = self.local(lost);
        if local.is_empty() {
            return Ok(true);
        }
        let charges: SmallVec<[Charge<'_>; 4]> =
            local.iter().map(|place| self.charges[*place]).collect();
        let mut said: SmallVec<[Outcome; 4]> = smallvec::smallvec![Outcome::UNKNOWN; local.len()];
        let verdict = self
            .inner
            .local
            .apply(&charges, &mut said, mode, self.now)?;
        for (place, outcome) in local.iter().zip(said) {
            outcomes[*place] = outcome;
        }
        Ok(verdict.admitted)
    }

    /// The places of the charges that this node decides.
    fn local(&self, lost: &[Lost]) -> SmallVec<[usize; 4]> {
        let local = |place: &usize| on_failure(&self.charges[*place]) == OnFailure::Local;
        places(lost).filter(local).collect()
    }

    /// Takes note of what was spent here, to be made good later: but not of what may have been charged
    /// in Redis all the same.
    fn owe(&self, lost: &[Lost], outcomes: &[Outcome]) {
        let inner = self.inner;
        let unsent = lost.iter().filter(|lost| !lost.unknown);
        for place in unsent.flat_map(|lost| &lost.piece.charges) {
            let charge = &self.charges[*place];
            let outcome = &outcomes[*place];
            let taken = outcome.known && outcome.judgement == Judgement::Admit && charge.cost > 0;
            if taken
                && !inner
                    .local
                    .owe(self.keys[*place], charge.limit, charge.cost, self.now)
            {
                inner.shared.stats.debts_dropped.increment();
            }
        }
    }

    fn credit_local(&self, lost: &[Lost], outcomes: &mut [Outcome]) {
        let taken = self.local(lost).into_iter().filter(|place| {
            let outcome = &outcomes[*place];
            outcome.known && outcome.judgement == Judgement::Admit
        });
        let taken: SmallVec<[Charge<'_>; 4]> = taken.map(|place| self.charges[place]).collect();
        self.inner.local.credit(&taken, self.now, self.now);
    }

    /// Undoes what some slots took though others refused. Only on a cluster is there more than one
    /// piece.
    async fn undo(
        &self,
        landed: &[Landed],
        outcomes: &mut [Outcome],
        mut patience: Pin<&mut Sleep>,
    ) {
        let stats = &self.inner.shared.stats;
        let mut flights: SmallVec<[Flight; 1]> = SmallVec::new();
        for it in landed.iter().filter(|it| it.answer.admitted) {
            let at = it.answer.at;
            for (place, charged) in it.piece.charges.iter().zip(&it.answer.charges) {
                // A bucket that is named twice stands as it did before the first.
                let key = self.keys[*place];
                let twin = it
                    .piece
                    .charges
                    .iter()
                    .position(|first| self.keys[*first] == key);
                let first = twin.map_or(charged, |first| &it.answer.charges[first]);
                let level = self.charges[*place].limit.level(first.before, at);
                outcomes[*place] = Outcome::new(charged.outcome.judgement, &level);
            }
            let part = self.undoing(it);
            if part.charges.is_empty() {
                continue;
            }
            stats.compensations.increment();
            let piece = Piece {
                slot: it.piece.slot,
                charges: SmallVec::new(),
            };
            let lane = self.inner.shards.lane(piece.slot);
            match lane.map(|lane| self.send(piece, lane, part, false, 0)) {
                Some(Ok(flight)) => flights.push(flight),
                _ => stats.compensations_lost.increment(),
            }
        }
        for flight in flights {
            let landed = self.land(flight, patience.as_mut()).await;
            // One that is only late goes on.
            if landed.is_err_and(|lost| !lost.unknown) {
                stats.compensations_lost.increment();
            }
        }
    }

    /// What undoes a piece: once for each bucket.
    fn undoing(&self, it: &Landed) -> Part {
        let mut part = Part {
            op: Op::Undo {
                charged_at: it.answer.at,
            },
            charges: SmallVec::new(),
            traces: Vec::new(),
        };
        for (place, charged) in it.piece.charges.iter().zip(&it.answer.charges) {
            let charge = &self.charges[*place];
            let key = self.keys[*place];
            if charged.outcome.judgement != Judgement::Admit || charge.cost == 0 {
                continue;
            }
            match part.charges.iter().position(|other| other.key == key) {
                Some(twin) => {
                    let cost = &mut part.charges[twin].cost;
                    *cost = cost.saturating_add(charge.cost);
                    part.traces[twin].after = charged.state;
                }
                None => {
                    part.charges.push(PartCharge {
                        key,
                        limit: *charge.limit,
                        cost: charge.cost,
                        shadow: charge.shadow,
                    });
                    // Also a refused request brings a bucket back to a time that was stepped back to.
                    let level = charge.limit.level(charged.before, it.answer.at);
                    let stepped = level.stepped_back();
                    part.traces.push(Trace {
                        before: if stepped {
                            level.state()
                        } else {
                            charged.before
                        },
                        after: charged.state,
                    });
                }
            }
        }
        part
    }

    /// Keeps what is known of the buckets of a refused request.
    fn remember(&self, landed: &[Landed]) {
        let Some(remembered) = &self.inner.remembered else {
            return;
        };
        for it in landed {
            for (place, charge) in it.piece.charges.iter().zip(&it.answer.charges) {
                let key = self.charges[*place].key;
                // What was taken has been given back.
                let state = if it.answer.admitted {
                    charge.before
                } else {
                    charge.state
                };
                remembered.note(key, state, it.answer.at, self.now);
            }
        }
    }
}

/// What holds for a charge without Redis. One that never refuses does not close anything either.
fn on_failure(charge: &Charge<'_>) -> OnFailure {
    match charge.on_failure {
        OnFailure::Closed if charge.shadow => OnFailure::Open,
        mode => mode,
    }
}

fn places(lost: &[Lost]) -> impl Iterator<Item = usize> {
    lost.iter()
        .flat_map(|lost| lost.piece.charges.iter().copied())
}

fn verdict(admitted: bool, lost: &[Lost], charges: &[Charge<'_>]) -> Verdict {
    let strictest = places(lost).map(|place| on_failure(&charges[place])).max();
    Verdict {
        admitted,
        source: match strictest {
            None => Source::Redis,
            Some(OnFailure::Open) => Source::Open,
            Some(OnFailure::Local | OnFailure::Closed) => Source::Local,
        },
    }
}
