//! Ways in. A door reads facts from what it serves and renders the decision; it decides nothing.

pub(crate) mod admin;
pub(crate) mod api;
mod body;
pub(crate) mod listener;
mod patience;
mod rejected;
mod reply;
pub(crate) mod token;

pub(crate) use listener::Limits;
