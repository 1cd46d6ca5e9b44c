//! Nothing is lost over several partitions and replicas, whichever a client reads from, however far its replica is: every commit that
//! matches is told once and in order, or a reset says that there is a gap.

use std::collections::HashMap;

use proptest::prelude::*;

use super::shared::{Replica, Source};
use super::*;

const REPLICAS: usize = 3;
const KEYS: u8 = 8;

#[derive(Clone, Debug)]
enum Step {
    /// Commits of these keys and modes.
    Commit(Vec<(u8, bool)>),
    /// A report.
    Report(u8),
    /// A replica reads so many records of a partition.
    Pull(usize, u16, usize),
    /// A replica's connection broke: it begins again, so many records back.
    Again(usize, u16, u64),
    /// The store keeps only the last so many records.
    Trim(u16, u64),
    /// A failover loses the last so many.
    Fail(u16, usize),
    /// A replica loses a partition, or has it again.
    Lose(usize, u16),
    Regain(usize, u16),
    /// A client reads at most so many messages.
    Read(usize, usize),
    /// Its stream breaks, and is resumed at its last cursor at this replica.
    Move(usize, usize),
}

fn step(partitions: u16) -> impl Strategy<Value = Step> {
    let (replica, partition) = (0..REPLICAS, 0..partitions);
    let at = (replica.clone(), partition.clone());
    prop_oneof![
        6 => prop::collection::vec((0..KEYS, any::<bool>()), 1..6).prop_map(Step::Commit),
        3 => (0..KEYS).prop_map(Step::Report),
        12 => (at.clone(), 1..6usize).prop_map(|((at, partition), most)| Step::Pull(at, partition, most)),
        2 => (at.clone(), 0..4u64).prop_map(|((at, partition), back)| Step::Again(at, partition, back)),
        1 => (partition.clone(), 1..6u64).prop_map(|(partition, keep)| Step::Trim(partition, keep)),
        1 => (partition, 0..3usize).prop_map(|(partition, last)| Step::Fail(partition, last)),
        1 => at.clone().prop_map(|(at, partition)| Step::Lose(at, partition)),
        2 => at.prop_map(|(at, partition)| Step::Regain(at, partition)),
        8 => (0..FILTERS.len(), 1..8usize).prop_map(|(who, most)| Step::Read(who, most)),
        4 => (0..FILTERS.len(), replica).prop_map(|(who, at)| Step::Move(who, at)),
    ]
}

/// Prefixes of keys, and whether `Refreshed` are wanted.
const FILTERS: [(&[&str], bool); 4] = [(&[], false), (&[], true), (&["k1", "k2", "k5"], true), (&["k3"], false)];

/// What was committed of a key; a report has no mode.
#[derive(Debug)]
struct Done {
    key: String,
    number: u64,
    dropped: Option<bool>,
}

/// A client: for each key what it knows to be old, or replaced.
struct Client {
    watching: Option<Watching>,
    subscription: Subscription,
    known: HashMap<String, (u64, bool)>,
    versions: HashMap<String, u64>,
    /// Of what was committed, this much was covered by a reset, or came before it was live for the first time.
    swallowed: usize,
    /// It has been live once.
    live: bool,
}

impl Client {
    fn new((prefixes, include_refreshed): (&[&str], bool)) -> Client {
        Client {
            watching: None,
            subscription: Subscription {
                key_prefixes: prefixes.iter().map(|prefix| (*prefix).to_owned()).collect(),
                include_refreshed,
                ..shop()
            },
            known: HashMap::new(),
            versions: HashMap::new(),
            swallowed: 0,
            live: false,
        }
    }

    fn connect(&mut self, replica: &Replica) {
        self.watching = None;
        self.watching = replica.hub.watch(&self.subscription).ok();
    }

    fn read(&mut self, most: usize, committed: usize) {
        for _ in 0..most {
            let Some(event) = self.watching.as_mut().and_then(next) else {
                return;
            };
            self.hear(&event, committed);
        }
    }

    fn hear(&mut self, event: &WatchEvent, committed: usize) {
        self.subscription.resume_from = event.cursor.to_string();
        match &event.what {
            What::Invalidated(what) => {
                for key in &what.keys {
                    let known = self.known.entry(key.name().to_owned()).or_default();
                    assert!(
                        known.0 < what.version.0,
                        "{key:?} was told twice, or out of order: {what:?}"
                    );
                    *known = (what.version.0, known.1 || what.mode == Mode::Drop);
                }
            }
            What::Refreshed { key, version, .. } => {
                let earlier = self.versions.insert(key.name().to_owned(), version.0);
                assert!(earlier < Some(version.0), "{key:?} was told twice, or out of order");
            }
            What::Reset { .. } => {
                self.swallowed = committed;
                self.known.clear();
                self.versions.clear();
            }
            // Before its first Started it has kept nothing.
            What::Started { .. } if !self.live => self.swallowed = committed,
            What::Started { .. } | What::Progress { .. } | What::LeaseRevoked { .. } => {}
        }
        self.live |= started(event);
    }

    fn check(&self, history: &[Done]) {
        let prefixes = &self.subscription.key_prefixes;
        let wanted = |done: &&Done| prefixes.is_empty() || prefixes.iter().any(|prefix| done.key.starts_with(prefix));
        for done in history[self.swallowed..].iter().filter(wanted) {
            match done.dropped {
                Some(dropped) => {
                    let (known, hard) = self.known.get(&done.key).copied().unwrap_or_default();
                    assert!(known >= done.number, "{done:?} was not told");
                    assert!(hard || !dropped, "{done:?} was told as expired");
                }
                None if self.subscription.include_refreshed => {
                    let version = self.versions.get(&done.key).copied();
                    assert!(version >= Some(done.number), "{done:?} was not told");
                }
                None => {}
            }
        }
    }
}

/// A key has one partition.
fn home(key: u8, source: &Source) -> u16 {
    u16::from(key) % source.partitions()
}

fn take(step: Step, source: &mut Source, replicas: &mut [Replica], clients: &mut [Client], history: &mut Vec<Done>) {
    let bounded = |partition: u16, source: &Source| partition % source.partitions();
    match step {
        Step::Commit(keys) => {
            for (key, dropped) in keys {
                let mode = if dropped { Mode::Drop } else { Mode::Expire };
                let name = format!("k{key}");
                source.commit(home(key, source), invalidated(&name, mode));
                history.push(Done {
                    key: name,
                    number: source.number(),
                    dropped: Some(dropped),
                });
            }
        }
        Step::Report(key) => {
            let (name, number) = (format!("k{key}"), source.number() + 1);
            source.commit(home(key, source), refreshed(&name, number));
            history.push(Done {
                key: name,
                number,
                dropped: None,
            });
        }
        Step::Pull(at, partition, most) => {
            replicas[at].pull(source, bounded(partition, source), most);
            replicas[at].records();
        }
        Step::Again(at, partition, back) => replicas[at].again(source, bounded(partition, source), back),
        Step::Trim(partition, keep) => source.trim(bounded(partition, source), keep),
        Step::Fail(partition, last) => source.lose(bounded(partition, source), last),
        Step::Lose(at, partition) => replicas[at].feed.lost(bounded(partition, source)),
        Step::Regain(at, partition) => replicas[at].feed.regained(bounded(partition, source)),
        Step::Read(who, most) => clients[who].read(most, history.len()),
        Step::Move(who, at) => clients[who].connect(&replicas[at]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_commit_is_told_once_or_covered_by_a_reset_at_whichever_replica(
        (partitions, steps) in (1..=4u16).prop_flat_map(|n| (Just(n), prop::collection::vec(step(n), 1..120))),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let _inside = runtime.enter();
        let mut source = Source::new(partitions);
        let bounds = Bounds { records: 24, refreshed_records: 12, ..Bounds::default() };
        let mut replicas: Vec<Replica> = (0..REPLICAS).map(|_| Replica::new(&source, bounds)).collect();
        let mut clients: Vec<Client> = FILTERS.into_iter().map(Client::new).collect();
        let mut history = Vec::new();
        for step in steps {
            take(step, &mut source, &mut replicas, &mut clients, &mut history);
        }
        for replica in &mut replicas {
            (0..partitions).for_each(|partition| replica.feed.regained(partition));
            replica.catch_up(&source);
        }
        for (client, replica) in clients.iter_mut().zip(replicas.iter().cycle()) {
            if client.watching.is_none() {
                client.connect(replica);
            }
        }
        replicas.iter().for_each(Replica::records);
        for client in &mut clients {
            client.read(usize::MAX, history.len());
            client.check(&history);
        }
    }
}
