//! Random histories of one key against the invariants: several callers ask, report, renew and invalidate while time passes, and a
//! [`Witness`] that knows only what was asked and answered says what must not have happened.

use proptest::prelude::*;

use super::witness::Witness;
use super::*;

/// A step of a history.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Ask {
        who: usize,
        intent: Intent,
        accept_stale: bool,
        request: u8,
        newer: bool,
        tag: Option<&'static str>,
    },
    Report {
        back: usize,
        what: What,
        tag: Option<&'static str>,
    },
    Renew {
        back: usize,
        ttl: Option<u64>,
    },
    Invalidate {
        named: Named,
        mode: Mode,
        settle: u64,
    },
    Revoke,
    Pass {
        milliseconds: u64,
    },
    Forget,
}

/// What a report says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    Value,
    ShortValue,
    NotStored,
    NotFound,
    NotModified,
    Failure,
    Abandon,
}

/// The tags of these histories.
pub(super) const TAGS: [&str; 2] = ["t", "u"];

fn ops() -> impl Strategy<Value = Vec<Op>> {
    use prop::sample::select;
    let tag = || prop::option::of(select(&TAGS[..]));
    let intents = vec![
        Intent::Use,
        Intent::Use,
        Intent::Use,
        Intent::Early,
        Intent::Force,
        Intent::Read,
    ];
    let whats = {
        use What::*;
        vec![
            Value,
            Value,
            Value,
            ShortValue,
            NotStored,
            NotFound,
            NotModified,
            Failure,
            Abandon,
        ]
    };
    let named = vec![Named::Key, Named::Tag(TAGS[0]), Named::Tag(TAGS[1]), Named::Namespace];
    let op = prop_oneof![
        8 => (0..3usize, select(intents), prop::bool::weighted(0.8), 0..3u8, prop::bool::weighted(0.1), tag()).prop_map(
            |(who, intent, accept_stale, request, newer, tag)| Op::Ask { who, intent, accept_stale, request, newer, tag }
        ),
        6 => (prop_oneof![4 => Just(0usize), 1 => 1..3usize], select(whats), tag())
            .prop_map(|(back, what, tag)| Op::Report { back, what, tag }),
        2 => (prop_oneof![3 => Just(0usize), 1 => 1..3usize], prop::option::of(0..80u64))
            .prop_map(|(back, ttl)| Op::Renew { back, ttl }),
        2 => (select(named), select(vec![Mode::Drop, Mode::Expire]), select(vec![0, 0, 7]))
            .prop_map(|(named, mode, settle)| Op::Invalidate { named, mode, settle }),
        1 => Just(Op::Revoke),
        5 => select(vec![1, 1_000, 1_000, 5_000, 10_000, 50_000, 100_000]).prop_map(|milliseconds| Op::Pass { milliseconds }),
        1 => Just(Op::Forget),
    ];
    prop::collection::vec(op, 1..60)
}

proptest! {
    #[test]
    fn no_history_breaks_an_invariant_and_in_the_end_the_key_is_free(ops in ops()) {
        let mut witness = Witness::new();
        for op in ops {
            witness.run(op)?;
        }
        // Whatever happened: past any lease and any back-off somebody gets something.
        witness.room.pass(secs(120));
        let answer = witness.room.acquire(&ask("last"));
        prop_assert!(matches!(answer, Some(Answer::Rebuild(_) | Answer::Hit(_))), "the key is stuck: {answer:?}");
    }
}
