/// Unix seconds as `2026-01-02T03:04:05.000Z`.
pub(crate) fn iso(unix_secs: u64) -> String {
    iso_ms(unix_secs.saturating_mul(1000))
}

/// Unix milliseconds as `2026-01-02T03:04:05.678Z`.
pub fn iso_ms(unix_ms: u64) -> String {
    let (secs, millis) = (unix_ms / 1000, unix_ms % 1000);
    let (days, secs) = (secs / 86_400, secs % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (secs / 3600, secs / 60 % 60, secs % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Year, month and day of a day since 1970-01-01, by the Gregorian calendar's cycle of 400 years.
fn date(days: u64) -> (u64, u64, u64) {
    // Counted from 0000-03-01, leap days are the last of their year.
    let days = days + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (cycle * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_765_469_725, "2025-12-11T16:15:25.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799, "9999-12-31T23:59:59.000Z"),
        ] {
            assert_eq!(iso(secs), text);
        }
        assert_eq!(iso_ms(1_765_469_725_678), "2025-12-11T16:15:25.678Z");
    }
}
