//! Who watches is told soon.

use std::time::Duration;

use tokio::time::timeout;
use tollward_directory::{Directory, Watch};
use tollward_testkit::fault::FaultProxy;
use tollward_testkit::postgres::PostgresServer;

use crate::places::{NOW, Place, everywhere, wherever_shared};

everywhere!(an_edit_of_this_process_wakes_at_once);
wherever_shared!(an_edit_of_another_is_seen_within_a_second);

/// A bound for machines under load.
const SOON: Duration = Duration::from_secs(20);

async fn edit(directory: &Directory) -> i64 {
    directory.edit(NOW).await.unwrap().commit().await.unwrap()
}

/// How often it wakes until it is quiet for that long.
async fn wakes(watch: &mut Watch, quiet: Duration) -> u32 {
    let mut wakes = 0;
    while timeout(quiet, watch.changed()).await.is_ok() {
        wakes += 1;
        assert!(wakes < 100, "it never is quiet");
    }
    wakes
}

async fn an_edit_of_this_process_wakes_at_once(place: Place) {
    let directory = place.open().await;
    let mut watch = directory.watch();
    // It wakes by itself too, but not so often.
    for _ in 0..20 {
        edit(&directory).await;
        timeout(SOON, watch.changed()).await.unwrap();
    }
    let quiet = Duration::from_millis(100);
    wakes(&mut watch, quiet).await;
    edit(&directory).await;
    timeout(quiet * 3, watch.changed()).await.unwrap();
}

async fn an_edit_of_another_is_seen_within_a_second(place: Place) {
    let (one, other) = (place.open().await, place.open().await);
    let mut watch = one.watch();
    let mut in_time = 0;
    for _ in 0..5 {
        let revision = edit(&other).await;
        let mut seen = async || {
            while one.revision().await.unwrap() < revision {
                watch.changed().await;
            }
        };
        let second = Duration::from_secs(1);
        in_time += u32::from(timeout(second, seen()).await.is_ok());
        timeout(SOON, seen()).await.unwrap();
    }
    // The machine may be under load.
    assert!(in_time > 2, "{in_time} of 5");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_tells_of_an_edit_and_is_listened_to_again_after_a_loss() {
    let server = PostgresServer::shared();
    let url = server.database();
    let name = url.rsplit_once('/').unwrap().1.to_owned();
    let proxy = FaultProxy::start(server.addr());
    let near = Directory::open(&server.url(proxy.addr(), &name).parse().unwrap())
        .await
        .unwrap();
    let far = Directory::open(&url.parse().unwrap()).await.unwrap();
    let mut watch = near.watch();
    // Shorter than the time after which it looks by itself.
    let at_once = Duration::from_millis(200);
    for _ in 0..2 {
        let told = async {
            loop {
                // Quiet, then told: somebody listens.
                wakes(&mut watch, at_once).await;
                edit(&far).await;
                if timeout(at_once, watch.changed()).await.is_ok() {
                    return;
                }
            }
        };
        timeout(SOON, told).await.unwrap();
        proxy.refuse(true);
        proxy.cut();
        // Goes on without.
        timeout(SOON, watch.changed()).await.unwrap();
        proxy.refuse(false);
    }
    drop(watch);
    drop(near);
    let gone = async {
        while proxy.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, gone).await.unwrap();
}
