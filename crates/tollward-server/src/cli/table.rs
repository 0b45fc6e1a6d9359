//! Answers as people read them: tables, and single records.

use std::fmt::Write;

use serde_json::Value;

/// A table that is printed page by page, since a list may be long.
pub(super) struct Table {
    heads: Vec<String>,
    widths: Vec<usize>,
    is_begun: bool,
}

/// A head that begins with this is that of numbers, which are set flush right.
const RIGHT: char = '>';

impl Table {
    pub(super) fn new(heads: &[&str]) -> Self {
        Self {
            heads: heads.iter().map(|head| (*head).to_owned()).collect(),
            widths: vec![0; heads.len()],
            is_begun: false,
        }
    }

    /// The lines of more rows; the heads come before the first of them. Columns only grow.
    pub(super) fn page(&mut self, rows: &[Vec<String>]) -> String {
        let mut lines: Vec<Vec<String>> = Vec::with_capacity(rows.len() + 1);
        if !self.is_begun && !rows.is_empty() {
            self.is_begun = true;
            let heads = self.heads.iter();
            lines.push(
                heads
                    .map(|head| head.trim_start_matches(RIGHT).to_owned())
                    .collect(),
            );
        }
        lines.extend(
            rows.iter()
                .map(|row| row.iter().map(|cell| printable(cell)).collect()),
        );
        for line in &lines {
            for (width, cell) in self.widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let lines: Vec<String> = lines.iter().map(|line| self.line(line)).collect();
        lines.join("\n")
    }

    fn line(&self, cells: &[String]) -> String {
        let mut text = String::new();
        for ((cell, &width), head) in cells.iter().zip(&self.widths).zip(&self.heads) {
            // Writing to a string does not fail.
            let _ = match head.starts_with(RIGHT) {
                true => write!(text, "{cell:>width$}  "),
                false => write!(text, "{cell:width$}  "),
            };
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// One thing: a name and a value in each line. What has no value is left out.
pub(super) fn record(fields: &[(&str, String)]) -> String {
    let there = || fields.iter().filter(|(_, value)| !value.is_empty());
    let width = there().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or(0);
    let line = |(name, value): &(&str, String)| format!("{name:width$}  {}", printable(value));
    let lines: Vec<String> = there().map(line).collect();
    lines.join("\n")
}

/// A value as a cell; empty if there is none.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// What else is known of something, if there is anything.
pub(super) fn attributes(of: &Value) -> String {
    let known = of["attributes"]
        .as_object()
        .filter(|known| !known.is_empty());
    known.map(|_| cell(&of["attributes"])).unwrap_or_default()
}

/// A moment to the second: the rest only makes a table wide.
pub(super) fn moment(value: &Value) -> String {
    let text = cell(value);
    match text.split_once('.') {
        Some((secs, fraction)) if fraction.ends_with('Z') => format!("{secs}Z"),
        _ => text,
    }
}

/// Since when something is suspended, and why; empty if it is not.
pub(super) fn suspended(of: &Value) -> String {
    let since = moment(&of["suspended_at"]);
    match &of["suspended_reason"] {
        Value::Null => since,
        reason => format!("{since}: {}", cell(reason)),
    }
}

/// Callers choose names. None of them moves the cursor of whoever reads it, or turns a line around.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{200E}'
            | '\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2066}'..='\u{2069}'
            | '\u{FEFF}' => {
                shown.extend(c.escape_unicode());
            }
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn columns_are_aligned_over_pages() {
        let mut table = Table::new(&["ID", ">COUNT", "WHY"]);
        assert_eq!(table.page(&[]), "");
        let first = table.page(&[row(&["über", "7", "x"]), row(&["b", "1234567", ""])]);
        assert_eq!(first, "ID      COUNT  WHY\nüber        7  x\nb     1234567");
        let second = table.page(&[row(&["longer", "1", "y"])]);
        assert_eq!(second, "longer        1  y");
    }

    #[test]
    fn a_record_leaves_out_what_is_not_there() {
        let fields = [
            ("id", "a".to_owned()),
            ("plan", String::new()),
            ("version", "3".to_owned()),
        ];
        assert_eq!(record(&fields), "id       a\nversion  3");
        assert_eq!(record(&[]), "");
    }

    #[test]
    fn what_callers_choose_is_only_text() {
        assert_eq!(
            printable("user:a\u{1b}[2J\n\u{202e}z\u{9b}"),
            "user:a\\u{1b}[2J\\n\\u{202e}z\\u{9b}"
        );
        assert_eq!(printable("über 日本"), "über 日本");
        assert!(
            Table::new(&["A"])
                .page(&[row(&["\r\u{7}"])])
                .ends_with("\\r\\u{7}")
        );
    }

    #[test]
    fn values_are_told_as_they_are() {
        assert_eq!(cell(&json!(null)), "");
        assert_eq!(cell(&json!("a")), "a");
        assert_eq!(cell(&json!(1.5)), "1.5");
        assert_eq!(
            moment(&json!("2026-01-02T03:04:05.678Z")),
            "2026-01-02T03:04:05Z"
        );
        assert_eq!(moment(&json!(null)), "");
    }
}
