//! Places and the line for them, against a model that is a list.

use proptest::prelude::*;

use super::*;

fn key(number: usize) -> Key {
    Key::new("shop", &format!("k{number}"))
}

fn at(seconds: u64) -> StoreTime {
    START.after(secs(seconds))
}

fn names(keys: impl IntoIterator<Item = Key>) -> Vec<String> {
    keys.into_iter().map(|key| key.name().to_owned()).collect()
}

#[test]
fn whoever_has_nothing_goes_first_and_within_a_class_who_came_first() {
    use Class::*;
    let mut line = Line::default();
    for (number, class) in [
        (1, Scheduled),
        (2, Early),
        (3, OnMiss),
        (4, Early),
        (5, OnMiss),
        (6, Scheduled),
    ] {
        line.join(&key(number), class);
    }
    // Who asks again keeps the place, who has a better reason goes to the end of the better class, and a worse one changes nothing.
    line.join(&key(2), Early);
    line.join(&key(3), Scheduled);
    line.join(&key(6), OnMiss);
    line.leave(&key(4));
    line.leave(&key(7));
    assert_eq!((line.len(), line.first()), (5, Some((&key(3), OnMiss))));
    assert_eq!(
        names(std::iter::from_fn(|| line.take_first())),
        ["k3", "k5", "k6", "k2", "k1"]
    );
    assert!(line.is_empty() && line.first().is_none());
}

#[test]
fn a_grant_is_on_a_miss_unless_its_caller_has_something_to_serve_meanwhile() {
    let class = |mut room: Room, question: Ask| match room.decide(&question) {
        Decision::Grant(grant) => Class::of(&grant),
        other => panic!("{other:?}"),
    };
    assert_eq!(class(Room::new(), ask("b")), Class::OnMiss);
    assert_eq!(
        class(Room::with_value(secs(10), &[]), ask_to(Intent::Early)),
        Class::Early
    );
    assert_eq!(class(Room::with_value(secs(120), &[]), ask("b")), Class::Early);
    // Good for the case only that the rebuild fails.
    assert_eq!(class(Room::with_value(secs(200), &[]), ask("b")), Class::OnMiss);
    let mut room = Room::with_value(secs(10), &[]);
    let task = Offer {
        holder: "worker".into(),
        why: Why::Scheduled {
            at: room.now.after(secs(1)),
            only_if_missing: false,
        },
        traceparent: None,
    };
    let draw = room.draw();
    let OfferDecision::Grant(grant) = offer(&room.view(), &task, &room.policy, draw) else {
        panic!("not given");
    };
    assert_eq!(Class::of(&grant), Class::Scheduled);
}

#[test]
fn a_promoted_caller_inherits_the_place_of_its_key_in_whatever_order_it_is_told() {
    let mut budget = Budget::default();
    assert!(budget.take(&key(1), 7, 1, at(10), START));
    assert!(!budget.take(&key(2), 8, 1, at(10), START));
    // Another grant of the key is under way while the first lease ends.
    assert!(budget.take(&key(1), 9, 1, at(20), START));
    budget.give_back(&key(1), 7, None, START);
    assert!(!budget.take(&key(2), 8, 1, at(10), START));
    budget.give_back(&key(1), 7, None, START);
    assert_eq!(budget.taken(), 1, "what the lost holder gives back is not its any more");
    budget.give_back(&key(1), 9, None, START);
    assert!(budget.take(&key(2), 8, 1, at(10), START));
}

#[test]
fn a_grant_that_comes_to_nothing_takes_nothing_away_from_the_lease_that_was_faster() {
    let mut budget = Budget::default();
    assert!(budget.take(&key(1), 7, 1, at(10), START) && budget.take(&key(1), 8, 1, at(30), START));
    budget.give_back(&key(1), 8, None, START);
    assert_eq!((budget.taken(), budget.next_end()), (1, Some(at(10))));
}

#[test]
fn a_place_that_is_left_to_those_who_wait_is_theirs_until_its_time_or_until_they_leave() {
    let mut budget = Budget::default();
    assert!(budget.take(&key(1), 7, 1, at(10), START));
    budget.give_back(&key(1), 7, Some(at(2)), START);
    assert!(!budget.take(&key(2), 8, 1, at(10), at(1)));
    assert!(
        budget.take(&key(1), 9, 0, at(10), at(1)),
        "whatever the limit: it has one"
    );
    assert!(!budget.take(&key(2), 8, 1, at(10), at(3)));
    budget.give_back(&key(1), 9, Some(at(5)), START);
    assert!(budget.take(&key(2), 8, 1, at(10), at(5)), "nobody has come");
    // Who has come already needs nothing to be left.
    assert!(budget.take(&key(2), 10, 1, at(10), at(5)));
    budget.give_back(&key(2), 8, Some(at(9)), at(5));
    budget.give_back(&key(2), 10, None, at(5));
    assert!(budget.take(&key(2), 8, 1, at(10), at(5)));
    budget.give_back(&key(2), 8, Some(at(9)), at(5));
    budget.leave(&key(2), at(5));
    assert_eq!(budget.taken(), 0);
}

#[test]
fn a_crashed_holder_s_place_comes_back_with_its_lease_s_time_unless_that_is_renewed() {
    let mut budget = Budget::default();
    for number in [1, 2] {
        assert!(budget.take(&key(number), number as u64, 2, at(10 + number as u64), START));
    }
    budget.hold(&key(1), 1, 0, at(30), START);
    assert_eq!(budget.next_end(), Some(at(12)));
    assert!(!budget.take(&key(3), 3, 2, at(20), StoreTime(at(12).0 - 1)));
    assert!(budget.take(&key(3), 3, 2, at(20), at(12)));
    // What is over is not brought back.
    assert!(!budget.hold(&key(2), 2, 0, at(30), at(12)));
    assert_eq!(budget.taken(), 2);
    // One that replaces another leaves nothing of it.
    assert!(budget.hold(&key(3), 4, 3, at(15), at(12)));
    budget.expire(at(15));
    assert_eq!(budget.taken(), 1);
}

/// What happens to a budget.
#[derive(Clone, Debug)]
enum Step {
    Take(usize, u64, u32, u64),
    Hold(usize, u64, u64, u64),
    GiveBack(usize, u64, Option<u64>),
    Leave(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..6usize, 1..4u64, 0..4u32, 0..6u64).prop_map(|(key, lease, limit, length)| Step::Take(key, lease, limit, length)),
        2 => (0..6usize, 1..4u64, 0..4u64, 1..9u64).prop_map(|(key, lease, before, length)| Step::Hold(key, lease, before, length)),
        4 => (0..6usize, 1..4u64, prop::option::of(0..3u64)).prop_map(|(key, lease, left)| Step::GiveBack(key, lease, left)),
        1 => (0..6usize).prop_map(Step::Leave),
        2 => (0..4u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..120)
}

/// The same as a list of key, lease, end.
#[derive(Default)]
struct Model(Vec<(usize, u64, StoreTime)>);

impl Model {
    fn keys(&self) -> std::collections::BTreeSet<usize> {
        self.0.iter().map(|claim| claim.0).collect()
    }

    fn put(&mut self, key: usize, gone: u64, lease: u64, until: StoreTime) {
        self.0
            .retain(|claim| claim.0 != key || (claim.1 != gone && claim.1 != lease));
        self.0.push((key, lease, until));
    }
}

proptest! {
    #[test]
    fn a_place_is_taken_while_any_claim_keeps_it_up_and_never_beyond_the_limit(steps in steps()) {
        let (mut budget, mut model, mut now) = (Budget::default(), Model::default(), START);
        for step in steps {
            match step {
                Step::Take(number, lease, limit, length) => {
                    let until = now.after(secs(length));
                    let before = model.keys();
                    let free = before.contains(&number) || before.len() < limit as usize;
                    prop_assert_eq!(budget.take(&key(number), lease, limit, until, now), free);
                    if free {
                        model.put(number, 0, lease, until);
                        prop_assert!(model.keys().len() <= before.len().max(limit as usize));
                    }
                }
                Step::Hold(number, lease, before, length) => {
                    let until = now.after(secs(length));
                    model.0.retain(|claim| claim.2 > now);
                    let has = model.0.iter().any(|claim| claim.0 == number && [lease, before].contains(&claim.1));
                    prop_assert_eq!(budget.hold(&key(number), lease, before, until, now), has);
                    if has {
                        model.put(number, before, lease, until);
                    }
                }
                Step::GiveBack(number, lease, left) => {
                    let left = left.map(|length| now.after(secs(length)));
                    budget.give_back(&key(number), lease, left, now);
                    if model.0.iter().any(|claim| (claim.0, claim.1) == (number, lease)) {
                        let others = model.0.iter().any(|claim| claim.0 == number && claim.1 != lease && claim.1 != 0);
                        match left.filter(|_| !others) {
                            Some(until) => model.put(number, lease, 0, until),
                            None => model.0.retain(|claim| (claim.0, claim.1) != (number, lease)),
                        }
                    }
                }
                Step::Leave(number) => {
                    budget.leave(&key(number), now);
                    model.0.retain(|claim| (claim.0, claim.1) != (number, 0));
                }
                Step::Pass(length) => {
                    now = now.after(secs(length));
                }
            }
            budget.expire(now);
            model.0.retain(|claim| claim.2 > now);
            prop_assert_eq!(budget.taken(), model.keys().len());
            let end = |key: &usize| model.0.iter().filter(|claim| claim.0 == *key).map(|claim| claim.2).max();
            prop_assert_eq!(budget.next_end(), model.keys().iter().filter_map(end).min());
        }
    }
}
