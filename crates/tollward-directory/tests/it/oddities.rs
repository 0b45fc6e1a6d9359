//! Rows that others wrote, and that cannot be read as what they should be.

use tokio::time::timeout;
use tollward_directory::{DirectoryError, Row, Tenant};

use crate::node::{Node, OF_FILE, SOON, change, key_of};
use crate::places::{Place, boost, tenant, wherever_shared};

wherever_shared!(
    a_row_that_cannot_be_read_is_told_and_left_out,
    a_limit_that_cannot_be_read_frees_nobody,
);

/// A factor that no boost has.
const BREAK: &str = "UPDATE boosts SET factor = 99999999999 WHERE id = 'broken'; \
     INSERT INTO changes (revision, kind, id) VALUES (2, 'boost', 'broken')";

async fn a_row_that_cannot_be_read_is_told_and_left_out(place: Place) {
    let directory = place.open().await;
    let following = Node::start(&directory).await;
    let revision = change(&directory, async |edit| {
        let made = boost("broken", "tenant", "of-file");
        edit.put_boost(made).await.unwrap();
    })
    .await;
    let caught_up = following.mirror.caught_up(revision);
    timeout(SOON, caught_up).await.unwrap();
    assert_eq!(following.limit(OF_FILE).await, Ok(Some(20)));
    place.sql(BREAK).await;
    // It is among what the next edit changes, beside one that is well.
    let revision = change(&directory, async |edit| {
        edit.put_key(key_of("k1", "one", "of-file")).await.unwrap();
    })
    .await;
    let caught_up = following.mirror.caught_up(revision);
    timeout(SOON, caught_up).await.unwrap();
    // What was known of it holds.
    assert_eq!(following.limit("one").await, Ok(Some(20)));
    assert_eq!(following.mirror.oddities().len(), 1);

    let mut odd = Vec::new();
    let each = |row| {
        if let Row::Odd { kind, id, why } = row {
            odd.push((kind, id, why));
        }
    };
    directory.load(each).await.unwrap();
    assert_eq!(odd.len(), 1);
    assert_eq!((odd[0].0, &*odd[0].1), ("boost", "broken"));
    let starting = Node::start(&directory).await;
    assert_eq!(starting.limit("one").await, Ok(Some(10)));
    let told = starting.mirror.oddities();
    assert_eq!((told.len(), starting.mirror.health().odd_rows), (1, 1));
    assert!(told[0].contains("the boost `broken`"), "{told:?}");
    // Whoever asks for it has done nothing wrong.
    let asked = directory.boost("broken").await;
    assert!(
        matches!(asked, Err(DirectoryError::Unavailable(_))),
        "{asked:?}"
    );
    // It is mended, and that is followed.
    place
        .sql("UPDATE boosts SET factor = 3000 WHERE id = 'broken'")
        .await;
    let revision = change(&directory, async |edit| {
        let mended = edit.boost("broken").await.unwrap().unwrap();
        edit.put_boost(mended).await.unwrap();
    })
    .await;
    for node in [&starting, &following] {
        let caught_up = node.mirror.caught_up(revision);
        timeout(SOON, caught_up).await.unwrap();
        assert_eq!(node.limit("one").await, Ok(Some(30)));
        assert!(node.mirror.oddities().is_empty());
    }
}

fn limited(id: &str, parent: Option<&str>, rate: &str) -> Tenant {
    let limit = format!(r#"{{"sustained":{{"rate":{rate},"window":"day"}},"sharing":"enforce"}}"#);
    Tenant {
        rate_limit: Some(limit),
        ..tenant(id, parent)
    }
}

async fn a_limit_that_cannot_be_read_frees_nobody(place: Place) {
    let directory = place.open().await;
    change(&directory, async |edit| {
        let partner = limited("partner", None, "9");
        edit.put_tenant(partner).await.unwrap();
        let acme = limited("acme", Some("partner"), "5");
        edit.put_tenant(acme).await.unwrap();
        let below = tenant("below", Some("acme"));
        edit.put_tenant(below).await.unwrap();
        for id in ["acme", "below"] {
            edit.put_key(key_of(id, id, id)).await.unwrap();
        }
    })
    .await;
    let following = Node::start(&directory).await;
    assert_eq!(following.limit("below").await, Ok(Some(5)));
    // As a newer Tollward may write it.
    let revision = change(&directory, async |edit| {
        let mut acme = edit.tenant("acme").await.unwrap().unwrap();
        acme.rate_limit = Some(r#"{"tidal":{"rate":5}}"#.into());
        edit.put_tenant(acme).await.unwrap();
    })
    .await;
    let caught_up = following.mirror.caught_up(revision);
    timeout(SOON, caught_up).await.unwrap();
    let starting = Node::start(&directory).await;
    // One has known a limit, the other goes by those above.
    for (node, rate) in [(&following, 5), (&starting, 9)] {
        for id in ["acme", "below"] {
            assert_eq!(node.limit(id).await, Ok(Some(rate)), "{id}");
        }
        let told = node.mirror.oddities();
        assert!(told.len() == 1 && told[0].contains("`acme`"), "{told:?}");
        let active = node.engine.active();
        let acme = active.policy().tenant("acme").unwrap();
        assert_eq!(acme.entry().parent.as_deref(), Some("partner"));
    }
    let revision = change(&directory, async |edit| {
        let acme = edit.tenant("acme").await.unwrap().unwrap();
        let rate_limit = limited("", None, "3").rate_limit;
        edit.put_tenant(Tenant { rate_limit, ..acme })
            .await
            .unwrap();
    })
    .await;
    for node in [&following, &starting] {
        let caught_up = node.mirror.caught_up(revision);
        timeout(SOON, caught_up).await.unwrap();
        assert_eq!(node.limit("below").await, Ok(Some(3)));
        assert!(node.mirror.oddities().is_empty());
    }
}
