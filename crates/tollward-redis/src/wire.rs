//! The bytes that go to the script, and the bytes that it keeps.

use tollward_core::{Algorithm, Limit, Spending, State, Timestamp, Window};

/// The last moment that the script can tell from the next: it counts in doubles.
pub(crate) const LAST_MOMENT: Timestamp = Timestamp::from_micros((1 << 53) - 1);

/// Marks a sliding window in a tag. The rest of it is the window in seconds.
const SLIDING: u32 = 1 << 31;
const VALUE_BYTES: usize = 28;

/// What the first four bytes of a bucket's value are if this limit wrote it.
pub(crate) fn tag(algorithm: Algorithm, window: Window) -> u32 {
    match algorithm {
        Algorithm::TokenBucket => window.as_secs(),
        Algorithm::SlidingWindow => window.as_secs() | SLIDING,
    }
}

/// The state in a bucket's value, as the script reads it. A value that cannot be a state is an empty
/// bucket of `limit`, from a time that will not come: it refuses, and is replaced by what is decided.
pub(crate) fn state(value: &[u8], limit: &Limit) -> State {
    parse(value).unwrap_or(State {
        at: LAST_MOMENT,
        window: limit.window(),
        spending: Spending::Bucket {
            parts: u128::from(limit.capacity()) * u128::from(limit.window().as_micros()),
        },
    })
}

fn parse(value: &[u8]) -> Option<State> {
    let value: &[u8; VALUE_BYTES] = value.try_into().ok()?;
    let (tag, value) = value.split_first_chunk::<4>()?;
    let (at, value) = value.split_first_chunk::<8>()?;
    let (whole, value) = value.split_first_chunk::<4>()?;
    // Behind it is how long the key lives, which is the script's own business.
    let (rest, _) = value.split_first_chunk::<8>()?;
    let tag = u32::from_le_bytes(*tag);
    let at = Timestamp::from_micros(u64::from_le_bytes(*at));
    let whole = u32::from_le_bytes(*whole);
    let rest = u64::from_le_bytes(*rest);

    let window = Window::from_secs(tag & !SLIDING)?;
    let spending = if tag & SLIDING == 0 {
        bucket(window, whole, rest)?
    } else {
        Spending::Windows {
            current: whole,
            previous: u32::try_from(rest).ok()?,
        }
    };
    (at <= LAST_MOMENT).then_some(State {
        at,
        window,
        spending,
    })
}

/// A state as the script has it: tag, moment, and the two numbers. No state is a tag of 0.
pub(crate) fn numbers(state: Option<&State>) -> [u64; 4] {
    let Some(state) = state else {
        return [0; 4];
    };
    let at = state.at.min(LAST_MOMENT).as_micros();
    let length = u128::from(state.window.as_micros());
    let narrow = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    match state.spending {
        Spending::Bucket { parts } => [
            tag(Algorithm::TokenBucket, state.window).into(),
            at,
            narrow(parts / length),
            narrow(parts % length),
        ],
        Spending::Windows { current, previous } => [
            tag(Algorithm::SlidingWindow, state.window).into(),
            at,
            current.into(),
            previous.into(),
        ],
    }
}

fn bucket(window: Window, whole: u32, rest: u64) -> Option<Spending> {
    let length = window.as_micros();
    let most = u128::from(u32::MAX) * u128::from(length);
    let parts = u128::from(whole) * u128::from(length) + u128::from(rest);
    (rest < length && parts <= most).then_some(Spending::Bucket { parts })
}

/// Unsigned integers as msgpack, each as short as it can be.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    bytes: Vec<u8>,
    count: u32,
}

impl Packer {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            count: 0,
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "each arm is as wide as its numbers"
    )]
    pub(crate) fn push(&mut self, number: u64) {
        self.count += 1;
        let bytes = &mut self.bytes;
        match number {
            0..=0x7f => bytes.push(number as u8),
            0x80..=0xff => bytes.extend_from_slice(&[0xcc, number as u8]),
            0x100..=0xffff => {
                bytes.push(0xcd);
                bytes.extend_from_slice(&(number as u16).to_be_bytes());
            }
            0x1_0000..=0xffff_ffff => {
                bytes.push(0xce);
                bytes.extend_from_slice(&(number as u32).to_be_bytes());
            }
            _ => {
                bytes.push(0xcf);
                bytes.extend_from_slice(&number.to_be_bytes());
            }
        }
    }

    /// How many numbers there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// One array of all their numbers.
    pub(crate) fn array(packers: &[Self]) -> Vec<u8> {
        let count: u32 = packers.iter().map(|one| one.count).sum();
        let bytes: usize = packers.iter().map(|one| one.bytes.len()).sum();
        let mut array = Vec::with_capacity(5 + bytes);
        array.push(0xdd);
        array.extend_from_slice(&count.to_be_bytes());
        for one in packers {
            array.extend_from_slice(&one.bytes);
        }
        array
    }
}
