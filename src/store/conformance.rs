//! What every store promises, as tests: one function a promise, each with a store of its own.
//!
//! *Owns* the executable form of the contract in [`store`](super). A store that passes is as good as any other to what is above it.
//!
//! *Never does* look inside a store, or wait long: lengths are milliseconds, so that a store with a real clock is tested in a moment.
//! A promise of the store's feed may be kept a little later than the commit is answered: another process tells of it.
//!
//! A store's test module runs all of them by their names:
//!
//! ```ignore
//! drover::store_conformance!(Embedded::start(), #[tokio::test(start_paused = true)]);
//! ```

mod commits;
mod feed;
mod lists;
mod numbers;
mod races;
mod schedule;
mod shaping;
mod times;
mod write;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::Store;
pub use commits::*;
pub use feed::*;
pub use lists::*;
pub use numbers::*;
pub use races::*;
pub use schedule::*;
pub use shaping::*;
pub use times::*;

/// An empty store under test, and how its time passes.
pub trait Harness: Send + Sync {
    /// The store. Its feed tells of its commits for as long as the harness lives.
    fn store(&self) -> &Arc<dyn Store>;

    /// Lets so much of the store's time pass, and what is under way arrive. Tokio's time, unless the store has another.
    fn pass(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(length))
    }
}

/// Runs every promise as a test of its own. The expression, awaited, gives a [`Harness`](crate::store::conformance::Harness) over an
/// empty store; the attributes go before each. Those that race run on several threads and in real time.
#[macro_export]
macro_rules! store_conformance {
    (@in_turn $start:expr, $(#[$attribute:meta])*) => {
        $crate::store_conformance!(@each [$(#[$attribute])*] $start;
            // commits
            a_key_that_was_never_written_loads_as_absent
            what_was_committed_is_loaded
            a_commit_against_another_revision_changes_nothing_and_answers_how_it_is
            each_commit_has_a_revision_of_its_own
            bytes_are_put_kept_and_cleared
            a_commit_without_a_draft_removes_the_entry
            keys_of_different_namespaces_are_different
            // numbers
            numbers_grow_over_grants_and_invalidations_of_every_kind
            a_number_exceeds_what_the_caller_has_seen
            a_commit_that_needs_no_number_takes_none
            a_number_is_not_below_the_store_s_time
            an_invalidation_of_an_absent_key_takes_a_number_and_leaves_no_entry
            a_load_brings_the_generations_that_bear_on_it
            a_soft_invalidation_says_since_when
            a_guard_holds_off_a_commit_whose_tag_was_invalidated_since_the_load
            a_guard_holds_off_a_commit_whose_namespace_was_invalidated_since_the_load
            a_guard_lets_pass_what_it_knew_and_what_does_not_concern_it
            // times
            instants_resolve_at_the_moment_of_the_commit
            a_commit_is_not_made_before_its_time
            a_commit_is_not_made_once_its_time_is_over
            an_entry_that_is_gone_loads_as_absent_and_may_be_created_anew
            time_grows
            // feed
            the_log_has_the_events_of_the_commits_in_their_order
            a_commit_that_was_refused_tells_nobody
            a_commit_rings_for_a_key_that_is_waited_for_and_only_once
            a_commit_rings_for_no_other_key
            a_removal_rings_too
            // lists
            leases_are_listed_while_they_live
            the_census_counts_entries_and_live_leases_by_namespace
            // shaping
            there_are_as_many_places_as_the_limit_says
            a_key_that_has_a_place_keeps_it_while_any_lease_of_it_lives
            a_place_comes_back_with_its_time
            a_place_may_be_left_to_those_who_wait_for_its_key
            a_place_that_is_given_back_rings_where_somebody_waits
            a_circuit_is_set_only_by_whoever_knows_how_it_is
        );
    };
    (@schedule $start:expr, $(#[$attribute:meta])*) => {
        $crate::store_conformance!(@each [$(#[$attribute])*] $start;
            // schedule
            a_planned_refresh_is_claimed_once_it_is_due_and_by_one_alone
            a_claimed_task_comes_back_when_its_hold_is_over
            a_settled_task_is_over_or_comes_back_at_its_time
            a_task_that_was_changed_since_it_was_claimed_is_not_settled
            to_plan_again_merges
            no_more_is_planned_than_was_allowed
            a_claim_takes_keys_with_its_prefixes
            a_claim_takes_no_more_than_it_asked_for_and_no_less
            while_there_are_workers_each_commit_keeps_its_key_s_task
            without_workers_commits_schedule_nothing
            a_planned_task_that_was_given_out_is_looked_at_when_its_lease_ends
            workers_are_counted_until_others_are_named
            a_task_that_comes_near_rings
            a_commit_that_waits_is_rung_for_by_the_next
        );
    };
    (@races $start:expr) => {
        $crate::store_conformance!(@each [#[tokio::test(flavor = "multi_thread", worker_threads = 4)]] $start;
            of_those_that_race_for_a_revision_one_wins
            numbers_taken_at_the_same_time_are_different
            the_log_has_the_order_of_commits_that_race
            of_those_that_race_for_the_last_places_as_many_have_one_as_there_are
        );
    };
    (@each $attributes:tt $start:expr; $($promise:ident)*) => {
        $($crate::store_conformance!(@one $attributes $start; $promise);)*
    };
    (@one [$($attributes:tt)*] $start:expr; $promise:ident) => {
        $($attributes)*
        async fn $promise() {
            let harness = $start.await;
            $crate::store::conformance::$promise(&harness).await;
        }
    };
    ($start:expr, $(#[$attribute:meta])*) => {
        $crate::store_conformance!(@in_turn $start, $(#[$attribute])*);
        $crate::store_conformance!(@races $start);
    };
}

/// Waits for what the feed has yet to bring, a bounded time.
async fn eventually(harness: &impl Harness, holds: impl Fn() -> bool) -> bool {
    for _ in 0..200 {
        if holds() {
            return true;
        }
        harness.pass(Duration::from_millis(10)).await;
    }
    holds()
}
