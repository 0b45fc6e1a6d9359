//! Users who prove themselves by tokens.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use tollward_testkit::http::Response;
use tollward_testkit::upstream::{Upstream, answer};

use crate::gated::{Gated, remaining};
use crate::process::arg;
use crate::process_gateway::GatewayProcess;
use crate::served::{Folder, assert_problem, until};

/// A key that signs tokens.
struct Signer(EcdsaKeyPair);

impl Signer {
    fn new() -> Self {
        let (algorithm, dice) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &dice).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &dice).unwrap())
    }

    /// The public half, as a key set.
    fn jwks(&self, id: &str) -> String {
        let (x, y) = self.0.public_key().as_ref()[1..].split_at(32);
        let (x, y) = (base64url(x), base64url(y));
        let key = json!({ "kty": "EC", "crv": "P-256", "kid": id, "x": x, "y": y });
        json!({ "keys": [key] }).to_string()
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let part = |json: &Value| base64url(json.to_string().as_bytes());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes());
        format!("{signed}.{}", base64url(signature.unwrap().as_ref()))
    }
}

fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn config(jwks: &str, upstream: &Upstream) -> String {
    format!(
        "
identity:
  user: {{ jwt: {{ jwks: \"{jwks}\", algorithm: ES256, issuer: me, audience: api }} }}
limits:
  per-user: {{ sustained: {{ rate: 1, window: hour }}, burst: {{ capacity: 10 }}, scope: user }}
routes: [ {{ match: /**, upstream: app }} ]
upstreams: {{ app: {{ url: {} }} }}
",
        upstream.url()
    )
}

fn ask(gated: &Gated, token: &str) -> Response {
    let bearer = format!("Bearer {token}");
    gated.get("/", &[("authorization", &bearer)])
}

/// Waits until the keys are there.
fn until_read(gated: &Gated, token: &str) {
    until("keys", || ask(gated, token).status != 503);
}

fn claims(gated: &Gated, user: &str) -> Value {
    json!({ "sub": user, "iss": "me", "aud": ["x", "api"], "exp": gated.unix_secs() + 600 })
}

#[test]
fn a_token_proves_its_user() {
    let (signer, folder, upstream) = (Signer::new(), Folder::new(), Upstream::start());
    let file = folder.write("jwks.json", &signer.jwks("k"));
    let gated = Gated::of(&config(arg(&file), &upstream));
    let header = json!({ "alg": "ES256", "kid": "k" });
    let token = |user: &str| signer.token(&header, &claims(&gated, user));
    until_read(&gated, &token("probe"));
    assert_eq!(remaining(&ask(&gated, &token("ann"))), 9);
    assert_eq!(remaining(&ask(&gated, &token("ann"))), 8);
    let seen = upstream.last();
    assert_eq!(seen.header("x-tollward-user"), Some("ann"));
    // The upstream may want to read it too.
    assert!(
        seen.header("authorization")
            .is_some_and(|it| it.starts_with("Bearer ey"))
    );
    assert_eq!(remaining(&ask(&gated, &token("bob"))), 9);

    let refused = gated.get("/", &[]);
    assert_problem(&refused, 401, "no token");
    let asked: Vec<_> = refused
        .headers
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert!(asked.contains(&("www-authenticate", "Bearer")), "{asked:?}");

    let mallory = Signer::new();
    let mut expired = claims(&gated, "ann");
    expired["exp"] = (gated.unix_secs() - 61).into();
    let mut early = claims(&gated, "ann");
    early["nbf"] = (gated.unix_secs() + 120).into();
    let mut elsewhere = claims(&gated, "ann");
    elsewhere["aud"] = "other".into();
    let mut nobody = claims(&gated, "ann");
    nobody["sub"] = "".into();
    let none = json!({ "alg": "none" });
    let unsigned = signer.token(&none, &claims(&gated, "ann"));
    let unsigned = unsigned.rsplit_once('.').unwrap().0;
    let good = token("ann");
    for (what, token) in [
        ("expired", signer.token(&header, &expired)),
        ("not yet valid", signer.token(&header, &early)),
        ("for another audience", signer.token(&header, &elsewhere)),
        ("without a user", signer.token(&header, &nobody)),
        (
            "of another key",
            mallory.token(&header, &claims(&gated, "ann")),
        ),
        (
            "of an unknown key",
            signer.token(
                &json!({ "alg": "ES256", "kid": "z" }),
                &claims(&gated, "ann"),
            ),
        ),
        (
            "of another algorithm",
            signer.token(
                &json!({ "alg": "HS256", "kid": "k" }),
                &claims(&gated, "ann"),
            ),
        ),
        ("without a signature", format!("{unsigned}.")),
        ("cut", good[..good.len() - 4].to_owned()),
        ("of nothing", String::new()),
    ] {
        let problem = assert_problem(&ask(&gated, &token), 401, what);
        assert_eq!(problem["reason"], "bad_token", "{what}");
    }
    assert_eq!(remaining(&ask(&gated, &good)), 7);
    // It holds for as long as it says, and a minute for clocks that differ.
    gated.advance_ms(659_000);
    assert_eq!(ask(&gated, &good).status, 200);
    gated.advance_ms(2000);
    assert_problem(&ask(&gated, &good), 401, "expired meanwhile");
    assert_eq!(upstream.count(), 6);
}

#[test]
fn keys_may_come_from_a_url() {
    let (signer, upstream) = (Signer::new(), Upstream::start());
    let keys = signer.jwks("from-url");
    let issuer = Upstream::answering(move |_| answer(200, &[], keys.as_bytes()));
    let url = format!("{}/keys?for=us", issuer.url());
    let gated = Gated::of(&config(&url, &upstream));
    let header = json!({ "alg": "ES256", "kid": "from-url" });
    let token = signer.token(&header, &claims(&gated, "ann"));
    until_read(&gated, &token);
    let served = ask(&gated, &token);
    assert_eq!(served.status, 200, "{}", served.text());
    let asked = issuer.last();
    assert_eq!((&*asked.method, &*asked.target), ("GET", "/keys?for=us"));
    assert_eq!(asked.header("host"), Some(&*issuer.addr().to_string()));
    assert_eq!(issuer.count(), 1);
}

#[test]
fn without_keys_nobody_is_taken_for_a_liar() {
    let (signer, upstream) = (Signer::new(), Upstream::start());
    let issuer = Upstream::answering(|_| answer(500, &[], b"{}"));
    let gated = Gated::of(&config(&issuer.url(), &upstream));
    until("a question for keys", || issuer.count() > 0);
    let token = signer.token(&json!({ "alg": "ES256" }), &claims(&gated, "ann"));
    let problem = assert_problem(&ask(&gated, &token), 503, "a token nobody can check");
    assert_eq!(problem["reason"], "keys_unavailable");
    assert_eq!(upstream.count(), 0);
}

/// Keys that the configuration names no more prove nothing, also while those it names cannot be had.
#[test]
fn keys_of_another_place_are_forgotten() {
    let (signer, folder, upstream) = (Signer::new(), Folder::new(), Upstream::start());
    let keys = folder.write("jwks.json", &signer.jwks("k"));
    let (process, _folder, file) = GatewayProcess::of(&config(arg(&keys), &upstream), &[]);
    // The last second of the century: the clock is real here.
    let claims = json!({ "sub": "ann", "iss": "me", "aud": "api", "exp": 4_102_444_799_u64 });
    let token = signer.token(&json!({ "alg": "ES256", "kid": "k" }), &claims);
    let bearer = format!("Bearer {token}");
    let status = || {
        let headers = [("authorization", &*bearer)];
        let answer = process.connect().request("GET", "/", &headers, b"");
        answer.unwrap().status
    };
    until("keys", || status() == 200);
    let elsewhere = folder.0.join("not-there.json");
    fs::write(&file, config(arg(&elsewhere), &upstream)).unwrap();
    process.reload();
    until("that the keys are forgotten", || status() == 503);
}
