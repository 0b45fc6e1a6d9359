//! What of a head is passed on, and how.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Version};
use http_body_util::{Empty, Full};
use tollward_gateway::{ForwardError, Forwarder};
use tollward_policy::{HostHeader, Protocol, Upstream};

use crate::fixtures::{fetch, get, raw, read_head, serve, text, upstream, write};
use crate::script::{Script, Step};

/// The head of a request as a server got it, in lines without the first.
async fn head_of<B>(upstream: impl FnOnce(Upstream) -> Upstream, request: Request<B>) -> String
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (address, _) = raw(|mut stream, _| async move {
        let head = read_head(&mut stream).await.unwrap();
        let head = head.split("\r\n\r\n").next().unwrap();
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{head}",
            head.len()
        );
        write(&mut stream, &answer).await;
    })
    .await;
    let upstream = Arc::new(upstream(crate::fixtures::upstream(&[address])));
    let response = fetch(&Forwarder::new(), &upstream, request).await.unwrap();
    let head = String::from_utf8(response.body().to_vec()).unwrap();
    head.replace(&address.to_string(), "TARGET")
}

fn lines(head: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = head.lines().collect();
    lines[1..].sort_unstable();
    lines
}

#[tokio::test]
async fn a_request_is_passed_on_without_what_is_hop_by_hop() {
    let request = Request::get("/a/b?c=d")
        .header("host", "client.test")
        .header("connection", "keep-alive, X-Private")
        .header("keep-alive", "timeout=5")
        .header("x-private", "1")
        .header("x-public", "2")
        .header("te", "trailers, deflate")
        .header("upgrade", "h2c")
        .header("proxy-connection", "close")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let head = head_of(|upstream| upstream, request).await;
    assert_eq!(
        lines(&head),
        [
            "GET /a/b?c=d HTTP/1.1",
            "connection: te",
            "host: client.test",
            "te: trailers",
            "x-public: 2",
        ]
    );
}

#[tokio::test]
async fn the_host_is_the_clients_or_the_targets() {
    let keep = |upstream| upstream;
    let of_target = |mut upstream: Upstream| {
        upstream.host = HostHeader::Target;
        upstream
    };
    let head = head_of(of_target, get("/")).await;
    assert_eq!(lines(&head), ["GET / HTTP/1.1", "host: TARGET"]);
    let mut http2 = Request::get("https://named.test/x")
        .body(Empty::<Bytes>::new())
        .unwrap();
    *http2.version_mut() = Version::HTTP_2;
    let head = head_of(keep, http2.clone()).await;
    assert_eq!(lines(&head), ["GET /x HTTP/1.1", "host: named.test"]);
    let head = head_of(of_target, http2).await;
    assert_eq!(lines(&head), ["GET /x HTTP/1.1", "host: TARGET"]);
    let mut old = Request::get("/").body(Empty::<Bytes>::new()).unwrap();
    *old.version_mut() = Version::HTTP_10;
    let head = head_of(keep, old).await;
    assert_eq!(lines(&head), ["GET / HTTP/1.1", "host: TARGET"]);
}

#[tokio::test]
async fn a_targets_path_stands_before_the_clients() {
    let based = |mut upstream: Upstream| {
        upstream.targets[0].prefix = "/base/v1".into();
        upstream
    };
    let head = head_of(based, get("/items?q=%2F")).await;
    assert_eq!(
        head.lines().next(),
        Some("GET /base/v1/items?q=%2F HTTP/1.1")
    );
    let head = head_of(based, get("/")).await;
    assert_eq!(head.lines().next(), Some("GET /base/v1/ HTTP/1.1"));
}

#[tokio::test]
async fn a_path_that_is_too_long_for_a_target_is_not_sent_without_its_prefix() {
    const LONGEST: usize = 65_534;
    const PREFIX: &str = "/base";
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let (address, seen) = serve(protocol, |_| async { text("") }).await;
        let mut upstream = upstream(&[address]);
        upstream.protocol = protocol;
        upstream.targets[0].prefix = PREFIX.into();
        let path = format!("/{}", "a".repeat(LONGEST - PREFIX.len()));
        let error = fetch(&Forwarder::new(), &Arc::new(upstream), get(&path))
            .await
            .unwrap_err();
        assert_eq!(error, ForwardError::TooLong);
        assert_eq!(error.status(), StatusCode::URI_TOO_LONG);
        assert_eq!(seen.connections(), 0);
    }
}

#[tokio::test]
async fn a_body_is_announced_as_it_is() {
    let whole = Request::post("/")
        .header("host", "a")
        .body(Full::new(Bytes::from("abc")))
        .unwrap();
    let head = head_of(|upstream| upstream, whole).await;
    assert_eq!(
        lines(&head),
        ["POST / HTTP/1.1", "content-length: 3", "host: a"]
    );

    let nothing = Request::post("/")
        .header("host", "a")
        .body(Empty::new())
        .unwrap();
    let head = head_of(|upstream| upstream, nothing).await;
    assert_eq!(
        lines(&head),
        ["POST / HTTP/1.1", "content-length: 0", "host: a"]
    );

    for method in [Method::GET, Method::POST] {
        let first = format!("{method} / HTTP/1.1");
        let parts = Script::new([Step::Data("ab".into()), Step::Data("c".into())]);
        let unknown = Request::builder()
            .method(method)
            .header("host", "a")
            .header("content-length", "99")
            .body(parts)
            .unwrap();
        let head = head_of(|upstream| upstream, unknown).await;
        assert_eq!(
            lines(&head),
            [&*first, "host: a", "transfer-encoding: chunked"]
        );
    }
}

#[tokio::test]
async fn an_answer_is_passed_on_without_what_is_hop_by_hop() {
    let (address, _) = raw(|mut stream, _| async move {
        read_head(&mut stream).await;
        let answer = "HTTP/1.1 203 Fine\r\nconnection: x-private, upgrade\r\nupgrade: h2c\r\n\
                      keep-alive: timeout=5\r\nx-private: 1\r\nx-public: 2\r\nset-cookie: a\r\n\
                      set-cookie: b\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        write(&mut stream, answer).await;
    })
    .await;
    let upstream = Arc::new(upstream(&[address]));
    let response = fetch(&Forwarder::new(), &upstream, get("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::NON_AUTHORITATIVE_INFORMATION);
    assert_eq!(response.version(), Version::HTTP_11);
    assert_eq!(response.body(), "ok");
    let mut left = HeaderMap::new();
    left.insert("x-public", "2".parse().unwrap());
    left.append("set-cookie", "a".parse().unwrap());
    left.append("set-cookie", "b".parse().unwrap());
    assert_eq!(response.headers(), &left);
}

#[tokio::test]
async fn answers_without_a_body_end_and_keep_the_connection() {
    let (address, seen) = raw(|mut stream, seen| async move {
        while let Some(head) = read_head(&mut stream).await {
            seen.request();
            let status = match head.split(' ').nth(1) {
                Some("/204") => "204 No Content\r\n",
                Some("/304") => "304 Not Modified\r\netag: \"x\"\r\ncontent-length: 77\r\n",
                _ => "200 OK\r\ncontent-length: 77\r\n",
            };
            write(&mut stream, &format!("HTTP/1.1 {status}\r\n")).await;
        }
    })
    .await;
    let upstream = Arc::new(upstream(&[address]));
    let forwarder = Forwarder::new();
    for _ in 0..3 {
        let head = Request::head("/").body(Empty::<Bytes>::new()).unwrap();
        for (request, status, length) in [
            (head, 200, Some("77")),
            (get("/204"), 204, None),
            (get("/304"), 304, Some("77")),
        ] {
            let response = forwarder.forward(&upstream, request).await.unwrap();
            assert_eq!(response.status(), status);
            assert!(http_body::Body::is_end_stream(response.body()));
            let said = response.headers().get("content-length");
            assert_eq!(said.map(|value| value.to_str().unwrap()), length);
        }
    }
    assert_eq!((seen.connections(), seen.requests()), (1, 9));
}

#[tokio::test]
async fn a_server_of_http_1_0_is_understood() {
    let (address, seen) = raw(|mut stream, seen| async move {
        while read_head(&mut stream).await.is_some() {
            seen.request();
            let answer =
                "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 3\r\n\r\nold";
            write(&mut stream, answer).await;
        }
    })
    .await;
    let (closing, _) = raw(|mut stream, _| async move {
        read_head(&mut stream).await;
        write(&mut stream, "HTTP/1.0 200 OK\r\n\r\nuntil the end").await;
    })
    .await;
    let forwarder = Forwarder::new();
    let keeping = Arc::new(upstream(&[address]));
    for _ in 0..2 {
        let response = fetch(&forwarder, &keeping, get("/")).await.unwrap();
        assert_eq!(
            (response.version(), &**response.body()),
            (Version::HTTP_11, &b"old"[..])
        );
    }
    assert_eq!(seen.connections(), 2);
    let closing = Arc::new(upstream(&[closing]));
    let response = fetch(&forwarder, &closing, get("/")).await.unwrap();
    assert_eq!(response.body(), "until the end");
}

/// A server that gives this answer to whatever it is asked.
async fn answering(answer: &'static str) -> Arc<Upstream> {
    let (address, _) = raw(move |mut stream, _| async move {
        while read_head(&mut stream).await.is_some() {
            write(&mut stream, answer).await;
        }
    })
    .await;
    Arc::new(upstream(&[address]))
}

#[tokio::test]
async fn the_length_of_an_answer_is_what_its_body_has() {
    let forwarder = Forwarder::new();
    for (answer, length) in [
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: Chunked\r\n\r\n\
             2\r\nok\r\n0\r\n\r\n",
            None,
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
            None,
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", Some("2")),
    ] {
        let upstream = answering(answer).await;
        let response = fetch(&forwarder, &upstream, get("/")).await.unwrap();
        assert_eq!(response.body(), "ok", "{answer}");
        let said = response.headers().get("content-length");
        assert_eq!(
            said.map(|value| value.to_str().unwrap()),
            length,
            "{answer}"
        );
    }
    for (status, method) in [("200 OK", Method::HEAD), ("304 Not Modified", Method::GET)] {
        let answer =
            format!("HTTP/1.1 {status}\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n");
        let upstream = answering(answer.leak()).await;
        let mut request = get("/");
        *request.method_mut() = method;
        let response = fetch(&forwarder, &upstream, request).await.unwrap();
        assert_eq!(response.headers()["content-length"], "9", "{status}");
    }
}

#[tokio::test]
async fn an_answer_in_an_encoding_that_is_not_undone_is_bad() {
    for encoding in [
        "gzip, chunked",
        "gzip",
        "identity",
        "chunked\r\ntransfer-encoding: chunked",
    ] {
        let answer =
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: {encoding}\r\n\r\n2\r\nok\r\n0\r\n\r\n");
        let upstream = answering(answer.leak()).await;
        let error = fetch(&Forwarder::new(), &upstream, get("/"))
            .await
            .unwrap_err();
        assert_eq!(error, ForwardError::BadAnswer, "{encoding}");
    }
}

#[tokio::test]
async fn what_is_not_http_is_a_bad_answer() {
    let (address, _) = raw(|mut stream, _| async move {
        read_head(&mut stream).await;
        write(&mut stream, "SSH-2.0-OpenSSH\r\n\r\n").await;
        read_head(&mut stream).await;
    })
    .await;
    let upstream = Arc::new(upstream(&[address]));
    let error = fetch(&Forwarder::new(), &upstream, get("/"))
        .await
        .unwrap_err();
    assert_eq!(error, ForwardError::BadAnswer);
    assert_eq!(error.status(), StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn connect_is_refused() {
    let (address, seen) = serve(Protocol::Http1, |_| async { text("") }).await;
    let upstream = Arc::new(upstream(&[address]));
    let request = Request::connect("a.test:443")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let error = fetch(&Forwarder::new(), &upstream, request)
        .await
        .unwrap_err();
    assert_eq!(error.status(), StatusCode::NOT_IMPLEMENTED);
    assert_eq!(seen.connections(), 0);
}
