//! Lists, followed page by page.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::door::{Door, code};
use super::table::Table;
use super::{complain, print, say};

/// How much of a list.
#[derive(Debug, Args)]
pub(super) struct LimitArg {
    /// The most rows to show; 0 for all
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

/// What is listed.
pub(super) struct List<'a> {
    pub(super) path: &'a str,
    /// Filters; those that have a value are sent.
    pub(super) filters: &'a [(&'a str, Option<&'a str>)],
    pub(super) limit: &'a LimitArg,
    /// What to say if there is none.
    pub(super) nothing: &'a str,
}

/// How a list ended.
pub(super) struct Listed {
    pub(super) code: ExitCode,
    /// Rows were printed, as a table.
    pub(super) is_table: bool,
    /// There are more than were asked for.
    pub(super) has_more: bool,
}

/// The longest page that the API gives.
const MAX_PAGE: u32 = 1000;

#[derive(Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    next: Option<String>,
}

impl List<'_> {
    /// Prints the list, one page after the other: as one document, or as a table.
    pub(super) fn print(
        &self,
        door: &Door,
        table: &mut Table,
        mut row: impl FnMut(&Value) -> Vec<String>,
    ) -> anyhow::Result<Listed> {
        let mut after: Option<String> = None;
        let mut seen: usize = 0;
        loop {
            let said = door.read(&self.target(seen, after.as_deref()))?;
            if !said.status.is_success() {
                if door.json && seen == 0 {
                    say(&said.text)?;
                } else {
                    door.refuse(&said);
                }
                return Ok(Listed {
                    code: code(said.status),
                    is_table: false,
                    has_more: false,
                });
            }
            let page: Page = serde_json::from_str(&said.text)?;
            if page.next.is_some() && page.next == after {
                bail!("the server gives the same page again and again");
            }
            let is_first = after.is_none();
            let has_room = self.limit.limit == 0 || seen + page.items.len() < self.wanted();
            let is_last = page.next.is_none() || !has_room;
            let is_read = match door.json {
                true => print(&page.document(is_first, seen > 0, is_last))?,
                false if page.items.is_empty() => true,
                false => {
                    let rows = page
                        .items
                        .iter()
                        .map(|item| Ok(row(&serde_json::from_str(item.get())?)));
                    let rows: Vec<Vec<String>> = rows.collect::<serde_json::Result<_>>()?;
                    print(&format!("{}\n", table.page(&rows)))?
                }
            };
            seen += page.items.len();
            if is_last || !is_read {
                return self.end(door, seen, page.next.is_some());
            }
            after = page.next;
        }
    }

    fn end(&self, door: &Door, seen: usize, has_more: bool) -> anyhow::Result<Listed> {
        if !door.json && seen == 0 {
            say(self.nothing)?;
        }
        if has_more {
            complain("there are more: --limit 0 shows all");
        }
        Ok(Listed {
            code: ExitCode::SUCCESS,
            is_table: !door.json && seen > 0,
            has_more,
        })
    }

    fn wanted(&self) -> usize {
        usize::try_from(self.limit.limit).unwrap_or(usize::MAX)
    }

    fn target(&self, seen: usize, after: Option<&str>) -> String {
        let left = u32::try_from(self.wanted().saturating_sub(seen)).unwrap_or(MAX_PAGE);
        let limit = match self.limit.limit {
            0 => MAX_PAGE,
            _ => left.clamp(1, MAX_PAGE),
        };
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("limit", &limit.to_string());
        for (name, value) in self.filters.iter().copied().chain([("after", after)]) {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        format!("{}?{}", self.path, query.finish())
    }
}

impl Page {
    /// Its part of the one document that all pages are together.
    fn document(&self, is_first: bool, follows_items: bool, is_last: bool) -> String {
        let mut text = String::new();
        if is_first {
            text.push_str("{\"items\":[");
        }
        if follows_items && !self.items.is_empty() {
            text.push(',');
        }
        let items: Vec<&str> = self.items.iter().map(|item| item.get()).collect();
        text.push_str(&items.join(","));
        if is_last {
            let next = Value::from(self.next.clone());
            text.push_str(&format!("],\"next\":{next}}}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn pages_are_one_document() {
        let first = page(r#"{"items":[{"id":"b","a":1.50},{"id":"a"}],"next":"a"}"#);
        let last = page(r#"{"items":[{"id":"c"}],"next":null}"#);
        let text = first.document(true, false, false) + &last.document(false, true, true);
        // As they came: neither sorted nor rounded.
        let expected =
            "{\"items\":[{\"id\":\"b\",\"a\":1.50},{\"id\":\"a\"},{\"id\":\"c\"}],\"next\":null}\n";
        assert_eq!(text, expected);
        let cut = first.document(true, false, true);
        assert!(cut.ends_with("],\"next\":\"a\"}\n"), "{cut}");
        // A page may be empty though it is not the last.
        let empty = page(r#"{"items":[],"next":"b"}"#);
        let text = empty.document(true, false, false) + &last.document(false, false, true);
        assert_eq!(text, "{\"items\":[{\"id\":\"c\"}],\"next\":null}\n");
    }

    #[test]
    fn only_what_is_given_is_asked() {
        let limit = LimitArg { limit: 1500 };
        let list = List {
            path: "/admin/v1/keys",
            filters: &[("tenant", Some("a b&c")), ("user", None)],
            limit: &limit,
            nothing: "",
        };
        let first = "/admin/v1/keys?limit=1000&tenant=a+b%26c";
        assert_eq!(list.target(0, None), first);
        let second = "/admin/v1/keys?limit=500&tenant=a+b%26c&after=x%2F";
        assert_eq!(list.target(1000, Some("x/")), second);
    }
}
