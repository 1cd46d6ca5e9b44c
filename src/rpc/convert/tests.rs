//! What is refused, what passes, and what answers say.

mod answers;
mod arbitrary;
mod limits;
mod pages;

use super::*;
use crate::proto;

fn question() -> proto::AcquireRebuildRequest {
    proto::AcquireRebuildRequest {
        namespace: "shop".to_owned(),
        key: "product:1".to_owned(),
        ..Default::default()
    }
}

fn report_of(outcome: proto::report_value_request::Outcome) -> proto::ReportValueRequest {
    proto::ReportValueRequest {
        namespace: "shop".to_owned(),
        key: "product:1".to_owned(),
        lease_id: "l1-0000000000000001".to_owned(),
        outcome: Some(outcome),
        ..Default::default()
    }
}

fn renewal() -> proto::RenewLeaseRequest {
    proto::RenewLeaseRequest {
        namespace: "shop".to_owned(),
        key: "product:1".to_owned(),
        lease_id: "l1-0000000000000001".to_owned(),
        ttl: None,
    }
}

fn invalidation() -> proto::InvalidateRequest {
    proto::InvalidateRequest {
        namespace: "shop".to_owned(),
        keys: vec!["product:1".to_owned()],
        ..Default::default()
    }
}

fn span(seconds: i64, nanos: i32) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos })
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("t{number}")).collect()
}

/// The fields that were refused.
fn fields<T>(result: Result<T, Violations>) -> Vec<String> {
    match result {
        Ok(_) => Vec::new(),
        Err(violations) => violations.list().iter().map(|found| found.field.clone()).collect(),
    }
}
