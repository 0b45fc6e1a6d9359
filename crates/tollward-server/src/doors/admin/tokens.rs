//! Tokens of the admin door.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollward_directory::Token;
use utoipa::ToSchema;

use super::answer::Answer;
use super::failure::Failure;
use super::guard::{Administer, By, Role};
use super::input::{Asked, Body, Id};
use super::moment::Moment;
use super::names::{self, MAX_TEXT};
use super::once::OnceKey;
use super::paging::{Items, Paging};
use super::precondition::IfMatch;
use super::secret::{Kind, Secret, made_id};
use super::work::{Begun, Changed, Work};
use super::{Shared, unmade};

/// A token to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewToken {
    /// What people call it, and the audit trail its bearer: no other valid token has it.
    #[schema(min_length = 1, max_length = 256, example = "ci")]
    name: String,
    /// What its bearer may do.
    role: RoleWord,
    /// When it ends to be valid; null for never.
    expires_at: Option<Moment>,
}

/// What a token may do; each may do all that the ones before it may.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Role)]
pub(super) enum RoleWord {
    Read,
    Operate,
    Admin,
}

impl From<RoleWord> for Role {
    fn from(word: RoleWord) -> Self {
        match word {
            RoleWord::Read => Self::Read,
            RoleWord::Operate => Self::Operate,
            RoleWord::Admin => Self::Admin,
        }
    }
}

/// A token. The secret is shown once, when it is made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Token)]
pub(super) struct View {
    /// Its id.
    id: String,
    /// What people call it.
    name: String,
    /// What its bearer may do: `read`, `operate` or `admin`.
    role: String,
    /// When it ends to be valid.
    expires_at: Option<Moment>,
    /// When it was revoked.
    revoked_at: Option<Moment>,
    /// When it was made.
    created_at: Moment,
    /// The version, for `If-Match`.
    version: i64,
}

/// A token that was just made.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MadeToken)]
pub(super) struct Made {
    #[serde(flatten)]
    token: View,
    /// The token itself, shown this once; null in an answer that is given again.
    #[schema(value_type = Option<String>)]
    secret: Option<Secret>,
}

impl From<&Token> for View {
    fn from(token: &Token) -> Self {
        Self {
            id: token.id.clone(),
            name: token.name.clone(),
            role: token.role.clone(),
            expires_at: token.expires_at.map(Moment),
            revoked_at: token.revoked_at.map(Moment),
            created_at: Moment(token.created_at),
            version: token.version,
        }
    }
}

fn told(token: &Token) -> Value {
    json!({
        "name": token.name,
        "role": token.role,
        "expires_at": token.expires_at.map(Moment),
        "revoked_at": token.revoked_at.map(Moment),
    })
}

/// Lists tokens
///
/// The token that the server was started with is none of them.
#[utoipa::path(get, path = "/admin/v1/tokens", tag = "tokens", params(Paging),
    responses((status = 200, description = "A page of tokens", body = Items<View>)))]
pub(super) async fn list_tokens(
    _: By<Administer>,
    State(shared): State<Shared>,
    Asked(paging): Asked<Paging>,
) -> Result<Answer, Failure> {
    let listed = shared.directory.tokens(&paging.page()?).await?;
    Answer::ok(&Items {
        items: listed.items.iter().map(View::from).collect(),
        next: listed.next,
    })
}

/// Shows a token
#[utoipa::path(get, path = "/admin/v1/tokens/{id}", tag = "tokens",
    params(("id" = String, Path, description = "The token's id")),
    responses((status = 200, description = "The token", body = View), (status = 404, description = "There is none")))]
pub(super) async fn show_token(
    _: By<Administer>,
    State(shared): State<Shared>,
    Id(id): Id,
) -> Result<Answer, Failure> {
    let token = shared.directory.token(&id).await?;
    Answer::ok(&View::from(&token.ok_or_else(|| missing(&id))?))
}

/// Makes a token
///
/// Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/admin/v1/tokens", tag = "tokens", request_body = NewToken,
    responses((status = 201, description = "The token, with its secret", body = Made), (status = 409, description = "Another valid token has this name")))]
pub(super) async fn create_token(
    By(caller, ..): By<Administer>,
    State(shared): State<Shared>,
    once: OnceKey,
    body: Body<NewToken>,
) -> Result<Answer, Failure> {
    let once = once.of(&body);
    let mut work = match Work::begin_once(&shared, caller, once).await? {
        Begun::New(work) => work,
        Begun::Again(answer) => return Ok(answer),
    };
    let NewToken {
        name,
        role,
        expires_at,
    } = body.value;
    names::text("name", &name, MAX_TEXT)?;
    super::keys::must_be_ahead(expires_at, work.edit.now_ms())?;
    if let Some(other) = work.edit.valid_token_named(&name).await? {
        let detail = format!(
            "The token {:?} has this name. The audit trail could not tell the two apart: take another name, or \
             revoke that token first.",
            other.id
        );
        return Err(Failure::conflict("exists", detail));
    }
    let secret = Secret::made(Kind::Token).map_err(unmade)?;
    let token = Token {
        id: made_id("token").map_err(unmade)?,
        name,
        role: Role::from(role).word().to_owned(),
        hash: secret.hash(),
        expires_at: expires_at.map(|moment| moment.0),
        ..Token::default()
    };
    let token = work.edit.put_token(token).await?;
    work.record(Changed {
        event: "token_created",
        identifier: format!("token:{}", token.id),
        before: None,
        after: Some(told(&token)),
    });
    let answer = Answer::created(&Made {
        token: View::from(&token),
        secret: Some(secret),
    })?;
    work.commit(answer).await
}

/// Revokes a token
#[utoipa::path(delete, path = "/admin/v1/tokens/{id}", tag = "tokens",
    params(("id" = String, Path, description = "The token's id")),
    responses((status = 200, description = "The token, revoked", body = View), (status = 404, description = "There is none")))]
pub(super) async fn revoke_token(
    By(caller, ..): By<Administer>,
    State(shared): State<Shared>,
    Id(id): Id,
    expected: IfMatch,
) -> Result<Answer, Failure> {
    let mut work = Work::begin(&shared, caller).await?;
    let before = work.edit.token(&id).await?.ok_or_else(|| missing(&id))?;
    expected.check(before.version)?;
    if before.revoked_at.is_some() {
        return Answer::ok(&View::from(&before));
    }
    let token = Token {
        revoked_at: Some(work.edit.now_ms()),
        ..before.clone()
    };
    let after = work.edit.put_token(token).await?;
    work.record(Changed {
        event: "token_revoked",
        identifier: format!("token:{id}"),
        before: Some(told(&before)),
        after: Some(told(&after)),
    });
    let answer = Answer::ok(&View::from(&after))?;
    work.commit(answer).await
}

fn missing(id: &str) -> Failure {
    Failure::not_found("token", &names::shortened(id))
}
