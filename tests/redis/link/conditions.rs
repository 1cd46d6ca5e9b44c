//! What can be the matter with a Redis, provoked on real ones.

use std::time::Duration;

use drover::store::StoreError;
use drover::store::redis::condition::{Condition, Verdict};

use super::Linked;
use crate::support::{Cluster, Server, until};

#[tokio::test]
async fn a_full_server_refuses_writes_by_name_and_goes_on_answering_reads() {
    let server = Server::start();
    let linked = Linked::to(&server.url());
    linked.works(0).await;
    server.ask::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let written = linked.put(0, "2").await;
    assert!(
        matches!(&written, Err(StoreError::Full(told)) if told.contains("OOM")),
        "{written:?}"
    );
    assert_eq!(linked.get::<String>(0).await.as_deref(), Ok("works"));
    assert_eq!(
        (linked.met(Condition::Full), linked.met(Condition::CircuitOpened)),
        (1, 0)
    );
    server.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(linked.put(0, "3").await.as_deref(), Ok("done"));
}

#[tokio::test]
async fn a_replica_is_told_from_a_primary_and_left_alone_until_it_is_one() {
    let primary = Server::start();
    let replica = Server::with(&[&format!("replicaof 127.0.0.1 {}", primary.port())]);
    let linked = Linked::to(&replica.url());
    let refused = linked.refused(0).await;
    assert!(
        refused.contains("it is a replica; drover needs the primary's address"),
        "{refused}"
    );
    assert!(linked.met(Condition::ReadOnly) > 0);
    replica.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
    linked.works(0).await;
    // And it becomes one again under our hands.
    replica.ask::<()>(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    until("the demotion is noticed", || {
        !linked.link.is_up(0) || linked.met(Condition::ReadOnly) > 1
    })
    .await;
    let written = linked.put(0, "1").await;
    assert!(matches!(written, Err(StoreError::Unavailable(_))), "{written:?}");
}

#[tokio::test]
async fn a_primary_without_enough_replicas_is_cut_off_for_reads_too() {
    let server = Server::start();
    let linked = Linked::to(&server.url());
    linked.works(0).await;
    server.ask::<()>(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let written = linked.put(0, "1").await;
    assert!(
        matches!(&written, Err(StoreError::Unavailable(told)) if told.contains("NOREPLICAS")),
        "{written:?}"
    );
    assert!(linked.met(Condition::CutOff) > 0);
    let read = linked.get::<String>(0).await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    server.ask::<()>(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    linked.works(0).await;
}

#[tokio::test]
async fn a_server_that_reads_its_data_is_waited_for() {
    let mut server = Server::with(&["key-load-delay 2000000", "enable-debug-command yes"]);
    server.ask::<()>(&["SET", "a", "1"]);
    server.ask::<()>(&["SET", "b", "1"]);
    let linked = Linked::to(&server.url());
    linked.works(0).await;
    server.ask::<()>(&["SAVE"]);
    server.kill();
    linked.refused(0).await;
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| server.restart());
        starting.join().expect("it starts");
    });
    linked.works(0).await;
    assert!(linked.met(Condition::CircuitOpened) > 0);
}

#[tokio::test]
async fn a_server_that_forgets_what_it_likes_is_warned_of() {
    let server = Server::with(&["maxmemory-policy allkeys-lru"]);
    let linked = Linked::to(&server.url());
    linked.works(0).await;
    until("the policy is looked at", || linked.met(Condition::Evicting) == 1).await;
    let kept = Server::with(&["maxmemory-policy volatile-lru"]);
    let linked = Linked::to(&kept.url());
    linked.works(0).await;
    until("the policy was looked at", || kept.calls("config|get") > 0).await;
    assert_eq!(linked.met(Condition::Evicting), 0);
}

#[tokio::test]
async fn a_user_who_may_not_see_the_policy_is_served_all_the_same() {
    let server = Server::with(&["user app on >pass ~{drover.* +@all -@admin"]);
    let linked = Linked::to(&server.url().replace("//", "//app:pass@"));
    linked.works(0).await;
    until("the policy was asked for", || {
        server.calls("config|get") > 0 || linked.link.is_up(0)
    })
    .await;
    assert_eq!(linked.met(Condition::Evicting), 0);
    let stranger = linked.link.call(0, &super::PUT, &["elsewhere"], &["1"], true).await;
    assert!(
        matches!(&stranger, Err(StoreError::Unknown(told) | StoreError::Unavailable(told)) if told.contains("NOPERM")),
        "{stranger:?}"
    );
    assert_eq!(linked.met(Condition::Forbidden), 1);
    assert!(linked.link.is_up(0));
}

#[tokio::test]
async fn a_cluster_that_is_down_is_told_and_waited_for() {
    let mut cluster = Cluster::start(0);
    let linked = Linked::to(&cluster.url());
    for partition in 0..16 {
        linked.works(partition).await;
    }
    cluster.primaries[2].kill();
    until("the whole cluster is down", || {
        linked.link.watch().borrow().down() == 16 || {
            let asked = linked.link.clone();
            tokio::spawn(async move {
                for partition in 0..16 {
                    let _ = asked
                        .call(partition, &super::PUT, &[super::key(partition)], &["1"], true)
                        .await;
                }
            });
            false
        }
    })
    .await;
    assert!(linked.met(Condition::ClusterDown) > 0);
    cluster.primaries[2].restart();
    for partition in 0..16 {
        linked.works(partition).await;
    }
}

/// The errors of a real server are understood as the table in the library says.
#[test]
fn real_errors_have_their_names() {
    let server = Server::with(&["enable-debug-command yes"]);
    let closed = Server::with(&["requirepass s3cret"]);
    let met = |server: &Server, words: &[&str]| {
        let error = server.command::<::redis::Value>(words).expect_err("an error");
        (Verdict::of(&error).condition, Verdict::of(&error).unapplied)
    };
    let script = |code: &'static str| ["EVAL", code, "1", "k"];
    server.ask::<()>(&["LPUSH", "list", "1"]);
    assert_eq!(met(&server, &["GET", "list"]), (Condition::WrongType, true));
    assert_eq!(
        met(
            &server,
            &[
                "EVAL",
                "redis.call('SET', 'a', 1) return redis.call('GET', KEYS[1])",
                "1",
                "list"
            ]
        ),
        (Condition::WrongType, false)
    );
    assert_eq!(
        met(&server, &script("return nothing.at.all")),
        (Condition::Other, false)
    );
    assert_eq!(
        met(&server, &["EVALSHA", &"0".repeat(40), "0"]),
        (Condition::ScriptReloaded, true)
    );
    assert_eq!(met(&server, &["NOSUCH"]), (Condition::Other, true));
    server.ask::<()>(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    assert_eq!(met(&server, &["SET", "k", "1"]), (Condition::CutOff, true));
    assert_eq!(
        met(&server, &script("return redis.call('SET', KEYS[1], 1)")),
        (Condition::CutOff, true)
    );
    server.ask::<()>(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    server.ask::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    assert_eq!(met(&server, &["SET", "k", "1"]), (Condition::Full, true));
    assert_eq!(
        met(&server, &script("return redis.call('SET', KEYS[1], 1)")),
        (Condition::Full, true)
    );
    server.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    server.ask::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_eq!(met(&server, &["SET", "k", "1"]), (Condition::ReadOnly, true));
    assert_eq!(
        met(&server, &script("return redis.call('SET', KEYS[1], 1)")),
        (Condition::ReadOnly, true)
    );
    server.ask::<()>(&["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    assert_eq!(met(&server, &["GET", "k"]), (Condition::ReadOnly, true));
    let stranger = |url: String| {
        let client = ::redis::Client::open(url).expect("a good URL");
        let got = client
            .get_connection()
            .and_then(|mut connection| ::redis::cmd("GET").arg("k").query::<::redis::Value>(&mut connection));
        Verdict::of(&got.expect_err("an error")).condition
    };
    assert_eq!(stranger(closed.url()), Condition::Forbidden);
    assert_eq!(stranger(closed.url().replace("//", "//:wrong@")), Condition::Forbidden);
}

#[tokio::test]
async fn a_server_that_can_not_save_is_told_by_name() {
    let server = Server::with(&[
        "enable-debug-command yes",
        "save 3600 1",
        "stop-writes-on-bgsave-error yes",
    ]);
    let linked = Linked::to(&server.url());
    linked.works(0).await;
    server.ask::<()>(&["CONFIG", "SET", "rdbcompression", "no"]);
    // The file of its data can't be made where there is a directory of that name.
    std::fs::create_dir(server.socket().with_file_name("dump.rdb")).expect("a temporary directory");
    server.ask::<String>(&["BGSAVE"]);
    until("saving has failed", || server.info("rdb_last_bgsave_status") == "err").await;
    let written = linked.put(0, "1").await;
    assert!(
        matches!(&written, Err(StoreError::Unavailable(told)) if told.contains("MISCONF")),
        "{written:?}"
    );
    assert!(linked.met(Condition::CannotSave) > 0);
    std::fs::remove_dir(server.socket().with_file_name("dump.rdb")).expect("it is empty");
    server.ask::<String>(&["BGSAVE"]);
    linked.works(0).await;
}

#[tokio::test]
async fn a_server_that_is_held_up_by_a_script_opens_the_circuit_until_it_is_free() {
    let server = Server::with(&["busy-reply-threshold 50"]);
    let linked = Linked::to(&server.url());
    linked.works(0).await;
    let mut hog = server.connection().expect("a connection");
    let running = std::thread::spawn(move || {
        ::redis::cmd("EVAL")
            .arg("while true do end")
            .arg(0)
            .query::<()>(&mut hog)
            .is_err()
    });
    let refused = linked.refused_or_asked(0).await;
    assert!(!refused.is_empty());
    until("the script is killed", || {
        std::thread::sleep(Duration::from_millis(20));
        server.command::<String>(&["SCRIPT", "KILL"]).is_ok()
    })
    .await;
    assert!(running.join().expect("it ends"));
    linked.works(0).await;
}
