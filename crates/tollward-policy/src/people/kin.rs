use std::sync::Arc;

use super::sharded::Sharded;

/// The tenants that name each other one as their parent, whether or not it exists.
///
/// A change copies a small part of one family, also of one with very many children.
#[derive(Clone, Debug, Default)]
pub(super) struct Kin(Sharded<Box<str>, Arc<Family>>);

/// The children of one, by a hash of their names.
#[derive(Clone, Debug)]
struct Family {
    parts: [Option<Arc<Vec<Box<str>>>>; PARTS],
    count: usize,
}

const PARTS: usize = 64;

impl Kin {
    /// The children of a tenant.
    pub(super) fn of(&self, parent: &str) -> impl Iterator<Item = &str> {
        let family = self.0.get(parent);
        let parts = family.into_iter().flat_map(|family| family.parts.iter());
        parts.flatten().flat_map(|part| part.iter().map(|it| &**it))
    }

    /// Adds a child that is not there.
    pub(super) fn insert(&mut self, parent: &str, child: &str) {
        let mut family = self.family(parent);
        let whole = Arc::make_mut(&mut family);
        let part = whole.parts[part_of(child)].get_or_insert_default();
        Arc::make_mut(part).push(child.into());
        whole.count += 1;
        self.0.insert(parent.into(), family);
    }

    /// Removes a child that is there.
    pub(super) fn remove(&mut self, parent: &str, child: &str) {
        let mut family = self.family(parent);
        let whole = Arc::make_mut(&mut family);
        if let Some(part) = &mut whole.parts[part_of(child)] {
            let part = Arc::make_mut(part);
            if let Some(at) = part.iter().position(|it| **it == *child) {
                part.swap_remove(at);
                whole.count -= 1;
            }
        }
        match whole.count {
            0 => _ = self.0.remove(parent),
            _ => _ = self.0.insert(parent.into(), family),
        }
    }

    fn family(&self, parent: &str) -> Arc<Family> {
        let empty = || {
            Arc::new(Family {
                parts: [const { None }; PARTS],
                count: 0,
            })
        };
        self.0.get(parent).cloned().unwrap_or_else(empty)
    }
}

fn part_of(child: &str) -> usize {
    let hash = child.bytes().fold(0_u32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(byte.into())
    });
    // The low bits of many names are those of their last digits.
    (hash ^ (hash >> 15)) as usize % PARTS
}
