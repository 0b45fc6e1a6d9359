//! Boosts: more for a tenant or a user, for a time.

use axum::extract::State;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use tollward_directory::{Boost, Edit};
use tollward_policy::Policy;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use super::answer::Answer;
use super::failure::Failure;
use super::guard::{By, Operate, Read};
use super::input::{Asked, Body, Id};
use super::moment::{LAST, Moment};
use super::names::{self, MAX_TEXT};
use super::once::OnceKey;
use super::paging::{Items, Paging};
use super::precondition::IfMatch;
use super::secret::made_id;
use super::span::Span;
use super::work::{Begun, Changed, Work};
use super::{Shared, tenants, unmade};

/// A boost to be made: for a tenant or a user, until a moment or for a time.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewBoost {
    /// The tenant whose limit is raised.
    #[schema(min_length = 1, max_length = 128, example = "acme")]
    tenant: Option<String>,
    /// The user whose limits are raised.
    #[schema(min_length = 1, max_length = 256)]
    user: Option<String>,
    /// How much more: 2 is twice as much. From 1.001 to 100, at most three decimals.
    factor: Factor,
    /// When it ends.
    ends_at: Option<Moment>,
    /// How long it lasts, from now.
    duration: Option<Span>,
    /// Why.
    #[serde(default)]
    #[schema(max_length = 256, example = "launch day")]
    reason: String,
}

/// How much more, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Factor(u32);

impl Factor {
    const MIN: u32 = 1001;
    const MAX: u32 = 100_000;

    /// Reads a number of at most three decimals.
    fn of(number: f64) -> Option<Self> {
        let thousandths = (number * 1000.0).round();
        let exact = (number * 1000.0 - thousandths).abs() < 1e-6;
        let in_range = thousandths >= f64::from(Self::MIN) && thousandths <= f64::from(Self::MAX);
        // Checked to be a whole number that fits.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        (exact && in_range).then_some(Self(thousandths as u32))
    }

    fn shown(thousandths: u32) -> f64 {
        f64::from(thousandths) / 1000.0
    }
}

impl<'de> Deserialize<'de> for Factor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        let why = "not a factor, expected a number from 1.001 to 100 with at most three decimals";
        Self::of(number).ok_or_else(|| D::Error::custom(why))
    }
}

impl utoipa::PartialSchema for Factor {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(Factor::shown(Factor::MIN)))
            .maximum(Some(Factor::shown(Factor::MAX)))
            .multiple_of(Some(0.001))
            .into()
    }
}

impl ToSchema for Factor {}

/// A boost.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Boost)]
pub(super) struct View {
    /// Its id.
    id: String,
    /// The tenant whose limit is raised.
    tenant: Option<String>,
    /// The user whose limits are raised.
    user: Option<String>,
    /// How much more.
    factor: f64,
    /// When it ends.
    ends_at: Moment,
    /// Whether it holds now.
    active: bool,
    /// Why.
    reason: String,
    /// When it was made.
    created_at: Moment,
    /// The version, for `If-Match`.
    version: i64,
}

impl View {
    fn new(boost: &Boost, now_ms: i64) -> Self {
        let of = |kind: &str| (boost.kind == kind).then(|| boost.target.clone());
        Self {
            id: boost.id.clone(),
            tenant: of("tenant"),
            user: of("user"),
            factor: Factor::shown(boost.factor),
            ends_at: Moment(boost.ends_at),
            active: now_ms < boost.ends_at,
            reason: boost.reason.clone(),
            created_at: Moment(boost.created_at),
            version: boost.version,
        }
    }
}

fn told(boost: &Boost) -> Value {
    json!({
        "kind": boost.kind,
        "target": boost.target,
        "factor": Factor::shown(boost.factor),
        "ends_at": Moment(boost.ends_at),
        "reason": boost.reason,
    })
}

impl NewBoost {
    async fn checked(self, edit: &mut Edit, policy: &Policy) -> Result<Boost, Failure> {
        let (kind, target) = match (self.tenant, self.user) {
            (Some(tenant), None) => {
                tenants::must_exist("tenant", &tenant, edit, policy).await?;
                ("tenant", tenant)
            }
            (None, Some(user)) => {
                if edit.user(&user).await?.is_none() {
                    let message = format!("there is no user {:?}", names::shortened(&user));
                    return Err(Failure::invalid("user", message, "make it first"));
                }
                ("user", user)
            }
            _ => {
                let hint = "give either `tenant` or `user`";
                return Err(Failure::invalid(
                    "",
                    "the boost is for nobody, or for two",
                    hint,
                ));
            }
        };
        if !self.reason.is_empty() {
            names::text("reason", &self.reason, MAX_TEXT)?;
        }
        Ok(Boost {
            id: made_id("boost").map_err(unmade)?,
            kind: kind.to_owned(),
            target,
            factor: self.factor.0,
            ends_at: end(self.ends_at, self.duration, edit.now_ms())?.0,
            reason: self.reason,
            ..Boost::default()
        })
    }
}

/// When a boost ends that was given an end or a duration.
fn end(ends_at: Option<Moment>, duration: Option<Span>, now_ms: i64) -> Result<Moment, Failure> {
    let end = match (ends_at, duration) {
        (Some(moment), None) => moment,
        (None, Some(span)) => Moment(now_ms.saturating_add(span.0)),
        _ => {
            let hint = "give either `ends_at` or `duration`";
            return Err(Failure::invalid("ends_at", "a boost has one end", hint));
        }
    };
    if end.0 <= now_ms || end > LAST {
        let message = format!("{end} is not ahead: it is {}", Moment(now_ms));
        let hint = "write a moment that is still to come";
        return Err(Failure::invalid("ends_at", message, hint));
    }
    Ok(end)
}

/// Lists boosts
///
/// Also those that are over.
#[utoipa::path(get, path = "/admin/v1/boosts", tag = "boosts", params(Paging),
    responses((status = 200, description = "A page of boosts", body = Items<View>)))]
pub(super) async fn list_boosts(
    _: By<Read>,
    State(shared): State<Shared>,
    Asked(paging): Asked<Paging>,
) -> Result<Answer, Failure> {
    let listed = shared.directory.boosts(&paging.page()?).await?;
    let now_ms = shared.now_ms();
    Answer::ok(&Items {
        items: listed
            .items
            .iter()
            .map(|it| View::new(it, now_ms))
            .collect(),
        next: listed.next,
    })
}

/// Shows a boost
#[utoipa::path(get, path = "/admin/v1/boosts/{id}", tag = "boosts",
    params(("id" = String, Path, description = "The boost's id")),
    responses((status = 200, description = "The boost", body = View), (status = 404, description = "There is none")))]
pub(super) async fn show_boost(
    _: By<Read>,
    State(shared): State<Shared>,
    Id(id): Id,
) -> Result<Answer, Failure> {
    let boost = shared.directory.boost(&id).await?;
    let boost = boost.ok_or_else(|| missing(&id))?;
    Answer::ok(&View::new(&boost, shared.now_ms()))
}

/// Makes a boost
///
/// It holds from now until its end. Budgets are not touched: what an ancestor allows is not raised.
#[utoipa::path(post, path = "/admin/v1/boosts", tag = "boosts", request_body = NewBoost,
    responses((status = 201, description = "The boost", body = View)))]
pub(super) async fn create_boost(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    once: OnceKey,
    body: Body<NewBoost>,
) -> Result<Answer, Failure> {
    let once = once.of(&body);
    let mut work = match Work::begin_once(&shared, caller, once).await? {
        Begun::New(work) => work,
        Begun::Again(answer) => return Ok(answer),
    };
    let active = shared.engine.active();
    let boost = body.value.checked(&mut work.edit, active.policy()).await?;
    drop(active);
    let boost = work.edit.put_boost(boost).await?;
    work.record(Changed {
        event: "boost_created",
        identifier: format!("{}:{}", boost.kind, boost.target),
        before: None,
        after: Some(told(&boost)),
    });
    let answer = Answer::created(&View::new(&boost, work.edit.now_ms()))?;
    work.commit(answer).await
}

/// Ends a boost
#[utoipa::path(delete, path = "/admin/v1/boosts/{id}", tag = "boosts",
    params(("id" = String, Path, description = "The boost's id")),
    responses((status = 200, description = "The boost as it was", body = View), (status = 404, description = "There is none")))]
pub(super) async fn delete_boost(
    By(caller, ..): By<Operate>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
) -> Result<Answer, Failure> {
    let mut work = Work::begin(&shared, caller).await?;
    let boost = work.edit.boost(&id).await?.ok_or_else(|| missing(&id))?;
    expected.check(boost.version)?;
    work.edit.delete_boost(&id).await?;
    work.record(Changed {
        event: "boost_deleted",
        identifier: format!("{}:{}", boost.kind, boost.target),
        before: Some(told(&boost)),
        after: None,
    });
    let mut answer = Answer::ok(&View::new(&boost, work.edit.now_ms()))?;
    answer.version = None;
    work.commit(answer).await
}

fn missing(id: &str) -> Failure {
    Failure::not_found("boost", &names::shortened(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_exact_thousandths() {
        for (number, thousandths) in [
            (1.001, Some(1001)),
            (1.5, Some(1500)),
            (2.0, Some(2000)),
            (33.333, Some(33_333)),
            (99.999, Some(99_999)),
            (100.0, Some(100_000)),
            (1.0, None),
            (100.001, None),
            (1.0015, None),
            (-2.0, None),
            (0.0, None),
            (1e300, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
        ] {
            assert_eq!(Factor::of(number).map(|it| it.0), thousandths, "{number}");
        }
        for thousandths in Factor::MIN..=Factor::MAX {
            assert_eq!(
                Factor::of(Factor::shown(thousandths)),
                Some(Factor(thousandths))
            );
        }
    }

    #[test]
    fn one_end_that_is_ahead() {
        let now = 1_765_411_200_000;
        let later = Moment(now + 1);
        assert_eq!(end(Some(later), None, now).ok(), Some(later));
        let hour = Span(3_600_000);
        assert_eq!(
            end(None, Some(hour), now).ok(),
            Some(Moment(now + 3_600_000))
        );
        assert!(end(None, None, now).is_err());
        assert!(end(Some(later), Some(hour), now).is_err());
        assert!(end(Some(Moment(now)), None, now).is_err());
        assert!(end(None, Some(Span(0)), now).is_err());
        assert!(end(None, Some(Span(i64::MAX)), now).is_err());
    }
}
