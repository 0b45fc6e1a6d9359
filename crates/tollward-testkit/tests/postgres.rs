//! The fixture itself.

use std::net::TcpStream;

use tollward_testkit::postgres::{PASSWORD, PostgresServer};

#[test]
fn a_server_keeps_its_data_when_it_is_killed_and_stands_still_when_it_is_stopped() {
    let server = PostgresServer::start();
    let url = server.database();
    assert_eq!(url, server.url(server.addr(), "test0"));
    assert!(url.contains(PASSWORD));
    server.sql("test0", "CREATE TABLE t (n BIGINT)");
    server.sql("test0", "INSERT INTO t VALUES (1), (2)");

    server.kill();
    assert!(TcpStream::connect(server.addr()).is_err());
    server.restart();
    assert_eq!(server.sql("test0", "SELECT n FROM t ORDER BY n"), "1\n2");
    assert_eq!(server.sql("test0", "SHOW fsync"), "on");

    server.stop();
    assert!(TcpStream::connect(server.addr()).is_ok());
    server.cont();
    assert_eq!(server.sql("test0", "SELECT 3"), "3");
}

#[test]
fn tests_share_a_server_as_long_as_one_has_it() {
    let one = PostgresServer::shared();
    let other = PostgresServer::shared();
    assert_eq!(one.addr(), other.addr());
    assert_ne!(one.database(), other.database());
}
