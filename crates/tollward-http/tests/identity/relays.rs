//! Proxies that ask about a request and pass it on themselves, as it came.

use http::StatusCode;
use http::request::Parts;
use tollward_http::{AuthFailure, Peer, Proofs, identify};
use tollward_policy::IdentityOptions;

use crate::{NOW, head, peer, policy};

/// The method that a request is limited as, and whether its path is served as it was sent.
fn limited_as(peer: Peer, head: &Parts) -> Result<(String, bool), AuthFailure> {
    let (options, policy) = (IdentityOptions::default(), policy(""));
    let sender = identify(&options, &Proofs::default(), &policy, peer, head, NOW)?;
    let facts = sender.facts();
    Ok((facts.method.unwrap().to_owned(), facts.path_is_kept))
}

#[test]
fn no_header_asks_for_another_method() {
    let stranger = peer("192.0.2.1");
    let relay = Peer::relay(stranger.address);
    for name in [
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
        "x_http_method_override",
    ] {
        for value in ["POST", "", "GET, POST", "\u{e9}"] {
            let head = head(&[(name, value.as_bytes())]);
            let refused = Err(AuthFailure::MethodOverride);
            assert_eq!(limited_as(relay, &head), refused, "{name}: {value}");
            // It is not passed on by us.
            assert_eq!(limited_as(stranger, &head), Ok(("GET".to_owned(), false)));
        }
        for same in ["GET", "get"] {
            let head = head(&[(name, same.as_bytes())]);
            assert_eq!(limited_as(relay, &head), Ok(("GET".to_owned(), true)));
        }
        let both = head(&[(name, b"GET"), (name, b"POST")]);
        assert_eq!(limited_as(relay, &both), Err(AuthFailure::MethodOverride));
    }
    let other = head(&[("x-http-method-overrides", b"POST")]);
    assert_eq!(limited_as(relay, &other), Ok(("GET".to_owned(), true)));
}

#[test]
fn it_is_said_what_is_wrong() {
    let problem = AuthFailure::MethodOverride.problem();
    assert_eq!(problem.status, StatusCode::BAD_REQUEST);
    assert_eq!(problem.to_json()["reason"], "ambiguous_method");
    assert_eq!(
        problem.detail,
        "a header asks for another method than the request has"
    );
    assert!(!AuthFailure::MethodOverride.is_guess());
}
