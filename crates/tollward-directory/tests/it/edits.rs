//! Edits are all or nothing, one after the other, and see what they change.

use tollward_directory::{Conflict, DirectoryError, Position, Remembered, Tenant};

use crate::places::{NOW, Place, everywhere, tenant, wherever_shared};

everywhere!(
    an_edit_that_is_dropped_has_changed_nothing,
    revisions_are_counted_up_by_commits,
    the_tree_is_walked_up_and_down,
    children_are_summed_by_window,
    answers_are_remembered_for_a_day,
    callers_that_are_dropped_at_any_moment_lose_nothing,
);

async fn an_edit_that_is_dropped_has_changed_nothing(place: Place) {
    let directory = place.open().await;
    for _ in 0..20 {
        let mut edit = directory.edit(NOW).await.unwrap();
        assert_eq!(edit.revision(), 1);
        edit.put_tenant(tenant("acme", None)).await.unwrap();
        drop(edit);
    }
    assert_eq!(directory.tenant("acme").await.unwrap(), None);
    assert_eq!(directory.revision().await.unwrap(), 0);
}

async fn callers_that_are_dropped_at_any_moment_lose_nothing(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    edit.put_tenant(tenant("acme", None)).await.unwrap();
    edit.commit().await.unwrap();
    for micros in 0..400 {
        let calls = async {
            loop {
                directory.tenant("acme").await.unwrap();
                directory.changes(&Position::default(), 10).await.unwrap();
                drop(directory.edit(NOW).await.unwrap());
            }
        };
        let moment = std::time::Duration::from_micros(micros * 5);
        let _: Result<(), _> = tokio::time::timeout(moment, calls).await;
    }
    assert!(directory.tenant("acme").await.unwrap().is_some());
    assert_eq!(directory.revision().await.unwrap(), 1);
    directory.edit(NOW).await.unwrap().commit().await.unwrap();
}

async fn revisions_are_counted_up_by_commits(place: Place) {
    let directory = place.open().await;
    for revision in 1..=3 {
        let edit = directory.edit(NOW).await.unwrap();
        assert_eq!((edit.revision(), edit.now_ms()), (revision, NOW));
        assert_eq!(edit.commit().await.unwrap(), revision);
        assert_eq!(directory.revision().await.unwrap(), revision);
    }
}

async fn the_tree_is_walked_up_and_down(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    for (id, parent) in [
        ("system", None),
        ("partner", None),
        ("b", Some("partner")),
        ("a", Some("partner")),
        ("leaf", Some("b")),
        ("of-file", Some("files")),
        ("root-too", Some("system")),
    ] {
        edit.put_tenant(tenant(id, parent)).await.unwrap();
    }
    assert_eq!(edit.children("partner").await.unwrap(), 2);
    assert_eq!(edit.children("leaf").await.unwrap(), 0);
    assert_eq!(edit.children("system").await.unwrap(), 2);
    assert_eq!(edit.children("files").await.unwrap(), 1);
    let below = edit.subtree("partner").await.unwrap();
    assert_eq!(below, ["partner", "a", "b", "leaf"]);
    assert_eq!(edit.subtree("files").await.unwrap(), ["files", "of-file"]);
    assert_eq!(edit.subtree("system").await.unwrap().len(), 6);
    assert_eq!(
        edit.ancestors("leaf").await.unwrap(),
        ["b", "partner", "system"]
    );
    assert_eq!(edit.ancestors("of-file").await.unwrap(), ["files"]);
    assert!(edit.ancestors("system").await.unwrap().is_empty());
    assert!(edit.ancestors("nobody").await.unwrap().is_empty());
    let parent = |tenant: Option<Tenant>| tenant.unwrap().parent;
    assert_eq!(parent(edit.tenant("root-too").await.unwrap()), None);
    assert_eq!(parent(edit.tenant("system").await.unwrap()), None);
    assert_eq!(
        parent(edit.tenant("leaf").await.unwrap()).as_deref(),
        Some("b")
    );

    // A tree that was damaged by others leads in circles, but not for ever.
    let mut partner = edit.tenant("partner").await.unwrap().unwrap();
    partner.parent = Some("leaf".into());
    edit.put_tenant(partner).await.unwrap();
    assert!(edit.subtree("partner").await.unwrap().len() > 3);
    assert!(edit.ancestors("partner").await.unwrap().len() > 3);
    edit.commit().await.unwrap();
    let below = directory
        .tenants(Some("system"), &Default::default())
        .await
        .unwrap();
    let below: Vec<_> = below.items.iter().map(|it| &*it.id).collect();
    assert_eq!(below, ["root-too"]);
}

async fn children_are_summed_by_window(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    for (id, parent, limit) in [
        ("a", "partner", Some((2000, 60))),
        ("b", "partner", Some((1000, 60))),
        ("c", "partner", Some((u32::MAX, 3600))),
        ("d", "partner", Some((u32::MAX, 3600))),
        ("e", "partner", None),
        ("f", "other", Some((7, 1))),
    ] {
        let (rate, window_secs) = limit.unzip();
        let made = Tenant {
            rate,
            window_secs,
            ..tenant(id, Some(parent))
        };
        edit.put_tenant(made).await.unwrap();
    }
    let big = 2 * i64::from(u32::MAX);
    let all = edit.allocated("partner", None).await.unwrap();
    assert_eq!(all, [(3000, 60), (big, 3600)]);
    let others = edit.allocated("partner", Some("a")).await.unwrap();
    assert_eq!(others, [(1000, 60), (big, 3600)]);
    assert_eq!(edit.allocated("other", None).await.unwrap(), [(7, 1)]);
    assert!(edit.allocated("e", None).await.unwrap().is_empty());
}

async fn answers_are_remembered_for_a_day(place: Place) {
    const DAY: i64 = 86_400_000;
    let directory = place.open().await;
    let answer = Remembered {
        key: "create-1".into(),
        actor: "ci".into(),
        fingerprint: "abc".into(),
        status: 201,
        body: r#"{"id":"k1","secret":null}"#.into(),
        created_at: NOW,
    };
    let mut edit = directory.edit(NOW).await.unwrap();
    edit.remember(&answer).await.unwrap();
    let again = edit.remember(&answer).await;
    assert_eq!(again, Err(DirectoryError::Conflict(Conflict::Exists)));
    assert_eq!(
        edit.recall("create-1", "ci").await.unwrap().as_ref(),
        Some(&answer)
    );
    edit.commit().await.unwrap();

    let recalled = |now| directory.recall("create-1", "ci", now);
    assert_eq!(recalled(NOW).await.unwrap().as_ref(), Some(&answer));
    assert_eq!(
        recalled(NOW + DAY - 1).await.unwrap().as_ref(),
        Some(&answer)
    );
    assert_eq!(recalled(NOW + DAY).await.unwrap(), None);
    assert_eq!(
        directory.recall("create-1", "other", NOW).await.unwrap(),
        None
    );
    assert_eq!(directory.recall("create-2", "ci", NOW).await.unwrap(), None);

    // A key may be used again then.
    let mut edit = directory.edit(NOW + DAY).await.unwrap();
    let next = Remembered {
        status: 409,
        created_at: NOW + DAY,
        ..answer
    };
    edit.remember(&next).await.unwrap();
    edit.commit().await.unwrap();
    assert_eq!(recalled(NOW + DAY).await.unwrap(), Some(next));
}

mod of_two {
    use super::*;

    wherever_shared!(
        edits_come_one_after_the_other,
        a_revision_is_never_seen_before_a_smaller_one,
    );

    /// Each adds to what it reads: none is lost.
    async fn edits_come_one_after_the_other(place: Place) {
        const EACH: u32 = 20;
        let directories = [place.open().await, place.open().await];
        let mut edit = directories[0].edit(NOW).await.unwrap();
        edit.put_tenant(Tenant {
            rate: Some(0),
            ..tenant("acme", None)
        })
        .await
        .unwrap();
        edit.commit().await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for directory in directories.iter().chain(&directories) {
            let directory = directory.clone();
            tasks.spawn(async move {
                for _ in 0..EACH {
                    let mut edit = directory.edit(NOW).await.unwrap();
                    let mut acme = edit.tenant("acme").await.unwrap().unwrap();
                    acme.rate = acme.rate.map(|rate| rate + 1);
                    edit.put_tenant(acme).await.unwrap();
                    edit.commit().await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        let acme = directories[1].tenant("acme").await.unwrap().unwrap();
        assert_eq!(acme.rate, Some(4 * EACH));
        assert_eq!(acme.version, i64::from(4 * EACH) + 1);
        assert_eq!(
            directories[0].revision().await.unwrap(),
            i64::from(4 * EACH) + 1
        );
    }

    async fn a_revision_is_never_seen_before_a_smaller_one(place: Place) {
        const EACH: usize = 15;
        let directories = [place.open().await, place.open().await];
        let mut tasks = tokio::task::JoinSet::new();
        for (name, directory) in directories.iter().enumerate() {
            let directory = directory.clone();
            tasks.spawn(async move {
                for n in 0..EACH {
                    let mut edit = directory.edit(NOW).await.unwrap();
                    let id = format!("{:06}-{name}-{n}", edit.revision());
                    edit.put_tenant(tenant(&id, None)).await.unwrap();
                    edit.commit().await.unwrap();
                }
            });
        }
        let reader = place.open().await;
        let mut seen = 0;
        while seen < 2 * EACH {
            let page = tollward_directory::Page {
                after: None,
                limit: 1000,
            };
            let listed = reader.tenants(None, &page).await.unwrap().items;
            // Gapless, whatever was committed meanwhile.
            for (at, tenant) in listed.iter().enumerate() {
                assert_eq!(tenant.id[..6].parse(), Ok(at + 1), "{}", tenant.id);
            }
            assert!(listed.len() >= seen);
            seen = listed.len();
        }
        tasks.join_all().await;
    }
}
