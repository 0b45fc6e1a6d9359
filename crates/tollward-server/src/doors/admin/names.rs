//! Names and other texts, as the configuration file has them too.

use serde_json::{Map, Value};
use tollward_policy::Policy;
use tollward_policy::config::check_tenant_name;

use super::failure::Failure;

/// The longest name of a tenant, in bytes.
pub(super) const MAX_TENANT: usize = 128;
/// The longest name of a user or a client, and the longest reason, in bytes.
pub(super) const MAX_TEXT: usize = 256;
/// The longest attributes, in bytes of JSON.
const MAX_ATTRIBUTES: usize = 16 * 1024;

/// Checks the name of a tenant.
pub(super) fn tenant(place: &str, name: &str) -> Result<(), Failure> {
    check_tenant_name(name).map_err(|rule| {
        let message = "not a name that a tenant can have";
        Failure::invalid(place, message, &format!("write {rule}"))
    })
}

/// Checks a text of 1 to `max` bytes.
pub(super) fn text(place: &str, text: &str, max: usize) -> Result<(), Failure> {
    let hint = format!("write 1 to {max} bytes of printable characters");
    if text.is_empty() {
        return Err(Failure::invalid(place, "the text is empty", &hint));
    }
    if text.len() > max {
        let message = format!("the text has {} bytes, more than {max}", text.len());
        return Err(Failure::invalid(place, message, &hint));
    }
    match text.chars().find(|c| !is_printable(*c)) {
        Some(c) => {
            let message = format!(
                "the text has the unprintable character U+{:04X}",
                u32::from(c)
            );
            Err(Failure::invalid(place, message, &hint))
        }
        None => Ok(()),
    }
}

/// Checks that there is such a plan.
pub(super) fn plan(plan: Option<&str>, policy: &Policy) -> Result<(), Failure> {
    let Some(plan) = plan.filter(|plan| !policy.has_plan(plan)) else {
        return Ok(());
    };
    let mut plans: Vec<&str> = policy.plans().collect();
    plans.sort_unstable();
    plans.truncate(20);
    let hint = match plans.is_empty() {
        true => "the configuration has no plans".to_owned(),
        false => format!("there are {}", plans.join(", ")),
    };
    let message = format!("there is no plan {:?}", shortened(plan));
    Err(Failure::invalid("plan", message, &hint).with("reason", "unknown_plan"))
}

/// Checks attributes, and writes them as they are stored.
pub(super) fn attributes(attributes: &Map<String, Value>) -> Result<String, Failure> {
    let text = Value::Object(attributes.clone()).to_string();
    if text.len() > MAX_ATTRIBUTES {
        let message = format!("{} bytes of JSON, more than {MAX_ATTRIBUTES}", text.len());
        return Err(Failure::invalid("attributes", message, "leave some out"));
    }
    Ok(text)
}

/// Attributes as they were stored.
pub(super) fn stored_attributes(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

/// As much of a text as is worth repeating.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Whether a character shows as itself.
fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}'
            | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_printable_and_not_too_long() {
        for name in ["a", "acme/eu west", "über", &"x".repeat(128)] {
            assert!(tenant("id", name).is_ok(), "{name}");
        }
        for name in ["", "a\nb", "\u{202E}a", "a\0", "\u{FEFF}", &"x".repeat(129)] {
            assert!(tenant("id", name).is_err(), "{name:?}");
        }
    }
}
