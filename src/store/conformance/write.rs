//! What the promises write and read with.

use std::sync::Arc;
use std::time::Duration;

use crate::decision::{
    Cause, Draft, Drafted, Entry, Key, Lease, Mark, Mode, Number, Seq, StoreTime, Tag, Trouble, When,
};
use crate::store::{Commit, Committed, Covering, Event, Invalidated, Loaded, Outcome, Store, Target, Want};

/// Long enough for every test.
pub const LONG: Duration = Duration::from_secs(60);
/// Everything that a load can bring.
pub const ALL: Want = Want {
    bytes: true,
    rings: false,
};
/// The same for somebody who is parked.
pub const PARKED: Want = Want {
    bytes: true,
    rings: true,
};

pub fn key(name: &str) -> Key {
    Key::new("shop", name)
}

pub async fn load(store: &Arc<dyn Store>, key: &Key) -> Loaded {
    load_with(store, key, &[], ALL).await
}

pub async fn load_with(store: &Arc<dyn Store>, key: &Key, tags: &[Tag], want: Want) -> Loaded {
    store.load(key, tags, want).await.expect("the store answers a load")
}

pub async fn commit(store: &Arc<dyn Store>, commit: Commit) -> Outcome {
    store.commit(commit).await.expect("the store answers a commit")
}

pub async fn committed(store: &Arc<dyn Store>, asked: Commit) -> Committed {
    match commit(store, asked).await {
        Outcome::Committed(committed) => committed,
        Outcome::Conflict(now) => panic!("nothing stands against it, but there is a conflict: {now:?}"),
    }
}

pub async fn refused(store: &Arc<dyn Store>, asked: Commit) -> Loaded {
    match commit(store, asked).await {
        Outcome::Conflict(now) => now,
        Outcome::Committed(committed) => panic!("it was to be refused, but was committed: {committed:?}"),
    }
}

pub fn lease(length: Duration, tags: &[Tag]) -> Lease<Drafted> {
    Lease {
        token: Number::Next,
        secret: std::num::NonZeroU64::MIN,
        holder: "a holder".into(),
        request_id: "a question".into(),
        cause: Cause::Miss,
        granted_at: When::now(),
        deadline: When::after(length),
        hold_until: When::after(length * 2),
        tags: (!tags.is_empty()).then(|| tags.into()),
        traceparent: None,
    }
}

/// The entry as loaded, with a new lease.
pub fn with_lease(loaded: &Loaded, length: Duration, tags: &[Tag]) -> Draft {
    Draft {
        lease: Some(Box::new(lease(length, tags))),
        ..loaded.snapshot.entry.draft()
    }
}

/// Grants a lease on the key as it is.
pub async fn grant(store: &Arc<dyn Store>, key: &Key, tags: &[Tag]) -> Committed {
    let loaded = load(store, key).await;
    let draft = with_lease(&loaded, LONG, tags);
    committed(store, Commit::new(key, &loaded, draft)).await
}

/// An entry that takes no number and matters for so long.
pub fn kept_for(length: Duration) -> Draft {
    let trouble: Trouble<Drafted> = Trouble {
        failures: 1,
        retry_at: When::now(),
        remember_until: When::after(length),
        message: "the origin is down".into(),
    };
    Draft {
        trouble: Some(Box::new(trouble)),
        ..Entry::default()
    }
}

/// The entry as loaded, with a new mark: what an invalidation of the key writes.
pub fn marked(loaded: &Loaded) -> Draft {
    Draft {
        mark: Some(Box::new(Mark {
            number: Number::Next,
            settle_until: When::at(StoreTime::ZERO),
            keep_until: When::after(LONG),
        })),
        lease: None,
        ..loaded.snapshot.entry.draft()
    }
}

pub fn event(key: &Key) -> Event {
    Event::Invalidated {
        namespace: key.namespace().into(),
        target: Target::Key(key.clone()),
        mode: Mode::Drop,
    }
}

pub async fn invalidate(store: &Arc<dyn Store>, tag: Option<&Tag>, mode: Mode) -> Invalidated {
    let covering = Covering {
        namespace: "shop".into(),
        tag: tag.cloned(),
        mode,
        settle: Duration::ZERO,
    };
    store
        .invalidate(covering)
        .await
        .expect("the store answers an invalidation")
}

/// The number of the lease of what was committed.
pub fn token(committed: &Committed) -> Seq {
    let lease = committed.snapshot.entry.lease.as_deref();
    lease.map(|lease| lease.token).expect("it was committed with a lease")
}
