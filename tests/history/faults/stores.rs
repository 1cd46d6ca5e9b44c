//! A store that forgets, and one that is replaced by another.

use super::Rhythm;
use crate::checker::model::Kind;
use crate::field::{Field, Shared, local, pass};
use crate::proxy::{Mode, Way};
use crate::support::{PATIENCE, Server, wait_until};

fn ask(field: &mut Field, words: &[&str]) {
    tokio::task::block_in_place(|| field.server().ask::<()>(words));
}

pub async fn flush_all(field: &mut Field, rhythm: &mut Rhythm) {
    while rhythm.goes_on(0).await {
        let lost = field.recorder.begin(Kind::Lost);
        ask(field, &["FLUSHALL"]);
        field.recorder.end(lost);
    }
}

/// Nothing is lost by that: no promise has an exception.
pub async fn script_flush(field: &mut Field, rhythm: &mut Rhythm) {
    while tokio::time::Instant::now() < rhythm.until {
        ask(field, &["SCRIPT", "FLUSH"]);
        rhythm.between(5, 40).await;
    }
}

/// Room for a part of the values only.
pub async fn memory_pressure(field: &mut Field, rhythm: &mut Rhythm) {
    let evicting = field.recorder.begin(Kind::Evicting);
    let used: u64 = tokio::task::block_in_place(|| field.server().info("used_memory"))
        .parse()
        .unwrap_or(4 << 20);
    ask(field, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    ask(field, &["CONFIG", "SET", "maxmemory", &(used + (2 << 20)).to_string()]);
    tokio::time::sleep_until(rhythm.until).await;
    ask(field, &["CONFIG", "SET", "maxmemory", "0"]);
    field.recorder.end(evicting);
    let evicted = tokio::task::block_in_place(|| field.server().info("evicted_keys"));
    if evicted == "0" {
        field
            .recorder
            .wrong("nothing was evicted: there was no pressure".to_owned());
    }
}

/// Every record of the log goes while watchers are behind it.
pub async fn log_trimmed(field: &mut Field, rhythm: &mut Rhythm) {
    let mut trimmed = 0;
    while rhythm.goes_on(0).await {
        for _ in 0..20 {
            let words = ["XTRIM", "{drover.0}:log", "MAXLEN", "0"];
            trimmed += tokio::task::block_in_place(|| field.server().ask::<u64>(&words));
            rhythm.between(1, 5).await;
        }
    }
    if trimmed == 0 {
        field.recorder.wrong("no record was trimmed".to_owned());
    }
}

/// The follower hears nothing for a while, and then becomes the primary. The old one is dead, or goes on as if nothing had happened.
pub async fn lagging_failover(field: &mut Field, rhythm: &mut Rhythm) {
    while rhythm.goes_on(3_000).await {
        let failover = field.recorder.begin(Kind::Failover);
        let Shared::Pair(pair) = &mut field.shared else {
            panic!("this fault needs a pair")
        };
        // What was written before is not lost: a follower that has just loaded everything may not have heard of the last second.
        tokio::task::block_in_place(|| {
            let offset = |figure: String| figure.parse::<u64>().unwrap_or_default();
            let written = offset(pair.primary.info("master_repl_offset"));
            wait_until("the follower has caught up", || {
                offset(pair.follower.info("slave_repl_offset")) >= written
            });
        });
        // Its answers, not its questions: a reader that only pauses would get all of it later.
        pair.cable.set(Mode {
            to_client: Way::Swallow,
            ..Mode::PASS
        });
        rhythm.between(100, 600).await;
        let alive = rhythm.one_of(2) == 0;
        let away = field.recorder.begin(Kind::Away(None));
        tokio::task::block_in_place(|| {
            if !alive {
                pair.primary.kill();
            }
            pair.follower.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
        });
        let promoted = local(pair.follower.port());
        for (number, back) in field.backs.iter().enumerate() {
            back.lead_to(promoted);
            // Where the old primary lives, some replicas go on talking to it for a moment.
            if !alive || number == 0 {
                back.reset();
            }
        }
        if alive {
            rhythm.between(50, 400).await;
            field.backs.iter().for_each(|back| back.reset());
        }
        field.recorder.end(away);
        field.recorder.end(failover);
        pair.cable.reset();
        tokio::task::block_in_place(|| pair.primary.restart_empty());
        std::mem::swap(&mut pair.primary, &mut pair.follower);
        pair.follow().await;
    }
}

/// The primary is killed, the sentinels agree that it is, and make the other one the primary.
pub async fn sentinel_failover(field: &mut Field, rhythm: &mut Rhythm) {
    while rhythm.goes_on(4_000).await {
        let Shared::Sentinels(sentinels) = &mut field.shared else {
            panic!("this fault needs sentinels")
        };
        // No other failover than ours, however busy the machine is.
        tokio::task::block_in_place(|| sentinels.patience(60_000));
        let primary = sentinels.servers.iter().position(|server| role(server) == "master");
        let primary = primary.unwrap_or_default();
        // What was acknowledged a moment before the primary died need not have reached its replica, least of all on a busy machine.
        let failover = field.recorder.begin(Kind::Failover);
        pass(1_000).await;
        let away = field.recorder.begin(Kind::Away(None));
        tokio::task::block_in_place(|| {
            sentinels.servers[primary].kill();
            sentinels.patience(500);
        });
        let begun = tokio::time::Instant::now();
        while role(&sentinels.servers[1 - primary]) != "master" {
            assert!(begun.elapsed() < PATIENCE, "the sentinels do not agree");
            pass(10).await;
        }
        tokio::task::block_in_place(|| sentinels.patience(60_000));
        // Clients hear of it from the sentinels a little later.
        pass(200).await;
        field.recorder.end(away);
        field.recorder.end(failover);
        tokio::task::block_in_place(|| sentinels.servers[primary].restart());
        // It takes itself for the primary. The sentinels tell it that it is none after eight seconds, if they find that it was not down in
        // them; on a busy machine they may never. So we do.
        rhythm.between(1_000, 3_000).await;
        let port = sentinels.servers[1 - primary].port().to_string();
        tokio::task::block_in_place(|| sentinels.servers[primary].ask::<()>(&["REPLICAOF", "127.0.0.1", &port]));
        let begun = tokio::time::Instant::now();
        while linked(&sentinels.servers[primary]) != "up" {
            assert!(begun.elapsed() < PATIENCE, "the old primary does not follow");
            pass(50).await;
        }
    }
}

pub fn role(server: &Server) -> String {
    let replication = tokio::task::block_in_place(|| server.command::<String>(&["INFO", "replication"]));
    // One that was killed, or is being started, says nothing.
    let replication = replication.unwrap_or_default();
    let role = replication.lines().find_map(|line| line.strip_prefix("role:"));
    role.unwrap_or("none").trim().to_owned()
}

pub fn linked(server: &Server) -> String {
    let replication = tokio::task::block_in_place(|| server.command::<String>(&["INFO", "replication"]));
    let replication = replication.unwrap_or_default();
    let status = replication
        .lines()
        .find_map(|line| line.strip_prefix("master_link_status:"));
    status.unwrap_or("none").trim().to_owned()
}
