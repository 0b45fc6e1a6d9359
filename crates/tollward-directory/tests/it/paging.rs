//! Lists, page by page.

use tollward_directory::{Directory, DirectoryError, Key, KeyFilter, Listed, MAX_PAGE, Page};

use crate::places::{NOW, Place, allow, boost, everywhere, key, tenant, token, user};

everywhere!(
    every_list_is_given_page_by_page,
    keys_are_filtered,
    what_is_there_throughout_comes_once,
    a_page_has_bounds,
);

fn page(after: Option<&str>, limit: u32) -> Page {
    Page {
        after: after.map(str::to_owned),
        limit,
    }
}

fn ids<T>(listed: &Listed<T>, id: impl Fn(&T) -> &str) -> Vec<&str> {
    listed.items.iter().map(id).collect()
}

async fn fill(directory: &Directory) {
    let mut edit = directory.edit(NOW).await.unwrap();
    // Ordered by bytes, in every database.
    for id in ["b", "a", "Z", "é", "a-b"] {
        edit.put_tenant(tenant(id, None)).await.unwrap();
        edit.put_user(user(id, "acme")).await.unwrap();
        edit.put_key(key(id, "acme")).await.unwrap();
        edit.put_list_entry(allow(id, "user", id)).await.unwrap();
        edit.put_boost(boost(id, "user", id)).await.unwrap();
        edit.put_token(token(id)).await.unwrap();
    }
    edit.put_tenant(tenant("c", Some("a"))).await.unwrap();
    edit.put_user(user("c", "other")).await.unwrap();
    edit.commit().await.unwrap();
}

async fn every_list_is_given_page_by_page(place: Place) {
    let directory = place.open().await;
    fill(&directory).await;
    let pages = [
        (None, &["Z", "a", "a-b"][..], Some("a-b")),
        (Some("a-b"), &["b", "é"], None),
    ];
    for (after, expected, next) in pages {
        let page = page(after, 3);
        let listed = directory.tenants(Some("system"), &page).await.unwrap();
        assert_eq!(
            (ids(&listed, |it| &it.id), listed.next.as_deref()),
            (expected.to_vec(), next)
        );
        let listed = directory.users(Some("acme"), &page).await.unwrap();
        assert_eq!(
            (ids(&listed, |it| &it.id), listed.next.as_deref()),
            (expected.to_vec(), next)
        );
        let listed = directory.keys(&KeyFilter::default(), &page).await.unwrap();
        assert_eq!(
            (ids(&listed, |it| &it.id), listed.next.as_deref()),
            (expected.to_vec(), next)
        );
        let listed = directory.list_entries("allow", &page).await.unwrap();
        assert_eq!(
            (ids(&listed, |it| &it.id), listed.next.as_deref()),
            (expected.to_vec(), next)
        );
        let listed = directory.boosts(&page).await.unwrap();
        assert_eq!(
            (ids(&listed, |it| &it.id), listed.next.as_deref()),
            (expected.to_vec(), next)
        );
        let listed = directory.tokens(&page).await.unwrap();
        assert_eq!(
            (ids(&listed, |it| &it.id), listed.next.as_deref()),
            (expected.to_vec(), next)
        );
    }
    let all = directory.tenants(None, &Page::default()).await.unwrap();
    assert_eq!(ids(&all, |it| &it.id), ["Z", "a", "a-b", "b", "c", "é"]);
    let below = directory
        .tenants(Some("a"), &Page::default())
        .await
        .unwrap();
    assert_eq!(ids(&below, |it| &it.id), ["c"]);
    let all = directory.users(None, &Page::default()).await.unwrap();
    assert_eq!(all.items.len(), 6);
    let exact = directory
        .list_entries("allow", &page(None, 5))
        .await
        .unwrap();
    assert_eq!((exact.items.len(), exact.next), (5, None));
}

async fn keys_are_filtered(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    edit.put_key(key("k1", "acme")).await.unwrap();
    let of_alice = Key {
        user: Some("alice".into()),
        ..key("k2", "acme")
    };
    edit.put_key(of_alice).await.unwrap();
    let revoked = Key {
        revoked_at: Some(NOW),
        ..key("k3", "acme")
    };
    edit.put_key(revoked).await.unwrap();
    edit.put_key(key("k4", "other")).await.unwrap();
    edit.commit().await.unwrap();
    let some = |text: &str| Some(text.to_owned());
    let none = KeyFilter::default();
    for (filter, expected) in [
        (none.clone(), &["k1", "k2", "k4"][..]),
        (
            KeyFilter {
                revoked: true,
                ..none.clone()
            },
            &["k1", "k2", "k3", "k4"],
        ),
        (
            KeyFilter {
                tenant: some("acme"),
                ..none.clone()
            },
            &["k1", "k2"],
        ),
        (
            KeyFilter {
                tenant: some("acme"),
                revoked: true,
                ..none.clone()
            },
            &["k1", "k2", "k3"],
        ),
        (
            KeyFilter {
                user: some("alice"),
                ..none.clone()
            },
            &["k2"],
        ),
        (
            KeyFilter {
                user: some("alice"),
                tenant: some("other"),
                ..none
            },
            &[],
        ),
    ] {
        let listed = directory.keys(&filter, &Page::default()).await.unwrap();
        assert_eq!(ids(&listed, |it| &it.id), expected, "{filter:?}");
    }
}

async fn what_is_there_throughout_comes_once(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    for n in 0..40 {
        edit.put_user(user(&format!("stays-{n:02}"), "acme"))
            .await
            .unwrap();
        edit.put_user(user(&format!("goes-{n:02}"), "acme"))
            .await
            .unwrap();
    }
    edit.commit().await.unwrap();
    let mut seen = Vec::new();
    let mut after = None;
    for n in 0.. {
        let listed = directory
            .users(None, &page(after.as_deref(), 7))
            .await
            .unwrap();
        seen.extend(listed.items.into_iter().map(|it| it.id));
        let mut edit = directory.edit(NOW).await.unwrap();
        edit.delete_user(&format!("goes-{n:02}")).await.unwrap();
        edit.put_user(user(&format!("a-{n}"), "acme"))
            .await
            .unwrap();
        edit.put_user(user(&format!("t-{n}"), "acme"))
            .await
            .unwrap();
        edit.commit().await.unwrap();
        match listed.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let stayed: Vec<_> = seen.iter().filter(|it| it.starts_with("stays")).collect();
    let expected: Vec<_> = (0..40).map(|n| format!("stays-{n:02}")).collect();
    assert_eq!(stayed, expected.iter().collect::<Vec<_>>());
    assert!(seen.is_sorted());
}

async fn a_page_has_bounds(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    for n in 0..=MAX_PAGE {
        edit.put_list_entry(allow(&format!("{n:05}"), "user", &n.to_string()))
            .await
            .unwrap();
    }
    edit.commit().await.unwrap();
    let most = directory
        .list_entries("allow", &page(None, u32::MAX))
        .await
        .unwrap();
    assert_eq!(most.items.len(), MAX_PAGE as usize);
    assert_eq!(most.next.as_deref(), Some("00999"));
    let least = directory
        .list_entries("allow", &page(None, 0))
        .await
        .unwrap();
    assert_eq!(least.items.len(), 1);

    for after in ["", "x", "1", "1.2.3", "1.x", "[1]"] {
        let odd = page(Some(after), 10);
        let events = directory.audit(&Default::default(), &odd).await;
        assert!(matches!(events, Err(DirectoryError::Invalid(_))), "{after}");
        let usage = directory.usage(&Default::default(), &odd).await;
        assert!(matches!(usage, Err(DirectoryError::Invalid(_))), "{after}");
    }
}
