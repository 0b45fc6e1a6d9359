//! A database that is put back to an earlier state, as by a failover that loses commits.

use std::collections::BTreeSet;

use tollward_directory::{Changes, Directory};
use tollward_policy::Rejection;

use crate::node::{Node, OF_FILE, change, key_of, pro};
use crate::places::{Place, boost, setting, tenant, token, user, wherever_shared};

wherever_shared!(
    edits_of_another_history_are_not_taken_for_known_ones,
    a_node_goes_by_what_is_there_after_edits_were_lost,
);

/// What the databases that nodes find may have become: of the same revision, after other edits.
const OTHER_HISTORY: &str = "BEGIN; \
     DELETE FROM changes WHERE revision > 1; \
     DELETE FROM edits WHERE revision > 1; \
     INSERT INTO edits (revision, tag, at) VALUES (2, 77, 0), (3, 78, 0); \
     DELETE FROM api_keys WHERE id = 'lost'; \
     INSERT INTO changes (revision, kind, id) SELECT 2, 'key', hash FROM api_keys WHERE id = 'revoked'; \
     UPDATE api_keys SET revoked_at = 1 WHERE id = 'revoked'; \
     DELETE FROM tenants WHERE id = 'lost'; DELETE FROM boosts; DELETE FROM settings; \
     DELETE FROM listed; DELETE FROM users; DELETE FROM admin_tokens; \
     COMMIT";

/// Three edits; the first is in both histories.
async fn make(directory: &Directory) {
    change(directory, async |edit| {
        edit.put_key(key_of("revoked", "revoked", "of-file"))
            .await
            .unwrap();
    })
    .await;
    change(directory, async |edit| {
        edit.put_tenant(pro("lost")).await.unwrap();
        edit.put_key(key_of("lost", "lost", "of-file"))
            .await
            .unwrap();
        edit.put_user(user("alice", "lost")).await.unwrap();
        edit.put_boost(boost("b1", "tenant", "of-file"))
            .await
            .unwrap();
        edit.put_token(token("t1")).await.unwrap();
    })
    .await;
    change(directory, async |edit| {
        edit.put_setting(setting("x", "1")).await.unwrap();
    })
    .await;
}

async fn edits_of_another_history_are_not_taken_for_known_ones(place: Place) {
    let directory = place.open().await;
    make(&directory).await;
    let known = directory.load(|_| {}).await.unwrap();
    let Changes::Rows { upto, rows } = directory.changes(&known, 10).await.unwrap() else {
        panic!("too old");
    };
    assert_eq!((&upto, rows.len()), (&known, 0));
    place.sql(OTHER_HISTORY).await;
    assert_eq!(directory.revision().await.unwrap(), known.revision());
    let too_old = Ok(Changes::TooOld);
    assert_eq!(directory.changes(&known, 10).await, too_old);
    // Nor when there are more.
    change(&directory, async |_| {}).await;
    assert_eq!(directory.changes(&known, 10).await, too_old);
    // What is before all that was lost is known.
    let start = Default::default();
    let Changes::Rows { upto, .. } = directory.changes(&start, 10).await.unwrap() else {
        panic!("too old");
    };
    assert_eq!(upto.revision(), 4);
    assert_eq!(upto, directory.load(|_| {}).await.unwrap());
}

async fn a_node_goes_by_what_is_there_after_edits_were_lost(place: Place) {
    let directory = place.open().await;
    make(&directory).await;
    let node = Node::start(&directory).await;
    for secret in ["revoked", "lost", OF_FILE] {
        assert_eq!(node.limit(secret).await, Ok(Some(20)));
    }
    let mut sha = [0; 32];
    sha[..2].copy_from_slice(b"t1");
    assert!(node.mirror.token(&sha, 0).is_some());
    place.sql(OTHER_HISTORY).await;
    for secret in ["revoked", "lost"] {
        let unknown = Err(Rejection::UnknownKey);
        node.until(async |node| node.limit(secret).await, unknown)
            .await;
    }
    node.until(async |node| node.limit(OF_FILE).await, Ok(Some(10)))
        .await;
    node.until(async |node| node.mirror.token(&sha, 0), None)
        .await;
    let active = node.engine.active();
    let left: BTreeSet<_> = active.policy().directory_tenants().collect();
    assert!(!left.contains("lost"), "{left:?}");
    drop(active);
    // And follows on from there.
    change(&directory, async |edit| {
        edit.put_tenant(tenant("new", None)).await.unwrap();
        edit.put_key(key_of("new", "new", "of-file")).await.unwrap();
    })
    .await;
    node.until(async |node| node.limit("new").await, Ok(Some(10)))
        .await;
    assert_eq!(node.mirror.health().revision, 4);
}
