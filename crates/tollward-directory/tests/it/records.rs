//! Audit, usage, last uses: added in batches, found again, forgotten.

use tollward_directory::{
    AuditEvent, AuditFilter, Batch, Boost, Directory, Granularity, Page, Position, Remembered,
    Retention, UsageFilter, UsageRow,
};

use crate::places::{NOW, Place, boost, everywhere, hash, key};

everywhere!(
    events_are_found_newest_first,
    events_of_an_edit_come_with_it,
    usage_is_added_up,
    usage_is_found_by_what_it_is_of,
    the_last_use_of_a_key_never_goes_back,
    what_is_old_is_forgotten,
    empty_batches_are_nothing,
    a_batch_is_written_once,
);

fn event(at: i64, event: &str, identifier: &str) -> AuditEvent {
    AuditEvent {
        at,
        event: event.into(),
        severity: "info".into(),
        identifier: Some(identifier.into()),
        count: 1,
        node: "n1".into(),
        ..AuditEvent::default()
    }
}

async fn trail(directory: &Directory, filter: &AuditFilter, limit: u32) -> Vec<AuditEvent> {
    let mut found = Vec::new();
    let mut page = Page { after: None, limit };
    loop {
        let listed = directory.audit(filter, &page).await.unwrap();
        found.extend(listed.items);
        match listed.next {
            Some(next) => page.after = Some(next),
            None => return found,
        }
    }
}

async fn events_are_found_newest_first(place: Place) {
    let directory = place.open().await;
    let whole = AuditEvent {
        id: 99,
        at: NOW,
        event: "tenant_updated".into(),
        severity: "notice".into(),
        actor: Some("ci".into()),
        address: Some("192.0.2.1".into()),
        identifier: Some("tenant:acme".into()),
        scope: Some("tenant".into()),
        route: Some("/v1/**".into()),
        limit: Some("plan:free".into()),
        retry_after_ms: Some(412),
        count: 3,
        before: Some("{}".into()),
        after: Some(r#"{"plan":"pro"}"#.into()),
        node: "n1".into(),
    };
    directory
        .add_audit(std::slice::from_ref(&whole))
        .await
        .unwrap();
    // More than one statement takes, many of one moment.
    let more: Vec<_> = (0..1200)
        .map(|n| event(NOW + 1 + n / 400, "exceeded", &format!("user:{}", n % 7)))
        .collect();
    directory.add_audit(&more).await.unwrap();
    directory
        .add_audit(&[event(NOW - 1000, "late", "user:0")])
        .await
        .unwrap();

    let all = trail(&directory, &AuditFilter::default(), 500).await;
    assert_eq!(all.len(), 1202);
    assert!(all.is_sorted_by_key(|it| std::cmp::Reverse((it.at, it.id))));
    let mut ids: Vec<_> = all.iter().map(|it| it.id).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(1..=1202));
    assert_eq!(all[1200], AuditEvent { id: 1, ..whole });
    assert_eq!(all[1201].event, "late");

    let some = |text: &str| Some(text.to_owned());
    let none = AuditFilter::default();
    for (filter, count) in [
        (
            AuditFilter {
                event: some("exceeded"),
                ..none.clone()
            },
            1200,
        ),
        (
            AuditFilter {
                actor: some("ci"),
                ..none.clone()
            },
            1,
        ),
        (
            AuditFilter {
                identifier: some("user:0"),
                ..none.clone()
            },
            173,
        ),
        (
            AuditFilter {
                since_ms: Some(NOW + 1),
                until_ms: Some(NOW + 2),
                ..none.clone()
            },
            400,
        ),
        (
            AuditFilter {
                event: some("exceeded"),
                identifier: some("user:0"),
                until_ms: Some(NOW + 2),
                ..none.clone()
            },
            58,
        ),
        (
            AuditFilter {
                event: some("nothing"),
                ..none
            },
            0,
        ),
    ] {
        assert_eq!(
            trail(&directory, &filter, 100).await.len(),
            count,
            "{filter:?}"
        );
    }
}

async fn events_of_an_edit_come_with_it(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    edit.record(&event(NOW, "dropped", "x")).await.unwrap();
    drop(edit);
    let mut edit = directory.edit(NOW).await.unwrap();
    edit.record(&event(NOW, "one", "x")).await.unwrap();
    edit.record(&event(NOW, "two", "x")).await.unwrap();
    edit.commit().await.unwrap();
    let found = trail(&directory, &AuditFilter::default(), 10).await;
    let names: Vec<_> = found.iter().map(|it| &*it.event).collect();
    assert_eq!(names, ["two", "one"]);
}

fn row(granularity: Granularity, start: i64, tenant: &str, requests: i64) -> UsageRow {
    UsageRow {
        granularity,
        start,
        tenant: tenant.into(),
        plan: "pro".into(),
        route: "/v1/**".into(),
        requests,
        refusals: requests / 2,
        tokens: requests * 5,
        errors: requests / 10,
    }
}

async fn usage_is_added_up(place: Place) {
    let directory = place.open().await;
    let minute = row(Granularity::Minute, 60, "acme", 10);
    // The same twice in one batch, and again in another.
    directory
        .add_usage(&[minute.clone(), minute.clone()])
        .await
        .unwrap();
    directory
        .add_usage(&[minute.clone(), row(Granularity::Hour, 0, "acme", 7)])
        .await
        .unwrap();
    let found = directory
        .usage(&UsageFilter::default(), &Page::default())
        .await
        .unwrap();
    let sum = UsageRow {
        requests: 30,
        refusals: 15,
        tokens: 150,
        errors: 3,
        ..minute
    };
    assert_eq!(found.items, [sum]);
    let hours = UsageFilter {
        granularity: Granularity::Hour,
        ..UsageFilter::default()
    };
    let found = directory.usage(&hours, &Page::default()).await.unwrap();
    assert_eq!(found.items, [row(Granularity::Hour, 0, "acme", 7)]);

    // Of many writers nothing is lost.
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let directory = directory.clone();
        tasks.spawn(async move {
            let mut rows: Vec<_> = (0..700)
                .map(|t| row(Granularity::Day, 0, &format!("t{t}"), 1))
                .collect();
            if n % 2 == 0 {
                rows.reverse();
            }
            directory.add_usage(&rows).await.unwrap();
        });
    }
    tasks.join_all().await;
    let days = UsageFilter {
        granularity: Granularity::Day,
        ..UsageFilter::default()
    };
    let found = directory
        .usage(
            &days,
            &Page {
                after: None,
                limit: 1000,
            },
        )
        .await
        .unwrap();
    assert_eq!(found.items.len(), 700);
    assert!(found.items.iter().all(|it| it.requests == 8));
}

async fn usage_is_found_by_what_it_is_of(place: Place) {
    let directory = place.open().await;
    let mut rows = Vec::new();
    for start in [0, 60, 120] {
        for tenant in ["", "acme", "o\"t,h]er"] {
            for route in ["", "/v1/**"] {
                rows.push(UsageRow {
                    route: route.into(),
                    ..row(Granularity::Minute, start, tenant, 1)
                });
            }
        }
    }
    directory.add_usage(&rows).await.unwrap();
    let mut paged = Vec::new();
    let mut page = Page {
        after: None,
        limit: 4,
    };
    loop {
        let listed = directory
            .usage(&UsageFilter::default(), &page)
            .await
            .unwrap();
        paged.extend(listed.items);
        match listed.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    assert_eq!(paged, rows);
    let some = |text: &str| Some(text.to_owned());
    let none = UsageFilter::default();
    for (filter, count) in [
        (
            UsageFilter {
                tenant: some("acme"),
                ..none.clone()
            },
            6,
        ),
        (
            UsageFilter {
                tenant: some(""),
                route: some(""),
                ..none.clone()
            },
            3,
        ),
        (
            UsageFilter {
                plan: some("pro"),
                ..none.clone()
            },
            18,
        ),
        (
            UsageFilter {
                plan: some("free"),
                ..none.clone()
            },
            0,
        ),
        (
            UsageFilter {
                since: Some(60),
                until: Some(120),
                ..none
            },
            6,
        ),
    ] {
        let found = directory.usage(&filter, &Page::default()).await.unwrap();
        assert_eq!(found.items.len(), count, "{filter:?}");
    }
}

async fn the_last_use_of_a_key_never_goes_back(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    let made = edit.put_key(key("k1", "acme")).await.unwrap();
    edit.commit().await.unwrap();
    let mut sha = [0; 32];
    sha[..2].copy_from_slice(b"k1");
    assert_eq!(made.hash, hash("k1"));
    directory
        .touch_keys(&[(sha, NOW + 5), (sha, NOW + 9), (sha, NOW + 7)])
        .await
        .unwrap();
    directory
        .touch_keys(&[(sha, NOW + 8), ([7; 32], NOW)])
        .await
        .unwrap();
    let found = directory.key("k1").await.unwrap().unwrap();
    assert_eq!(found.last_used_at, Some(NOW + 9));
    // It is no change: neither of the version nor of what nodes hold.
    assert_eq!((found.version, directory.revision().await.unwrap()), (1, 1));
    // And a put leaves it.
    let mut edit = directory.edit(NOW).await.unwrap();
    edit.put_key(made).await.unwrap();
    edit.commit().await.unwrap();
    let found = directory.key("k1").await.unwrap().unwrap();
    assert_eq!((found.last_used_at, found.version), (Some(NOW + 9), 2));
}

async fn a_batch_is_written_once(place: Place) {
    let directory = place.open().await;
    let batch = |id, now_ms| Batch { id, now_ms };
    let rows = [row(Granularity::Minute, 60, "acme", 10)];
    let events = [event(NOW, "one", "x")];
    for now in [NOW, NOW + 1] {
        let (a, b) = (batch("usage:n1:1", now), batch("audit:n1:1", now));
        directory.add_usage_once(&a, &rows).await.unwrap();
        directory.add_audit_once(&b, &events).await.unwrap();
    }
    let (filter, page) = (UsageFilter::default(), Page::default());
    let usage = directory.usage(&filter, &page).await.unwrap();
    assert_eq!(usage.items, rows);
    assert_eq!(trail(&directory, &AuditFilter::default(), 9).await.len(), 1);
    // Written by two at once.
    let (one, two) = (batch("usage:n1:2", NOW), batch("usage:n1:2", NOW));
    let (one, two) = tokio::join!(
        directory.add_usage_once(&one, &rows),
        directory.add_usage_once(&two, &rows)
    );
    assert_eq!((one, two), (Ok(()), Ok(())));
    let usage = directory.usage(&filter, &page).await.unwrap();
    assert_eq!(usage.items[0].requests, 20);
    // It is known for as long as it has to be.
    let retention = Retention {
        idempotency_before: NOW + 1,
        ..Retention::default()
    };
    assert_eq!(directory.prune(&retention).await.unwrap(), 3);
}

async fn what_is_old_is_forgotten(place: Place) {
    let directory = place.open().await;
    // More than are removed at a time.
    let old: Vec<_> = (0..10_500).map(|_| event(NOW - 1, "old", "x")).collect();
    directory.add_audit(&old).await.unwrap();
    directory
        .add_audit(&[event(NOW, "young", "x")])
        .await
        .unwrap();
    let mut rows = Vec::new();
    for granularity in Granularity::ALL {
        let secs = granularity.secs();
        rows.push(row(granularity, secs, "old", 1));
        rows.push(row(granularity, 2 * secs, "young", 1));
    }
    directory.add_usage(&rows).await.unwrap();
    directory.touch_keys(&[([7; 32], NOW - 1)]).await.unwrap();
    let mut edit = directory.edit(NOW).await.unwrap();
    for (id, ends_at) in [("old", NOW - 1), ("young", NOW)] {
        let ended = Boost {
            ends_at,
            ..boost(id, "user", "alice")
        };
        edit.put_boost(ended).await.unwrap();
    }
    edit.commit().await.unwrap();
    for (name, now) in [("old", NOW - 1), ("young", NOW)] {
        let mut edit = directory.edit(now).await.unwrap();
        let answer = Remembered {
            key: name.into(),
            ..Remembered::default()
        };
        edit.remember(&answer).await.unwrap();
        edit.put_key(key(name, "acme")).await.unwrap();
        edit.commit().await.unwrap();
    }
    let retention = Retention {
        audit_before: NOW,
        minute_before: 120,
        hour_before: 7200,
        day_before: 172_800,
        idempotency_before: NOW,
        changes_before: NOW,
    };
    let removed = directory.prune(&retention).await.unwrap();
    // Events, uses, roll-ups, answers, boosts, and what was changed before the last old edit, with the edits.
    assert_eq!(removed, 10_500 + 1 + 3 + 1 + 1 + 2 + 2);
    assert_eq!(directory.prune(&retention).await.unwrap(), 0);
    let left = trail(&directory, &AuditFilter::default(), 10).await;
    assert!(left.len() == 1 && left[0].event == "young");
    for granularity in Granularity::ALL {
        let filter = UsageFilter {
            granularity,
            ..UsageFilter::default()
        };
        let found = directory.usage(&filter, &Page::default()).await.unwrap();
        assert!(found.items.len() == 1 && found.items[0].tenant == "young");
    }
    assert_eq!(directory.recall("old", "", NOW).await.unwrap(), None);
    assert!(directory.recall("young", "", NOW).await.unwrap().is_some());
    assert_eq!(directory.boost("old").await.unwrap(), None);
    assert!(directory.boost("young").await.unwrap().is_some());
    // The log goes, the keys stay.
    assert!(directory.key("old").await.unwrap().is_some());
    assert_eq!(
        directory.changes(&Position::default(), 10).await.unwrap(),
        tollward_directory::Changes::TooOld
    );
}

async fn empty_batches_are_nothing(place: Place) {
    let directory = place.open().await;
    directory.add_audit(&[]).await.unwrap();
    directory.add_usage(&[]).await.unwrap();
    directory.touch_keys(&[]).await.unwrap();
    assert_eq!(directory.prune(&Retention::default()).await.unwrap(), 0);
}
