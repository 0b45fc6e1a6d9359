use std::fmt;
use std::time::Duration;

use crate::judge::{Judgement, Times};
use crate::metrics::ENDLESS;

/// Rows of cells, the first of which are heads.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn faults() -> Self {
        Self::new(&[
            "fault",
            "sent",
            "lost",
            "wrong",
            "p99.9 ms",
            "slowest ms",
            "client p99.9",
            "client slowest",
            "noticed ms",
            "recovered ms",
            "fell back",
            "trips",
            "logged",
            "admitted/bound",
            "spent/admitted",
            "verdict",
        ])
    }

    pub(crate) fn memory() -> Self {
        Self::new(&[
            "memory node beside",
            "p99.9 ms",
            "slowest ms",
            "client p99.9",
            "client slowest",
        ])
    }

    fn new(head: &[&str]) -> Self {
        let head = head.iter().map(ToString::to_string).collect();
        Self { rows: vec![head] }
    }

    pub(crate) fn push_fault(&mut self, name: &str, row: &Judgement) {
        let [p999, slowest, client_p999, client_slowest] = cells(&row.times);
        let verdict: Vec<&str> = row
            .broken
            .iter()
            .chain(&row.missed)
            .map(String::as_str)
            .collect();
        self.rows.push(vec![
            name.to_owned(),
            row.sent.to_string(),
            row.lost.to_string(),
            row.wrong.to_string(),
            p999,
            slowest,
            client_p999,
            client_slowest,
            millis(row.noticed),
            millis(row.recovered),
            row.fell_back.to_string(),
            row.trips.to_string(),
            row.log_lines.to_string(),
            format!("{}/{}", row.admitted, row.bound),
            format!("{}/{}", row.once_spent, row.once_admitted),
            if verdict.is_empty() {
                "ok".to_owned()
            } else {
                verdict.join(", ")
            },
        ]);
    }

    /// A fault that could not be measured.
    pub(crate) fn push_failure(&mut self, name: &str) {
        let mut row = vec![name.to_owned()];
        row.resize(self.rows[0].len() - 1, "-".to_owned());
        row.push("NOT MEASURED".to_owned());
        self.rows.push(row);
    }

    pub(crate) fn push_memory(&mut self, name: &str, times: &Times) {
        let mut row = vec![name.to_owned()];
        row.extend(cells(times));
        self.rows.push(row);
    }
}

fn cells(times: &Times) -> [String; 4] {
    let bound = |micros: u64| match micros {
        ENDLESS => ">100".to_owned(),
        _ => format!("≤{}", micros as f64 / 1e3),
    };
    let exact = |micros: u64| format!("{:.1}", micros as f64 / 1e3);
    [
        bound(times.p999),
        bound(times.slowest),
        exact(times.client_p999),
        exact(times.client_slowest),
    ]
}

fn millis(time: Option<Duration>) -> String {
    time.map_or("-".to_owned(), |time| time.as_millis().to_string())
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            let widths = self.rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        // The first and the last are words.
        let is_words = |column: usize| column == 0 || columns > 5 && column == columns - 1;
        for (index, row) in self.rows.iter().enumerate() {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if is_words(column) {
                    write!(f, "| {cell:<width$} ")?;
                } else {
                    write!(f, "| {cell:>width$} ")?;
                }
            }
            writeln!(f, "|")?;
            if index == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let end = if is_words(column) { '-' } else { ':' };
                    write!(f, "|{:-<1$}{end}", "", width + 1)?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}
