//! What nodes hold of each row. There may be millions, and every column costs.

use crate::entity::{Entity, columns};
use crate::error::DirectoryError;
use crate::people::{Boost, Key, ListEntry, Setting, Tenant, Token, User};
use crate::sql::Fields;

type Result<T> = std::result::Result<T, DirectoryError>;

/// What a node holds of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldTenant {
    /// The tenant above it; none for those directly below the root, and for the root itself.
    pub parent: Option<String>,
    /// Its plan.
    pub plan: Option<String>,
    /// Whether it is suspended.
    pub suspended: bool,
    /// Its `rate_limit`, as JSON.
    pub rate_limit: Option<String>,
}

/// What a node holds of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldUser {
    /// The tenant that the user belongs to.
    pub tenant: Option<String>,
    /// The user's plan.
    pub plan: Option<String>,
    /// Whether the user is suspended.
    pub suspended: bool,
}

/// What a node holds of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldKey {
    /// Whom it stands for.
    pub tenant: Option<String>,
    /// Whom it stands for.
    pub user: Option<String>,
    /// Whom it stands for.
    pub client: Option<String>,
    /// A plan that goes before the user's and the tenant's.
    pub plan: Option<String>,
    /// When it expires, in Unix milliseconds.
    pub expires_at: Option<i64>,
    /// Whether it is suspended.
    pub suspended: bool,
}

/// Something that is read of an entity.
pub(crate) trait Held: Send + Sized {
    type Of: Entity;

    /// The columns.
    fn columns() -> String;
    fn read(fields: &mut Fields<'_>) -> Result<Self>;
}

/// `SELECT … FROM …` of what the log of changes knows a row by, and the columns.
pub(crate) fn select<T: Held>() -> String {
    let (id, table) = (T::Of::LOGGED, T::Of::TABLE);
    format!("SELECT {id}, {} FROM {table}", T::columns())
}

impl Held for HeldTenant {
    type Of = Tenant;

    fn columns() -> String {
        "parent, plan, suspended_at, rate_limit".to_owned()
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            parent: Tenant::above(fields.next()?),
            plan: fields.next()?,
            suspended: is_set(fields)?,
            rate_limit: fields.next()?,
        })
    }
}

impl Held for HeldUser {
    type Of = User;

    fn columns() -> String {
        "tenant_id, plan, suspended_at".to_owned()
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            tenant: fields.next()?,
            plan: fields.next()?,
            suspended: is_set(fields)?,
        })
    }
}

impl Held for HeldKey {
    type Of = Key;

    fn columns() -> String {
        "tenant_id, user_id, client, plan, expires_at, suspended_at".to_owned()
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            tenant: fields.next()?,
            user: fields.next()?,
            client: fields.next()?,
            plan: fields.next()?,
            expires_at: fields.next()?,
            suspended: is_set(fields)?,
        })
    }
}

/// Whether a moment is given.
fn is_set(fields: &mut Fields<'_>) -> Result<bool> {
    let moment: Option<i64> = fields.next()?;
    Ok(moment.is_some())
}

/// There are few of them: all is held.
macro_rules! held_whole {
    ($($entity:ty),*) => {
        $(impl Held for $entity {
            type Of = Self;

            fn columns() -> String {
                columns::<Self>()
            }

            fn read(fields: &mut Fields<'_>) -> Result<Self> {
                Entity::read(fields)
            }
        })*
    };
}

held_whole!(ListEntry, Boost, Token, Setting);
