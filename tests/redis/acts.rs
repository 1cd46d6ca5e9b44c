//! What replicas do with a store, in few words.

use std::sync::Arc;
use std::time::Duration;

use drover::decision::{
    Ask, Band, Content, Decision, Draw, Key, LeaseId, Lifetimes, Mode, Outcome as Ending, Policy, Report,
    ReportDecision, Seq, Tag, View, acquire, report,
};
use drover::store::{Commit, Covering, Event, Guard, Invalidated, Loaded, NewBytes, Outcome, Store, Target, Want};

pub type Shared = Arc<dyn Store>;

const BYTES: Want = Want {
    bytes: true,
    rings: false,
};

pub fn key(name: &str) -> Key {
    Key::new("shop", name)
}

pub async fn load(store: &Shared, key: &Key) -> Loaded {
    store.load(key, &[], BYTES).await.expect("an answer")
}

/// A lease on a key, if anybody may have it.
pub async fn grant(store: &Shared, key: &Key) -> Option<LeaseId> {
    let loaded = load(store, key).await;
    let draw = Draw {
        secret: rand::random(),
        seed: 0,
    };
    let Decision::Grant(grant) = acquire(&loaded.view(), &Ask::plain(), &Policy::default(), draw) else {
        return None;
    };
    let mut commit = Commit::new(key, &loaded, grant.draft);
    commit.not_before = grant.not_before;
    match store.commit(commit).await.expect("an answer") {
        Outcome::Committed(done) => Some(done.snapshot.entry.lease.as_deref().expect("a lease").id()),
        Outcome::Conflict(_) => None,
    }
}

/// Whether a value with tags was taken for a lease.
pub async fn give(store: &Shared, key: &Key, lease: LeaseId, value: &str, tags: &[&str]) -> bool {
    let tags: Vec<Tag> = tags.iter().map(|tag| Tag::from(*tag)).collect();
    let loaded = store.load(key, &tags, BYTES).await.expect("an answer");
    let report_it = Report {
        lease,
        outcome: Ending::Built(Content::Bytes(value.len() as u32)),
        cost: None,
        tags: tags.clone(),
        lifetimes: Lifetimes::default(),
        do_not_store: false,
    };
    let draw = Draw { secret: 1, seed: 0 };
    let ReportDecision::Accept { draft, .. } = report(&loaded.view(), &report_it, &Policy::default(), draw) else {
        return false;
    };
    let mut commit = Commit::new(key, &loaded, *draft);
    commit.bytes = NewBytes::Put(value.as_bytes().into());
    commit.guard = Some(Guard {
        tags,
        newest: loaded.generations.newest(),
    });
    matches!(store.commit(commit).await.expect("an answer"), Outcome::Committed(_))
}

/// Builds a value; its version.
pub async fn build(store: &Shared, key: &Key, value: &str, tags: &[&str]) -> Seq {
    let lease = grant(store, key).await.expect("nobody holds it");
    assert!(give(store, key, lease, value, tags).await, "the value was not taken");
    lease.token
}

/// The value that may be served freely, and its version.
pub async fn fresh(store: &Shared, key: &Key) -> Option<(Seq, String)> {
    let loaded = load(store, key).await;
    let view: View<'_> = loaded.view();
    let standing = view
        .standing()
        .filter(|standing| standing.band(view.now) == Band::Fresh)?;
    let bytes = loaded.snapshot.bytes.as_deref().unwrap_or_default();
    Some((standing.value.version, String::from_utf8_lossy(bytes).into_owned()))
}

pub async fn invalidate(store: &Shared, tag: Option<&str>, mode: Mode) -> Invalidated {
    let covering = Covering {
        namespace: "shop".into(),
        tag: tag.map(Tag::from),
        mode,
        settle: Duration::ZERO,
    };
    store.invalidate(covering).await.expect("an answer")
}

/// Makes a key old, as the coordinator does.
pub async fn invalidate_key(store: &Shared, key: &Key, mode: Mode) -> Seq {
    let loaded = load(store, key).await;
    let invalidation = drover::decision::invalidate(&loaded.view(), mode, Duration::ZERO, &Policy::default());
    let mut commit = Commit::new(key, &loaded, Default::default());
    commit.draft = invalidation.draft;
    commit.bytes = match mode {
        Mode::Drop => NewBytes::Clear,
        Mode::Expire => NewBytes::Keep,
    };
    commit.events = vec![Event::Invalidated {
        namespace: "shop".into(),
        target: Target::Key(key.clone()),
        mode,
    }];
    match store.commit(commit).await.expect("an answer") {
        Outcome::Committed(done) => done.number,
        Outcome::Conflict(now) => panic!("nobody else is here: {now:?}"),
    }
}
