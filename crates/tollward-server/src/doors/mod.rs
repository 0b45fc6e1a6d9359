//! Ways in. A door reads facts from what it serves and renders the decision; it decides nothing.

pub(crate) mod admin;
pub(crate) mod api;
mod auth;
mod body;
pub(crate) mod listener;
mod patience;
pub(crate) mod reply;
#[cfg(test)]
mod tests;
pub(crate) mod token;

pub(crate) use listener::Limits;
