//! A connection to a node.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A question that is not answered by then is lost: what takes long on a machine that is held up is only slow.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Client {
    address: SocketAddr,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            sender: None,
        }
    }

    /// Asks a check, and gives the status and the body.
    pub(crate) async fn check(&mut self, body: String) -> Result<(u16, Bytes)> {
        self.request("POST", "/v1/check", body).await
    }

    /// What a page says.
    pub(crate) async fn page(&mut self, path: &str) -> Result<String> {
        let (status, body) = self.request("GET", path, String::new()).await?;
        anyhow::ensure!(status == 200, "{path} answers {status}");
        Ok(String::from_utf8(body.into())?)
    }

    /// Keeps its connection; connects again after an error.
    async fn request(&mut self, method: &str, path: &str, body: String) -> Result<(u16, Bytes)> {
        let answer = tokio::time::timeout(PATIENCE, self.ask(method, path, body)).await;
        let answer = answer.context("no answer in time").flatten();
        if answer.is_err() {
            self.sender = None;
        }
        answer
    }

    async fn ask(&mut self, method: &str, path: &str, body: String) -> Result<(u16, Bytes)> {
        let sender = match &mut self.sender {
            Some(sender) => sender,
            None => self.sender.insert(connect(self.address).await?),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "tollward.test")
            .body(Full::new(Bytes::from(body)))?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // Ends with the sender.
    tokio::spawn(connection);
    Ok(sender)
}
