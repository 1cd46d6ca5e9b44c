//! The way to Redis.

use crate::servers::{Certificates, Cluster, Sentinels, Server};

#[test]
fn the_servers_of_the_tests_start_stop_and_come_back() {
    let mut server = Server::with(&["appendonly no"]);
    server.ask::<()>(&["SET", "a", "1"]);
    server.restart();
    assert_eq!(server.ask::<String>(&["GET", "a"]), "1");
    server.restart_empty();
    assert_eq!(server.ask::<Option<String>>(&["GET", "a"]), None);
    assert_eq!(server.calls("get"), 1);
    server.stop();
    server.cont();
    server.kill();
    assert!(server.command::<String>(&["PING"]).is_err());
    let secured = Server::tls(&Certificates::make(), true);
    assert_eq!(secured.ask::<String>(&["PING"]), "PONG");
    let sentinels = Sentinels::start(3);
    sentinels.fail_over();
    let cluster = Cluster::start(1);
    assert_eq!(cluster.nodes().count(), 6);
}
