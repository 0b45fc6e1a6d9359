use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use tollward_http::Peer;

/// A request that was refused before a service saw it.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    /// Who sent it: the other end of the connection, whatever the request says.
    pub peer: Peer,
    /// The head, if it could be read.
    pub head: Option<&'a Parts>,
    /// The status of the answer.
    pub status: StatusCode,
    /// Why.
    pub reason: &'static str,
    /// The length of the answer's body.
    pub bytes: u64,
}

/// Told of every request that is refused before a service sees it. It must not block.
pub type RefusedHook = Arc<dyn Fn(&Refused<'_>) + Send + Sync>;

/// Tells of what is refused on one connection.
#[derive(Clone)]
pub(super) struct Witness {
    pub(super) peer: Peer,
    pub(super) hook: RefusedHook,
}

impl Witness {
    pub(super) fn tell(
        &self,
        head: Option<&Parts>,
        status: StatusCode,
        reason: &'static str,
        bytes: u64,
    ) {
        (self.hook)(&Refused {
            peer: self.peer,
            head,
            status,
            reason,
            bytes,
        });
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Witness").field(&self.peer).finish()
    }
}
