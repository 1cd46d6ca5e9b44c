//! What becomes one message, and what does not.

use super::*;

/// What a watcher sees of events that came while it did not read.
fn coalesced(events: Vec<Event>) -> Vec<WatchEvent> {
    let world = World::new();
    let mut watching = world.live(Subscription {
        holder: "me".into(),
        ..shop()
    });
    events.into_iter().for_each(|event| {
        world.commit(event);
    });
    seen(&mut watching)
}

#[tokio::test(start_paused = true)]
async fn neighbouring_keys_of_one_mode_become_one_message_with_the_highest_version() {
    let events = coalesced(["a", "b", "a", "c"].map(|key| invalidated(key, Mode::Drop)).into());
    assert_eq!(words(&events), ["drop a b c"]);
    let What::Invalidated(what) = &events[0].what else {
        panic!()
    };
    assert_eq!(what.version, Seq(104));
}

#[tokio::test(start_paused = true)]
async fn the_harder_mode_wins_for_a_key_and_spares_the_others() {
    let events = coalesced(vec![
        invalidated("a", Mode::Expire),
        invalidated("a", Mode::Drop),
        invalidated("a", Mode::Expire),
        invalidated("b", Mode::Expire),
        invalidated("c", Mode::Expire),
        invalidated("c", Mode::Drop),
    ]);
    assert_eq!(words(&events), ["drop a", "expire b c", "drop c"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_dropped_later_does_not_take_its_neighbours_along() {
    let events = coalesced(vec![
        invalidated("a", Mode::Expire),
        invalidated("b", Mode::Expire),
        invalidated("a", Mode::Drop),
    ]);
    assert_eq!(words(&events), ["expire a b", "drop a"]);
}

#[tokio::test(start_paused = true)]
async fn keys_tags_and_the_whole_namespace_stay_apart() {
    let events = coalesced(vec![
        invalidated("a", Mode::Drop),
        invalidated_target(Target::Tag("s".into()), Mode::Drop),
        invalidated_target(Target::Tag("t".into()), Mode::Drop),
        invalidated_target(Target::Everything, Mode::Drop),
        invalidated_target(Target::Everything, Mode::Drop),
        invalidated("b", Mode::Drop),
    ]);
    assert_eq!(words(&events), ["drop a", "drop #s #t", "drop *", "drop b"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_has_at_most_a_thousand_names() {
    let events = coalesced((0..2_500).map(|n| invalidated(&n.to_string(), Mode::Drop)).collect());
    let sizes: Vec<_> = events.iter().map(|event| keys(event).len()).collect();
    assert_eq!(sizes, [1_000, 1_000, 500]);
}

#[tokio::test(start_paused = true)]
async fn a_revoked_lease_keeps_its_place_between_invalidations() {
    let events = coalesced(vec![
        invalidated("a", Mode::Drop),
        revoked("shop", "me"),
        invalidated("a", Mode::Drop),
    ]);
    assert_eq!(words(&events), ["drop a", "revoked k", "drop a"]);
}

#[tokio::test(start_paused = true)]
async fn the_cursor_of_a_merged_message_covers_all_of_it_and_no_more() {
    let world = World::new();
    let mut watching = world.live(shop());
    world.drop_key("a");
    world.drop_key("b");
    world.commit(invalidated("c", Mode::Expire));
    let merged = must(&mut watching);
    assert_eq!(keys(&merged), ["a", "b"]);
    assert_eq!(
        words(&seen(&mut world.watch(resuming(&merged.cursor)))),
        ["expire c", "started"]
    );
}
