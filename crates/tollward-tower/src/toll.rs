use std::sync::{Arc, Mutex, PoisonError};

use tollward_engine::{Active, Engine, Receipt, StoreError};

/// What a request has paid, and who paid it: found among the extensions of an admitted request.
///
/// A handler that learns only while it works what a request is worth says so with [`Toll::settle`].
#[derive(Clone)]
pub struct Toll {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<Engine>,
    paid: Option<Paid>,
    tenant: Option<Box<str>>,
    plan: Option<Box<str>>,
    user: Option<Box<str>>,
    degraded: bool,
}

struct Paid {
    active: Arc<Active>,
    receipt: Mutex<Receipt>,
}

impl Toll {
    pub(crate) fn new(engine: Arc<Engine>, admitted: &mut crate::Admitted) -> Self {
        let paid = admitted.receipt.take().map(|paid| {
            let (active, receipt) = *paid;
            Paid {
                active,
                receipt: Mutex::new(receipt),
            }
        });
        Self {
            inner: Arc::new(Inner {
                engine,
                paid,
                tenant: admitted.tenant.take(),
                plan: admitted.plan.take(),
                user: admitted.user.take(),
                degraded: admitted.degraded,
            }),
        }
    }

    /// The tenant that the caller belongs to.
    pub fn tenant(&self) -> Option<&str> {
        self.inner.tenant.as_deref()
    }

    /// The plan that the caller is on.
    pub fn plan(&self) -> Option<&str> {
        self.inner.plan.as_deref()
    }

    /// The user.
    pub fn user(&self) -> Option<&str> {
        self.inner.user.as_deref()
    }

    /// Whether the request is to be served more cheaply: a limit with `strategy: degrade` was empty.
    pub fn degraded(&self) -> bool {
        self.inner.degraded
    }

    /// The tokens that the request costs so far: the cost asked for times the route's `cost`, or what
    /// [`settle`](Self::settle) said last. None if the request is charged to no limit.
    pub fn cost(&self) -> Option<u64> {
        let paid = self.inner.paid.as_ref()?;
        let receipt = paid.receipt.lock();
        Some(receipt.unwrap_or_else(PoisonError::into_inner).tokens())
    }

    /// Makes the request cost `tokens` in the end: what it paid too much is given back, what it paid too
    /// little is charged, as a debt if there is not enough left. It can be called any number of times; the
    /// last call counts.
    ///
    /// The number is absolute and in the unit of [`cost`](Self::cost). The route's `cost` does not multiply
    /// it: on a route with `cost: 4000`, `settle(1200)` gives 2800 tokens back. On a route with `cost: 0` it
    /// charges `tokens`. Only a limit's own `cost` multiplies it, for that limit, since that converts
    /// tokens into the limit's unit: a limit with `cost: 2` is charged 2400.
    ///
    /// Nothing happens if the request is charged to no limit, as on a route with `allow: true`.
    ///
    /// # Errors
    ///
    /// The store did not answer. The difference may or may not have been charged.
    pub async fn settle(&self, tokens: u64) -> Result<(), StoreError> {
        let Some(paid) = &self.inner.paid else {
            return Ok(());
        };
        let change = {
            let receipt = paid.receipt.lock();
            let mut receipt = receipt.unwrap_or_else(PoisonError::into_inner);
            receipt.change_to(tokens)
        };
        self.inner.engine.settle(&paid.active, &change).await
    }

    /// Gives all back, in the background: nobody waits for it.
    pub(crate) fn give_back(engine: &Arc<Engine>, active: Arc<Active>, mut receipt: Receipt) {
        let (engine, change) = (engine.clone(), receipt.change_to(0));
        // Without a runtime there is nobody left to be limited either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // Nothing more can be done about a store that does not answer.
                let _ = engine.settle(&active, &change).await;
            });
        }
    }
}
