//! The gateway's own settings, as they are written.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::decode::{Context, Decode};
use super::duration::Timeout;
use super::fault::{Spanned, quoted};
use super::record::record;
use super::scalar::{Bytes, Text, Whole};
use super::schema::Defs;
use super::yaml::Node;

record! {
    /// The gateway's own settings.
    pub struct Gateway {
        /// Threads that serve; 0 for as many as there are cores, which holds unless told otherwise.
        workers: Option<Spanned<u32>> = optional Whole<0, 1024>,
        /// How long the head of a request may take; `10s` unless told otherwise.
        header_timeout: Option<Spanned<Duration>> = optional Timeout,
        /// How long a connection may wait for its next request, and a body may stand still; `60s`
        /// unless told otherwise.
        idle_timeout: Option<Spanned<Duration>> = optional Timeout,
        /// The most connections that are open at once; 10000 unless told otherwise.
        max_connections: Option<Spanned<u32>> = optional Whole<1, 1_000_000>,
        /// The longest head of a request, in bytes; 65536 unless told otherwise.
        max_header_bytes: Option<Spanned<u32>> = optional Whole<8192, 524_288>,
        /// The longest body of a request, in bytes; without a bound unless told otherwise.
        max_body: Option<Spanned<u64>> = optional Bytes,
        /// Where a line for each request goes: `off`, `stdout`, or a file; `off` unless told otherwise.
        access_log: Option<Spanned<AccessLog>> = optional AccessLog,
        /// The certificate that clients are shown; without one there is no TLS.
        tls: Option<GatewayTls> = optional GatewayTls,
    }
}

record! {
    /// The certificate that clients are shown, as PEM files.
    pub struct GatewayTls {
        /// The certificate, and those above it.
        cert: Spanned<String> = required Text<4096>,
        /// Its private key.
        key: Spanned<String> = required Text<4096>,
    }
}

/// Where the lines of a log go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// Nowhere.
    Off,
    /// To the standard output.
    Stdout,
    /// To the end of a file.
    File(String),
}

impl Decode for AccessLog {
    type Value = Spanned<Self>;

    fn decode(node: &Node, cx: &mut Context) -> Option<Self::Value> {
        let Spanned { value, place } = Text::<4096>::decode(node, cx)?;
        let value = match value.as_str() {
            "off" => Self::Off,
            "stdout" => Self::Stdout,
            // More likely a word than a file of that name.
            "on" | "true" | "false" | "stderr" | "none" => {
                let message = format!("{} is not a place for a log", quoted(&value));
                let hint = format!("write {}; `./{value}` is a file", Self::expected());
                return cx.fault_with(node, message, hint);
            }
            _ => Self::File(value),
        };
        Some(Spanned { value, place })
    }

    fn schema(_: &mut Defs) -> Json {
        json!({ "type": "string", "minLength": 1, "examples": ["off", "stdout", "/var/log/tollward.log"] })
    }

    fn expected() -> String {
        "`off`, `stdout` or the path of a file".to_owned()
    }
}
