//! Several replicas over a board in memory, on paused time.

mod barriers;
mod registrations;

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{FutureExt as _, StreamExt as _};

use super::*;
use crate::decision::{Key, Mode, Seq, StoreTime};
use crate::fanout::{Feed, Hub, HubLimits, Record, Subscription, Watching, What, ask_everywhere};
use crate::store::{Event, Place, Target};

/// A board in memory, and what goes wrong with it.
#[derive(Default)]
struct Wall {
    registered: Mutex<HashMap<u64, (Instant, Vec<u8>)>>,
    readers: Mutex<Vec<Weak<Fleet>>>,
    /// Messages of these replicas are lost.
    mute: Mutex<HashSet<u64>>,
    /// These replicas read nothing.
    deaf: Mutex<HashSet<u64>>,
    /// Each message comes so many times more.
    again: AtomicU64,
    /// It does not answer.
    down: Mutex<bool>,
    posted: AtomicU64,
}

/// The board as one replica has it.
struct Side(Arc<Wall>);

impl Wall {
    fn is_up(&self) -> Result<(), StoreError> {
        if *self.down.lock() {
            return Err(StoreError::Unavailable("it is down".to_owned()));
        }
        Ok(())
    }

    fn all(&self) -> Vec<Registration> {
        let now = Instant::now();
        let registered = self.registered.lock();
        let live = registered.iter().filter(|(_, (until, _))| *until > now);
        live.map(|(replica, (until, says))| Registration {
            replica: *replica,
            lapses_in: *until - now,
            says: says.clone(),
        })
        .collect()
    }
}

impl Board for Side {
    fn register(&self, replica: u64, lapses_in: Duration, says: Vec<u8>) -> Answer<'_, Vec<Registration>> {
        Box::pin(async move {
            self.0.is_up()?;
            let until = Instant::now() + lapses_in;
            self.0.registered.lock().insert(replica, (until, says));
            Ok(self.0.all())
        })
    }

    fn registered(&self) -> Answer<'_, Vec<Registration>> {
        Box::pin(async move { self.0.is_up().map(|()| self.0.all()) })
    }

    fn post(&self, _partition: u16, message: Vec<u8>) -> Answer<'_, ()> {
        Box::pin(async move {
            self.0.is_up()?;
            self.0.posted.fetch_add(1, Ordering::Relaxed);
            let from = Message::decode(&message).expect("a message").from;
            if self.0.mute.lock().contains(&from) {
                return Ok(());
            }
            let readers: Vec<_> = self.0.readers.lock().iter().filter_map(Weak::upgrade).collect();
            for reader in readers {
                let deaf = self.0.deaf.lock().contains(&reader.id);
                let times = 1 + self.0.again.load(Ordering::Relaxed);
                (0..times).filter(|_| !deaf).for_each(|_| reader.heard(&message));
            }
            Ok(())
        })
    }
}

/// One replica.
struct Replica {
    feed: Arc<Feed>,
    hub: Arc<Hub>,
    fleet: Arc<Fleet>,
    tasks: TaskTracker,
}

impl Replica {
    /// It follows a log that is at 0, and is registered from now on.
    async fn new(wall: &Arc<Wall>) -> Replica {
        let replica = Replica::unregistered(wall);
        replica.fleet.register_first().await;
        replica.begin();
        replica
    }

    fn unregistered(wall: &Arc<Wall>) -> Replica {
        let feed = Feed::remote(1);
        let hub = Hub::new(&feed, HubLimits::default());
        let tasks = TaskTracker::new();
        let fleet = Fleet::new(Arc::new(Side(wall.clone())), tasks.clone());
        fleet.answer_for(hub.respondent());
        wall.readers.lock().push(Arc::downgrade(&fleet));
        Replica {
            feed,
            hub,
            fleet,
            tasks,
        }
    }

    fn begin(&self) {
        self.feed.begin(0, 77, 5, 0, 0);
        self.feed.advance(0, 0);
    }

    /// Its log and its registration live on for as long as the answer is kept.
    fn runs(&self, head: u64) -> Vec<tokio::task::AbortHandle> {
        let feed = self.feed.clone();
        let tail = async move {
            loop {
                feed.advance(0, head);
                sleep(Duration::from_secs(1)).await;
            }
        };
        let runs = [tokio::spawn(tail), tokio::spawn(self.fleet.clone().run())];
        runs.iter().map(tokio::task::JoinHandle::abort_handle).collect()
    }

    /// It has read the log up to the invalidation of `a` at this place.
    fn arrives(&self, at: u64) {
        self.feed.take_in(vec![Record {
            place: place(at),
            number: Seq(100 + at),
            at: StoreTime(1_000_000),
            event: Event::Invalidated {
                namespace: "shop".into(),
                target: Target::Key(Key::new("shop", "a")),
                mode: Mode::Drop,
            },
        }]);
        self.feed.advance(0, at);
    }

    async fn ask(&self, at: u64, wait: Duration) -> Barrier {
        ask_everywhere(&self.hub, Some(&*self.fleet), question(at, wait)).await
    }

    /// A watcher that has seen its Started.
    fn watch(&self, holder: &str) -> Watching {
        let mut watching = self.hub.watch(&named(holder)).expect("the store is up");
        let told = seen(&mut watching);
        assert!(matches!(told.last(), Some(What::Started { .. })), "{told:?}");
        watching
    }

    async fn registers(&self) {
        self.fleet.register_first().await;
    }
}

fn named(holder: &str) -> Subscription {
    Subscription {
        namespaces: vec!["shop".into()],
        holder: holder.into(),
        ..Subscription::default()
    }
}

fn place(at: u64) -> Place {
    Place { partition: 0, at }
}

fn question(at: u64, wait: Duration) -> Question {
    Question {
        namespace: "shop".into(),
        targets: vec![Target::Key(Key::new("shop", "a"))],
        places: vec![place(at)],
        wait,
    }
}

/// All that there is now.
fn seen(watching: &mut Watching) -> Vec<What> {
    std::iter::from_fn(|| watching.next().now_or_never().flatten())
        .map(|event| event.what)
        .collect()
}

/// Reads a message and acknowledges it.
fn apply(watching: &mut Watching) {
    let event = watching.next().now_or_never().flatten().expect("there is a message");
    watching.acknowledge(&event.cursor).expect("a cursor");
}

/// Confirmed, of so many watchers, so many.
fn counts(barrier: &Barrier) -> (bool, usize, usize) {
    (barrier.confirmed, barrier.watchers, barrier.acknowledged)
}

const LONG: Duration = Duration::from_secs(60);
const WAIT: Duration = Duration::from_secs(3);
