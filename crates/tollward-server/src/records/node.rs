use crate::doors::token;

/// How many digits tell nodes of one machine apart.
const DIGITS: usize = 4;

/// A name for this node: its machine's, and what tells it from others there.
pub(crate) fn node_name() -> String {
    let host = std::env::var("HOSTNAME").ok();
    let host = host.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let host = host.unwrap_or_default();
    let mut name: String = host.trim().chars().filter(|c| !c.is_control()).collect();
    if name.is_empty() {
        name.push_str("node");
    }
    if let Some(digits) = token::made()
        .ok()
        .as_deref()
        .and_then(|it| it.get(..DIGITS))
    {
        name = format!("{name}-{digits}");
    }
    name
}
