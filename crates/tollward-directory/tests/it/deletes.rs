//! Much is deleted at once, and what is made anew is not taken for what was there.

use std::time::Duration;

use tokio::time::timeout;
use tollward_directory::{
    AuditEvent, AuditFilter, Changes, Conflict, Directory, DirectoryError, Key, Page, User,
};
use tollward_testkit::fault::FaultProxy;
use tollward_testkit::postgres::PostgresServer;

use crate::node::SOON;
use crate::places::{NOW, Place, allow, boost, everywhere, hash, key, tenant, user};

everywhere!(
    tenants_go_as_a_set_with_all_that_is_theirs,
    what_is_made_anew_has_another_version,
);

/// Makes tenants, each with a user, two keys, two boosts and two entries of the allow-list; their ids.
async fn make(directory: &Directory, count: usize) -> Vec<String> {
    let mut edit = directory.edit(NOW).await.unwrap();
    let ids: Vec<_> = (0..count).map(|n| format!("t{n:04}")).collect();
    for id in &ids {
        edit.put_tenant(tenant(id, None)).await.unwrap();
        edit.put_user(user(&format!("u-{id}"), id)).await.unwrap();
        edit.put_key(key(&format!("k-{id}"), id)).await.unwrap();
        // Of the user, but of no tenant.
        let own = Key {
            tenant: None,
            user: Some(format!("u-{id}")),
            ..key(&format!("o-{id}"), "")
        };
        edit.put_key(own).await.unwrap();
        let boosts = [
            boost(&format!("bt-{id}"), "tenant", id),
            boost(&format!("bu-{id}"), "user", &format!("u-{id}")),
        ];
        for boost in boosts {
            edit.put_boost(boost).await.unwrap();
        }
        let allowed = [
            allow(&format!("at-{id}"), "tenant", id),
            allow(&format!("ak-{id}"), "api_key", &hash(&format!("o-{id}"))),
        ];
        for allow in allowed {
            edit.put_list_entry(allow).await.unwrap();
        }
    }
    edit.commit().await.unwrap();
    ids
}

async fn tenants_go_as_a_set_with_all_that_is_theirs(place: Place) {
    const COUNT: usize = 510;
    let directory = place.open().await;
    let mut ids = make(&directory, COUNT).await;
    let before = directory.load(|_| {}).await.unwrap();
    let stays = ids.pop().unwrap();
    ids.insert(7, "nobody".into());
    let mut edit = directory.edit(NOW).await.unwrap();
    assert_eq!(edit.tenants(&ids).await.unwrap().len(), COUNT - 1);
    assert_eq!(edit.delete_tenants(&[]).await, Ok(0));
    let gone = edit.delete_tenants(&ids).await.unwrap();
    assert_eq!(gone, COUNT as u64 - 1);
    assert_eq!(edit.delete_tenants(&ids).await, Ok(0));
    let event = |id: &String| AuditEvent {
        event: "tenant_deleted".into(),
        identifier: Some(id.clone()),
        ..AuditEvent::default()
    };
    let events: Vec<_> = ids.iter().map(event).collect();
    edit.record_all(&[]).await.unwrap();
    edit.record_all(&events).await.unwrap();
    edit.commit().await.unwrap();

    let mut left = Vec::new();
    directory.load(|row| left.push(row)).await.unwrap();
    assert_eq!(left.len(), 8);
    assert!(directory.tenant(&stays).await.unwrap().is_some());
    let changes = directory.changes(&before, 10_000).await.unwrap();
    match changes {
        Changes::Rows { rows, .. } => assert_eq!(rows.len(), 8 * (COUNT - 1)),
        Changes::TooOld => panic!("too old"),
    }
    let page = Page {
        after: None,
        limit: 1000,
    };
    let trail = directory.audit(&AuditFilter::default(), &page).await;
    assert_eq!(trail.unwrap().items.len(), events.len());
}

/// As far from the database as the next town, hundreds go long before anybody gives up.
#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_tenants_take_few_round_trips() {
    const DELAY: Duration = Duration::from_millis(20);
    let server = PostgresServer::shared();
    let url = server.database();
    let name = url.rsplit_once('/').unwrap().1.to_owned();
    let here = Directory::open(&url.parse().unwrap()).await.unwrap();
    let ids = make(&here, 300).await;
    let proxy = FaultProxy::start(server.addr());
    let far = server.url(proxy.addr(), &name).parse().unwrap();
    let far = Directory::open(&far).await.unwrap();
    proxy.delay(DELAY, DELAY);
    let mut edit = far.edit(NOW).await.unwrap();
    let gone = timeout(SOON, async {
        let gone = edit.delete_tenants(&ids).await?;
        let events = vec![AuditEvent::default(); ids.len()];
        edit.record_all(&events).await?;
        edit.commit().await?;
        Ok::<_, DirectoryError>(gone)
    });
    // With a statement for each it would take minutes.
    assert_eq!(gone.await.unwrap(), Ok(300));
    assert_eq!(here.tenant("t0000").await.unwrap(), None);
}

async fn what_is_made_anew_has_another_version(place: Place) {
    let directory = place.open().await;
    let mut edit = directory.edit(NOW).await.unwrap();
    let old_tenant = edit.put_tenant(tenant("acme", None)).await.unwrap();
    let old_user = edit.put_user(user("alice", "other")).await.unwrap();
    edit.commit().await.unwrap();
    let mut edit = directory.edit(NOW).await.unwrap();
    edit.delete_tenant("acme").await.unwrap();
    edit.delete_user("alice").await.unwrap();
    edit.commit().await.unwrap();
    let mut edit = directory.edit(NOW).await.unwrap();
    let tenant = edit.put_tenant(tenant("acme", None)).await.unwrap();
    let made = edit.put_user(user("alice", "other")).await.unwrap();
    assert_eq!((tenant.version, made.version), (3, 3));
    edit.commit().await.unwrap();

    let changed = DirectoryError::Conflict(Conflict::Changed);
    let mut edit = directory.edit(NOW).await.unwrap();
    let late = edit.put_tenant(old_tenant).await;
    assert_eq!(late.unwrap_err(), changed);
    assert_eq!(edit.put_user(old_user).await.unwrap_err(), changed);
    let plan = Some("pro".to_owned());
    let user = edit.put_user(User { plan, ..made }).await.unwrap();
    assert_eq!(user.version, edit.revision());
    edit.commit().await.unwrap();
    assert_eq!(directory.user("alice").await.unwrap(), Some(user));
    assert_eq!(directory.tenant("acme").await.unwrap(), Some(tenant));
}
