//! Certificates, users with few rights, databases.

use tollward_policy::{ClientCertificate, RedisTls};
use tollward_redis::{Options, RedisStore};
use tollward_store::Source;
use tollward_testkit::redis::{RedisServer, Value};

use crate::asked::{Ask, give_back, left, only, take_one, until};
use crate::started::{block_on, in_real_time, store, valkey, wait_until_up};

/// What a user of one server needs; of the rest, `docs/redis.md`.
pub(crate) const RIGHTS: &str = "~tollward:* resetchannels -@all +evalsha +script|load +ping +info +time \
     +mget +set +del +get +pexpire +zadd +zcard +zremrangebyscore";

#[test]
fn with_tls() {
    let server = RedisServer::builder().tls().start();
    let files = server.tls().unwrap();
    let ca_only = RedisTls {
        ca: Some(files.ca.clone()),
        client: None,
    };
    decides(&server.url(), ca_only);
    stays_local(&server.url(), RedisTls::default());
}

#[test]
fn with_tls_and_a_certificate_of_the_client() {
    let server = RedisServer::builder()
        .tls()
        .arg("--tls-auth-clients", "yes")
        .start();
    let files = server.tls().unwrap();
    let ca_only = RedisTls {
        ca: Some(files.ca.clone()),
        client: None,
    };
    let both = RedisTls {
        client: Some(ClientCertificate {
            cert: files.cert.clone(),
            key: files.key.clone(),
        }),
        ..ca_only.clone()
    };
    decides(&server.url(), both);
    stays_local(&server.url(), ca_only);
}

/// A certificate for another name is no better than none.
#[test]
fn with_tls_of_another_authority() {
    let server = RedisServer::builder().tls().start();
    let other = RedisServer::builder().tls().start();
    let tls = RedisTls {
        ca: Some(other.tls().unwrap().ca.clone()),
        client: None,
    };
    stays_local(&server.url(), tls);
}

#[test]
fn in_a_database() {
    let server = RedisServer::start();
    block_on(async {
        let third = store(in_real_time(&format!("{}/3", server.url()))).await;
        let first = store(in_real_time(&server.url())).await;
        let one = Ask::one(only(9), "database");
        assert_eq!(take_one(&third, &one).await.source, Source::Redis);
        assert_eq!(left(&third, &one).await, 8);
        assert_eq!(left(&first, &one).await, 9);
    });
    let keys = server.info("keyspace", "db3").unwrap();
    assert!(!keys.starts_with("keys=0"), "{keys}");
}

#[test]
fn a_user_with_the_least_rights() {
    least_rights(&RedisServer::start());
}

#[test]
fn a_user_with_the_least_rights_on_valkey() {
    if let Some(server) = valkey() {
        least_rights(&server);
    }
}

fn least_rights(server: &RedisServer) {
    give_rights(server, "");
    let url = format!("redis://tollward:sesame@{}", server.addr());
    block_on(async {
        let node = store(in_real_time(&url)).await;
        let other = store(in_real_time(&url)).await;
        until("the nodes are counted", async || {
            node.nodes() == 2 && other.nodes() == 2
        })
        .await;
        assert!(server.command(&["SCRIPT", "FLUSH"]).is_ok());
        let one = Ask::one(only(9), "rights");
        assert_eq!(take_one(&node, &one).await.source, Source::Redis);
        give_back(&node, std::slice::from_ref(&one)).await;
        assert_eq!(
            take_one(&other, &one.clone().cost(9)).await.source,
            Source::Redis
        );
        assert!(!take_one(&node, &one).await.admitted);
        assert!(server.command(&["FLUSHALL"]).is_ok());
        until("the loss is noticed", async || {
            node.stats().data_losses.get() == 1
        })
        .await;
        until("nothing is amiss", async || left(&node, &one).await == 9).await;
    });
    assert_eq!(denied(server), [""; 0]);
    // No right is there for nothing.
    for right in RIGHTS.split(' ').filter_map(|word| word.strip_prefix('+')) {
        assert!(server.calls(right) > 0, "nobody calls {right}");
    }
}

/// Makes the user `tollward`, with these rights and more.
pub(crate) fn give_rights(server: &RedisServer, more: &str) {
    let mut command = vec!["ACL", "SETUSER", "tollward", "on", ">sesame"];
    command.extend(RIGHTS.split_whitespace());
    command.extend(more.split_whitespace());
    assert_eq!(server.command(&command), Value::Simple("OK".to_owned()));
}

/// The commands and keys that users were not let have. That a client may not give its name does no harm.
pub(crate) fn denied(server: &RedisServer) -> Vec<String> {
    let log = server.command(&["ACL", "LOG"]);
    let object = |entry: &Value| {
        let mut fields = entry.as_array().chunks_exact(2);
        let object = fields.find(|field| field[0].as_text() == Some("object"));
        object
            .and_then(|field| field[1].as_text())
            .map(str::to_owned)
    };
    let objects = log.as_array().iter().filter_map(object);
    objects.filter(|it| it != "client|setinfo").collect()
}

fn decides(url: &str, tls: RedisTls) {
    block_on(async {
        let store = store(with(url, tls)).await;
        let one = Ask::one(only(9), "tls");
        let said = take_one(&store, &one).await;
        assert_eq!((said.source, said.admitted), (Source::Redis, true));
        until("the node is counted", async || store.nodes() == 1).await;
        wait_until_up(&store).await;
    });
}

fn stays_local(url: &str, tls: RedisTls) {
    block_on(async {
        let store = RedisStore::start(with(url, tls)).unwrap();
        store.tried().await;
        until("it is tried again", async || {
            store.stats().connects.get() >= 3
        })
        .await;
        assert!(!store.shards()[0].up);
        let said = take_one(&store, &Ask::one(only(9), "tls")).await;
        assert_eq!((said.source, said.admitted), (Source::Local, true));
    });
}

fn with(url: &str, tls: RedisTls) -> Options {
    Options {
        tls,
        ..in_real_time(url)
    }
}
