//! The watchers of other replicas, through the store that all share.
//!
//! *Owns* this replica's registration, the barriers that it asks others about, and its answers to theirs. *Never does* talk to Redis: a
//! [`Board`] does.
//!
//! ```text
//!  asks: register ▶ who else is registered? ▶ post the question ─┐   ring stream, read by every replica's tail
//!  hears the answers ◀───────────────────────────────────────────┼─ heard ▶ its hub waits ▶ post the answer
//!  who gave none, and still is registered: none of its watchers has acknowledged
//! ```
//!
//! *Invariant.* A replica that is not registered has no watcher that trusts its copies. For a client trusts them for [`MAX_SILENCE`] after the
//! last word; a registration lives [`LAPSES_IN`] = [`MAX_SILENCE`] + [`SPEAKS_FOR`] from the moment that it was sent; and the hub says no word
//! later than [`SPEAKS_FOR`] after that moment ([`Respondent::known_until`]). A replica that was stopped for a minute therefore finds, when it goes
//! on, that it must be silent, and a barrier need not wait for one that died longer than for its registration.
//!
//! *Leaving.* A replica that leaves in order has closed its streams, but their clients trust what they have for [`MAX_SILENCE`] more, maybe without
//! a new stream. So it says that it has left only if that time has passed for all of them, which is to say that it had no watchers lately;
//! else its registration lapses by itself, and barriers of that time are not confirmed.
//!
//! *A store that loses registrations* (a restart without data, a failover) must not make watchers of living replicas vanish until they are
//! written again. So each replica remembers what it has read of the others until that would have lapsed.
//!
//! *Why questions and answers, not acknowledgements in the store*: each watcher's acknowledgement would be a write, and there are more of them
//! by orders of magnitude than of barriers.

mod message;
mod rounds;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::task::TaskTracker;

use self::message::{Message, Said};
use self::rounds::{Round, Rounds};
use crate::fanout::{Barrier, MAX_SILENCE, Peers, Question, Respondent};
use crate::store::{Answer, StoreError};

/// A registration is renewed so often.
const RENEWED: Duration = Duration::from_secs(2);
/// Watchers are told nothing if the last registration that came through is older.
pub const SPEAKS_FOR: Duration = Duration::from_secs(5);
/// A registration that was not renewed is none after this.
pub const LAPSES_IN: Duration = MAX_SILENCE.saturating_add(SPEAKS_FOR);
/// After a failure to register it is tried again.
const AGAIN: Duration = Duration::from_millis(200);
/// Others get this much less time than the caller has, or a tenth less, so that their answers are in time.
const MARGIN: Duration = Duration::from_millis(100);
/// Whether a registration has lapsed is looked at no more often.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Barriers of others that are waited for at the same time. Further ones are answered at once, as far as their watchers then are.
const WAITING: usize = 1_024;
/// And so many of those, at the same time; who asks beyond counts this replica as not heard.
const ANSWERING: usize = 2 * WAITING;

/// What replicas tell each other through the store.
pub trait Board: Send + Sync + 'static {
    /// Writes what this replica says of itself, for so long by the store's clock, and answers what is written of all replicas.
    fn register(&self, replica: u64, lapses_in: Duration, says: Vec<u8>) -> Answer<'_, Vec<Registration>>;

    /// What is written of all replicas, without what has lapsed. Read from a primary, after everything that was written before the call.
    fn registered(&self) -> Answer<'_, Vec<Registration>>;

    /// Sends a message to whoever reads the rings of a partition, this replica too: [`Fleet::heard`] takes it. At most about 1 MiB: the keys
    /// of an invalidation.
    fn post(&self, partition: u16, message: Vec<u8>) -> Answer<'_, ()>;
}

/// What is written of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Which: random, drawn when it started.
    pub replica: u64,
    /// What is left of it.
    pub lapses_in: Duration,
    /// As it was given to [`Board::register`].
    pub says: Vec<u8>,
}

/// The replicas of a store, as one of them sees the others.
pub struct Fleet {
    id: u64,
    board: Arc<dyn Board>,
    tasks: TaskTracker,
    respondent: Mutex<Option<Arc<dyn Respondent>>>,
    /// The workers of this replica.
    workers: Mutex<Vec<(Arc<str>, u32)>>,
    /// There is a respondent now.
    appointed: Notify,
    /// The others, as was last read of them, until that has lapsed.
    others: Mutex<HashMap<u64, Other>>,
    /// The barriers that this replica has asked about.
    rounds: Rounds,
    /// Those that others ask about: who, and its round.
    answering: Mutex<HashSet<(u64, u64)>>,
}

/// Another replica.
struct Other {
    lapses: Instant,
    says: Vec<u8>,
}

/// A replica whose answer is waited for.
struct Awaited {
    replica: u64,
    lapses: Instant,
    watchers: u32,
}

impl Fleet {
    /// Knows nobody yet. Its answers are given in `tasks`.
    pub fn new(board: Arc<dyn Board>, tasks: TaskTracker) -> Arc<Fleet> {
        Arc::new(Fleet {
            id: rand::random(),
            board,
            tasks,
            respondent: Mutex::default(),
            workers: Mutex::default(),
            appointed: Notify::new(),
            others: Mutex::default(),
            rounds: Rounds::default(),
            answering: Mutex::default(),
        })
    }

    /// Registers this replica for the first time, if somebody answers for its watchers. To be awaited before the first log is read: what a
    /// watcher is told after that is then current as of a moment at which every barrier counts it. (Later is safe too, and costs watchers a
    /// wait until the logs have been read twice again.)
    pub async fn register_first(&self) {
        while let Some(respondent) = self.respondent() {
            match self.register(&*respondent).await {
                Ok(()) => return,
                Err(error) => tracing::debug!(%error, "this replica could not be registered; trying again"),
            }
            sleep(AGAIN).await;
        }
    }

    /// Keeps this replica registered for as long as it is polled.
    pub async fn run(self: Arc<Self>) {
        loop {
            let appointed = self.appointed.notified();
            let Some(respondent) = self.respondent() else {
                appointed.await;
                continue;
            };
            let pause = match self.register(&*respondent).await {
                Ok(()) => RENEWED,
                Err(error) => {
                    tracing::debug!(%error, "this replica could not be registered; trying again");
                    AGAIN
                }
            };
            sleep(pause).await;
        }
    }

    /// This replica has these workers from now on. Once this is answered, whoever [looks](Fleet::look) finds them.
    pub async fn has_workers(&self, workers: &[(Arc<str>, u32)]) -> Result<(), StoreError> {
        {
            let mut known = self.workers.lock();
            if **known == *workers {
                return Ok(());
            }
            *known = workers.to_vec();
        }
        // Without watchers to speak for it is not registered, and its workers are its own secret: that is so in tests of a store alone.
        let Some(respondent) = self.respondent() else {
            return Ok(());
        };
        let registered = self.register(&*respondent).await;
        if registered.is_err() {
            self.workers.lock().clear();
        }
        registered
    }

    /// Reads what the others say now.
    pub async fn look(&self) -> Result<(), StoreError> {
        let registered = self.board.registered().await?;
        self.remember(registered);
        Ok(())
    }

    /// The workers of all replicas, by namespace.
    pub fn workers(&self) -> Vec<(Arc<str>, u32)> {
        let mut counts: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        let mut add = |workers: Vec<(Arc<str>, u32)>| {
            for (namespace, count) in workers {
                let sum = counts.entry(namespace).or_default();
                *sum = sum.saturating_add(count);
            }
        };
        add(self.workers.lock().clone());
        let now = Instant::now();
        let others = self.others.lock();
        let live = others.values().filter(|other| other.lapses > now);
        live.for_each(|other| add(message::workers_of(&other.says)));
        drop(others);
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// This replica leaves, and has closed its watchers' streams. See *Leaving* above.
    pub async fn leave(&self) {
        let trusting = self
            .respondent()
            .is_some_and(|respondent| !respondent.watching().is_empty());
        if trusting {
            return;
        }
        let left = self.board.register(self.id, LAPSES_IN, message::encode_left());
        if let Err(error) = left.await {
            tracing::debug!(%error, "that this replica has left could not be told; its registration lapses by itself");
        }
    }

    /// Takes a message from a ring. It never blocks.
    pub fn heard(self: &Arc<Self>, message: &[u8]) {
        let message = match Message::decode(message) {
            Ok(message) => message,
            Err(error) => {
                tracing::debug!(%error, "a message of another replica can't be read; it will count this one as not heard");
                return;
            }
        };
        match message.said {
            _ if message.from == self.id => {}
            Said::Question(question) => self.asked(message.from, message.round, question),
            Said::Answer { to, barrier } if to == self.id => self.rounds.answered(message.from, message.round, barrier),
            Said::Answer { .. } => {}
        }
    }

    fn respondent(&self) -> Option<Arc<dyn Respondent>> {
        self.respondent.lock().clone()
    }

    async fn register(&self, respondent: &dyn Respondent) -> Result<(), StoreError> {
        // Counted from before it is sent: in the store it lives longer than this replica thinks, never shorter.
        let sent = Instant::now();
        let says = message::encode_counts(respondent.watching(), self.workers.lock().clone());
        let written = self.board.register(self.id, LAPSES_IN, says).await?;
        self.remember(written);
        respondent.known_until(sent + SPEAKS_FOR);
        Ok(())
    }

    /// Takes in what was read of the others.
    fn remember(&self, registered: Vec<Registration>) {
        let now = Instant::now();
        let mut others = self.others.lock();
        for Registration {
            replica,
            lapses_in,
            says,
        } in registered
        {
            if message::has_left(&says) {
                others.remove(&replica);
            } else if replica != self.id {
                let lapses = now + lapses_in.min(LAPSES_IN);
                others.insert(replica, Other { lapses, says });
            }
        }
        others.retain(|_, other| other.lapses > now);
    }

    /// Another replica asks. A question that came twice is answered once at a time.
    fn asked(self: &Arc<Self>, from: u64, round: u64, mut question: Question) {
        let Some(respondent) = self.respondent() else {
            return;
        };
        {
            let mut answering = self.answering.lock();
            if answering.len() >= ANSWERING || !answering.insert((from, round)) {
                return;
            }
            if answering.len() > WAITING {
                question.wait = Duration::ZERO;
            }
        }
        let fleet = self.clone();
        self.tasks.spawn(async move {
            let partition = question.places.first().map_or(0, |place| place.partition);
            let barrier = respondent.asked(question).await;
            let said = Said::Answer { to: from, barrier };
            let message = Message {
                from: fleet.id,
                round,
                said,
            };
            if let Err(error) = fleet.board.post(partition, message.encode()).await {
                tracing::debug!(%error, "an answer to another replica's barrier could not be sent");
            }
            fleet.answering.lock().remove(&(from, round));
        });
    }

    async fn ask_all(&self, question: Question) -> Result<Vec<Barrier>, StoreError> {
        let until = Instant::now() + question.wait;
        let mut awaited = self.awaited(&question.namespace, until).await?;
        if awaited.is_empty() {
            return Ok(Vec::new());
        }
        let round = self.rounds.begin();
        let partition = question.places.first().map_or(0, |place| place.partition);
        let namespace = question.namespace.clone();
        let left = until.saturating_duration_since(Instant::now());
        let wait = left.saturating_sub(MARGIN.min(left / 10));
        let message = Message {
            from: self.id,
            round: round.number,
            said: Said::Question(Question { wait, ..question }),
        };
        // Whoever has not heard the question has not answered it: that is said by the counts.
        match timeout_at(until, self.board.post(partition, message.encode())).await {
            Ok(Ok(())) => self.collect(&round, &mut awaited, &namespace, until).await,
            Ok(Err(error)) => tracing::warn!(%error, "other replicas could not be asked how far their watchers are"),
            Err(_) => {}
        }
        let mut answers = round.answers();
        let heard = |awaited: Awaited| {
            let answer = answers.remove(&awaited.replica);
            answer.unwrap_or_else(|| Barrier::unheard(awaited.watchers.max(1) as usize))
        };
        Ok(awaited.into_iter().map(heard).collect())
    }

    /// The others that are registered now, or were before the store lost that.
    async fn awaited(&self, namespace: &str, until: Instant) -> Result<Vec<Awaited>, StoreError> {
        let read = timeout_at(until, self.board.registered()).await;
        let registered =
            read.map_err(|_| StoreError::Unavailable("the replicas could not be read in time".to_owned()))??;
        self.remember(registered);
        let soon = Instant::now() + LOOK_AGAIN;
        let awaited = |(replica, other): (&u64, &Other)| Awaited {
            replica: *replica,
            lapses: other.lapses.max(soon),
            watchers: message::count_of(&other.says, namespace),
        };
        Ok(self.others.lock().iter().map(awaited).collect())
    }

    /// Waits until all have answered, or their registrations have lapsed, or the time is over. Those that have lapsed are taken out.
    async fn collect(&self, round: &Round<'_>, awaited: &mut Vec<Awaited>, namespace: &str, until: Instant) {
        let changed = round.changed();
        loop {
            let changed = changed.notified();
            tokio::pin!(changed);
            // Before the look, so that no answer falls between the two.
            changed.as_mut().enable();
            let answers = round.answers();
            let missing = awaited.iter().filter(|awaited| !answers.contains_key(&awaited.replica));
            let Some(lapse) = missing.map(|awaited| awaited.lapses).min() else {
                return;
            };
            tokio::select! {
                () = changed => {}
                () = sleep_until(lapse.min(until)) => {
                    if Instant::now() >= until {
                        return;
                    }
                    self.forget_lapsed(awaited, &answers, namespace, until).await;
                }
            }
        }
    }

    async fn forget_lapsed(
        &self,
        awaited: &mut Vec<Awaited>,
        answers: &HashMap<u64, Barrier>,
        namespace: &str,
        until: Instant,
    ) {
        let now = match self.awaited(namespace, until).await {
            Ok(now) => now,
            Err(error) => {
                tracing::debug!(%error, "whether a replica is still registered could not be read");
                let again = Instant::now() + AGAIN;
                awaited
                    .iter_mut()
                    .for_each(|awaited| awaited.lapses = awaited.lapses.max(again));
                return;
            }
        };
        let lapses: HashMap<u64, Instant> = now.iter().map(|awaited| (awaited.replica, awaited.lapses)).collect();
        awaited.retain_mut(|awaited| match lapses.get(&awaited.replica) {
            Some(lapses) => {
                awaited.lapses = *lapses;
                true
            }
            None => answers.contains_key(&awaited.replica),
        });
    }
}

impl Peers for Fleet {
    fn ask(&self, question: Question) -> Answer<'_, Vec<Barrier>> {
        Box::pin(self.ask_all(question))
    }

    fn registered(&self, namespace: &str) -> Vec<u32> {
        let others = self.others.lock();
        let live = others.values().filter(|other| other.lapses > Instant::now());
        live.map(|other| message::count_of(&other.says, namespace)).collect()
    }

    fn answer_for(&self, respondent: Arc<dyn Respondent>) {
        // Nobody knows of its watchers yet.
        respondent.known_until(Instant::now());
        *self.respondent.lock() = Some(respondent);
        self.appointed.notify_one();
    }
}

#[cfg(test)]
mod tests;
