//! What hyper refuses by itself, and what only looks like it.

use crate::front::{Answer, Client, Front, settings};

const GET: &[u8] = b"GET /honest HTTP/1.1\r\nHost: a\r\n\r\n";
const GARBAGE: &[u8] = b"this is not HTTP\r\n\r\n";

fn assert_explained(answer: Option<Answer>, client: &mut Client) {
    let answer = answer.unwrap();
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(
        answer.head.contains("application/problem+json"),
        "{answer:?}"
    );
    assert!(answer.body.contains("\"status\":400"), "{answer:?}");
    assert_eq!(client.rest(), b"", "nothing follows it");
}

#[test]
fn garbage_is_explained_wherever_it_comes() {
    let front = Front::start(&settings());
    // First.
    let mut client = front.connect();
    client.send(GARBAGE);
    let answer = client.answer();
    assert_explained(answer, &mut client);
    // After an answer.
    let mut client = front.connect();
    client.send(GET);
    assert_eq!(client.answer().unwrap().status, 200);
    client.send(GARBAGE);
    let answer = client.answer();
    assert_explained(answer, &mut client);
    // Right behind requests.
    let mut client = front.connect();
    client.send(&[GET, GET, GARBAGE].concat());
    for _ in 0..2 {
        assert_eq!(client.answer().unwrap().status, 200);
    }
    let answer = client.answer();
    assert_explained(answer, &mut client);
    let refused = front.seen.refused.lock().unwrap().clone();
    assert_eq!(refused.len(), 3, "{refused:?}");
    front.end();
}

#[test]
fn an_empty_answer_of_a_service_is_its_own() {
    let front = Front::start(&settings());
    for close in ["", "Connection: close\r\n"] {
        let mut client = front.connect();
        let request = format!("GET /empty-400 HTTP/1.1\r\nHost: a\r\n{close}\r\n");
        for _ in 0..2 {
            client.send(request.as_bytes());
        }
        let answer = client.answer().unwrap();
        assert_eq!((answer.status, &*answer.body), (400, ""), "{answer:?}");
        assert!(!answer.head.contains("problem"), "{answer:?}");
        if close.is_empty() {
            let answer = client.answer().unwrap();
            assert_eq!((answer.status, &*answer.body), (400, ""), "{answer:?}");
        }
    }
    assert_eq!(front.seen.refused.lock().unwrap().len(), 0);
    front.end();
}
