//! Where in the tree a tenant may be.

use std::collections::HashMap;

use tollgate_directory::Edit;
use tollgate_policy::{MAX_LEVELS, Policy, ROOT};

use crate::doors::admin::failure::Failure;
use crate::doors::admin::names;

/// The most tenants above each other in the directory.
const MAX_DEPTH: usize = 64;

/// Refuses a parent that is not there, that is below the tenant itself, or too far down.
pub(super) async fn check_parent(
    id: &str,
    parent: &str,
    has_limit: bool,
    edit: &mut Edit,
    policy: &Policy,
) -> Result<(), Failure> {
    super::must_exist("parent", parent, edit, policy).await?;
    if parent == ROOT {
        return Ok(());
    }
    let below = edit.subtree(id).await?;
    if below.iter().any(|other| other == parent) {
        let message = match parent == id {
            true => format!("{:?} would be its own parent", names::shortened(id)),
            false => format!("{parent:?} is below {id:?}, which would be its own ancestor"),
        };
        let hint = "name a parent that is not below it";
        return Err(Failure::invalid("parent", message, hint).with("reason", "cycle"));
    }
    let above = edit.ancestors(parent).await?.len() + 1;
    let (height, limits) = extent(&below, has_limit, policy);
    let passed = policy.tenant(parent).map_or(0, |parent| parent.passes());
    if above + height > MAX_DEPTH || passed + limits > MAX_LEVELS {
        let message = format!(
            "the tree would be too deep: at most {MAX_DEPTH} tenants and {MAX_LEVELS} limits above each other"
        );
        let hint = "name a parent nearer to the root";
        return Err(Failure::invalid("parent", message, hint).with("reason", "too_deep"));
    }
    Ok(())
}

/// How many tenants, and how many limits, are above each other in these: the first of them, and those
/// below it, each after its parent.
fn extent(subtree: &[String], has_limit: bool, policy: &Policy) -> (usize, usize) {
    let mut extents: HashMap<&str, (usize, usize)> = HashMap::with_capacity(subtree.len());
    for (index, id) in subtree.iter().enumerate() {
        let entry = policy.tenant(id).map(|tenant| tenant.entry());
        let is_first = index == 0;
        let limited = match is_first {
            true => has_limit,
            false => entry.is_some_and(|entry| entry.limit.is_some()),
        };
        let parent = entry.and_then(|entry| entry.parent.as_deref());
        let parent = parent.filter(|_| !is_first);
        let above = parent.and_then(|parent| extents.get(parent).copied());
        let (tenants, limits) = above.unwrap_or_default();
        extents.insert(id, (tenants + 1, limits + usize::from(limited)));
    }
    let highest =
        |one: (usize, usize), other: &(usize, usize)| (one.0.max(other.0), one.1.max(other.1));
    let nothing = (1, usize::from(has_limit));
    extents.values().fold(nothing, highest)
}

#[cfg(test)]
mod tests {
    use tollgate_policy::compile;

    use super::*;

    #[test]
    fn the_longest_way_down_counts() {
        let file = "
tenants:
  a: {}
  b: { parent: a, rate_limit: { sustained: { rate: 1 } } }
  c: { parent: b, rate_limit: { sustained: { rate: 1 } } }
  d: { parent: a }
";
        let policy = compile(file.as_bytes()).unwrap().policy;
        let ids = |ids: &[&str]| -> Vec<String> { ids.iter().map(|id| (*id).to_owned()).collect() };
        assert_eq!(extent(&ids(&["a", "b", "d", "c"]), true, &policy), (3, 3));
        assert_eq!(extent(&ids(&["a", "b", "d", "c"]), false, &policy), (3, 2));
        assert_eq!(extent(&ids(&["d"]), false, &policy), (1, 0));
        assert_eq!(extent(&ids(&["new"]), true, &policy), (1, 1));
        assert_eq!(extent(&[], true, &policy), (1, 1));
    }
}
