use std::collections::HashMap;

use super::TokenHolder;
use super::odd::Odd;
use crate::people::{Setting, Token};

/// What is asked of a mirror. Whoever asks gets the last that was made known, and waits for nobody.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    tokens: HashMap<[u8; 32], Token>,
    /// By the ids of tokens.
    hashes: HashMap<String, [u8; 32]>,
    settings: HashMap<String, Setting>,
    pub(super) odd: Odd,
}

impl Shown {
    pub(super) fn token(&self, hash: &[u8; 32], now_ms: i64) -> Option<TokenHolder> {
        let token = self.tokens.get(hash)?;
        if token.expires_at.is_some_and(|end| end <= now_ms) {
            return None;
        }
        Some(TokenHolder {
            id: token.id.clone(),
            name: token.name.clone(),
            role: token.role.clone(),
        })
    }

    pub(super) fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.get(name)
    }

    pub(super) fn put_token(&mut self, hash: [u8; 32], token: Token) {
        self.hashes.insert(token.id.clone(), hash);
        self.tokens.insert(hash, token);
    }

    pub(super) fn remove_token(&mut self, id: &str) {
        if let Some(hash) = self.hashes.remove(id) {
            self.tokens.remove(&hash);
        }
    }

    pub(super) fn put_setting(&mut self, name: String, setting: Option<Setting>) {
        match setting {
            Some(setting) => self.settings.insert(name, setting),
            None => self.settings.remove(&name),
        };
    }
}
