//! What servers and frameworks say of a request among its extensions.

#[cfg(feature = "axum")]
use std::net::SocketAddr;

use http::Extensions;
use http::request::Parts;
use tollward_http::Peer;

/// The other end of the connection; none if nobody said.
pub(crate) fn peer(extensions: &Extensions) -> Option<Peer> {
    if let Some(peer) = extensions.get::<Peer>() {
        return Some(*peer);
    }
    #[cfg(feature = "axum")]
    {
        use axum::extract::connect_info::{ConnectInfo, MockConnectInfo};
        let told = extensions
            .get()
            .map(|ConnectInfo::<SocketAddr>(address)| *address);
        // What tests of a router use instead.
        let mocked = || {
            extensions
                .get()
                .map(|MockConnectInfo::<SocketAddr>(it)| *it)
        };
        if let Some(address) = told.or_else(mocked) {
            return Some(Peer::new(address, false));
        }
    }
    #[cfg(feature = "tonic")]
    {
        use tonic::transport::server::TcpConnectInfo;
        // Under tonic's own TLS it is there too, beside a `TlsConnectInfo` of it.
        let tcp = extensions.get::<TcpConnectInfo>();
        if let Some(address) = tcp.and_then(TcpConnectInfo::remote_addr) {
            return Some(Peer::new(address, false));
        }
    }
    None
}

/// The path as the client sent it. A nested router of axum sees what is left of it behind the prefix, and
/// routes of a policy know nothing of nesting.
pub(crate) fn path(head: &Parts) -> &str {
    #[cfg(feature = "axum")]
    if let Some(original) = head.extensions.get::<axum::extract::OriginalUri>() {
        return original.path();
    }
    head.uri.path()
}
