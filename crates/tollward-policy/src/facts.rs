use std::net::IpAddr;

/// What is known of a request. Borrowed from wherever the door read it; an empty text is no text.
///
/// Everything here is proven or comes from a trusted caller: doors leave out what is neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts<'a> {
    /// The tenant.
    pub tenant: Option<&'a str>,
    /// The plan, which overrides what key and tenant say.
    pub plan: Option<&'a str>,
    /// The user.
    pub user: Option<&'a str>,
    /// The OAuth client, or whatever program calls.
    pub client: Option<&'a str>,
    /// The API key itself. It is looked up by its hash and never kept.
    pub api_key: Option<&'a str>,
    /// Whether the caller is authenticated though neither a user, a client nor an API key says so: it is
    /// not anonymous then. A tenant alone does not tell that.
    pub is_authenticated: bool,
    /// The caller's address. Without one, limits on `ip` alone do not concern the request, unless
    /// [`ip_is_unknown`](Self::ip_is_unknown) is set.
    pub ip: Option<IpAddr>,
    /// Whether the caller has an address that nobody could tell, so that `ip` is missing. Such callers
    /// share one bucket of each limit on `ip` alone.
    pub ip_is_unknown: bool,
    /// Whether that is the socket of a trusted proxy, which did not say for whom it asks. Such an
    /// address is never on the allow-list.
    pub ip_is_proxy: bool,
    /// The HTTP method.
    pub method: Option<&'a str>,
    /// The path as the client sent it; a query is ignored.
    pub path: Option<&'a str>,
    /// Whether the path is served as the client sent it, not as [`crate::Request::forward_path`] has it: what
    /// is to be resolved in it may stay as it is then, and must not make it another route.
    pub path_is_kept: bool,
    /// The cost asked for.
    pub cost: u32,
}

impl Default for Facts<'_> {
    /// Nothing is known, and the cost is 1.
    fn default() -> Self {
        Self {
            tenant: None,
            plan: None,
            user: None,
            client: None,
            api_key: None,
            is_authenticated: false,
            ip: None,
            ip_is_unknown: false,
            ip_is_proxy: false,
            method: None,
            path: None,
            path_is_kept: false,
            cost: 1,
        }
    }
}
