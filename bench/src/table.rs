use std::fmt;

/// All that was measured.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
    notes: Vec<String>,
}

const COLUMNS: usize = 10;
const HEAD: [&str; COLUMNS] = [
    "what",
    "keys",
    "threads",
    "unit",
    "tollward",
    "against",
    "figure",
    "ratio",
    "tollward/s",
    "against/s",
];
/// Columns of words, which stand left.
const WORDS: [bool; COLUMNS] = [
    true, false, false, true, false, true, false, false, false, false,
];
const LEGEND: &str = "\
Medians of turns taken in one run. ns/decision is wall time over the decisions of all threads together;
/s is the same as decisions per second. ratio: how many times better tollward is, unless it says `of`.";

/// One line.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    cells: [String; COLUMNS],
    value: f64,
}

impl Row {
    /// A time of a decision, from decisions per second.
    pub(crate) fn time(what: impl Into<String>, per_second: f64) -> Self {
        let mut row = Self::figure(what, "ns/decision", 1e9 / per_second);
        row.cells[8] = short(per_second);
        row
    }

    pub(crate) fn figure(what: impl Into<String>, unit: &str, value: f64) -> Self {
        let mut row = Self {
            cells: Default::default(),
            value,
        };
        row.cells[0] = what.into();
        row.cells[3] = unit.into();
        row.cells[4] = number(value);
        row
    }

    pub(crate) fn grid(mut self, keys: u32, threads: usize) -> Self {
        self.cells[1] = keys.to_string();
        self.cells[2] = threads.to_string();
        self
    }

    pub(crate) fn against(mut self, who: &str, value: f64) -> Self {
        self.cells[5] = who.into();
        self.cells[6] = number(value);
        self
    }

    /// The peer's decisions per second, beside those of [`Row::time`].
    pub(crate) fn against_time(self, who: &str, per_second: f64) -> Self {
        let nanos = 1e9 / per_second;
        let own = self.value;
        let mut row = self
            .against(who, nanos)
            .ratio(format!("{:.2}x", nanos / own));
        row.cells[9] = short(per_second);
        row
    }

    pub(crate) fn ratio(mut self, ratio: String) -> Self {
        self.cells[7] = ratio;
        self
    }
}

impl Table {
    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// A line below the table.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = Row {
            cells: HEAD.map(String::from),
            value: f64::NAN,
        };
        let lines = || std::iter::once(&head).chain(&self.rows);
        let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
            let width = |row: &Row| row.cells[column].chars().count();
            lines().map(width).max().unwrap_or_default()
        });
        for (index, row) in lines().enumerate() {
            for (column, (cell, width)) in row.cells.iter().zip(widths).enumerate() {
                if WORDS[column] {
                    write!(f, "| {cell:<width$} ")?;
                } else {
                    write!(f, "| {cell:>width$} ")?;
                }
            }
            writeln!(f, "|")?;
            if index == 0 {
                for (column, width) in widths.into_iter().enumerate() {
                    let end = if WORDS[column] { '-' } else { ':' };
                    write!(f, "|{:-<1$}{end}", "", width + 1)?;
                }
                writeln!(f, "|")?;
            }
        }
        writeln!(f, "\n{LEGEND}")?;
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        Ok(())
    }
}

fn number(value: f64) -> String {
    if value >= 1000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// 12.3 M, 45.6 k.
fn short(value: f64) -> String {
    if value >= 1e6 {
        format!("{:.1} M", value / 1e6)
    } else {
        format!("{:.1} k", value / 1e3)
    }
}
