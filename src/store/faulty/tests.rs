//! Each fault, by script and by chance.

// The one task is waited for.
#![allow(clippy::disallowed_methods)]

use tokio::time::Instant;

use super::*;
use crate::decision::{Draft, Mark, Mode, Number, When};
use crate::store::memory::{Limits, Memory};
use crate::store::{Revision, Target};

fn key() -> Key {
    Key::new("shop", "front page")
}

fn faulty() -> (Arc<Memory>, Arc<Faulty>) {
    let memory = Memory::new(Limits::default());
    (memory.clone(), Faulty::new(memory, 7))
}

fn invalidation(key: &Key) -> Event {
    Event::Invalidated {
        namespace: key.namespace().into(),
        target: Target::Key(key.clone()),
        mode: Mode::Drop,
    }
}

async fn write(store: &dyn Store) -> Result<Outcome, StoreError> {
    let loaded = store.load(&key(), &[], Want::default()).await?;
    let mark = Mark {
        number: Number::Next,
        settle_until: When::at(StoreTime::ZERO),
        keep_until: When::after(Duration::from_secs(9)),
    };
    let draft = Draft {
        mark: Some(Box::new(mark)),
        ..Draft::default()
    };
    let mut commit = Commit::new(&key(), &loaded, draft);
    commit.events.push(invalidation(&key()));
    store.commit(commit).await
}

async fn revision(store: &dyn Store) -> Revision {
    let loaded = store.load(&key(), &[], Want::default()).await.expect("it answers");
    loaded.snapshot.revision
}

#[derive(Default)]
struct Heard(Mutex<(u32, Vec<u64>, u32)>);

impl Listener for Heard {
    fn rung(&self, _: &Key) {
        self.0.lock().0 += 1;
    }
    fn logged(&self, record: &Record) {
        self.0.lock().1.push(record.place.at);
    }
    fn reset(&self, _: ResetReason) {
        self.0.lock().2 += 1;
    }
}

fn listen(store: &dyn Store) -> Arc<Heard> {
    let heard = Arc::new(Heard::default());
    store.feed().listen(heard.clone());
    heard
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_reach_the_store_changes_nothing() {
    let (memory, faulty) = faulty();
    faulty.script(Call::Commit, Fault::Unavailable);
    assert!(matches!(write(&*faulty).await, Err(StoreError::Unavailable(_))));
    assert_eq!(revision(&*memory).await, Revision::ABSENT);
    assert!(write(&*faulty).await.is_ok(), "the fault was for one call");
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_was_applied_and_its_fate_is_unknown() {
    let (memory, faulty) = faulty();
    faulty.script(Call::Commit, Fault::Unknown);
    assert!(matches!(write(&*faulty).await, Err(StoreError::Unknown(_))));
    assert_ne!(revision(&*memory).await, Revision::ABSENT);
}

#[tokio::test(start_paused = true)]
async fn a_read_whose_answer_is_lost_was_in_vain() {
    let (_, faulty) = faulty();
    faulty.script(Call::Ping, Fault::Unknown);
    assert!(matches!(faulty.ping().await, Err(StoreError::Unavailable(_))));
}

#[tokio::test(start_paused = true)]
async fn calls_and_answers_come_late_by_what_was_asked_for() {
    let (_, faulty) = faulty();
    let started = Instant::now();
    faulty.script(Call::Ping, Fault::Late(Duration::from_millis(30)));
    faulty.script(Call::Ping, Fault::AnswerLate(Duration::from_millis(20)));
    let (first, second) = (faulty.ping().await.expect("up"), faulty.ping().await.expect("up"));
    assert_eq!(
        second, first,
        "one is late before the store's clock is read, the other after"
    );
    assert_eq!(started.elapsed(), Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn while_it_is_down_nothing_passes_and_the_log_catches_up_afterwards() {
    let (memory, faulty) = faulty();
    let heard = listen(&*faulty);
    faulty.go_down();
    assert!(matches!(faulty.ping().await, Err(StoreError::Unavailable(_))));
    assert!(write(&*memory).await.is_ok(), "others reach the store");
    assert!(heard.0.lock().1.is_empty());
    faulty.come_up();
    assert_eq!(heard.0.lock().1.len(), 1);
    assert!(faulty.ping().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_when_it_goes_down_is_lost() {
    let (memory, faulty) = faulty();
    faulty.script(Call::Commit, Fault::AnswerLate(Duration::from_millis(10)));
    let writing = tokio::spawn({
        let faulty = faulty.clone();
        async move { write(&*faulty).await }
    });
    tokio::time::sleep(Duration::from_millis(5)).await;
    faulty.go_down();
    assert!(matches!(writing.await.expect("no panic"), Err(StoreError::Unknown(_))));
    assert_ne!(revision(&*memory).await, Revision::ABSENT);
}

#[tokio::test(start_paused = true)]
async fn rings_are_lost_or_come_twice() {
    let (_, faulty) = faulty();
    let heard = listen(&*faulty);
    let want = Want {
        bytes: false,
        rings: true,
    };
    for (faults, rings) in [
        (Faults::default(), 1),
        (
            Faults {
                ring_twice: 1.0,
                ..Faults::default()
            },
            3,
        ),
        (
            Faults {
                ring_lost: 1.0,
                ..Faults::default()
            },
            3,
        ),
    ] {
        faulty.set(faults);
        faulty.load(&key(), &[], want).await.expect("up");
        write(&*faulty).await.expect("up");
        assert_eq!(heard.0.lock().0, rings);
    }
}

#[tokio::test(start_paused = true)]
async fn positions_are_those_of_its_own_log() {
    let (memory, faulty) = faulty();
    let heard = listen(&*faulty);
    faulty.lose_log(ResetReason::LogLost);
    assert_eq!(heard.0.lock().2, 1);
    let Ok(Outcome::Committed(committed)) = write(&*faulty).await else {
        panic!("it commits")
    };
    assert_eq!(heard.0.lock().1, [committed.place.at]);
    let Ok(Outcome::Committed(inner)) = write(&*memory).await else {
        panic!("it commits")
    };
    assert_eq!(heard.0.lock().1, [committed.place.at, inner.place.at + 1]);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_meets_the_same_faults() {
    async fn fates(seed: u64) -> Vec<bool> {
        let faulty = Faulty::new(Memory::new(Limits::default()), seed);
        faulty.set(Faults {
            unavailable: 0.5,
            before: Duration::from_millis(3),
            ..Faults::default()
        });
        let mut fates = Vec::new();
        for _ in 0..64 {
            fates.push(faulty.ping().await.is_ok());
        }
        fates
    }
    assert_eq!(fates(1).await, fates(1).await);
    assert_ne!(fates(1).await, fates(2).await);
}
