//! What is put is read, with its version; what is in the way is said.

use tollward_directory::{Conflict, DirectoryError, Key, ListEntry, Position, Tenant, User};

use crate::places::{
    NOW, Place, allow, boost, everywhere, hash, key, setting, tenant, token, user,
};

everywhere!(
    every_entry_is_read_as_it_was_put,
    a_put_needs_the_version_that_is_there,
    what_is_taken_cannot_be_made_again,
    a_conflict_leaves_the_edit_as_it_was,
    what_was_made_with_it_stays,
    a_tenant_goes_with_all_that_is_its,
    a_user_goes_with_all_that_is_theirs,
    a_deny_entry_outlives_those_whom_it_names,
    the_successor_of_a_key_is_found,
    revoked_keys_stay,
    texts_are_kept_byte_by_byte,
    a_text_that_cannot_be_kept_is_refused,
);

async fn every_entry_is_read_as_it_was_put(place: Place) {
    let directory = place.open().await;
    let acme = Tenant {
        id: "acme".into(),
        parent: Some("partner".into()),
        plan: Some("pro".into()),
        rate_limit: Some(r#"{"sustained":{"rate":100}}"#.into()),
        rate: Some(u32::MAX),
        window_secs: Some(60),
        attributes: r#"{"region":"eu"}"#.into(),
        ..Tenant::default()
    };
    let alice = User {
        id: "alice".into(),
        tenant: None,
        plan: Some("free".into()),
        email_verified: true,
        ..User::default()
    };
    let full = Key {
        name: "build".into(),
        user: Some("alice".into()),
        client: Some("app".into()),
        plan: Some("pro".into()),
        expires_at: Some(NOW + 1),
        suspended_at: Some(NOW - 1),
        suspended_reason: Some("unpaid".into()),
        replaces: Some("k0".into()),
        ..key("k1", "acme")
    };
    let mut edit = directory.edit(NOW).await.unwrap();
    let acme = edit.put_tenant(acme).await.unwrap();
    let alice = edit.put_user(alice).await.unwrap();
    let full = edit.put_key(full).await.unwrap();
    let net = edit
        .put_list_entry(allow("a1", "cidr", "192.0.2.0/24"))
        .await
        .unwrap();
    let more = edit.put_boost(boost("b1", "tenant", "acme")).await.unwrap();
    let ci = edit.put_token(token("t1")).await.unwrap();
    let mode = edit
        .put_setting(setting("enforcement", "shadow"))
        .await
        .unwrap();
    // The edit itself sees it, others do not yet.
    assert_eq!(edit.tenant("acme").await.unwrap().as_ref(), Some(&acme));
    assert_eq!(edit.user("alice").await.unwrap().as_ref(), Some(&alice));
    assert_eq!(edit.key("k1").await.unwrap().as_ref(), Some(&full));
    assert_eq!(
        edit.key_by_hash(&hash("k1")).await.unwrap().as_ref(),
        Some(&full)
    );
    assert_eq!(edit.list_entry("a1").await.unwrap().as_ref(), Some(&net));
    assert_eq!(edit.boost("b1").await.unwrap().as_ref(), Some(&more));
    assert_eq!(edit.token("t1").await.unwrap().as_ref(), Some(&ci));
    assert_eq!(
        edit.setting("enforcement").await.unwrap().as_ref(),
        Some(&mode)
    );
    edit.commit().await.unwrap();

    assert_eq!(
        (acme.version, acme.created_at, acme.updated_at),
        (1, NOW, NOW)
    );
    assert_eq!(acme.attributes, r#"{"region":"eu"}"#);
    assert_eq!(directory.tenant("acme").await.unwrap(), Some(acme));
    assert_eq!(alice.attributes, "{}");
    assert_eq!(directory.user("alice").await.unwrap(), Some(alice));
    assert_eq!(directory.key("k1").await.unwrap(), Some(full.clone()));
    assert_eq!(
        directory.key_by_hash(&hash("k1")).await.unwrap(),
        Some(full)
    );
    assert_eq!(directory.list_entry("a1").await.unwrap(), Some(net));
    assert_eq!(directory.boost("b1").await.unwrap(), Some(more));
    assert_eq!(directory.token("t1").await.unwrap(), Some(ci));
    assert_eq!(directory.setting("enforcement").await.unwrap(), Some(mode));
    assert_eq!(directory.tenant("nobody").await.unwrap(), None);
    assert_eq!(directory.key_by_hash("").await.unwrap(), None);
}

async fn a_put_needs_the_version_that_is_there(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    let first = edit.put_tenant(tenant("acme", None)).await.unwrap();
    edit.commit().await.unwrap();

    let mut edit = directory.edit(NOW + 5).await.unwrap();
    let plan = Some("pro".to_owned());
    let second = Tenant {
        plan,
        created_at: 0,
        ..first.clone()
    };
    let second = edit.put_tenant(second).await.unwrap();
    assert_eq!(
        (second.version, second.created_at, second.updated_at),
        (2, NOW, NOW + 5)
    );
    let stale = edit.put_tenant(first.clone()).await;
    assert_eq!(stale, Err(DirectoryError::Conflict(Conflict::Changed)));
    let gone = Tenant {
        version: 1,
        ..tenant("nobody", None)
    };
    let gone = edit.put_tenant(gone).await;
    assert_eq!(gone, Err(DirectoryError::Conflict(Conflict::Changed)));
    edit.commit().await.unwrap();
    assert_eq!(directory.tenant("acme").await.unwrap(), Some(second));
}

async fn what_is_taken_cannot_be_made_again(place: Place) {
    let exists = Err(DirectoryError::Conflict(Conflict::Exists));
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    edit.put_tenant(tenant("acme", None)).await.unwrap();
    edit.put_user(user("alice", "acme")).await.unwrap();
    edit.put_key(key("k1", "acme")).await.unwrap();
    edit.put_list_entry(allow("a1", "user", "alice"))
        .await
        .unwrap();
    edit.put_token(token("t1")).await.unwrap();
    edit.put_setting(setting("enforcement", "on"))
        .await
        .unwrap();
    edit.commit().await.unwrap();

    let mut edit = directory.edit(NOW).await.unwrap();
    assert_eq!(
        edit.put_tenant(tenant("acme", None)).await.map(drop),
        exists
    );
    assert_eq!(
        edit.put_user(user("alice", "other")).await.map(drop),
        exists
    );
    assert_eq!(edit.put_key(key("k1", "other")).await.map(drop), exists);
    let same_hash = Key {
        hash: hash("k1"),
        ..key("k2", "acme")
    };
    assert_eq!(edit.put_key(same_hash).await.map(drop), exists);
    assert_eq!(
        edit.put_list_entry(allow("a2", "user", "alice"))
            .await
            .map(drop),
        exists
    );
    edit.put_list_entry(allow("a2", "tenant", "alice"))
        .await
        .unwrap();
    // The other list may have the same caller.
    let denied = ListEntry {
        list: "deny".into(),
        ..allow("d1", "user", "alice")
    };
    edit.put_list_entry(denied).await.unwrap();
    let same_hash = tollward_directory::Token {
        hash: hash("t1"),
        ..token("t2")
    };
    assert_eq!(edit.put_token(same_hash).await.map(drop), exists);
    assert_eq!(
        edit.put_setting(setting("enforcement", "off"))
            .await
            .map(drop),
        exists
    );
}

async fn a_conflict_leaves_the_edit_as_it_was(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    edit.put_tenant(tenant("one", None)).await.unwrap();
    edit.put_tenant(tenant("one", None)).await.unwrap_err();
    edit.put_tenant(tenant("two", None)).await.unwrap();
    edit.commit().await.unwrap();
    assert!(directory.tenant("one").await.unwrap().is_some());
    assert!(directory.tenant("two").await.unwrap().is_some());
}

async fn what_was_made_with_it_stays(place: Place) {
    let changed = Err(DirectoryError::Conflict(Conflict::Changed));
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    let mut made = edit.put_key(key("k1", "acme")).await.unwrap();
    made.name = "another".into();
    let mut made = edit.put_key(made).await.unwrap();
    made.hash = hash("k2");
    assert_eq!(edit.put_key(made).await.map(drop), changed);
    let mut made = edit
        .put_list_entry(allow("a1", "user", "alice"))
        .await
        .unwrap();
    made.value = "bob".into();
    assert_eq!(edit.put_list_entry(made).await.map(drop), changed);
    let mut made = edit.put_boost(boost("b1", "user", "alice")).await.unwrap();
    made.factor = 3000;
    let mut made = edit.put_boost(made).await.unwrap();
    made.kind = "tenant".into();
    assert_eq!(edit.put_boost(made).await.map(drop), changed);
}

async fn a_tenant_goes_with_all_that_is_its(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    for id in ["acme", "below", "other"] {
        let parent = (id == "below").then_some("acme");
        edit.put_tenant(tenant(id, parent)).await.unwrap();
        edit.put_user(user(&format!("{id}-user"), id))
            .await
            .unwrap();
        edit.put_key(key(&format!("{id}-key"), id)).await.unwrap();
        // Of the user, but of no tenant.
        let of_user = Key {
            tenant: None,
            user: Some(format!("{id}-user")),
            ..key(&format!("{id}-own"), "")
        };
        edit.put_key(of_user).await.unwrap();
        for (kind, value) in [("tenant", id.to_owned()), ("user", format!("{id}-user"))] {
            edit.put_boost(boost(&format!("{id}-{kind}"), kind, &value))
                .await
                .unwrap();
            edit.put_list_entry(allow(&format!("{id}-{kind}"), kind, &value))
                .await
                .unwrap();
        }
        edit.put_list_entry(allow(
            &format!("{id}-key"),
            "api_key",
            &hash(&format!("{id}-key")),
        ))
        .await
        .unwrap();
    }
    edit.commit().await.unwrap();
    let before = directory.load(|_| {}).await.unwrap();
    let all = directory.changes(&Position::default(), 1000).await.unwrap();
    let count = |changes: &tollward_directory::Changes| match changes {
        tollward_directory::Changes::Rows { rows, .. } => rows.len(),
        tollward_directory::Changes::TooOld => 0,
    };
    assert_eq!(count(&all), 27);

    let mut edit = directory.edit(NOW).await.unwrap();
    assert!(edit.delete_tenant("acme").await.unwrap());
    assert!(!edit.delete_tenant("acme").await.unwrap());
    edit.commit().await.unwrap();
    for (id, is_there) in [("acme", false), ("below", true), ("other", true)] {
        let found = |it: bool| assert_eq!(it, is_there, "{id}");
        found(directory.tenant(id).await.unwrap().is_some());
        found(
            directory
                .user(&format!("{id}-user"))
                .await
                .unwrap()
                .is_some(),
        );
        found(directory.key(&format!("{id}-key")).await.unwrap().is_some());
        found(directory.key(&format!("{id}-own")).await.unwrap().is_some());
        for kind in ["tenant", "user"] {
            found(
                directory
                    .boost(&format!("{id}-{kind}"))
                    .await
                    .unwrap()
                    .is_some(),
            );
            found(
                directory
                    .list_entry(&format!("{id}-{kind}"))
                    .await
                    .unwrap()
                    .is_some(),
            );
        }
        found(
            directory
                .list_entry(&format!("{id}-key"))
                .await
                .unwrap()
                .is_some(),
        );
    }
    let gone = directory.changes(&before, 1000).await.unwrap();
    assert_eq!(count(&gone), 9);
}

async fn a_user_goes_with_all_that_is_theirs(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    for id in ["alice", "bob"] {
        edit.put_user(user(id, "acme")).await.unwrap();
        let own = Key {
            user: Some(id.into()),
            ..key(&format!("{id}-key"), "acme")
        };
        edit.put_key(own).await.unwrap();
        edit.put_boost(boost(id, "user", id)).await.unwrap();
        edit.put_list_entry(allow(id, "user", id)).await.unwrap();
    }
    edit.put_boost(boost("tenant", "tenant", "alice"))
        .await
        .unwrap();
    assert!(edit.delete_user("alice").await.unwrap());
    assert!(!edit.delete_user("alice").await.unwrap());
    edit.commit().await.unwrap();
    for (id, is_there) in [("alice", false), ("bob", true)] {
        assert_eq!(directory.user(id).await.unwrap().is_some(), is_there);
        assert_eq!(
            directory.key(&format!("{id}-key")).await.unwrap().is_some(),
            is_there
        );
        assert_eq!(directory.boost(id).await.unwrap().is_some(), is_there);
        assert_eq!(directory.list_entry(id).await.unwrap().is_some(), is_there);
    }
    assert!(directory.boost("tenant").await.unwrap().is_some());

    let mut edit = directory.edit(NOW).await.unwrap();
    edit.put_token(token("t1")).await.unwrap();
    edit.put_setting(setting("s", "1")).await.unwrap();
    edit.put_list_entry(allow("k", "api_key", &hash("bob-key")))
        .await
        .unwrap();
    assert!(edit.delete_key("bob-key").await.unwrap());
    assert!(!edit.delete_list_entry("k").await.unwrap());
    assert!(edit.delete_list_entry("bob").await.unwrap());
    assert!(edit.delete_boost("bob").await.unwrap());
    assert!(edit.delete_token("t1").await.unwrap());
    assert!(edit.delete_setting("s").await.unwrap());
    assert!(!edit.delete_setting("s").await.unwrap());
}

async fn revoked_keys_stay(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    let made = edit.put_key(key("k1", "acme")).await.unwrap();
    let revoked = Key {
        revoked_at: Some(NOW),
        ..made
    };
    edit.put_key(revoked).await.unwrap();
    edit.commit().await.unwrap();
    let found = directory.key("k1").await.unwrap().unwrap();
    assert_eq!((found.revoked_at, found.version), (Some(NOW), 1));
}

async fn texts_are_kept_byte_by_byte(place: Place) {
    let directory = place.open().await;
    let odd = "' OR 1=1; -- \"$1\" \\ % _ {} é\u{301} 𝄞 \u{feff}\n\t";
    let mut edit = directory.edit(NOW).await.unwrap();
    edit.put_user(user(odd, odd)).await.unwrap();
    edit.commit().await.unwrap();
    let found = directory.user(odd).await.unwrap().unwrap();
    assert_eq!((&*found.id, found.tenant.as_deref()), (odd, Some(odd)));
    assert_eq!(directory.user(&odd[1..]).await.unwrap(), None);
}

async fn a_text_that_cannot_be_kept_is_refused(place: Place) {
    let directory = place.open().await;
    let invalid = |error: DirectoryError| assert!(matches!(error, DirectoryError::Invalid(_)));
    invalid(directory.user("a\0b").await.unwrap_err());
    let mut edit = directory.edit(NOW).await.unwrap();
    invalid(edit.put_user(user("a\0b", "acme")).await.unwrap_err());
    invalid(edit.put_user(user("", "acme")).await.unwrap_err());
    // Nothing was asked of the database, so it goes on.
    edit.put_user(user("ab", "acme")).await.unwrap();
    edit.commit().await.unwrap();
    assert!(directory.user("ab").await.unwrap().is_some());
}

/// Deleting a user does not lift the denial of that user.
async fn a_deny_entry_outlives_those_whom_it_names(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    edit.put_tenant(tenant("acme", None)).await.unwrap();
    edit.put_user(user("alice", "acme")).await.unwrap();
    edit.put_key(key("k1", "acme")).await.unwrap();
    let callers = [
        ("tenant", "acme".to_owned()),
        ("user", "alice".to_owned()),
        ("api_key", hash("k1")),
    ];
    for (kind, value) in &callers {
        let denied = ListEntry {
            list: "deny".into(),
            ..allow(&format!("deny-{kind}"), kind, value)
        };
        edit.put_list_entry(denied).await.unwrap();
        let allowed = allow(&format!("allow-{kind}"), kind, value);
        edit.put_list_entry(allowed).await.unwrap();
    }
    assert!(edit.delete_user("alice").await.unwrap());
    assert!(edit.delete_tenant("acme").await.unwrap());
    for (kind, value) in &callers {
        assert!(edit.listed("deny", kind, value).await.unwrap().is_some());
        assert_eq!(edit.listed("allow", kind, value).await.unwrap(), None);
    }
}

async fn the_successor_of_a_key_is_found(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    let replacing = |id: &str, revoked_at| Key {
        replaces: Some("k1".into()),
        revoked_at,
        ..key(id, "acme")
    };
    edit.put_key(key("k1", "acme")).await.unwrap();
    edit.put_key(replacing("k2", Some(NOW))).await.unwrap();
    // One that was revoked replaces nothing any more.
    assert_eq!(edit.successor("k1").await.unwrap(), None);
    let k3 = edit.put_key(replacing("k3", None)).await.unwrap();
    assert_eq!(edit.successor("k1").await.unwrap(), Some(k3));
    assert_eq!(edit.successor("k3").await.unwrap(), None);
}
