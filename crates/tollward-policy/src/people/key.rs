/// Whose an API key is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiKey {
    /// The tenant it proves.
    pub tenant: Option<Box<str>>,
    /// The user it proves.
    pub user: Option<Box<str>>,
    /// The client it proves.
    pub client: Option<Box<str>>,
    /// The plan it is given.
    pub plan: Option<Box<str>>,
    /// When it ceases to be one, in Unix seconds. A policy does not read the clock: it has to be told the
    /// time, by [`Change::Time`](crate::Change::Time).
    pub expires_at: Option<u64>,
    /// Whether requests with it are refused (403) until it is resumed.
    pub suspended: bool,
}
