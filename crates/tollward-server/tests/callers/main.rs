//! Who may call, at all doors at once: keys that are valid or not, tenants that exist or not, suspended and
//! denied callers, users of tenants, and routes that need no credentials.
//!
//! Every server has a gateway, the decision API, the doors for proxies and the admin API, a directory in a
//! file, and a clock that the test moves. A change is live on the node that made it when it is answered, so
//! nothing has to be waited for.

// Clippy knows the test functions as tests, but not the functions they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod denied;
mod missing;
mod public;
#[allow(dead_code, reason = "not all of what the other tests need")]
#[path = "../e2e/served.rs"]
mod served;
mod site;
mod suspended;
mod users;
mod valid;
