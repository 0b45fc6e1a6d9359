//! `Idempotency-Key`: what is asked twice is done once.

use axum::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;
use serde_json::Value;
use tollward_directory::Remembered;

use super::Shared;
use super::answer::Answer;
use super::failure::Failure;
use super::input::Body;

/// The longest key.
const MAX_KEY: usize = 255;

/// The key of a request, if it has one.
pub(super) struct OnceKey(Option<String>);

/// A request that is to be done once, if it says so.
pub(super) struct Once {
    pub(super) key: Option<String>,
    fingerprint: String,
}

impl OnceKey {
    /// With what is asked.
    pub(super) fn of<T, const MAX: usize>(self, body: &Body<T, MAX>) -> Once {
        Once {
            key: self.0,
            fingerprint: body.fingerprint.clone(),
        }
    }
}

impl FromRequestParts<Shared> for OnceKey {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Failure> {
        let mut sent = parts.headers.get_all("idempotency-key").into_iter();
        let Some(value) = sent.next() else {
            return Ok(Self(None));
        };
        let text = value.to_str().unwrap_or_default();
        let fits = (1..=MAX_KEY).contains(&text.len());
        if sent.next().is_some() || !fits || !text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        {
            return Err(Failure::bad_input(format!(
                "`Idempotency-Key` is one text of 1 to {MAX_KEY} printable ASCII characters."
            )));
        }
        Ok(Self(Some(text.to_owned())))
    }
}

impl Once {
    /// The answer that was given when the same was asked before. The key of another request cannot be
    /// used again.
    pub(super) fn again(&self, remembered: Remembered) -> Result<Answer, Failure> {
        if remembered.fingerprint != self.fingerprint {
            return Err(Failure::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                "This `Idempotency-Key` came with another request before. Take a new one.",
            ));
        }
        let body: Value = serde_json::from_str(&remembered.body).unwrap_or_default();
        Ok(Answer {
            status: StatusCode::from_u16(remembered.status).unwrap_or(StatusCode::OK),
            version: body.get("version").and_then(Value::as_i64),
            body,
            replayed: true,
            warning: None,
        })
    }

    /// What is to be remembered of an answer to this caller: all of it but a secret.
    pub(super) fn remembered(
        &self,
        caller: &str,
        answer: &Answer,
        now_ms: i64,
    ) -> Option<Remembered> {
        let mut body = answer.body.clone();
        if let Some(secret) = body.get_mut("secret") {
            *secret = Value::Null;
        }
        Some(Remembered {
            key: self.key.clone()?,
            actor: caller.to_owned(),
            fingerprint: self.fingerprint.clone(),
            status: answer.status.as_u16(),
            body: body.to_string(),
            created_at: now_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn once(fingerprint: &str) -> Once {
        Once {
            key: Some("k".into()),
            fingerprint: fingerprint.into(),
        }
    }

    #[test]
    fn a_secret_is_not_remembered() {
        let made = json!({ "id": "key_1", "version": 1, "secret": "tw_abc" });
        let answer = Answer::created(&made).unwrap();
        let remembered = once("f").remembered("admin", &answer, 7).unwrap();
        assert!(!remembered.body.contains("tw_abc"));
        let again = once("f").again(remembered.clone()).unwrap();
        assert_eq!(again.status, StatusCode::CREATED);
        assert_eq!(
            again.body,
            json!({ "id": "key_1", "version": 1, "secret": null })
        );
        assert_eq!((again.version, again.replayed), (Some(1), true));
        assert!(once("g").again(remembered).is_err());
    }

    #[test]
    fn without_a_key_nothing_is_remembered() {
        let answer = Answer::ok(&json!({})).unwrap();
        let none = Once {
            key: None,
            fingerprint: String::new(),
        };
        assert!(none.remembered("admin", &answer, 0).is_none());
    }
}
