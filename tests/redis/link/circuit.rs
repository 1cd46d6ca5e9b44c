//! Connections that break, servers that stop, and what becomes of calls meanwhile.

use std::time::{Duration, Instant};

use drover::config::RedisSettings;
use drover::store::StoreError;
use drover::store::redis::condition::Condition;

use super::Linked;
use crate::support::{Server, until};

#[tokio::test]
async fn a_script_that_the_server_has_forgotten_is_sent_again_within_the_call() {
    let server = Server::start();
    let linked = Linked::to(&server.url());
    linked.put(0, "1").await.expect("it works");
    assert_eq!((server.calls("eval"), server.calls("evalsha")), (1, 1));
    linked.put(0, "2").await.expect("it works");
    assert_eq!((server.calls("eval"), server.calls("evalsha")), (1, 2));
    server.ask::<()>(&["SCRIPT", "FLUSH"]);
    linked.put(0, "3").await.expect("nobody notices");
    assert_eq!((server.calls("eval"), server.calls("evalsha")), (2, 3));
    assert_eq!(linked.met(Condition::ScriptReloaded), 2);
    assert_eq!(linked.get::<String>(0).await.as_deref(), Ok("3"));
}

#[tokio::test]
async fn connections_that_are_killed_are_made_again_and_no_call_that_comes_then_fails() {
    let server = Server::start();
    let linked = Linked::to(&server.url());
    for round in 0..20 {
        linked.put(0, "1").await.expect("it works");
        let killed: u64 = server.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        assert!(killed >= 1, "{round}");
        // The break may not have been heard of yet: then a call is on its way when it is.
        let read = linked.get::<Option<String>>(0).await;
        assert_eq!(read, Ok(Some("1".to_owned())), "{round}");
    }
    assert_eq!(linked.met(Condition::CircuitOpened), 0);
    assert_eq!(linked.link.watch().borrow().outages(0), 0);
}

#[tokio::test]
async fn a_call_whose_connection_breaks_ends_at_once_and_its_fate_is_unknown_if_it_writes() {
    let mut server = Server::start();
    let linked = Linked::with(RedisSettings {
        timeout: Duration::from_secs(20),
        ..RedisSettings::at(&server.url()).expect("a good URL")
    });
    linked.works(0).await;
    // A server that is busy answers nothing.
    server.stop();
    let begin = Instant::now();
    let (written, read) = tokio::join!(linked.put(0, "2"), async {
        let read = linked.get::<Option<String>>(0);
        let killing = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            server.kill();
        };
        tokio::join!(read, killing).0
    });
    assert!(matches!(written, Err(StoreError::Unknown(_))), "{written:?}");
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert!(linked.met(Condition::Broken) > 0);
}

#[tokio::test]
async fn a_server_that_has_stopped_opens_the_circuit_and_closes_it_when_it_goes_on() {
    let server = Server::start();
    let linked = Linked::to(&server.url());
    linked.works(0).await;
    let mut states = linked.link.watch();
    server.stop();
    let answer = linked.put(0, "lost").await;
    let StoreError::Unknown(reason) = answer.expect_err("no answer") else {
        panic!("a write that was sent and not answered");
    };
    assert!(reason.ends_with("no answer for 500 ms"), "{reason}");
    until("the circuit is open", || !linked.link.is_up(0)).await;
    assert_eq!(states.borrow_and_update().down(), 1);
    let refused = linked.refused(0).await;
    assert!(refused.starts_with(&server.address()), "{refused}");
    assert!(linked.link.cold(0, ::redis::cmd("DBSIZE")).await.is_err());
    assert!(linked.link.dedicated(0).await.is_err());
    server.cont();
    linked.works(0).await;
    assert!(linked.link.is_up(0));
    let states = states.borrow_and_update().clone();
    assert_eq!((states.is_up(0), states.outages(0)), (true, 1));
    assert_eq!(
        (
            linked.met(Condition::TimedOut) > 0,
            linked.met(Condition::CircuitOpened)
        ),
        (true, 1)
    );
}

#[tokio::test]
async fn a_server_that_is_gone_is_found_again_within_a_second_of_its_return() {
    let mut server = Server::start();
    let linked = Linked::to(&server.url());
    linked.works(0).await;
    server.kill();
    let refused = linked.refused(0).await;
    assert!(refused.contains("is Redis running there?"), "{refused}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.restart_empty();
    let back = Instant::now();
    linked.works(0).await;
    assert!(back.elapsed() < Duration::from_secs(1), "{:?}", back.elapsed());
    assert_eq!(linked.link.watch().borrow().outages(0), 1);
}

#[tokio::test]
async fn a_blocking_read_does_not_hold_up_anybody_and_ends_when_its_connection_does() {
    let mut server = Server::start();
    let linked = Linked::to(&server.url());
    let mut own = linked.link.dedicated(0).await.expect("a connection");
    let mut read = ::redis::cmd("XREAD");
    read.arg("BLOCK")
        .arg(20_000)
        .arg("STREAMS")
        .arg("{drover.0}:log")
        .arg("$");
    let (answer, ()) = tokio::join!(own.run(&read, Duration::from_secs(30)), async {
        linked.works(0).await;
        server.kill();
    });
    let StoreError::Unavailable(told) = answer.expect_err("it broke") else {
        panic!("it reads");
    };
    assert!(told.ends_with("the connection is lost"), "{told}");
}

#[tokio::test]
async fn the_pool_has_a_bound_and_a_time_limit() {
    let server = Server::start();
    let linked = Linked::with(RedisSettings {
        pool: 2,
        timeout: Duration::from_millis(300),
        ..RedisSettings::at(&server.url()).expect("a good URL")
    });
    linked.works(0).await;
    let chores = (0..20).map(|_| linked.link.cold(0, ::redis::cmd("DBSIZE")));
    for answer in futures_util::future::join_all(chores).await {
        assert_eq!(answer, Ok(::redis::Value::Int(1)));
    }
    // Two shared ones, two of the pool, and that of the test itself.
    assert_eq!(server.info("connected_clients"), "5");
}
