//! Nothing is lost, whoever reads how fast: every commit is in a message, or a reset says that there is a gap.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// So many commits, of these keys and modes.
    Commit(Vec<(u8, bool)>),
    /// A report.
    Report(u8),
    /// Somebody reads at most so many messages.
    Read(usize, usize),
    /// Somebody's stream breaks, and is resumed at the last cursor.
    Resume(usize),
    /// The log is lost.
    Lose,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec((0..6u8, any::<bool>()), 1..12).prop_map(Step::Commit),
        3 => (0..6u8).prop_map(Step::Report),
        8 => (0..3usize, 1..8usize).prop_map(|(who, most)| Step::Read(who, most)),
        2 => (0..3usize).prop_map(Step::Resume),
        1 => Just(Step::Lose),
    ]
}

/// A client: for each key what it knows to be old, or replaced.
struct Client {
    watching: Watching,
    cursor: String,
    subscription: Subscription,
    /// Of each key: the number up to which it knows that values are old; and whether they were dropped.
    known: HashMap<String, (u64, bool)>,
    versions: HashMap<String, u64>,
    /// Of what was committed, this much was covered by a reset.
    swallowed: usize,
}

impl Client {
    fn new(world: &World, refreshed: bool) -> Client {
        let subscription = Subscription {
            include_refreshed: refreshed,
            ..shop()
        };
        Client {
            watching: world.watch(subscription.clone()),
            cursor: String::new(),
            subscription,
            known: HashMap::new(),
            versions: HashMap::new(),
            swallowed: 0,
        }
    }

    fn hear(&mut self, event: &WatchEvent, committed: usize) {
        self.cursor = event.cursor.to_string();
        match &event.what {
            What::Invalidated(what) => {
                for key in &what.keys {
                    let known = self.known.entry(key.name().to_owned()).or_default();
                    known.0 = known.0.max(what.version.0);
                    known.1 |= what.mode == Mode::Drop;
                }
            }
            What::Refreshed { key, version, .. } => {
                let earlier = self.versions.insert(key.name().to_owned(), version.0);
                assert!(earlier.unwrap_or(0) <= version.0, "order a key");
            }
            What::Reset { .. } => {
                self.swallowed = committed;
                self.versions.clear();
            }
            What::Started { .. } | What::Progress { .. } | What::LeaseRevoked { .. } => {}
        }
    }
}

/// What was committed: key, number, whether it dropped; a report has none.
type History = Vec<(String, u64, Option<bool>)>;

fn check(client: &Client, history: &History) {
    for (key, number, dropped) in &history[client.swallowed..] {
        match dropped {
            Some(dropped) => {
                let (known, hard) = client.known.get(key).copied().unwrap_or_default();
                assert!(known >= *number, "{key} at {number} was not told");
                assert!(hard || !dropped, "{key} was dropped, and told as expired");
            }
            None if client.subscription.include_refreshed => {
                assert!(
                    client.versions.get(key).is_some_and(|version| version >= number),
                    "{key} {number}"
                );
            }
            None => {}
        }
    }
}

proptest! {
    #[test]
    fn every_commit_is_covered_or_a_reset_is_seen(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let _inside = runtime.enter();
        let world = World::bounded(Bounds { records: 16, refreshed_records: 8, ..Bounds::default() });
        let mut clients = [Client::new(&world, false), Client::new(&world, true), Client::new(&world, false)];
        let mut history = History::new();
        for step in steps {
            match step {
                Step::Commit(keys) => for (key, dropped) in keys {
                    let mode = if dropped { Mode::Drop } else { Mode::Expire };
                    world.commit(invalidated(&key.to_string(), mode));
                    history.push((key.to_string(), world.number.get(), Some(dropped)));
                },
                Step::Report(key) => {
                    let number = world.number.get() + 1;
                    world.commit(refreshed(&key.to_string(), number));
                    history.push((key.to_string(), number, None));
                }
                Step::Read(who, most) => for _ in 0..most {
                    let client = &mut clients[who];
                    let Some(event) = next(&mut client.watching) else { break };
                    client.hear(&event, history.len());
                },
                Step::Resume(who) => {
                    let client = &mut clients[who];
                    if !client.cursor.is_empty() {
                        client.subscription.resume_from = client.cursor.clone();
                        client.watching = world.watch(client.subscription.clone());
                    }
                }
                Step::Lose => world.feed.reset(ResetReason::LogLost),
            }
        }
        for client in &mut clients {
            for event in seen(&mut client.watching) {
                client.hear(&event, history.len());
            }
            check(client, &history);
        }
    }
}

#[test]
fn nothing_is_lost_between_threads_that_commit_and_watchers_that_sleep() {
    const WRITERS: usize = 4;
    const EACH: usize = 500;
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime");
    let watchers: Vec<_> = {
        let _inside = runtime.enter();
        (0..4).map(|_| world.live(shop())).collect()
    };
    let readers: Vec<_> = watchers
        .into_iter()
        .map(|mut watching| {
            runtime.spawn(async move {
                let mut names = std::collections::HashSet::new();
                while names.len() < WRITERS * EACH {
                    let event = watching.next().await.expect("it does not end");
                    assert_eq!(reset(&event), None);
                    names.extend(keys(&event).into_iter().map(str::to_owned));
                }
            })
        })
        .collect();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let feed = &world.feed;
            scope.spawn(move || {
                for n in 0..EACH {
                    let event = invalidated(&format!("{writer}-{n}"), Mode::Drop);
                    let appended = feed.append(Seq(1), StoreTime(1), vec![event]);
                    feed.announce(&appended);
                }
            });
        }
    });
    // Were a ring lost, only a sign of life would end the wait, and that takes five seconds.
    let all = async {
        for reader in readers {
            reader.await.expect("no panic");
        }
    };
    let in_time = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(4), all).await });
    assert!(in_time.is_ok(), "a watcher was not woken");
}
