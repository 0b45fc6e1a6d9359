/// Tells from the outcomes of calls whether a server is worth asking.
///
/// It trips at three failures in a row, or when a fifth of the last 64 calls failed. Whoever owns it then
/// stops asking, proves in the background that the server is well again, and starts with a new one.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    /// The last 64 calls, the latest in the lowest bit; set if it failed.
    failed: u64,
    calls: u32,
}

const IN_A_ROW: u64 = 0b111;
/// A fifth of 64.
const MOST_OF_64: u32 = 12;
/// Before so many calls a share says little.
const ENOUGH: u32 = 20;

impl Breaker {
    /// Takes note of a call, and says whether to stop.
    pub(crate) fn trips(&mut self, failed: bool) -> bool {
        self.failed = self.failed << 1 | u64::from(failed);
        self.calls = self.calls.saturating_add(1);
        let in_a_row = self.failed & IN_A_ROW == IN_A_ROW;
        // Fewer calls than 64 have zeros where the older ones would be.
        let share = self.calls >= ENOUGH && self.failed.count_ones() > MOST_OF_64;
        failed && (in_a_row || share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tripped_at(outcomes: impl Iterator<Item = bool>) -> Option<usize> {
        let mut breaker = Breaker::default();
        outcomes
            .take(10_000)
            .position(|failed| breaker.trips(failed))
            .map(|index| index + 1)
    }

    #[test]
    fn three_in_a_row() {
        assert_eq!(tripped_at(std::iter::repeat(true)), Some(3));
        let late = std::iter::repeat_n(false, 500).chain(std::iter::repeat(true));
        assert_eq!(tripped_at(late), Some(503));
    }

    #[test]
    fn a_share_of_many() {
        assert_eq!(tripped_at((0..).map(|call| call % 10 == 0)), None);
        assert!(tripped_at((0..).map(|call| call % 4 == 0)).is_some());
        assert_eq!(tripped_at(std::iter::repeat(false)), None);
    }
}
