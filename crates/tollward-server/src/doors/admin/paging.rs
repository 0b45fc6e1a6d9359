//! Lists, page by page.

use serde::{Deserialize, Serialize};
use tollward_directory::{MAX_PAGE, Page};
use utoipa::ToSchema;

use super::failure::Failure;

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Items<T> {
    /// The items, in order.
    pub(super) items: Vec<T>,
    /// What to send as `after` for the next page; null on the last one.
    pub(super) next: Option<String>,
}

/// Items of a page unless told otherwise.
const DEFAULT: u32 = 100;

/// The page that a query asks for.
pub(super) fn page(limit: Option<u32>, after: Option<String>) -> Result<Page, Failure> {
    let limit = limit.unwrap_or(DEFAULT);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Failure::bad_input(format!(
            "`limit` is from 1 to {MAX_PAGE}."
        )));
    }
    Ok(Page { after, limit })
}

/// What of a page comes from the file, in a list that begins with the file's items.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileFirst<T> {
    /// Those on this page.
    pub(super) items: Vec<T>,
    /// What of the page is left for the directory.
    pub(super) rest: Option<Page>,
    /// Where the next page begins, if it begins in the file.
    pub(super) next: Option<String>,
}

/// Begins a name that says how many of the file's items were seen. No id of the directory begins so.
const SEEN: &str = "file:";

impl<T> FileFirst<T> {
    /// Of the file's items, always in the same order.
    pub(super) fn of(all: Vec<T>, page: Page) -> Self {
        let seen = match page.after.as_deref() {
            None => Some(0),
            Some(after) => after
                .strip_prefix(SEEN)
                .map(|seen| seen.parse().unwrap_or(usize::MAX)),
        };
        let Some(seen) = seen else {
            return Self {
                items: Vec::new(),
                rest: Some(page),
                next: None,
            };
        };
        let (count, limit) = (all.len(), page.limit as usize);
        let items: Vec<T> = all.into_iter().skip(seen).take(limit).collect();
        let left = limit - items.len();
        let is_full = left == 0;
        Self {
            next: is_full.then(|| format!("{SEEN}{}", (seen + items.len()).min(count))),
            rest: (!is_full).then(|| Page {
                after: None,
                limit: u32::try_from(left).unwrap_or(page.limit),
            }),
            items,
        }
    }
}

/// Where a list is to go on, for lists without a filter.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Paging {
    /// The most items on the page; 100 unless told otherwise.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

impl Paging {
    pub(super) fn page(self) -> Result<Page, Failure> {
        page(self.limit, self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks all pages over so many items of the file and of the directory.
    fn walked(file: usize, directory: usize, limit: u32) -> Vec<String> {
        let mut seen = Vec::new();
        let mut after = None;
        for _ in 0..100 {
            let all = (0..file).map(|index| format!("f{index}")).collect();
            let part = FileFirst::of(all, Page { after, limit });
            let mut count = part.items.len();
            seen.extend(part.items);
            after = part.next;
            if let Some(rest) = part.rest {
                let from = rest.after.map_or(0, |after| after.parse().unwrap());
                let to = directory.min(from + rest.limit as usize);
                seen.extend((from..to).map(|index| format!("d{index}")));
                count += to - from;
                after = (to < directory).then(|| to.to_string());
            }
            assert!(count <= limit as usize);
            if after.is_none() {
                return seen;
            }
        }
        panic!("no end");
    }

    #[test]
    fn every_item_comes_once() {
        for (file, directory) in [(0, 0), (0, 5), (5, 0), (3, 4), (4, 4)] {
            let file_items = (0..file).map(|index| format!("f{index}"));
            let all = file_items.chain((0..directory).map(|index| format!("d{index}")));
            let all: Vec<String> = all.collect();
            for limit in 1..11 {
                assert_eq!(walked(file, directory, limit), all, "{limit}");
            }
        }
    }

    #[test]
    fn a_name_of_nothing_is_the_end_of_the_file() {
        for after in [
            "file:99",
            "file:x",
            "file:-1",
            "file:99999999999999999999999",
        ] {
            let page = Page {
                after: Some(after.to_owned()),
                limit: 5,
            };
            let part = FileFirst::of(vec![1, 2, 3], page);
            assert_eq!((part.items.len(), part.next), (0, None), "{after}");
            assert_eq!(part.rest.unwrap().limit, 5);
        }
    }
}
