//! Another server becomes the primary.

use std::collections::HashMap;

use drover::store::redis::condition::Condition;

use super::Linked;
use crate::support::{Sentinels, Server, until};

#[tokio::test]
async fn calls_go_to_the_server_that_the_sentinels_have_made_the_primary() {
    let sentinels = Sentinels::start(3);
    let linked = Linked::to(&sentinels.url());
    linked.works(0).await;
    let mut own = linked.link.dedicated(0).await.expect("a connection");
    sentinels.fail_over();
    let read = ::redis::cmd("XREAD")
        .arg("BLOCK")
        .arg(25_000)
        .arg("STREAMS")
        .arg("{drover.0}:log")
        .arg("$")
        .take();
    // It is told that it listens to the wrong server: by the server itself, or by the link.
    let ended = own.run(&read, crate::support::PATIENCE).await;
    assert!(ended.is_err(), "{ended:?}");
    until("the other one is the primary", || {
        sentinels.servers[1].info("role") == "master"
    })
    .await;
    let after = sentinels.servers[1].calls("eval");
    until_there(&linked, || sentinels.servers[1].calls("eval") > after).await;
}

#[tokio::test]
async fn a_primary_that_dies_is_left_for_its_successor() {
    let mut sentinels = Sentinels::start(3);
    let linked = Linked::to(&sentinels.url());
    linked.works(0).await;
    sentinels.servers[0].kill();
    let refused = linked.refused(0).await;
    assert!(refused.contains("is Redis running there?"), "{refused}");
    linked.works(0).await;
    assert!(sentinels.servers[1].calls("eval") > 0);
    assert!(linked.met(Condition::CircuitOpened) > 0);
}

#[tokio::test]
async fn sentinels_that_are_gone_do_not_matter_while_the_primary_is_there() {
    let mut sentinels = Sentinels::start(3);
    let linked = Linked::to(&sentinels.url());
    linked.works(0).await;
    for sentinel in &mut sentinels.sentinels {
        sentinel.kill();
    }
    sentinels.servers[0].ask::<u64>(&["CLIENT", "KILL", "TYPE", "normal"]);
    linked.works(0).await;
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert_eq!(linked.put(0, "1").await.as_deref(), Ok("done"));
}

async fn until_there(linked: &Linked, mut there: impl FnMut() -> bool) {
    loop {
        linked.works(0).await;
        if there() {
            break;
        }
    }
}

/// It takes writes and would lose them: the sentinels are about to make another one the primary.
#[tokio::test]
async fn a_server_that_answers_again_is_not_taken_for_the_primary_while_the_sentinels_think_that_it_is_down() {
    let sentinels = Sentinels::start(3);
    let linked = Linked::to(&sentinels.url());
    linked.works(0).await;
    // None of them may ping it, and they never agree to replace it.
    for sentinel in &sentinels.sentinels {
        sentinel.ask::<()>(&["SENTINEL", "SET", "drover", "quorum", "9"]);
    }
    sentinels.servers[0].ask::<()>(&["ACL", "SETUSER", "default", "-ping"]);
    until("they think that it is down", || {
        let known = |sentinel: &Server| sentinel.ask::<HashMap<String, String>>(&["SENTINEL", "MASTER", "drover"]);
        sentinels
            .sentinels
            .iter()
            .all(|sentinel| known(sentinel)["flags"].contains("s_down"))
    })
    .await;
    assert_eq!(linked.put(0, "1").await.as_deref(), Ok("done"), "no connection broke");
    sentinels.servers[0].ask::<u64>(&["CLIENT", "KILL", "TYPE", "normal"]);
    linked.refused_with(0, &["think that it is down"]).await;
    assert!(linked.met(Condition::Doubted) > 0);
    sentinels.servers[0].ask::<()>(&["ACL", "SETUSER", "default", "+ping"]);
    linked.works(0).await;
}
