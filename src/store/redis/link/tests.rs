//! What needs no Redis: that nothing is sent while a circuit is open, and what a silent server leads to. `tests/redis/link` has the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::store::StoreError;

/// Answers what a connection begins with and each probe, but no script; and counts.
#[derive(Default)]
struct Mute {
    connections: AtomicUsize,
    bytes: AtomicUsize,
    silent: AtomicBool,
}

impl Mute {
    async fn listen(self: Arc<Self>, listener: TcpListener) {
        loop {
            let (stream, _) = listener.accept().await.expect("it listens");
            self.connections.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(self.clone().serve(stream));
        }
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let mut buffer = [0; 4096];
        let mut silent = false;
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            self.bytes.fetch_add(read, Ordering::SeqCst);
            if self.silent.load(Ordering::SeqCst) {
                continue;
            }
            // Each command is an array. A connection that a script came over is silent from then on.
            for command in String::from_utf8_lossy(&buffer[..read]).split('*').skip(1) {
                silent |= command.contains("EVAL");
                if !silent && stream.write_all(b"+OK\r\n").await.is_err() {
                    return;
                }
            }
        }
    }

    fn seen(&self) -> [usize; 2] {
        [&self.connections, &self.bytes].map(|count| count.load(Ordering::SeqCst))
    }
}

struct World {
    mute: Arc<Mute>,
    link: Arc<Link>,
    cut: Option<DropGuard>,
}

impl World {
    async fn new() -> World {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let mute = Arc::new(Mute::default());
        tokio::spawn(mute.clone().listen(listener));
        let settings = RedisSettings {
            timeout: Duration::from_millis(50),
            ..RedisSettings::at(&format!("redis://{address}")).expect("a good URL")
        };
        let link = Link::new(&settings).expect("good settings");
        let cut = CancellationToken::new();
        tokio::spawn(link.clone().tend(cut.clone()));
        let world = World {
            mute,
            link,
            cut: Some(cut.drop_guard()),
        };
        // Two connections, each probed, and two settings of the server.
        world.until(|| world.link.seats.of(0).answers() == 4).await;
        world
    }

    async fn call(&self, writes: bool) -> Result<::redis::Value, StoreError> {
        let script = Script::new("test", "return 1");
        let none: [&str; 0] = [];
        self.link.call(0, &script, &["k"], &none, writes).await
    }

    /// Waits until it is so.
    async fn until(&self, so: impl Fn() -> bool) {
        let waiting = async {
            while !so() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(20), waiting)
            .await
            .expect("it comes to that");
    }
}

#[tokio::test]
async fn while_the_circuit_is_open_calls_are_refused_and_nothing_is_sent() {
    let mut world = World::new().await;
    world.mute.silent.store(true, Ordering::SeqCst);
    assert!(matches!(world.call(true).await, Err(StoreError::Unknown(_))));
    world.until(|| !world.link.is_up(0)).await;
    // Nobody mends any more: whatever is sent now, a call has sent.
    world.cut = None;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = world.mute.seen();
    for _ in 0..1_000 {
        assert!(matches!(world.call(true).await, Err(StoreError::Unavailable(_))));
        assert!(world.link.cold(0, ::redis::cmd("PING")).await.is_err());
        assert!(world.link.dedicated(0).await.is_err());
    }
    assert_eq!(world.mute.seen(), before);
}

#[tokio::test]
async fn one_slow_call_opens_nothing_while_others_are_answered() {
    let world = World::new().await;
    let slow = world.call(false);
    // Whichever connection the call took: the other one is answered.
    let others = async {
        for _ in 0..20 {
            let primary = world.link.seats.of(0);
            for wire in (0..primary.lines.len()).filter_map(|line| primary.living(line)) {
                let soon = Instant::now() + Duration::from_millis(3);
                let _ = wire.ask(&::redis::cmd("PING"), soon).await;
            }
        }
    };
    let (answer, ()) = tokio::join!(slow, others);
    assert!(matches!(answer, Err(StoreError::Unavailable(_))));
    assert_eq!(world.link.conditions.of(Condition::TimedOut), 1);
    assert_eq!(world.link.conditions.of(Condition::CircuitOpened), 0);
    assert!(world.link.is_up(0));
}

#[tokio::test]
async fn a_silent_server_is_let_in_again_by_an_answered_probe() {
    let world = World::new().await;
    assert!(world.call(false).await.is_err());
    world
        .until(|| world.link.conditions.of(Condition::CircuitOpened) == 1)
        .await;
    world.until(|| world.link.seats.of(0).gate.is_up()).await;
    let states = world.link.watch().borrow().clone();
    assert_eq!((states.is_up(0), states.outages(0), states.down()), (true, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_link_that_nobody_tends() {
    let settings = RedisSettings::at("redis://127.0.0.1:1").expect("a good URL");
    let link = Link::new(&settings).expect("good settings");
    let script = Script::new("test", "return 1");
    let none: [&str; 0] = [];
    let begin = Instant::now();
    let answer = link.call(0, &script, &["k"], &none, true).await;
    assert_eq!(answer, Err(StoreError::Unavailable("no connection yet".to_owned())));
    assert_eq!(begin.elapsed(), gate::GRACE);
}

#[test]
fn a_script_is_called_by_the_digest_that_redis_gives_it() {
    let script = Script::new("one", "return 1");
    assert_eq!(script.sha(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    let packed = |whole| script.call(whole, &["k"], &["a", "b"]).get_packed_command();
    let text = |words: &[&str]| {
        let words: Vec<String> = words
            .iter()
            .map(|word| format!("${}\r\n{word}\r\n", word.len()))
            .collect();
        format!("*{}\r\n{}", words.len(), words.concat()).into_bytes()
    };
    assert_eq!(packed(false), text(&["EVALSHA", script.sha(), "1", "k", "a", "b"]));
    assert_eq!(packed(true), text(&["EVAL", "return 1", "1", "k", "a", "b"]));
}
