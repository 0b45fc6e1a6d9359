//! Tenants: the tree, its limits and its budgets.

mod budget;
pub(super) mod change;
mod limit;
pub(super) mod remove;
mod tree;
pub(super) mod view;

use axum::extract::State;
use serde::Deserialize;
use tollward_directory::{Edit, Page, Tenant};
use tollward_policy::{Policy, ROOT};
use utoipa::IntoParams;

use self::view::View;
use super::Shared;
use super::answer::Answer;
use super::failure::Failure;
use super::guard::{By, Read};
use super::input::{Asked, Id};
use super::names;
use super::paging::{Items, page};

/// Refuses a name that no tenant has, neither in the file nor in the directory.
pub(super) async fn must_exist(
    place: &str,
    id: &str,
    edit: &mut Edit,
    policy: &Policy,
) -> Result<(), Failure> {
    let is_known =
        id == ROOT || policy.file_tenant(id).is_some() || edit.tenant(id).await?.is_some();
    if is_known {
        return Ok(());
    }
    let message = format!("there is no tenant {:?}", names::shortened(id));
    let reason = format!("unknown_{place}");
    Err(Failure::invalid(place, message, "make it first").with("reason", reason))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Only tenants directly below this one; `system` is the root.
    parent: Option<String>,
    /// The most items on the page; 100 unless told otherwise.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Lists tenants
///
/// Those of the configuration file and those of the directory, in the order of their names. The root is among
/// them only if one of the two says something of it.
#[utoipa::path(get, path = "/admin/v1/tenants", tag = "tenants", params(Wanted),
    responses((status = 200, description = "A page of tenants", body = Items<View>)))]
pub(super) async fn list_tenants(
    _: By<Read>,
    State(shared): State<Shared>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Answer, Failure> {
    let page = page(wanted.limit, wanted.after)?;
    let parent = wanted.parent.as_deref();
    let listed = shared.directory.tenants(parent, &page).await?;
    let (mut rows, mut next) = {
        let active = shared.engine.active();
        let policy = active.policy();
        let written = of_file(policy, parent, page.after.as_deref());
        merged(listed.items, written, &page, listed.next.is_some(), |id| {
            policy.file_tenant(id).is_some()
        })
    };
    // Rows that the file hides leave a page short, but never the last.
    if rows.is_empty() {
        next = listed.next.or(next);
    }
    let mut items = Vec::with_capacity(rows.len());
    for row in rows.drain(..) {
        items.push(match row {
            Row::Stored(tenant) => View::stored(&shared, *tenant).await?,
            Row::Written(id) => View::written(&shared, &id).await?,
        });
    }
    Answer::ok(&Items {
        items: items.into_iter().flatten().collect(),
        next,
    })
}

/// A tenant of a list.
#[derive(Debug, PartialEq)]
enum Row {
    Stored(Box<Tenant>),
    Written(String),
}

impl Row {
    fn id(&self) -> &str {
        match self {
            Self::Stored(tenant) => &tenant.id,
            Self::Written(id) => id,
        }
    }
}

/// The names that the file has behind `after`.
fn of_file(policy: &Policy, parent: Option<&str>, after: Option<&str>) -> Vec<String> {
    let tenants = policy.file_tenants();
    let wanted = tenants.filter(|(id, entry)| {
        let above = (*id != ROOT).then(|| entry.parent.as_deref().unwrap_or(ROOT));
        parent.is_none_or(|parent| above == Some(parent)) && after.is_none_or(|after| *id > after)
    });
    let mut names: Vec<String> = wanted.map(|(id, _)| id.to_owned()).collect();
    names.sort_unstable();
    names
}

/// One page of both, in order, and where the next begins. Stored ones of which the file has one too are
/// left out.
fn merged(
    stored: Vec<Tenant>,
    written: Vec<String>,
    page: &Page,
    has_more: bool,
    is_hidden: impl Fn(&str) -> bool,
) -> (Vec<Row>, Option<String>) {
    // Behind the last of a page that is not the last, others may be stored.
    let end = stored
        .last()
        .filter(|_| has_more)
        .map(|last| last.id.clone());
    let seen = stored.into_iter().filter(|tenant| !is_hidden(&tenant.id));
    let stored = seen.map(|tenant| Row::Stored(Box::new(tenant)));
    let mut rows: Vec<Row> = stored
        .chain(written.into_iter().map(Row::Written))
        .collect();
    rows.sort_by(|one, other| one.id().cmp(other.id()));
    if let Some(end) = &end {
        rows.retain(|row| row.id() <= end.as_str());
    }
    let limit = page.limit as usize;
    let is_cut = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().map(|row| row.id().to_owned());
    let next = match (is_cut, end) {
        (true, _) => last,
        (false, end) => end,
    };
    (rows, next)
}

/// Shows a tenant
///
/// `system`, the root, is always there.
#[utoipa::path(get, path = "/admin/v1/tenants/{id}", tag = "tenants",
    params(("id" = String, Path, description = "The tenant's name")),
    responses((status = 200, description = "The tenant", body = View), (status = 404, description = "There is none")))]
pub(super) async fn show_tenant(
    _: By<Read>,
    State(shared): State<Shared>,
    Id(id): Id,
) -> Result<Answer, Failure> {
    if let Some(view) = View::written(&shared, &id).await? {
        return Answer::ok(&view);
    }
    let view = match shared.directory.tenant(&id).await? {
        Some(tenant) => View::stored(&shared, tenant).await?,
        None if id == ROOT => Some(View::root(&shared).await?),
        None => None,
    };
    Answer::ok(&view.ok_or_else(|| missing(&id))?)
}

pub(super) fn missing(id: &str) -> Failure {
    Failure::not_found("tenant", &names::shortened(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(ids: &[&str]) -> Vec<Tenant> {
        let tenant = |id: &&str| Tenant {
            id: (*id).to_owned(),
            ..Tenant::default()
        };
        ids.iter().map(tenant).collect()
    }

    /// Walks all pages over names of the directory and of the file.
    fn walked(directory: &[&str], file: &[&str], limit: usize) -> Vec<String> {
        let mut seen = Vec::new();
        let mut after: Option<String> = None;
        for _ in 0..100 {
            let behind = |id: &&&str| after.as_deref().is_none_or(|after| **id > after);
            let mut left: Vec<&str> = directory.iter().filter(behind).copied().collect();
            let has_more = left.len() > limit;
            left.truncate(limit);
            let written = file.iter().filter(behind).map(|id| (*id).to_owned());
            let page = Page {
                after: after.clone(),
                limit: u32::try_from(limit).unwrap(),
            };
            let (rows, next) = merged(stored(&left), written.collect(), &page, has_more, |id| {
                file.contains(&id)
            });
            assert!(rows.len() <= limit);
            seen.extend(rows.iter().map(|row| row.id().to_owned()));
            after = next;
            if after.is_none() {
                return seen;
            }
        }
        panic!("no end");
    }

    #[test]
    fn every_tenant_comes_once_and_in_order() {
        let directory = ["a", "b", "d", "f", "h", "j"];
        let file = ["b", "c", "d", "i", "k", "z"];
        let all = ["a", "b", "c", "d", "f", "h", "i", "j", "k", "z"];
        for limit in 1..12 {
            assert_eq!(walked(&directory, &file, limit), all, "{limit}");
            assert_eq!(walked(&directory, &[], limit), directory, "{limit}");
            assert_eq!(walked(&[], &file, limit), file, "{limit}");
            assert_eq!(walked(&file, &file, limit), file, "{limit}");
        }
        assert!(walked(&[], &[], 3).is_empty());
    }
}
