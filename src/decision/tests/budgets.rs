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
fn a_promoted_caller_inherits_the_place_of_its_key() {
    let mut budget = Budget::new(1);
    assert!(budget.take(&key(1), Class::OnMiss, at(10)));
    assert!(budget.hold(&key(1), Seq(7), at(10)));
    assert!(!budget.take(&key(2), Class::OnMiss, at(10)));
    // The lease was lost, and the next caller of the key is granted another.
    assert!(budget.take(&key(1), Class::OnMiss, at(15)));
    assert!(budget.hold(&key(1), Seq(9), at(20)));
    // What the lost holder gives back is not its any more.
    assert_eq!(budget.give_back(&key(1), Seq(7), at(12)), None);
    assert_eq!(names(budget.give_back(&key(1), Seq(9), at(12))), ["k2"]);
}

#[test]
fn a_crashed_holder_s_place_comes_back_with_its_lease_s_time_and_goes_to_the_first_in_line() {
    let mut budget = Budget::new(2);
    for number in [1, 2] {
        assert!(budget.take(&key(number), Class::OnMiss, at(10)));
        assert!(budget.hold(&key(number), Seq(number as u64), at(10 + number as u64)));
    }
    for (number, class) in [(3, Class::Scheduled), (4, Class::Early), (5, Class::OnMiss)] {
        assert!(!budget.take(&key(number), class, at(10)));
    }
    assert_eq!(budget.next_end(), Some(at(11)));
    assert!(budget.expire(StoreTime(at(11).0 - 1)).is_empty());
    assert_eq!(names(budget.expire(at(11))), ["k5"]);
    assert!(!budget.hold(&key(1), Seq(1), at(30)), "it cannot be renewed any more");
    // Who was let in and does not come gives way to the next.
    assert_eq!(names(budget.expire(at(13))), ["k4", "k3"]);
    assert_eq!((budget.taken(), budget.line().len()), (2, 0));
    // A grant that did not come about.
    assert_eq!(budget.give_back(&key(3), Seq::NONE, at(13)), None);
    assert_eq!(budget.taken(), 1);
}

#[test]
fn a_changed_limit_lets_more_in_or_waits_until_fewer_are_left() {
    let mut budget = Budget::new(0);
    for number in 0..6 {
        assert_eq!(
            budget.take(&key(number), Class::OnMiss, at(10)),
            number < 1,
            "at least one place"
        );
    }
    assert_eq!(names(budget.set_limit(4, START)), ["k1", "k2", "k3"]);
    assert!(budget.set_limit(2, START).is_empty());
    assert_eq!(budget.taken(), 4);
    for number in 0..2 {
        assert_eq!(budget.give_back(&key(number), Seq::NONE, START), None);
    }
    assert_eq!(names(budget.give_back(&key(2), Seq::NONE, START)), ["k4"]);
}

/// What happens to a budget.
#[derive(Clone, Debug)]
enum Step {
    Take(usize, Class, u64),
    Hold(usize, u64, u64),
    GiveBack(usize, u64),
    Leave(usize),
    Pass(u64),
    Limit(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let class = || prop::sample::select(vec![Class::OnMiss, Class::Early, Class::Scheduled]);
    let step = prop_oneof![
        6 => (0..9usize, class(), 0..6u64).prop_map(|(key, class, length)| Step::Take(key, class, length)),
        3 => (0..9usize, 0..3u64, 0..9u64).prop_map(|(key, token, length)| Step::Hold(key, token, length)),
        4 => (0..9usize, 0..3u64).prop_map(|(key, token)| Step::GiveBack(key, token)),
        1 => (0..9usize).prop_map(Step::Leave),
        2 => (0..4u64).prop_map(Step::Pass),
        1 => (1..5u32).prop_map(Step::Limit),
    ];
    prop::collection::vec(step, 1..120)
}

/// The same as lists.
struct Model {
    limit: usize,
    now: StoreTime,
    /// Key, lease, end.
    places: Vec<(usize, u64, StoreTime)>,
    /// Class, when it came, key.
    line: Vec<(Class, usize, usize)>,
    came: usize,
}

impl Model {
    fn let_in(&mut self) -> Vec<usize> {
        let mut entered = Vec::new();
        while self.places.len() < self.limit
            && let Some(first) = self.line.iter().min().copied()
        {
            self.line.retain(|other| *other != first);
            self.places.push((first.2, 0, self.now.after(TAKE_UP)));
            entered.push(first.2);
        }
        entered
    }

    fn has(&mut self, key: usize) -> Option<&mut (usize, u64, StoreTime)> {
        self.places.iter_mut().find(|place| place.0 == key)
    }

    fn take(&mut self, key: usize, class: Class, until: StoreTime) -> bool {
        let limit = self.limit;
        if let Some(place) = self.has(key) {
            place.2 = until;
        } else if self.places.len() < limit {
            self.places.push((key, 0, until));
        } else {
            self.came += 1;
            match self.line.iter().position(|waiting| waiting.2 == key) {
                Some(at) if class < self.line[at].0 => self.line[at] = (class, self.came, key),
                Some(_) => {}
                None => self.line.push((class, self.came, key)),
            }
            return false;
        }
        true
    }
}

proptest! {
    #[test]
    fn never_more_places_than_the_budget_and_never_fewer_while_somebody_waits(steps in steps(), limit in 1..4u32) {
        let mut budget = Budget::new(limit);
        let mut model = Model { limit: limit as usize, now: START, places: Vec::new(), line: Vec::new(), came: 0 };
        let mut most = limit as usize;
        for step in steps {
            let now = model.now;
            let entered: Vec<Key> = match step {
                Step::Take(number, class, length) => {
                    let until = now.after(secs(length));
                    prop_assert_eq!(budget.take(&key(number), class, until), model.take(number, class, until));
                    Vec::new()
                }
                Step::Hold(number, token, length) => {
                    let until = now.after(secs(length));
                    let held = model.has(number).map(|place| (place.1, place.2) = (token, until)).is_some();
                    prop_assert_eq!(budget.hold(&key(number), Seq(token), until), held);
                    Vec::new()
                }
                Step::GiveBack(number, token) => {
                    model.places.retain(|place| (place.0, place.1) != (number, token));
                    budget.give_back(&key(number), Seq(token), now).into_iter().collect()
                }
                Step::Leave(number) => {
                    model.line.retain(|waiting| waiting.2 != number);
                    budget.leave(&key(number));
                    Vec::new()
                }
                Step::Pass(length) => {
                    model.now = now.after(secs(length));
                    model.places.retain(|place| place.2 > model.now);
                    budget.expire(model.now)
                }
                Step::Limit(limit) => {
                    model.limit = limit as usize;
                    budget.set_limit(limit, now)
                }
            };
            let expected = model.let_in();
            prop_assert_eq!(entered, expected.into_iter().map(key).collect::<Vec<Key>>());
            most = most.min(model.places.len()).max(model.limit);
            prop_assert!(budget.taken() <= most, "{} taken", budget.taken());
            prop_assert!(budget.line().is_empty() || budget.taken() >= model.limit, "below the budget, and somebody waits");
            prop_assert_eq!((budget.taken(), budget.line().len()), (model.places.len(), model.line.len()));
            prop_assert_eq!(budget.next_end(), model.places.iter().map(|place| place.2).min());
        }
    }
}
