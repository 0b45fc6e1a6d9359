//! How nodes come to know what is there, and what has changed.

use std::collections::{BTreeMap, BTreeSet};

use tollward_directory::{
    Changes, Directory, HeldKey, HeldTenant, HeldUser, Key, Position, Retention, Row, Tenant,
    Token, User,
};

use crate::places::{
    BULK, NOW, Place, allow, boost, everywhere, hash, key, setting, tenant, token, user,
    wherever_shared,
};

everywhere!(
    everything_that_nodes_hold_is_loaded,
    changes_tell_what_is_there_now,
    an_edit_that_fits_is_never_cut,
    what_is_forgotten_is_too_old,
);

async fn loaded(directory: &Directory) -> (i64, Vec<Row>) {
    let mut rows = Vec::new();
    let upto = directory.load(|row| rows.push(row)).await.unwrap();
    (upto.revision(), rows)
}

/// The end of the last edit.
async fn here(directory: &Directory) -> Position {
    directory.load(|_| {}).await.unwrap()
}

async fn next(directory: &Directory, after: &Position, limit: u32) -> (Position, Vec<Row>) {
    match directory.changes(after, limit).await.unwrap() {
        Changes::Rows { upto, rows } => (upto, rows),
        Changes::TooOld => panic!("too old"),
    }
}

async fn rows(directory: &Directory, after: &Position) -> (i64, Vec<Row>) {
    let (upto, rows) = next(directory, after, 1000).await;
    (upto.revision(), rows)
}

async fn everything_that_nodes_hold_is_loaded(place: Place) {
    let directory = place.open().await;
    assert_eq!(loaded(&directory).await, (0, Vec::new()));
    let mut edit = directory.edit(NOW).await.unwrap();
    let acme = HeldTenant {
        parent: Some("partner".into()),
        plan: Some("pro".into()),
        suspended: true,
        rate_limit: Some("{}".into()),
    };
    edit.put_tenant(Tenant {
        plan: acme.plan.clone(),
        rate_limit: acme.rate_limit.clone(),
        suspended_at: Some(NOW),
        ..tenant("acme", Some("partner"))
    })
    .await
    .unwrap();
    let alice = HeldUser {
        tenant: Some("acme".into()),
        plan: Some("free".into()),
        suspended: true,
    };
    edit.put_user(User {
        plan: alice.plan.clone(),
        suspended_at: Some(NOW),
        suspended_reason: Some("unpaid".into()),
        ..user("alice", "acme")
    })
    .await
    .unwrap();
    let k1 = HeldKey {
        tenant: Some("acme".into()),
        user: Some("alice".into()),
        client: Some("app".into()),
        plan: Some("pro".into()),
        expires_at: Some(NOW + 1),
        suspended: true,
    };
    edit.put_key(Key {
        user: k1.user.clone(),
        client: k1.client.clone(),
        plan: k1.plan.clone(),
        expires_at: k1.expires_at,
        suspended_at: Some(NOW),
        ..key("k1", "acme")
    })
    .await
    .unwrap();
    edit.put_key(Key {
        revoked_at: Some(NOW),
        ..key("k2", "acme")
    })
    .await
    .unwrap();
    let a1 = edit
        .put_list_entry(allow("a1", "user", "alice"))
        .await
        .unwrap();
    let b1 = edit.put_boost(boost("b1", "user", "alice")).await.unwrap();
    let t1 = edit.put_token(token("t1")).await.unwrap();
    edit.put_token(Token {
        revoked_at: Some(NOW),
        ..token("t2")
    })
    .await
    .unwrap();
    let mode = edit
        .put_setting(setting("enforcement", "on"))
        .await
        .unwrap();
    edit.commit().await.unwrap();
    directory.touch_keys(&[([7; 32], NOW)]).await.unwrap();

    let mut expected = vec![
        Row::Tenant("acme".into(), Some(acme)),
        Row::User("alice".into(), Some(alice)),
        Row::Key(hash("k1"), Some(k1)),
        Row::Listed("a1".into(), Some(a1)),
        Row::Boost("b1".into(), Some(b1)),
        Row::Token("t1".into(), Some(t1)),
        Row::Setting("enforcement".into(), Some(mode)),
    ];
    assert_eq!(loaded(&directory).await, (1, expected.clone()));
    // To one that follows, what was revoked is gone.
    expected.insert(3, Row::Key(hash("k2"), None));
    expected.insert(7, Row::Token("t2".into(), None));
    let start = Position::default();
    assert_eq!(rows(&directory, &start).await, (1, expected));
}

async fn changes_tell_what_is_there_now(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    let mut one = edit.put_tenant(tenant("one", None)).await.unwrap();
    edit.put_tenant(tenant("two", None)).await.unwrap();
    edit.commit().await.unwrap();
    let first = here(&directory).await;
    let mut edit = directory.edit(NOW).await.unwrap();
    one.plan = Some("pro".into());
    edit.put_tenant(one).await.unwrap();
    edit.delete_tenant("two").await.unwrap();
    edit.commit().await.unwrap();
    let second = here(&directory).await;
    // An edit without changes.
    directory.edit(NOW).await.unwrap().commit().await.unwrap();
    let third = here(&directory).await;

    let (revision, all) = rows(&directory, &Position::default()).await;
    assert_eq!((revision, all.len()), (3, 2));
    let now = HeldTenant {
        plan: Some("pro".into()),
        ..HeldTenant::default()
    };
    assert_eq!(all[0], Row::Tenant("one".into(), Some(now)));
    assert_eq!(all[1], Row::Tenant("two".into(), None));
    assert_eq!(rows(&directory, &first).await, (3, all));
    assert_eq!(rows(&directory, &second).await, (3, Vec::new()));
    let (upto, none) = next(&directory, &third, 10).await;
    assert_eq!((upto, none), (third, Vec::new()));
}

async fn an_edit_that_fits_is_never_cut(place: Place) {
    let directory = place.open().await;
    for edit in 0..3 {
        let mut open = directory.edit(NOW).await.unwrap();
        for n in 0..600 {
            open.put_key(key(&format!("{edit}-{n}"), "acme"))
                .await
                .unwrap();
        }
        open.commit().await.unwrap();
    }
    // The pages of so many rows: which edit is known to its end, and by how many rows.
    for (limit, pages) in [
        (5000, vec![(3, 1800)]),
        (1800, vec![(3, 1800)]),
        (1799, vec![(2, 1200), (3, 600)]),
        (600, vec![(1, 600), (2, 600), (3, 600)]),
        (
            400,
            vec![(0, 400), (1, 200), (1, 400), (2, 200), (2, 400), (3, 200)],
        ),
    ] {
        let mut upto = Position::default();
        for (revision, count) in pages {
            let (further, rows) = next(&directory, &upto, limit).await;
            assert_eq!((further.revision(), rows.len()), (revision, count));
            upto = further;
        }
        assert_eq!(upto, here(&directory).await);
    }
    let (_, one) = next(&directory, &Position::default(), 0).await;
    assert_eq!(one.len(), 1);
}

async fn what_is_forgotten_is_too_old(place: Place) {
    let directory = place.open().await;
    let mut ends = vec![Position::default()];
    for n in 0..4 {
        let mut edit = directory.edit(NOW + n).await.unwrap();
        for id in ["a", "b"] {
            let id = format!("{n}{id}");
            edit.put_user(user(&id, "acme")).await.unwrap();
        }
        edit.commit().await.unwrap();
        ends.push(here(&directory).await);
    }
    // In the midst of the second.
    let (midst, _) = next(&directory, &ends[1], 1).await;
    let retention = Retention {
        changes_before: NOW + 2,
        ..Retention::default()
    };
    assert!(directory.prune(&retention).await.unwrap() > 0);
    assert_eq!(directory.prune(&retention).await.unwrap(), 0);
    for old in &ends[..2] {
        assert_eq!(directory.changes(old, 10).await.unwrap(), Changes::TooOld);
    }
    assert_eq!(rows(&directory, &midst).await.1.len(), 5);
    assert_eq!(rows(&directory, &ends[2]).await.1.len(), 4);
    assert_eq!(loaded(&directory).await.0, 4);
    // However old, the last is known.
    let retention = Retention {
        changes_before: NOW + 100,
        ..Retention::default()
    };
    directory.prune(&retention).await.unwrap();
    assert_eq!(
        directory.changes(&ends[3], 10).await.unwrap(),
        Changes::TooOld
    );
    assert_eq!(rows(&directory, &ends[4]).await, (4, Vec::new()));
}

mod while_others_write {
    use super::*;

    wherever_shared!(
        a_load_is_of_one_moment,
        loaded_and_followed_is_what_is_there,
        an_edit_of_very_many_rows_is_followed_page_by_page,
    );

    /// Each edit moves one unit from one to the other.
    async fn a_load_is_of_one_moment(place: Place) {
        let directory = place.open().await;
        let number = |text: &Option<String>| text.as_ref().unwrap().parse::<i64>().unwrap();
        let mut edit = directory.edit(NOW).await.unwrap();
        let plan = Some("1000".to_owned());
        let made = Tenant {
            plan,
            ..tenant("a", None)
        };
        edit.put_tenant(made).await.unwrap();
        let plan = Some("0".to_owned());
        let made = User {
            plan,
            ..user("b", "a")
        };
        edit.put_user(made).await.unwrap();
        edit.commit().await.unwrap();
        let writer = tokio::spawn({
            let directory = place.open().await;
            async move {
                for _ in 0..60 {
                    let mut edit = directory.edit(NOW).await.unwrap();
                    let mut a = edit.tenant("a").await.unwrap().unwrap();
                    let mut b = edit.user("b").await.unwrap().unwrap();
                    a.plan = Some((number(&a.plan) - 1).to_string());
                    b.plan = Some((number(&b.plan) + 1).to_string());
                    edit.put_tenant(a).await.unwrap();
                    edit.put_user(b).await.unwrap();
                    edit.commit().await.unwrap();
                }
            }
        });
        let mut loads = 0;
        while !writer.is_finished() {
            let (revision, rows) = loaded(&directory).await;
            match &rows[..] {
                [Row::Tenant(_, Some(a)), Row::User(_, Some(b))] => {
                    assert_eq!(number(&a.plan), 1001 - revision);
                    assert_eq!(number(&b.plan), revision - 1);
                }
                other => panic!("{other:?}"),
            }
            loads += 1;
        }
        writer.await.unwrap();
        assert!(loads > 0);
    }

    async fn loaded_and_followed_is_what_is_there(place: Place) {
        const EDITS: i64 = 60;
        let directory = place.open().await;
        let writer = tokio::spawn({
            let directory = place.open().await;
            async move {
                for n in 0..EDITS {
                    let mut edit = directory.edit(NOW).await.unwrap();
                    edit.put_key(key(&n.to_string(), "acme")).await.unwrap();
                    if n % 3 == 0 {
                        edit.delete_key(&(n / 2).to_string()).await.unwrap();
                    }
                    edit.commit().await.unwrap();
                }
            }
        });
        let mut held = BTreeMap::new();
        let hold = |row: Row, held: &mut BTreeMap<String, HeldKey>| match row {
            Row::Key(hash, Some(key)) => _ = held.insert(hash, key),
            Row::Key(hash, None) => _ = held.remove(&hash),
            other => panic!("{other:?}"),
        };
        let mut upto = directory.load(|row| hold(row, &mut held)).await.unwrap();
        while upto.revision() < EDITS {
            let (further, rows) = next(&directory, &upto, 5).await;
            assert!(further.revision() >= upto.revision());
            upto = further;
            rows.into_iter().for_each(|row| hold(row, &mut held));
        }
        writer.await.unwrap();
        let mut there = BTreeMap::new();
        directory.load(|row| hold(row, &mut there)).await.unwrap();
        assert_eq!(held, there);
        assert!(there.len() > 30);
    }

    async fn an_edit_of_very_many_rows_is_followed_page_by_page(place: Place) {
        const PAGE: usize = 2000;
        let directory = place.open().await;
        place.sql(BULK).await;
        let mut edit = directory.edit(NOW).await.unwrap();
        edit.put_tenant(tenant("bulk", None)).await.unwrap();
        edit.put_key(key("other", "other")).await.unwrap();
        edit.commit().await.unwrap();
        let mut upto = here(&directory).await;
        let mut edit = directory.edit(NOW).await.unwrap();
        edit.delete_tenant("bulk").await.unwrap();
        edit.commit().await.unwrap();
        let mut gone = BTreeSet::new();
        let mut pages = 0;
        while upto.revision() < 2 {
            // What is changed meanwhile comes after it.
            let mut edit = directory.edit(NOW).await.unwrap();
            edit.delete_key("other").await.unwrap();
            edit.commit().await.unwrap();
            let limit = u32::try_from(PAGE).unwrap();
            let (further, rows) = next(&directory, &upto, limit).await;
            assert!(rows.len() <= PAGE);
            for row in rows {
                match row {
                    Row::Key(id, None) | Row::Tenant(id, None) => gone.insert(id),
                    other => panic!("{other:?}"),
                };
            }
            upto = further;
            pages += 1;
        }
        // The keys, the other key, the tenant.
        assert_eq!((pages, gone.len()), (11, 20_003));
        assert!(gone.contains("bulk") && gone.contains(&hash("other")));
        assert_eq!(loaded(&directory).await.1, Vec::new());
    }
}
