//! Every request of the table, in one piece, in small ones, and with time for an answer.

use crate::front::{Client, Front, settings};
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
            let mut client = front.connect();
            let first = deliver(&mut client, case, delivery, &next);
            if let Err(fault) = check(&front, &mut client, case, first, &canary) {
                faults.push(format!("{}, {delivery:?}: {fault}", case.name));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    front.assert_serves();
    front.end();
}

/// Sends a request and the canary, and gives the status and the body of the first answer.
fn deliver(
    client: &mut Client,
    case: &Case,
    delivery: Delivery,
    next: &[u8],
) -> Option<(u16, String)> {
    let bytes = &case.bytes;
    let is_finished = !matches!(case.expect, Expect::Unfinished(_));
    let first = match delivery {
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
    };
    first.map(|answer| (answer.status, answer.body))
}

fn check(
    front: &Front,
    client: &mut Client,
    case: &Case,
    first: Option<(u16, String)>,
    canary: &str,
) -> Result<(), String> {
    let status = first.as_ref().map(|(status, _)| *status);
    let body = first.as_ref().map_or("", |(_, body)| body);
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
