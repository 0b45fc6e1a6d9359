//! What is worth knowing of a server when it is met.

use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;

use tollward_core::Timestamp;

use crate::connect::within;
use crate::shared::Shared;

const TIMEOUT: Duration = Duration::from_millis(500);
/// The oldest version that has all we use.
const OLDEST: (u32, u32) = (6, 2);

/// What would lose counters. A server that does not say, or does not let us ask, is believed to be well.
pub(crate) async fn warnings(connection: &MultiplexedConnection) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(info) = info(connection, "everything").await else {
        return warnings;
    };
    let policy = field(&info, "maxmemory_policy");
    if let Some(policy) = policy.filter(|policy| drops_counters(policy)) {
        warnings.push(format!(
            "maxmemory-policy is `{policy}`: when memory runs out, this server drops counters, and \
             limits start afresh; set it to `noeviction`"
        ));
    }
    let version = field(&info, "redis_version").and_then(version);
    if let Some((major, minor)) = version.filter(|version| *version < OLDEST) {
        warnings.push(format!(
            "version {major}.{minor} is older than 6.2, with which Tollward is not tried"
        ));
    }
    warnings
}

/// Keys that the server has evicted so far.
pub(crate) async fn evicted(connection: &MultiplexedConnection) -> Option<u64> {
    field(&info(connection, "stats").await?, "evicted_keys")?
        .parse()
        .ok()
}

/// The server's time, by which the difference to this node's is set.
pub(crate) async fn time(connection: &MultiplexedConnection, shared: &Shared) -> Option<Timestamp> {
    let asked = (shared.now)();
    let mut connection = connection.clone();
    let time = redis::cmd("TIME");
    let time = within(TIMEOUT, connection.send_packed_command(&time)).await;
    let theirs = moment(&time.ok()?)?;
    shared.note_clock(asked, theirs);
    Some(theirs)
}

/// The answer to `TIME`.
fn moment(reply: &Value) -> Option<Timestamp> {
    let Value::Array(parts) = reply else {
        return None;
    };
    let number = |value: &Value| match value {
        Value::BulkString(text) => str::from_utf8(text).ok()?.parse::<u64>().ok(),
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    let [secs, micros] = &parts[..] else {
        return None;
    };
    let micros = number(secs)?.checked_mul(1_000_000)? + number(micros)?;
    Some(Timestamp::from_micros(micros))
}

/// With `volatile-ttl` those go first that are soonest full.
fn drops_counters(policy: &str) -> bool {
    !matches!(policy, "noeviction" | "volatile-ttl")
}

async fn info(connection: &MultiplexedConnection, section: &str) -> Option<String> {
    let mut connection = connection.clone();
    let mut command = redis::cmd("INFO");
    command.arg(section);
    let value = within(TIMEOUT, connection.send_packed_command(&command)).await;
    match value.ok()? {
        Value::BulkString(text) => String::from_utf8(text).ok(),
        Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key == name).then(|| value.trim())
    })
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_a_server_says() {
        let info =
            "# Server\r\nredis_version:7.0.15\r\n# Memory\r\nmaxmemory_policy:allkeys-lru\r\n";
        assert_eq!(field(info, "maxmemory_policy"), Some("allkeys-lru"));
        assert_eq!(field(info, "redis_version").and_then(version), Some((7, 0)));
        assert_eq!(field(info, "evicted_keys"), None);
        assert!(drops_counters("allkeys-lru") && drops_counters("volatile-lru"));
        assert!(!drops_counters("noeviction") && !drops_counters("volatile-ttl"));
    }
}
