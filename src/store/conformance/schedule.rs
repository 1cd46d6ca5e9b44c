//! When keys are to be looked at for their refresh, and by whom.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::write::*;
use super::{Harness, eventually};
use crate::decision::{Attempts, Content, Draft, Drafted, Key, Refresh, Seq, Span, Value, When};
use crate::fanout::{Listener, Record, ResetReason};
use crate::store::{Claim, Claimed, Commit, Loaded, Plan, Planned, Settled, Store, Task, TaskKind};

const SHORT: Duration = Duration::from_millis(200);
const HOLD: Duration = Duration::from_millis(300);

fn claim_with(prefixes: &[&str], most: usize) -> Claim {
    Claim {
        namespace: "shop".into(),
        prefixes: prefixes.iter().map(|prefix| (*prefix).to_owned()).collect(),
        most,
        hold: HOLD,
    }
}

async fn claim(store: &Arc<dyn Store>) -> Vec<Task> {
    claimed(store, claim_with(&[], 100)).await.tasks
}

async fn claimed(store: &Arc<dyn Store>, claim: Claim) -> Claimed {
    store.claim(claim).await.expect("the store answers a claim")
}

fn plan_of(keys: &[(&str, Duration)]) -> Plan {
    Plan {
        namespace: "shop".into(),
        keys: keys.iter().map(|(name, after)| (key(name), *after)).collect(),
        only_if_missing: true,
        traceparent: Some("00-planned".into()),
        most: 100,
    }
}

async fn plan(store: &Arc<dyn Store>, plan: Plan) -> (u32, u32, u32) {
    let Planned { new, known, refused } = store.schedule(plan).await.expect("the store plans");
    (new, known, refused)
}

async fn settle(store: &Arc<dyn Store>, task: Task, after: Option<Duration>) {
    let at = match after {
        Some(after) => Some(store.ping().await.expect("it answers").after(after)),
        None => None,
    };
    let settled = vec![Settled {
        task,
        at,
        for_others: false,
    }];
    store.settle(settled).await.expect("the store settles");
}

async fn staff(store: &Arc<dyn Store>) {
    let workers = [("shop".into(), 2)];
    store.staff(1, &workers, LONG).await.expect("the store takes note");
}

fn names(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.key.name()).collect()
}

/// The entry as loaded without a lease, with a value that is fresh for so long and refreshed so long before.
fn with_refresh(loaded: &Loaded, fresh: Duration, gap: Duration) -> Draft {
    let value: Value<Drafted> = Value {
        version: Seq(1),
        since: Seq(1),
        content: Content::NotFound,
        stored_at: When::now(),
        fresh_until: When::after(fresh),
        stale_while_revalidate: Span::ZERO,
        stale_if_error: Span::ZERO,
        labels: None,
    };
    Draft {
        value: Some(value),
        lease: None,
        refresh: Refresh::NONE.with_gap(gap),
        ..loaded.snapshot.entry.draft()
    }
}

/// Writes that value.
async fn store_value(store: &Arc<dyn Store>, key: &Key, fresh: Duration, gap: Duration) {
    let loaded = load(store, key).await;
    committed(store, Commit::new(key, &loaded, with_refresh(&loaded, fresh, gap))).await;
}

/// With all that was said of it, and in the order of their times.
pub async fn a_planned_refresh_is_claimed_once_it_is_due_and_by_one_alone(harness: &impl Harness) {
    let store = harness.store();
    let planned = plan_of(&[("later", LONG), ("second", SHORT), ("first", Duration::ZERO)]);
    assert_eq!(plan(store, planned).await, (3, 0, 0));
    let shop: Arc<str> = "shop".into();
    assert_eq!(store.planned().await.expect("a list"), [shop]);
    let first = claimed(store, claim_with(&[], 100)).await;
    assert_eq!(names(&first.tasks), ["first"]);
    assert!(
        first
            .next
            .is_some_and(|next| next > first.now && next <= first.now.after(SHORT))
    );
    let task = &first.tasks[0];
    assert!(task.due <= first.now && !task.asked_for);
    // Of several partitions each has its time, and the latest is told.
    let of = |name| store.partition(&key(name));
    if of("first") == of("second") && of("first") == of("later") {
        assert_eq!(task.held_until, first.now.after(HOLD));
    }
    assert!(task.held_until <= first.now.after(HOLD) && task.held_until >= task.due.after(HOLD));
    let TaskKind::Scheduled(scheduled) = &task.kind else {
        panic!("it was planned: {task:?}");
    };
    assert_eq!((scheduled.at, scheduled.only_if_missing), (task.due, true));
    assert_eq!(scheduled.traceparent.as_deref(), Some("00-planned"));
    assert_eq!(scheduled.attempts, Attempts::default());
    assert!(claim(store).await.is_empty());
    harness.pass(SHORT + Duration::from_millis(20)).await;
    assert_eq!(names(&claim(store).await), ["second"]);
}

/// Its replica may have died.
pub async fn a_claimed_task_comes_back_when_its_hold_is_over(harness: &impl Harness) {
    let store = harness.store();
    plan(store, plan_of(&[("a", Duration::ZERO)])).await;
    for _ in 0..2 {
        assert_eq!(names(&claim(store).await), ["a"]);
        assert!(claim(store).await.is_empty());
        harness.pass(HOLD + Duration::from_millis(20)).await;
    }
}

/// And what was tried is remembered.
pub async fn a_settled_task_is_over_or_comes_back_at_its_time(harness: &impl Harness) {
    let store = harness.store();
    plan(store, plan_of(&[("over", Duration::ZERO), ("again", Duration::ZERO)])).await;
    let attempts = Attempts {
        given: 1,
        failed: 1,
        failures: 7,
        token: Seq(1_700_000_000_000_000),
    };
    for mut task in claim(store).await {
        let again = task.key.name() == "again";
        if let TaskKind::Scheduled(scheduled) = &mut task.kind {
            scheduled.attempts = attempts;
        }
        settle(store, task, again.then_some(SHORT)).await;
    }
    assert!(claim(store).await.is_empty());
    harness.pass(SHORT + Duration::from_millis(20)).await;
    let tasks = claim(store).await;
    assert_eq!(names(&tasks), ["again"]);
    let TaskKind::Scheduled(scheduled) = &tasks[0].kind else {
        panic!("it was planned: {tasks:?}");
    };
    assert_eq!(scheduled.attempts, attempts);
    assert!(scheduled.at < tasks[0].due, "for when it was planned stays");
    settle(store, tasks[0].clone(), None).await;
    assert!(store.planned().await.expect("a list").len() <= 1);
    harness.pass(HOLD + Duration::from_millis(20)).await;
    assert!(claim(store).await.is_empty());
}

/// What a commit has said since is newer than what the claim saw.
pub async fn a_task_that_was_changed_since_it_was_claimed_is_not_settled(harness: &impl Harness) {
    let store = harness.store();
    staff(store).await;
    store_value(store, &key("a"), LONG, LONG).await;
    let task = claim(store).await.remove(0);
    store_value(store, &key("a"), SHORT * 2, SHORT).await;
    settle(store, task.clone(), None).await;
    harness.pass(SHORT + Duration::from_millis(20)).await;
    assert_eq!(names(&claim(store).await), ["a"]);
    settle(store, task, None).await;
    harness.pass(HOLD + Duration::from_millis(20)).await;
    assert_eq!(names(&claim(store).await), ["a"], "an old claim settles nothing");
}

/// At the earlier time, and for whoever wants more.
pub async fn to_plan_again_merges(harness: &impl Harness) {
    let store = harness.store();
    assert_eq!(plan(store, plan_of(&[("a", LONG), ("b", LONG)])).await, (2, 0, 0));
    let mut wider = plan_of(&[("a", Duration::ZERO), ("b", LONG * 2), ("c", LONG)]);
    wider.only_if_missing = false;
    assert_eq!(plan(store, wider).await, (1, 2, 0));
    assert_eq!(plan(store, plan_of(&[("a", LONG)])).await, (0, 1, 0));
    let tasks = claim(store).await;
    assert_eq!(names(&tasks), ["a"]);
    let TaskKind::Scheduled(scheduled) = &tasks[0].kind else {
        panic!("it was planned: {tasks:?}");
    };
    assert!(!scheduled.only_if_missing && scheduled.at == tasks[0].due);
}

/// What was known before is no more than that.
pub async fn no_more_is_planned_than_was_allowed(harness: &impl Harness) {
    let store = harness.store();
    let names: Vec<String> = (0..500).map(|number| format!("k{number}")).collect();
    let all: Vec<(&str, Duration)> = names.iter().map(|name| (&**name, Duration::ZERO)).collect();
    let most = |keys: &[(&str, Duration)]| Plan {
        most: 200,
        ..plan_of(keys)
    };
    let (new, known, refused) = plan(store, most(&all)).await;
    // Several partitions have a share each, of a quarter more altogether.
    let first = store.partition(&key(&names[0]));
    let is_one = names.iter().all(|name| store.partition(&key(name)) == first);
    let may_be = if is_one { 200..=200 } else { 200..=250 };
    assert!(may_be.contains(&new), "{new} of {may_be:?}");
    assert_eq!((known, refused), (0, 500 - new));
    assert_eq!(plan(store, most(&all)).await, (0, new, refused));
    let task = claim(store).await.remove(0);
    settle(store, task, None).await;
    assert_eq!(plan(store, most(&all)).await, (1, new - 1, refused));
}

/// And no more than that many.
pub async fn a_claim_takes_keys_with_its_prefixes(harness: &impl Harness) {
    let store = harness.store();
    let now = Duration::ZERO;
    plan(
        store,
        plan_of(&[("a/1", now), ("b/1", now), ("c", now), ("a/2", now), ("b/2", now)]),
    )
    .await;
    plan(
        store,
        Plan {
            namespace: "news".into(),
            keys: vec![(Key::new("news", "a/1"), now)],
            ..plan_of(&[])
        },
    )
    .await;
    let some = claimed(store, claim_with(&["a/", "c"], 2)).await;
    assert_eq!(some.tasks.len(), 2);
    assert!(some.next.is_some_and(|next| next <= some.now), "there are more");
    let mut taken = some.tasks;
    taken.extend(claimed(store, claim_with(&["a/", "c"], 2)).await.tasks);
    let mut all = names(&taken);
    all.sort_unstable();
    assert_eq!(all, ["a/1", "a/2", "c"]);
    assert!(taken.iter().all(|task| task.key.namespace() == "shop"));
    assert_eq!(names(&claimed(store, claim_with(&["b/2"], 9)).await.tasks), ["b/2"]);
}

/// Wherever they are kept: one too many would be kept from another replica's workers.
pub async fn a_claim_takes_no_more_than_it_asked_for_and_no_less(harness: &impl Harness) {
    let store = harness.store();
    let keys: Vec<String> = (0..50).map(|number| format!("k{number}")).collect();
    let due: Vec<(&str, Duration)> = keys.iter().map(|name| (&**name, Duration::ZERO)).collect();
    assert_eq!(plan(store, plan_of(&due)).await, (50, 0, 0));
    let claim = |most| Claim {
        hold: LONG,
        ..claim_with(&[], most)
    };
    let mut all = Vec::new();
    for (most, takes) in [(1, 1), (1, 1), (3, 3), (40, 40), (9, 5), (1, 0)] {
        let tasks = claimed(store, claim(most)).await.tasks;
        assert_eq!(tasks.len(), takes, "of {most}");
        all.extend(tasks);
    }
    all.sort_by(|one, other| one.key.cmp(&other.key));
    all.dedup_by(|one, other| one.key == other.key);
    assert_eq!(all.len(), 50);
}

/// It is where the entry says: the lease's deadline, the planned refresh, or none.
pub async fn while_there_are_workers_each_commit_keeps_its_key_s_task(harness: &impl Harness) {
    let store = harness.store();
    staff(store).await;
    for name in ["leased", "stored", "removed", "taken over"] {
        store_value(store, &key(name), LONG, LONG / 2).await;
    }
    assert!(claim(store).await.is_empty());
    let loaded = load(store, &key("leased")).await;
    let draft = with_lease(&loaded, SHORT, &[]);
    committed(store, Commit::new(&key("leased"), &loaded, draft)).await;
    store_value(store, &key("stored"), SHORT * 2, SHORT).await;
    for name in ["removed", "taken over"] {
        store_value(store, &key(name), SHORT * 2, SHORT).await;
    }
    let loaded = load(store, &key("removed")).await;
    let mut removal = Commit::new(&key("removed"), &loaded, Draft::default());
    removal.draft = None;
    committed(store, removal).await;
    let loaded = load(store, &key("taken over")).await;
    let draft = with_lease(&loaded, LONG, &[]);
    committed(store, Commit::new(&key("taken over"), &loaded, draft)).await;
    harness.pass(SHORT + Duration::from_millis(20)).await;
    let mut tasks = claim(store).await;
    tasks.sort_by(|one, other| one.key.cmp(&other.key));
    assert_eq!(names(&tasks), ["leased", "stored"]);
    assert!(tasks.iter().all(|task| task.kind == TaskKind::Due));
}

/// And so do those of other namespaces.
pub async fn without_workers_commits_schedule_nothing(harness: &impl Harness) {
    let store = harness.store();
    store_value(store, &key("a"), LONG, LONG).await;
    let workers = [("news".into(), 1)];
    store.staff(1, &workers, LONG).await.expect("the store takes note");
    store_value(store, &key("b"), LONG, LONG).await;
    let there = Key::new("news", "c");
    store_value(store, &there, LONG, LONG).await;
    assert!(claim(store).await.is_empty());
    let news = Claim {
        namespace: "news".into(),
        ..claim_with(&[], 9)
    };
    assert_eq!(names(&claimed(store, news).await.tasks), ["c"]);
}

/// However that ended; one that was not given out waits for its time.
pub async fn a_planned_task_that_was_given_out_is_looked_at_when_its_lease_ends(harness: &impl Harness) {
    let store = harness.store();
    staff(store).await;
    plan(store, plan_of(&[("given", Duration::ZERO), ("not yet", LONG)])).await;
    let mut task = claim(store).await.remove(0);
    let granted = grant(store, &key("given"), &[]).await;
    if let TaskKind::Scheduled(scheduled) = &mut task.kind {
        scheduled.attempts = scheduled.attempts.given(&granted.snapshot.entry, granted.number);
    }
    settle(store, task, Some(LONG)).await;
    grant(store, &key("given"), &[]).await;
    assert!(claim(store).await.is_empty(), "a new lease is no end");
    for name in ["given", "not yet"] {
        store_value(store, &key(name), LONG, Duration::ZERO).await;
    }
    assert_eq!(names(&claim(store).await), ["given"]);
}

/// For how many workers a namespace has, over all replicas.
pub async fn workers_are_counted_until_others_are_named(harness: &impl Harness) {
    let store = harness.store();
    let of = |name: &str| {
        store
            .workers()
            .iter()
            .find(|(known, _)| **known == *name)
            .map(|(_, count)| *count)
    };
    assert_eq!(of("shop"), None);
    staff(store).await;
    assert!(eventually(harness, || of("shop") == Some(2)).await);
    assert_eq!(of("news"), None);
    store.staff(1, &[], LONG).await.expect("the store takes note");
    assert!(eventually(harness, || of("shop").is_none()).await);
}

#[derive(Default)]
struct Bells {
    due: Mutex<Vec<String>>,
    rung: Mutex<Vec<Key>>,
}

impl Listener for Bells {
    fn rung(&self, key: &Key) {
        self.rung.lock().push(key.clone());
    }

    fn logged(&self, _: &Record) {}

    fn reset(&self, _: ResetReason) {}

    fn due(&self, namespace: &str) {
        self.due.lock().push(namespace.to_owned());
    }
}

/// So that who waits for the next need not look all the time.
pub async fn a_task_that_comes_near_rings(harness: &impl Harness) {
    let store = harness.store();
    let bells = Arc::new(Bells::default());
    store.feed().listen(bells.clone());
    staff(store).await;
    plan(store, plan_of(&[("far", LONG)])).await;
    store_value(store, &key("far"), LONG, Duration::from_secs(1)).await;
    harness.pass(Duration::from_millis(100)).await;
    assert!(bells.due.lock().is_empty());
    plan(store, plan_of(&[("near", SHORT)])).await;
    assert!(eventually(harness, || bells.due.lock().len() == 1).await);
    store_value(store, &key("a"), SHORT * 2, SHORT).await;
    assert!(eventually(harness, || *bells.due.lock() == ["shop", "shop"]).await);
}

/// Whoever commits may wait for the next commit of the key.
pub async fn a_commit_that_waits_is_rung_for_by_the_next(harness: &impl Harness) {
    let store = harness.store();
    let bells = Arc::new(Bells::default());
    store.feed().listen(bells.clone());
    let loaded = load(store, &key("a")).await;
    let mut waits = Commit::new(&key("a"), &loaded, with_lease(&loaded, LONG, &[]));
    waits.rings_within = LONG;
    committed(store, waits).await;
    harness.pass(Duration::from_millis(100)).await;
    assert!(bells.rung.lock().is_empty());
    store_value(store, &key("a"), LONG, Duration::ZERO).await;
    assert!(eventually(harness, || *bells.rung.lock() == [key("a")]).await);
}
