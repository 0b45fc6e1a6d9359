//! Wrong tokens.

use crate::desk::{Desk, refused, served};

#[test]
fn guessing_is_slow_and_the_right_token_always_works() {
    let served = served();
    let guess = Desk::bearing(&served, "guess");
    for _ in 0..20 {
        refused(&guess.get("status"), 401, "unauthorised");
    }
    let told = guess.get("status");
    refused(&told, 429, "wrong_tokens");
    assert_eq!(told.header("retry-after"), Some("6"));
    // Whoever sends none guesses nothing.
    let none = crate::desk::send(served.admin, "GET", "status", &[], b"");
    assert_eq!(none.status, 401);
    assert_eq!(Desk::of(&served).get("status").status, 200);
    served.advance_secs(6);
    refused(&guess.get("status"), 401, "unauthorised");
    refused(&guess.get("status"), 429, "wrong_tokens");
    served.advance_secs(600);
    for _ in 0..20 {
        refused(&guess.get("tokens"), 401, "unauthorised");
    }
    refused(&guess.get("tokens"), 429, "wrong_tokens");
    assert_eq!(Desk::of(&served).get("tokens").status, 200);
}
