//! A node decides by what the directory has.

use std::time::Duration;

use tokio::time::timeout;
use tollward_directory::{Boost, Edit, Key, ListEntry, Tenant, Token, User};
use tollward_policy::{Facts, Rejection};

use crate::node::{Node, OF_FILE, SOON, change, key_of, pro};
use crate::places::{
    BULK, NOW, Place, allow, boost, everywhere, hash, key, setting, tenant, token, user,
    wherever_shared,
};

everywhere!(
    everything_is_loaded_and_decided_by,
    a_change_is_in_force_when_it_is_caught_up_with,
    boosts_end_by_themselves,
    keys_expire_by_themselves,
    tokens_and_settings_are_held,
    rows_that_make_no_sense_are_left_out_and_listed,
);
wherever_shared!(
    a_change_of_another_node_is_decided_by_within_a_second,
    what_is_gone_and_could_not_be_followed_is_forgotten,
);

async fn everything_is_loaded_and_decided_by(place: Place) {
    let directory = place.open().await;
    change(&directory, async |edit| {
        edit.put_tenant(pro("acme")).await.unwrap();
        let rate_limit = Some(r#"{"sustained":{"rate":7,"window":"day"}}"#.to_owned());
        let limited = Tenant {
            rate_limit,
            ..tenant("limited", None)
        };
        edit.put_tenant(limited).await.unwrap();
        let alice = User {
            plan: Some("free".into()),
            ..user("alice", "acme")
        };
        edit.put_user(alice).await.unwrap();
        edit.put_key(key_of("k1", "one", "acme")).await.unwrap();
        let of_alice = Key {
            user: Some("alice".into()),
            ..key_of("k2", "two", "acme")
        };
        edit.put_key(of_alice).await.unwrap();
        let planned = Key {
            plan: Some("free".into()),
            ..key_of("k3", "three", "acme")
        };
        edit.put_key(planned).await.unwrap();
        let revoked = Key {
            revoked_at: Some(NOW),
            ..key_of("k4", "four", "acme")
        };
        edit.put_key(revoked).await.unwrap();
        edit.put_key(key_of("k5", "five", "limited")).await.unwrap();
        edit.put_list_entry(allow("a1", "user", "root"))
            .await
            .unwrap();
        edit.put_list_entry(allow("a2", "cidr", "192.0.2.0/24"))
            .await
            .unwrap();
    })
    .await;
    // Twice: a node that starts again is the same.
    for _ in 0..2 {
        let node = Node::start(&directory).await;
        let health = node.mirror.health();
        assert!(health.loaded && health.connected && !health.stale);
        assert_eq!((health.revision, health.error), (1, None));
        assert_eq!(node.limit("one").await, Ok(Some(100)));
        assert_eq!(node.limit("two").await, Ok(Some(10)));
        assert_eq!(node.limit("three").await, Ok(Some(10)));
        assert_eq!(node.limit("four").await, Err(Rejection::UnknownKey));
        assert_eq!(node.limit("five").await, Ok(Some(7)));
        assert_eq!(node.limit(OF_FILE).await, Ok(Some(10)));
        let root = Facts {
            user: Some("root"),
            plan: Some("free"),
            ..Facts::default()
        };
        assert_eq!(node.shown(&root).await, Ok(None));
        let ip = Some("192.0.2.7".parse().unwrap());
        let near = Facts {
            ip,
            plan: Some("free"),
            ..Facts::default()
        };
        assert_eq!(node.shown(&near).await, Ok(None));
        assert!(node.mirror.oddities().is_empty());
    }
}

async fn a_change_is_in_force_when_it_is_caught_up_with(place: Place) {
    let directory = place.open().await;
    let node = Node::start(&directory).await;
    assert_eq!(node.limit("one").await, Err(Rejection::UnknownKey));
    for plan in [("free", 10), ("pro", 100), ("free", 10)] {
        let revision = change(&directory, async |edit| {
            let before = edit.tenant("acme").await.unwrap();
            let before = before.unwrap_or_else(|| tenant("acme", None));
            let after = Tenant {
                plan: Some(plan.0.into()),
                ..before
            };
            edit.put_tenant(after).await.unwrap();
            if edit.key("k1").await.unwrap().is_none() {
                edit.put_key(key_of("k1", "one", "acme")).await.unwrap();
            }
        })
        .await;
        timeout(SOON, node.mirror.caught_up(revision))
            .await
            .unwrap();
        assert_eq!(node.limit("one").await, Ok(Some(plan.1)));
        assert_eq!(node.mirror.health().revision, revision);
    }
    let revision = change(&directory, async |edit| {
        edit.delete_tenant("acme").await.unwrap();
    })
    .await;
    timeout(SOON, node.mirror.caught_up(revision))
        .await
        .unwrap();
    assert_eq!(node.limit("one").await, Err(Rejection::UnknownKey));
}

/// Each time soon, and within a second as often as not: the machine may be under load.
async fn a_change_of_another_node_is_decided_by_within_a_second(place: Place) {
    const TIMES: usize = 5;
    let (here, there) = (place.open().await, place.open().await);
    let node = Node::start(&here).await;
    let mut in_time = 0;
    for n in 0..TIMES {
        let secret = format!("secret-{n}");
        change(&there, async |edit| {
            let made = key_of(&secret, &secret, "of-file");
            edit.put_key(made).await.unwrap();
        })
        .await;
        node.until(async |node| node.limit(&secret).await, Ok(Some(10)))
            .await;
        change(&there, async |edit| {
            let made = edit.key(&secret).await.unwrap().unwrap();
            let revoked_at = Some(NOW);
            edit.put_key(Key { revoked_at, ..made }).await.unwrap();
        })
        .await;
        let refused = async || {
            let unknown = Err(Rejection::UnknownKey);
            node.until(async |node| node.limit(&secret).await, unknown)
                .await;
        };
        in_time += usize::from(timeout(Duration::from_secs(1), refused()).await.is_ok());
        refused().await;
    }
    assert!(in_time > TIMES / 2, "{in_time} of {TIMES}");
}

async fn boosts_end_by_themselves(place: Place) {
    let directory = place.open().await;
    let node = Node::start(&directory).await;
    let at = |secs: i64| NOW + secs * 1000;
    let revision = change(&directory, async |edit| {
        let twice = Boost {
            ends_at: at(60),
            ..boost("b1", "tenant", "of-file")
        };
        edit.put_boost(twice).await.unwrap();
        let thrice = Boost {
            factor: 3000,
            ends_at: at(30),
            ..boost("b2", "tenant", "of-file")
        };
        edit.put_boost(thrice).await.unwrap();
        let past = Boost {
            factor: 9000,
            ends_at: at(0),
            ..boost("b3", "tenant", "of-file")
        };
        edit.put_boost(past).await.unwrap();
    })
    .await;
    timeout(SOON, node.mirror.caught_up(revision))
        .await
        .unwrap();
    assert_eq!(node.limit(OF_FILE).await, Ok(Some(30)));
    node.advance(Duration::from_secs(30));
    node.until(async |node| node.limit(OF_FILE).await, Ok(Some(20)))
        .await;
    // One that starts now knows no more than that.
    let late = Node::start(&directory).await;
    late.advance(Duration::from_secs(40));
    late.until(async |node| node.limit(OF_FILE).await, Ok(Some(20)))
        .await;
    let revision = change(&directory, async |edit| {
        let twice = edit.boost("b1").await.unwrap().unwrap();
        let longer = Boost {
            ends_at: at(90),
            factor: 4000,
            ..twice
        };
        edit.put_boost(longer).await.unwrap();
    })
    .await;
    timeout(SOON, node.mirror.caught_up(revision))
        .await
        .unwrap();
    assert_eq!(node.limit(OF_FILE).await, Ok(Some(40)));
    node.advance(Duration::from_secs(60));
    node.until(async |node| node.limit(OF_FILE).await, Ok(Some(10)))
        .await;
    let revision = change(&directory, async |edit| {
        edit.delete_boost("b1").await.unwrap();
    })
    .await;
    timeout(SOON, late.mirror.caught_up(revision))
        .await
        .unwrap();
    assert_eq!(late.limit(OF_FILE).await, Ok(Some(10)));
}

async fn keys_expire_by_themselves(place: Place) {
    let directory = place.open().await;
    let node = Node::start(&directory).await;
    let revision = change(&directory, async |edit| {
        let ends = Key {
            expires_at: Some(NOW + 60_000),
            ..key_of("k1", "one", "of-file")
        };
        edit.put_key(ends).await.unwrap();
    })
    .await;
    timeout(SOON, node.mirror.caught_up(revision))
        .await
        .unwrap();
    assert_eq!(node.limit("one").await, Ok(Some(10)));
    node.advance(Duration::from_secs(61));
    node.until(
        async |node| node.limit("one").await,
        Err(Rejection::UnknownKey),
    )
    .await;
}

async fn tokens_and_settings_are_held(place: Place) {
    let directory = place.open().await;
    let node = Node::start(&directory).await;
    let mut sha = [0; 32];
    sha[..2].copy_from_slice(b"t1");
    assert_eq!(hash("t1")[..4], format!("{:02x}{:02x}", sha[0], sha[1]));
    let revision = change(&directory, async |edit| {
        let ends = Token {
            expires_at: Some(NOW + 1000),
            ..token("t1")
        };
        edit.put_token(ends).await.unwrap();
        edit.put_setting(setting("enforcement", "off"))
            .await
            .unwrap();
    })
    .await;
    timeout(SOON, node.mirror.caught_up(revision))
        .await
        .unwrap();
    let holder = node.mirror.token(&sha, NOW).unwrap();
    assert_eq!(
        (&*holder.id, &*holder.name, &*holder.role),
        ("t1", "ci", "operate")
    );
    assert_eq!(node.mirror.token(&sha, NOW + 1000), None);
    assert_eq!(node.mirror.token(&[0; 32], NOW), None);
    assert_eq!(node.mirror.setting("enforcement").unwrap().value, "off");
    assert_eq!(node.mirror.setting("other"), None);
    // Nothing is limited.
    assert_eq!(node.limit(OF_FILE).await, Ok(None));

    let revision = change(&directory, async |edit| {
        let made = edit.token("t1").await.unwrap().unwrap();
        edit.put_token(Token {
            revoked_at: Some(NOW),
            ..made
        })
        .await
        .unwrap();
        let made = edit.setting("enforcement").await.unwrap().unwrap();
        let file = tollward_directory::Setting {
            value: "file".into(),
            ..made
        };
        edit.put_setting(file).await.unwrap();
    })
    .await;
    timeout(SOON, node.mirror.caught_up(revision))
        .await
        .unwrap();
    assert_eq!(node.mirror.token(&sha, NOW), None);
    assert_eq!(node.limit(OF_FILE).await, Ok(Some(10)));
}

async fn rows_that_make_no_sense_are_left_out_and_listed(place: Place) {
    let directory = place.open().await;
    let odd = async |edit: &mut Edit| {
        let limit = Some(r#"{"sustained":{"rate":0}}"#.to_owned());
        let bad = Tenant {
            rate_limit: limit,
            ..tenant("bad-limit", None)
        };
        edit.put_tenant(bad).await.unwrap();
        edit.put_tenant(tenant("bad\nname", None)).await.unwrap();
        // What an earlier version stored is no oddity: it limits as it did.
        let limit =
            r#"{"sustained":{"rate":3,"window":"minute"},"budget":{"mode":"allocated","total":5}}"#;
        let old = Tenant {
            rate_limit: Some(limit.to_owned()),
            ..tenant("old-budget", None)
        };
        edit.put_tenant(old).await.unwrap();
        edit.put_key(key_of("old", "old", "old-budget"))
            .await
            .unwrap();
        edit.put_key(Key {
            hash: "short".into(),
            ..key("bad-key", "acme")
        })
        .await
        .unwrap();
        edit.put_list_entry(allow("bad-net", "cidr", "nowhere"))
            .await
            .unwrap();
        edit.put_list_entry(allow("bad-kind", "colour", "red"))
            .await
            .unwrap();
        edit.put_boost(Boost {
            factor: 1,
            ..boost("bad-boost", "user", "alice")
        })
        .await
        .unwrap();
        edit.put_token(Token {
            role: "king".into(),
            ..token("bad-token")
        })
        .await
        .unwrap();
        edit.put_setting(setting("enforcement", "perhaps"))
            .await
            .unwrap();
        edit.put_key(key_of("good", "good", "of-file"))
            .await
            .unwrap();
    };
    change(&directory, odd).await;
    let node = Node::start(&directory).await;
    assert_eq!(node.limit("good").await, Ok(Some(10)));
    assert_eq!(node.limit("old").await, Ok(Some(3)));
    let oddities = node.mirror.oddities();
    assert_eq!((oddities.len(), node.mirror.health().odd_rows), (8, 8));
    for name in [
        "bad-limit",
        "bad\nname",
        "short",
        "nowhere",
        "colour",
        "bad-boost",
        "king",
        "perhaps",
    ] {
        assert!(
            oddities.iter().any(|it| it.contains(name)),
            "{name}: {oddities:?}"
        );
    }
    // One is mended, one is gone.
    let revision = change(&directory, async |edit| {
        let bad = edit.tenant("bad-limit").await.unwrap().unwrap();
        edit.put_tenant(Tenant {
            rate_limit: None,
            ..bad
        })
        .await
        .unwrap();
        edit.delete_list_entry("bad-net").await.unwrap();
        edit.put_list_entry(ListEntry {
            list: "allow".to_owned(),
            kind: "cidr".into(),
            ..allow("good", "", "192.0.2.1")
        })
        .await
        .unwrap();
    })
    .await;
    timeout(SOON, node.mirror.caught_up(revision))
        .await
        .unwrap();
    assert_eq!(
        (node.mirror.oddities().len(), node.mirror.health().odd_rows),
        (6, 8)
    );
}

async fn what_is_gone_and_could_not_be_followed_is_forgotten(place: Place) {
    let directory = place.open().await;
    change(&directory, async |edit| {
        edit.put_tenant(pro("acme")).await.unwrap();
        edit.put_tenant(pro("stays")).await.unwrap();
        edit.put_user(User {
            plan: Some("free".into()),
            ..user("alice", "")
        })
        .await
        .unwrap();
        edit.put_key(key_of("k1", "one", "acme")).await.unwrap();
        edit.put_key(key_of("k2", "two", "stays")).await.unwrap();
        edit.put_list_entry(allow("a1", "user", "root"))
            .await
            .unwrap();
        edit.put_boost(boost("b1", "tenant", "of-file"))
            .await
            .unwrap();
        edit.put_token(token("t1")).await.unwrap();
        edit.put_setting(setting("enforcement", "off"))
            .await
            .unwrap();
    })
    .await;
    place.sql(BULK).await;
    let node = Node::start(&directory).await;
    let count = || node.engine.active().policy().directory_key_count();
    assert_eq!(count(), 20_003);
    let mut sha = [0; 32];
    sha[..2].copy_from_slice(b"t1");
    assert!(node.mirror.token(&sha, NOW).is_some());
    // With more rows in one edit than are followed.
    let mut edit = directory.edit(NOW).await.unwrap();
    edit.delete_tenant("acme").await.unwrap();
    edit.delete_user("alice").await.unwrap();
    edit.delete_list_entry("a1").await.unwrap();
    edit.delete_boost("b1").await.unwrap();
    edit.delete_token("t1").await.unwrap();
    edit.delete_setting("enforcement").await.unwrap();
    edit.put_key(key_of("k3", "three", "stays")).await.unwrap();
    edit.delete_tenant("bulk").await.unwrap();
    let revision = edit.commit().await.unwrap();
    timeout(SOON, node.mirror.caught_up(revision))
        .await
        .unwrap();
    assert_eq!(node.limit("one").await, Err(Rejection::UnknownKey));
    assert_eq!(node.limit("two").await, Ok(Some(100)));
    assert_eq!(node.limit("three").await, Ok(Some(100)));
    assert_eq!(node.limit(OF_FILE).await, Ok(Some(10)));
    let root = Facts {
        user: Some("root"),
        plan: Some("free"),
        ..Facts::default()
    };
    assert_eq!(node.shown(&root).await, Ok(Some(10)));
    let alice = Facts {
        user: Some("alice"),
        ..Facts::default()
    };
    assert_eq!(node.shown(&alice).await, Ok(None));
    assert_eq!(node.mirror.token(&sha, NOW), None);
    assert_eq!(count(), 2);
    let active = node.engine.active();
    assert!(active.policy().tenant("acme").is_none());
    assert!(active.policy().tenant("stays").is_some());
}
