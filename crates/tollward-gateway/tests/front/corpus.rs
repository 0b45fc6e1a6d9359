//! Every request of the table, in one piece, in small ones, and with time for an answer.

use crate::front::{Answer, Client, Front, settings};
use crate::table::{Case, Expect, cases};

#[derive(Clone, Copy, Debug)]
enum Delivery {
    /// The request and the canary at once.
    Together,
    /// Byte by byte, or nearly.
    Dribbled,
    /// The canary after the answer.
    Apart,
}

#[test]
fn no_request_is_taken_for_another() {
    let front = Front::start(&settings());
    let cases = cases();
    assert!(cases.len() >= 60);
    let mut faults = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let deliveries = [Delivery::Together, Delivery::Dribbled, Delivery::Apart];
        for (way, delivery) in deliveries.into_iter().enumerate() {
            let canary = format!("/canary/{number}/{way}");
            let next = format!("GET {canary} HTTP/1.1\r\nHost: canary\r\n\r\n").into_bytes();
            let before = front.seen.refused.lock().unwrap().len();
            let mut client = front.connect();
            let first = deliver(&mut client, case, delivery, &next);
            let checked = check(&front, &mut client, case, first.as_ref(), &canary);
            let checked = checked.and_then(|()| explained(&front, case, first.as_ref(), before));
            if let Err(fault) = checked {
                faults.push(format!("{}, {delivery:?}: {fault}", case.name));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    front.assert_serves();
    front.end();
}

/// Sends a request and the canary, and gives the status and the body of the first answer.
fn deliver(client: &mut Client, case: &Case, delivery: Delivery, next: &[u8]) -> Option<Answer> {
    let bytes = &case.bytes;
    let is_finished = !matches!(case.expect, Expect::Unfinished(_));
    match delivery {
        Delivery::Apart if is_finished => {
            client.send(bytes);
            let first = client.answer();
            client.send(next);
            first
        }
        Delivery::Together | Delivery::Apart => {
            client.send(&[bytes, next].concat());
            client.answer()
        }
        Delivery::Dribbled => {
            for piece in bytes.chunks((bytes.len() / 200).max(1)) {
                client.send(piece);
            }
            client.send(next);
            client.answer()
        }
    }
}

/// Whether a refusal is a problem, and somebody was told of it: once.
fn explained(
    front: &Front,
    case: &Case,
    first: Option<&Answer>,
    before: usize,
) -> Result<(), String> {
    let (Expect::Refused(_), Some(answer)) = (&case.expect, first) else {
        return Ok(());
    };
    // The service got the head, and this is its own answer to the rest.
    if answer.body == "the body is broken" {
        return Ok(());
    }
    let told = &front.seen.refused.lock().unwrap()[before..];
    let is_told = match told {
        [(status, _)] => *status == answer.status,
        // A body may turn out to be too long when the service has the head.
        [] => answer.status == 413,
        _ => false,
    };
    if !is_told {
        return Err(format!("told of {told:?}, answered {}", answer.status));
    }
    let head = answer.head.to_ascii_lowercase();
    for field in [
        "content-type: application/problem+json\r\n",
        "connection: close\r\n",
    ] {
        if !head.contains(field) {
            return Err(format!("no {field:?} in {head:?}"));
        }
    }
    let problem: serde_json::Value =
        serde_json::from_str(&answer.body).map_err(|error| error.to_string())?;
    let reasons = || told.iter().all(|(_, reason)| problem["detail"] == **reason);
    let is_told = problem["status"] == answer.status && reasons();
    let faulty = format!("{problem} for {told:?}");
    is_told.then_some(()).ok_or(faulty)
}

fn check(
    front: &Front,
    client: &mut Client,
    case: &Case,
    first: Option<&Answer>,
    canary: &str,
) -> Result<(), String> {
    let status = first.map(|answer| answer.status);
    let body = first.map_or("", |answer| &answer.body);
    let is_expected = match &case.expect {
        Expect::Served(parts) | Expect::Last(parts) => {
            status == Some(200) && parts.iter().all(|part| body.contains(part))
        }
        Expect::Refused(statuses) | Expect::Unfinished(statuses) => {
            status.is_some_and(|status| statuses.contains(&status))
        }
        Expect::Closed => true,
    };
    if !is_expected {
        return Err(format!("{status:?} {body:?}"));
    }
    if let Expect::Served(_) = case.expect {
        return match client.answer() {
            Some(second) if second.body.contains(canary) => Ok(()),
            second => Err(format!("then {second:?}")),
        };
    }
    let rest = client.rest();
    if !rest.is_empty() && !matches!(case.expect, Expect::Closed) {
        return Err(format!("then {:?}", String::from_utf8_lossy(&rest)));
    }
    for path in [canary, "/never"] {
        if front.has_seen(path) {
            return Err(format!("{path} was seen"));
        }
    }
    Ok(())
}
