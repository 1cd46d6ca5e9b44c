//! Whatever a store answers, there is a decision: arbitrary views, also such as no history of drover's own leads to.

use proptest::prelude::*;

use super::arbitrary::*;
use super::*;

/// Whether a hit is one that the facts allow.
fn check_hit(view: &View<'_>, ask: &Ask, hit: &Hit) -> Result<(), TestCaseError> {
    let value = view.entry.value.as_ref().expect("a hit has a value");
    let standing = view.standing().expect("a hit is of a value that was not dropped");
    prop_assert_eq!(hit.version, value.version);
    prop_assert!(hit.version > ask.newer_than);
    let handed_over = standing.ended_wait_on(ask.parked_on, view.now);
    if hit.fresh {
        prop_assert!(!standing.made_old, "what an invalidation made old was served as fresh");
        prop_assert!(handed_over || view.now < value.fresh_until);
    } else {
        prop_assert!(ask.accept_stale);
        prop_assert!(hit.expiry.fresh_for.is_zero());
        prop_assert!(view.now < value.stale_until(), "stale past both windows");
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_question_has_an_answer_that_the_facts_allow(
        entry in entry(), generations in generations(), now in time(), ask in question(), draw in draw(),
    ) {
        let view = View { entry: &entry, generations: &generations, now };
        let policy = policy();
        match acquire(&view, &ask, &policy, draw) {
            Decision::Grant(grant) => {
                prop_assert!(ask.intent != Intent::Read, "a read was granted a lease");
                prop_assert!(view.lease().is_none(), "granted over a live lease");
                prop_assert!(view.retry_at().is_none() && now >= grant.not_before);
                if let Some(hit) = &grant.fallback {
                    check_hit(&view, &ask, hit)?;
                }
                let stamp = Stamp { now, number: Seq::next(Seq(12), now, grant.above) };
                let written = grant.draft.clone().stamp(stamp);
                let lease = written.lease.as_deref().expect("a grant writes a lease");
                prop_assert_eq!((lease.token, &written.value, &written.trouble), (stamp.number, &entry.value, &entry.trouble));
                granted(&grant, lease, now, entry.cost.length(), &policy);
            }
            Decision::Wait(wait) => {
                let lease = view.lease();
                prop_assert_eq!(lease.map(|lease| (lease.token, lease.deadline)), Some((wait.on, wait.until)));
                if let Some(hit) = wait.when_over.hit() {
                    check_hit(&view, &ask, hit)?;
                }
            }
            Decision::Answer(answer) => {
                if let Some(hit) = answer.hit() {
                    check_hit(&view, &ask, hit)?;
                }
                match answer {
                    Answer::Rebuild(rebuild) => {
                        prop_assert!(ask.intent != Intent::Read && !ask.request_id.is_empty());
                        prop_assert_eq!(view.lease().map(Lease::id), Some(rebuild.lease));
                    }
                    Answer::KeepOff(_) => prop_assert!(view.retry_at().is_some()),
                    Answer::Miss => prop_assert!(ask.intent == Intent::Read),
                    Answer::Busy(_) | Answer::Hit(_) => {}
                }
            }
        }
    }

    #[test]
    fn every_report_has_an_answer_and_only_the_current_grant_s_is_accepted(
        entry in entry(), generations in generations(), now in time(), body in body(), draw in draw(),
    ) {
        // No grant has built a value while its lease is still unreported.
        let built = entry.value.as_ref().map(|value| value.version);
        prop_assume!(built.is_none() || built != entry.lease.as_deref().map(|lease| lease.token));
        let view = View { entry: &entry, generations: &generations, now };
        let policy = policy();
        match report(&view, &body, &policy, draw) {
            ReportDecision::Accept { draft, .. } => {
                let lease = entry.lease.as_deref().filter(|lease| lease.id() == body.lease);
                prop_assert!(lease.is_some(), "accepted without the grant");
                prop_assert!(!view.makes_old(body.lease.token, &body.tags));
                prop_assert!(!draft.takes_number());
                let written = draft.stamp(Stamp { now, number: Seq::NONE });
                prop_assert!(written.lease.is_none());
                let after = View { entry: &written, ..view };
                let first = accepted(&after, body.lease, &policy);
                prop_assert!(matches!(report(&after, &body, &policy, draw), ReportDecision::Repeat));
                prop_assert_eq!(accepted(&after, body.lease, &policy), first);
            }
            ReportDecision::Repeat => prop_assert!(view.is_reported(body.lease)),
            ReportDecision::Refuse { rejection, revoke } => {
                prop_assert!(revoke.is_none() || rejection == Rejection::Invalidated);
                prop_assert!(revoke.is_none_or(|draft| draft.lease.is_none()));
            }
        }
        accepted(&view, body.lease, &policy);
    }

    #[test]
    fn every_other_question_about_a_key_has_an_answer_too(
        entry in entry(), generations in generations(), now in time(), id in lease_id(), wanted in prop::option::of(length()),
        hard in any::<bool>(), settle in length(),
    ) {
        let view = View { entry: &entry, generations: &generations, now };
        let policy = policy();
        let stamp = Stamp { now, number: Seq(u64::MAX) };
        prop_assert_eq!(entry.draft().stamp(stamp), entry.clone(), "a draft that changes nothing changes something");
        entry.gone_at();
        if let RenewDecision::Keep(draft) = renew(&view, id, wanted, &policy) {
            prop_assert_eq!(view.lease().map(Lease::id), Some(id), "renewed what is not live");
            let written = draft.stamp(stamp);
            let lease = written.lease.expect("a renewal keeps the lease");
            prop_assert!(lease.deadline <= lease.hold_until && lease.token == id.token);
        }
        for draft in [revoke(&view), give_back(&view, id)].into_iter().flatten() {
            prop_assert!(draft.lease.is_none() && !draft.takes_number());
            let written = draft.stamp(stamp);
            prop_assert_eq!(&written.value, &entry.value);
        }
        let mode = if hard { Mode::Drop } else { Mode::Expire };
        if let Some(draft) = invalidate(&view, mode, settle, &policy).draft {
            prop_assert!(draft.takes_number() && draft.lease.is_none());
            let written = draft.stamp(stamp);
            let after = View { entry: &written, ..view };
            prop_assert_eq!(&written.trouble, &entry.trouble);
            match (after.standing(), view.standing()) {
                (Some(after), Some(before)) => {
                    prop_assert!(mode == Mode::Expire && after.fresh_until <= before.fresh_until.min(now));
                }
                (Some(_), None) => prop_assert!(false, "an invalidation brought a value back"),
                (None, _) => {}
            }
        }
    }
}
