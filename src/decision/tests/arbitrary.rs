//! Entries, generations, questions and reports of every kind, likely or not.

use proptest::prelude::*;

use super::*;

/// Instants around `now`, in the past of everything, and at the end of time.
pub(super) fn time() -> impl Strategy<Value = StoreTime> {
    prop_oneof![
        6 => (START.0 - 20_000_000..START.0 + 20_000_000).prop_map(StoreTime),
        1 => Just(StoreTime::ZERO),
        1 => Just(StoreTime::NEVER),
        1 => Just(START),
    ]
}

fn seq() -> impl Strategy<Value = Seq> {
    prop_oneof![8 => (0..12u64).prop_map(Seq), 1 => Just(Seq(u64::MAX))]
}

pub(super) fn length() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => (0..30_000u64).prop_map(millis),
        1 => Just(Duration::ZERO),
        1 => Just(Duration::from_nanos(1)),
        1 => Just(LONGEST),
    ]
}

fn some_tags() -> impl Strategy<Value = Option<std::sync::Arc<[Tag]>>> {
    prop::option::of(prop::sample::subsequence(vec!["a", "b", "c"], 0..=3).prop_map(|names| tags(&names).into()))
}

pub(super) fn lease_id() -> impl Strategy<Value = LeaseId> {
    (seq(), 1..3u64).prop_map(|(token, secret)| LeaseId {
        token,
        secret: secret.try_into().expect("not zero"),
    })
}

fn value() -> impl Strategy<Value = Value> {
    let content = prop_oneof![
        any::<u32>().prop_map(Content::Bytes),
        Just(Content::External("".into())),
        Just(Content::NotFound),
    ];
    (seq(), seq(), content, time(), time(), length(), length(), some_tags()).prop_map(
        |(version, since, content, stored_at, fresh_until, stale_while_revalidate, stale_if_error, tags)| Value {
            version,
            since,
            content,
            stored_at,
            fresh_until,
            stale_while_revalidate: stale_while_revalidate.into(),
            stale_if_error: stale_if_error.into(),
            labels: Labels::of(tags, None),
        },
    )
}

fn lease() -> impl Strategy<Value = Box<Lease>> {
    (lease_id(), time(), time(), time(), some_tags(), 0..2usize).prop_map(
        |(id, granted_at, deadline, hold_until, tags, request)| {
            Box::new(Lease {
                token: id.token,
                secret: id.secret,
                holder: "b".into(),
                request_id: ["", "r"][request].into(),
                cause: Cause::Miss,
                granted_at,
                deadline,
                hold_until,
                tags,
                traceparent: None,
            })
        },
    )
}

fn refresh() -> impl Strategy<Value = Refresh> {
    (length(), 0..5usize)
        .prop_map(|(gap, idle)| (0..idle).fold(Refresh::NONE.with_gap(gap), |refresh, _| refresh.not_asked_for()))
}

pub(super) fn entry() -> impl Strategy<Value = Entry> {
    let reported = (lease_id(), time()).prop_map(|(lease, at)| Reported { lease, at });
    let trouble = (any::<u32>(), time(), time()).prop_map(|(failures, retry_at, remember_until)| {
        Box::new(Trouble {
            failures,
            retry_at,
            remember_until,
            message: "".into(),
        })
    });
    let mark = (seq(), time(), time()).prop_map(|(number, settle_until, keep_until)| {
        Box::new(Mark {
            number,
            settle_until,
            keep_until,
        })
    });
    let cost = prop_oneof![length(), Just(Duration::MAX)];
    let option = prop::option::of::<BoxedStrategy<Reported>>;
    let refresh = prop_oneof![any::<u32>().prop_map(Refresh::from_bits), refresh()];
    (
        prop::option::of(value()),
        prop::option::of(lease()),
        option(reported.boxed()),
        prop::option::of(trouble),
        prop::option::of(mark),
        cost,
        refresh,
    )
        .prop_map(|(value, lease, reported, trouble, mark, cost, refresh)| Entry {
            value,
            lease,
            reported,
            trouble,
            mark,
            cost: cost.into(),
            refresh,
        })
}

fn generation() -> impl Strategy<Value = Generation> {
    let calls = prop::collection::vec((any::<bool>(), seq(), time(), time()), 0..12);
    calls.prop_map(|calls| {
        let mut generation = Generation::default();
        for (hard, number, now, settle_until) in calls {
            let mode = if hard { Mode::Drop } else { Mode::Expire };
            generation.invalidate(mode, number, now, settle_until);
        }
        generation
    })
}

pub(super) fn generations() -> impl Strategy<Value = Generations> {
    let tagged = prop::collection::vec((prop::sample::select(vec!["a", "b", "c"]), generation()), 0..3);
    (0..4u64, prop::option::of(generation()), tagged).prop_map(|(floor, namespace, tagged)| Generations {
        floor: Seq(floor),
        namespace,
        tags: tagged
            .into_iter()
            .map(|(tag, generation)| (tag.into(), generation))
            .collect(),
    })
}

pub(super) fn question() -> impl Strategy<Value = Ask> {
    let intent = prop::sample::select(vec![Intent::Use, Intent::Early, Intent::Force, Intent::Read]);
    let lease_ttl = prop::option::of(length());
    let versions = (seq(), seq(), seq(), prop::option::of(seq()));
    (intent, any::<[bool; 3]>(), 0..2usize, lease_ttl, versions, some_tags()).prop_map(
        |(intent, [accept_stale, omit_value, workers], request, lease_ttl, versions, tags)| Ask {
            intent,
            accept_stale,
            omit_value,
            workers,
            request_id: ["", "r"][request].into(),
            lease_ttl,
            known_version: versions.0,
            min_token: versions.1,
            newer_than: versions.2,
            parked_on: versions.3,
            tags,
            ..ask("b")
        },
    )
}

pub(super) fn body() -> impl Strategy<Value = Report> {
    let outcome = prop_oneof![
        Just(bytes()),
        Just(Outcome::Built(Content::NotFound)),
        Just(Outcome::NotModified),
        length().prop_map(failed),
        Just(Outcome::Abandoned),
    ];
    let lengths = || prop::option::of(length());
    (
        lease_id(),
        outcome,
        lengths(),
        some_tags(),
        (lengths(), lengths(), lengths()),
        any::<bool>(),
    )
        .prop_map(|(lease, outcome, cost, tags, lifetimes, do_not_store)| Report {
            lease,
            outcome,
            cost,
            tags: tags.as_deref().unwrap_or_default().to_vec(),
            lifetimes: Lifetimes {
                fresh_ttl: lifetimes.0,
                stale_while_revalidate: lifetimes.1,
                stale_if_error: lifetimes.2,
            },
            do_not_store,
        })
}

pub(super) fn draw() -> impl Strategy<Value = Draw> {
    (any::<u64>(), any::<u64>()).prop_map(|(secret, seed)| Draw { secret, seed })
}
