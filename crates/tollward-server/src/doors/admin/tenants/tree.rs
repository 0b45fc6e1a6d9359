//! Where in the tree a tenant may be.

use std::collections::HashMap;

use tollward_directory::{Edit, Tenant};
use tollward_policy::{Change, MAX_LEVELS, Policy, ROOT, TenantEntry, TenantLimit};

use crate::doors::admin::failure::Failure;
use crate::doors::admin::{aside, names};

/// The most tenants above each other in the directory.
const MAX_DEPTH: usize = 64;

/// A tenant, as it is to be in the tree.
pub(super) struct Place<'a> {
    pub(super) id: &'a str,
    pub(super) parent: &'a str,
    pub(super) before: Option<&'a Tenant>,
    pub(super) limit: Option<&'a TenantLimit>,
}

impl Place<'_> {
    /// Refuses a parent that is not there or is below the tenant itself, and a tree that would be too
    /// deep. Whoever stays where it was makes it no deeper.
    pub(super) async fn check(&self, edit: &mut Edit, policy: &Policy) -> Result<(), Failure> {
        let is_root = self.id == ROOT;
        if !is_root {
            super::must_exist("parent", self.parent, edit, policy).await?;
        }
        let is_moved = !is_root && self.is_moved();
        if !is_moved && !self.binds_otherwise() {
            return Ok(());
        }
        let below = match is_root {
            true => all(policy),
            false => edit.subtree(self.id).await?,
        };
        if is_moved {
            self.check_parent(&below, edit, policy).await?;
        }
        self.check_levels(below, policy).await
    }

    fn is_moved(&self) -> bool {
        let before = self.before.map(|it| it.parent.as_deref().unwrap_or(ROOT));
        before != Some(self.parent)
    }

    /// Whether those below have other limits to keep than before, not only other numbers.
    fn binds_otherwise(&self) -> bool {
        let sharing = |limit: Option<&TenantLimit>| limit.map(TenantLimit::sharing);
        sharing(self.limit_before().as_ref()) != sharing(self.limit)
    }

    /// The limit that it had. What no longer makes sense limits nobody.
    pub(super) fn limit_before(&self) -> Option<TenantLimit> {
        let text = self.before?.rate_limit.as_deref()?;
        TenantLimit::stored(text).ok()
    }

    async fn check_parent(
        &self,
        below: &[String],
        edit: &mut Edit,
        policy: &Policy,
    ) -> Result<(), Failure> {
        let (id, parent) = (self.id, self.parent);
        if below.iter().any(|other| other == parent) {
            let message = match parent == id {
                true => format!("{:?} would be its own parent", names::shortened(id)),
                false => format!("{parent:?} is below {id:?}, which would be its own ancestor"),
            };
            let hint = "name a parent that is not below it";
            return Err(Failure::invalid("parent", message, hint).with("reason", "cycle"));
        }
        let above = edit.ancestors(parent).await?.len() + 1;
        if above + height(below, policy) > MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} tenants would be above each other");
            let hint = "name a parent nearer to the root";
            return Err(Failure::invalid("parent", message, hint).with("reason", "too_deep"));
        }
        Ok(())
    }

    /// Refuses a tree in which a request would pay at too many levels: as it would be, for those here and
    /// below.
    async fn check_levels(&self, below: Vec<String>, policy: &Policy) -> Result<(), Failure> {
        let entry = TenantEntry {
            parent: Some(self.parent.into()).filter(|_| self.id != ROOT),
            plan: None,
            limit: self.limit.cloned().map(Into::into),
            suspended: false,
        };
        let change = Change::Tenant {
            id: self.id.into(),
            entry: Some(entry),
        };
        let policy = policy.clone();
        let too_deep = aside(move || {
            let next = policy.with(vec![change]);
            let passes = |id: &String| next.tenant(id).map_or(0, |tenant| tenant.passes());
            below.into_iter().find(|id| passes(id) > MAX_LEVELS)
        });
        let Some(tenant) = too_deep.await? else {
            return Ok(());
        };
        let place = match self.is_moved() {
            true => "parent",
            false => "rate_limit",
        };
        let message = format!("more than {MAX_LEVELS} limits would bind those below {tenant:?}");
        let hint = "let fewer of the tenants above each other say `sharing: inherit` or `enforce`";
        Err(Failure::invalid(place, message, hint).with("reason", "too_deep"))
    }
}

/// Everybody whom this node knows.
fn all(policy: &Policy) -> Vec<String> {
    let written = policy.file_tenants().map(|(id, _)| id);
    let all = written.chain(policy.directory_tenants());
    all.map(str::to_owned).collect()
}

/// How many tenants are above each other in these: the first of them, and those below it, each after its
/// parent.
fn height(subtree: &[String], policy: &Policy) -> usize {
    let mut heights: HashMap<&str, usize> = HashMap::with_capacity(subtree.len());
    for (index, id) in subtree.iter().enumerate() {
        let entry = policy.tenant(id).map(|tenant| tenant.entry());
        let parent = entry.and_then(|entry| entry.parent.as_deref());
        let parent = parent.filter(|_| index > 0);
        let above = parent.and_then(|parent| heights.get(parent)).copied();
        heights.insert(id, above.unwrap_or_default() + 1);
    }
    heights.into_values().fold(1, usize::max)
}

#[cfg(test)]
mod tests {
    use tollward_policy::compile;

    use super::*;

    #[test]
    fn the_longest_way_down_counts() {
        let file = "
tenants:
  a: {}
  b: { parent: a }
  c: { parent: b }
  d: { parent: a }
";
        let policy = compile(file.as_bytes()).unwrap().policy;
        let ids = |ids: &[&str]| -> Vec<String> { ids.iter().map(|id| (*id).to_owned()).collect() };
        assert_eq!(height(&ids(&["a", "b", "d", "c"]), &policy), 3);
        assert_eq!(height(&ids(&["a", "d"]), &policy), 2);
        assert_eq!(height(&ids(&["b", "c"]), &policy), 2);
        assert_eq!(height(&ids(&["new"]), &policy), 1);
        assert_eq!(height(&[], &policy), 1);
    }
}
