use std::borrow::Cow;

use tollward_policy::Facts;

/// Who calls, on the word of the service itself: for services with an authentication of their own.
///
/// A layer outside of the rate limiter inserts it into the extensions of the request, or
/// [`RateLimitLayer::identify`](crate::RateLimitLayer::identify) computes it.
///
/// # How it combines with the request's own credentials
///
/// * An identity that names a tenant, a user or a client **is proven**. The caller is not anonymous, and
///   the rate limiter reads none of the request's credentials: no API key, no `Authorization`, no header
///   with which a trusted proxy names a user or client. They are the service's to check, so check them
///   before you insert an identity. An API key on the policy's allow-list has no effect then, either.
/// * An identity that names none of them leaves it to the credentials, as if there were no identity. Return
///   `Identity::new()` for requests that you have not authenticated.
/// * A plan takes precedence over the plan of the API key, the user and the tenant, in both cases.
/// * The address is that of the peer, or what a trusted proxy says of it, in both cases.
///
/// ```
/// use tollward_tower::Identity;
///
/// let anonymous = Identity::new();
/// let alice = Identity::new().tenant("acme").user("alice").plan("pro");
/// assert!(alice.is_proven() && !anonymous.is_proven());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    tenant: Option<Cow<'static, str>>,
    user: Option<Cow<'static, str>>,
    client: Option<Cow<'static, str>>,
    plan: Option<Cow<'static, str>>,
}

impl Identity {
    /// An identity that names nobody. In the methods below, an empty text names nobody either.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the tenant. A tenant that the policy does not know has no limits of its own, or is refused
    /// with 400 if the policy says `identity.unknown_tenant: reject`.
    #[must_use]
    pub fn tenant(self, tenant: impl Into<Cow<'static, str>>) -> Self {
        let tenant = given(tenant);
        Self { tenant, ..self }
    }

    /// Names the user.
    #[must_use]
    pub fn user(self, user: impl Into<Cow<'static, str>>) -> Self {
        let user = given(user);
        Self { user, ..self }
    }

    /// Names the client: the program that calls.
    #[must_use]
    pub fn client(self, client: impl Into<Cow<'static, str>>) -> Self {
        let client = given(client);
        Self { client, ..self }
    }

    /// Chooses the plan. A plan that the policy does not have is the service's mistake, not the caller's:
    /// the request is answered with 500.
    #[must_use]
    pub fn plan(self, plan: impl Into<Cow<'static, str>>) -> Self {
        let plan = given(plan);
        Self { plan, ..self }
    }

    /// Whether it names a tenant, a user or a client.
    pub fn is_proven(&self) -> bool {
        self.tenant.is_some() || self.user.is_some() || self.client.is_some()
    }

    /// Adds what it says to the facts of a request. If it is proven, these have no credentials.
    pub(crate) fn add_to<'a>(&'a self, facts: &mut Facts<'a>) {
        if self.is_proven() {
            facts.tenant = self.tenant.as_deref();
            facts.user = self.user.as_deref();
            facts.client = self.client.as_deref();
            facts.is_authenticated = true;
        }
        facts.plan = self.plan.as_deref();
    }

    pub(crate) fn chosen_plan(&self) -> Option<&str> {
        self.plan.as_deref()
    }
}

fn given(text: impl Into<Cow<'static, str>>) -> Option<Cow<'static, str>> {
    Some(text.into()).filter(|text| !text.is_empty())
}
