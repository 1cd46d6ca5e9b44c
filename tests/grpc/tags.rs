//! Tags: given at the question, in the report, or carried by the stored value.

use drover::proto::report_value_request::Outcome;
use drover::proto::{AcquireRebuildRequest, Intent, NotModified, Rejection, ReportValueRequest};

use crate::invalidation::soft;
use crate::statuses::fields;
use crate::support::{Drover, ask, drop_tags, ended, report, words};

fn tagged(key: &str, tags: &[&str]) -> AcquireRebuildRequest {
    AcquireRebuildRequest {
        tags: words(tags),
        intent: Intent::Force.into(),
        ..ask(key)
    }
}

fn with(tags: &[&str], request: ReportValueRequest) -> ReportValueRequest {
    ReportValueRequest {
        tags: words(tags),
        ..request
    }
}

#[tokio::test]
async fn an_invalidated_tag_refuses_the_report_wherever_it_is_named() {
    let drover = Drover::start().await;
    let mut other = drover.another().await;
    // The stored value's, the question's, the report's; the two ways an invalidation may come.
    for case in 0..16 {
        let [stored, asked, reported, hard] = [0, 1, 2, 3].map(|bit| case >> bit & 1 == 1);
        let key = format!("item {case}");
        let tag = format!("tag {case}");
        let here = |named: bool| if named { vec![tag.as_str(), "x"] } else { vec!["y"] };
        let first = drover.granted(ask(&key)).await;
        drover.accept(with(&here(stored), report(&key, &first, "stored"))).await;
        let rebuild = drover.granted(tagged(&key, &here(asked))).await;
        let request = drop_tags(&[&tag]);
        let request = if hard { request } else { soft(request) };
        let done = other.invalidate(request).await.expect("done").into_inner();
        assert_eq!(done.leases_revoked, i32::from(stored || asked), "case {case:04b}");
        let late = with(&here(reported), report(&key, &rebuild, "late"));
        if stored || asked || reported {
            // The tag was the lease's alone, and a fresh value that it does not touch is there: nothing remembers why.
            let forgotten = asked && !stored && !reported;
            let why = drover.refuse(late).await;
            let vague = forgotten && why == Rejection::UnknownLease;
            assert!(vague || why == Rejection::Invalidated, "case {case:04b}: {why:?}");
        } else {
            drover.accept(late).await;
        }
    }
    drover.end().await;
}

#[tokio::test]
async fn another_namespace_s_tag_of_the_same_name_is_another_tag() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(tagged("item", &["tag"])).await;
    let elsewhere = drover::proto::InvalidateRequest {
        namespace: "elsewhere".to_owned(),
        ..drop_tags(&["tag"])
    };
    assert_eq!(drover.invalidate(elsewhere).await.leases_revoked, 0);
    drover.accept(report("item", &rebuild, "value")).await;
    drover.end().await;
}

#[tokio::test]
async fn the_value_carries_the_tags_of_question_and_report_each_once() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(tagged("item", &["a", "b"])).await;
    drover
        .accept(with(&["b", "c", "c"], report("item", &rebuild, "value")))
        .await;
    let mut tags = drover.hit(ask("item")).await.tags;
    tags.sort();
    assert_eq!(tags, ["a", "b", "c"]);
    let rebuild = drover.granted(tagged("item", &["d"])).await;
    drover.accept(report("item", &rebuild, "value")).await;
    assert_eq!(
        drover.hit(ask("item")).await.tags,
        ["d"],
        "they take the place of the tags before"
    );
    drover.end().await;
}

#[tokio::test]
async fn not_modified_adds_tags_of_question_and_report_to_those_there_were() {
    let drover = Drover::start().await;
    let first = drover.granted(tagged("item", &["old"])).await;
    drover.accept(report("item", &first, "value")).await;
    let rebuild = drover.granted(tagged("item", &["asked"])).await;
    let confirmed = ended("item", &rebuild, Outcome::NotModified(NotModified {}));
    drover.accept(with(&["reported"], confirmed)).await;
    let mut tags = drover.hit(ask("item")).await.tags;
    tags.sort();
    assert_eq!(tags, ["asked", "old", "reported"]);
    for tag in ["asked", "old", "reported"] {
        assert!(!drover.hit(ask("item")).await.tags.is_empty());
        drover.invalidate(soft(drop_tags(&[tag]))).await;
        let stale = drover.granted(ask("item")).await;
        let confirmed = ended("item", &stale, Outcome::NotModified(NotModified {}));
        drover.accept(confirmed).await;
    }
    drover.end().await;
}

#[tokio::test]
async fn sixteen_tags_in_all_and_one_more_is_refused_and_harms_nothing() {
    let drover = Drover::start().await;
    let sixteen: Vec<String> = (0..16).map(|at| format!("tag {at}")).collect();
    let sixteen: Vec<&str> = sixteen.iter().map(String::as_str).collect();
    let rebuild = drover.granted(tagged("item", &sixteen)).await;
    let twice: Vec<&str> = sixteen.iter().chain(&sixteen).copied().collect();
    let more = with(&["one more"], report("item", &rebuild, "value"));
    let status = drover.calls.clone().report_value(more).await.expect_err("17");
    assert_eq!(fields(&status), ["tags"]);
    drover.accept(with(&twice, report("item", &rebuild, "value"))).await;
    assert_eq!(drover.hit(ask("item")).await.tags.len(), 16);
    // The same bound where a value is only confirmed.
    let rebuild = drover.granted(tagged("item", &["another"])).await;
    let confirmed = ended("item", &rebuild, Outcome::NotModified(NotModified {}));
    let status = drover.calls.clone().report_value(confirmed).await.expect_err("17");
    assert_eq!(fields(&status), ["tags"]);
    drover.accept(report("item", &rebuild, "in full")).await;
    drover.end().await;
}
