//! `CoordinatorService`: what services call.
//!
//! Each call is three steps: check and convert, ask the coordinator, convert back. The answer is seen by `observe` on its way.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use super::{convert, deadline, observe};
use crate::coordinator::Coordinator;
use crate::metrics::Metrics;
use crate::proto;
use crate::proto::coordinator_service_server::CoordinatorService;

/// The answer of a call.
type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send + 'a>>;

/// The answers of a stream.
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Answers `CoordinatorService` by asking the coordinator.
#[derive(Clone)]
pub struct CoordinatorRpc {
    coordinator: Arc<Coordinator>,
    metrics: Arc<Metrics>,
}

impl CoordinatorRpc {
    /// Asks this one, and counts the answers.
    pub fn new(coordinator: Arc<Coordinator>, metrics: Arc<Metrics>) -> CoordinatorRpc {
        CoordinatorRpc { coordinator, metrics }
    }
}

#[tonic::async_trait]
impl CoordinatorService for CoordinatorRpc {
    // Not an `async fn`: it would hold the request beside the question made of it for as long as the caller is parked.
    fn acquire_rebuild<'a, 'answer>(
        &'a self,
        request: Request<proto::AcquireRebuildRequest>,
    ) -> Answer<'answer, proto::AcquireRebuildResponse>
    where
        'a: 'answer,
    {
        let answer_by = deadline::answer_by(request.metadata());
        let traceparent = traceparent(request.metadata());
        let question = convert::acquire(request.into_inner(), answer_by, traceparent);
        Box::pin(async move {
            let question = question.as_ref().map_err(|violations| violations.clone())?;
            let acquired = self.coordinator.acquire(question).await?;
            observe::acquired(&self.metrics, question.key.namespace(), &acquired);
            Ok(Response::new(convert::acquired(acquired)))
        })
    }

    async fn renew_lease(
        &self,
        request: Request<proto::RenewLeaseRequest>,
    ) -> Result<Response<proto::RenewLeaseResponse>, Status> {
        let renewal = convert::renew(request.into_inner())?;
        let key = renewal.key.clone();
        let renewed = self.coordinator.renew(renewal).await?;
        observe::renewed(&self.metrics, key.namespace(), &renewed);
        Ok(Response::new(convert::renewed(renewed)))
    }

    async fn report_value(
        &self,
        request: Request<proto::ReportValueRequest>,
    ) -> Result<Response<proto::ReportValueResponse>, Status> {
        let report = convert::report(request.into_inner())?;
        let about = observe::About::of(&report);
        let reported = self.coordinator.report(report).await?;
        about.reported(&self.metrics, &reported);
        Ok(Response::new(convert::reported(reported)))
    }

    async fn invalidate(
        &self,
        request: Request<proto::InvalidateRequest>,
    ) -> Result<Response<proto::InvalidateResponse>, Status> {
        let left = deadline::time_left(request.metadata());
        let invalidation = convert::invalidate(request.into_inner(), left)?;
        let (namespace, mode) = (invalidation.namespace.clone(), invalidation.mode);
        let invalidated = self.coordinator.invalidate(invalidation).await?;
        observe::invalidated(&self.metrics, &namespace, mode, &invalidated);
        Ok(Response::new(convert::invalidated(invalidated)))
    }

    type WatchStream = Answers<proto::WatchResponse>;

    async fn watch(
        &self,
        request: Request<Streaming<proto::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let events = super::watch::watch(
            self.coordinator.hub(),
            self.coordinator.policies(),
            request.into_inner(),
        );
        Ok(Response::new(Box::pin(events)))
    }

    type PullRefreshesStream = Answers<proto::PullRefreshesResponse>;

    async fn pull_refreshes(
        &self,
        request: Request<Streaming<proto::PullRefreshesRequest>>,
    ) -> Result<Response<Self::PullRefreshesStream>, Status> {
        let tasks = super::pull::pull(&self.coordinator, request.into_inner());
        Ok(Response::new(Box::pin(tasks)))
    }

    async fn schedule_refresh(
        &self,
        request: Request<proto::ScheduleRefreshRequest>,
    ) -> Result<Response<proto::ScheduleRefreshResponse>, Status> {
        let traceparent = traceparent(request.metadata());
        let plan = convert::schedule(request.into_inner(), traceparent)?;
        let scheduled = self.coordinator.schedule(plan).await?;
        Ok(Response::new(convert::scheduled(scheduled)))
    }
}

/// The caller's W3C `traceparent`: what is passed on to those who are served what this caller builds. Text of another shape counts
/// as none.
fn traceparent(metadata: &MetadataMap) -> Option<Arc<str>> {
    let text = metadata.get("traceparent")?.to_str().ok()?;
    is_traceparent(text).then(|| text.into())
}

/// `00-` 32 digits `-` 16 digits `-` 2 digits, all hexadecimal in lower case, no id all zero. Other versions do not exist yet.
fn is_traceparent(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut hex = |length: usize| {
        parts
            .next()
            .filter(|part| part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
    };
    let named = |id: &str| id.bytes().any(|byte| byte != b'0');
    let known = hex(2).is_some_and(|version| version == "00")
        && hex(32).is_some_and(named)
        && hex(16).is_some_and(named)
        && hex(2).is_some();
    known && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_w3c_traceparent_is_passed_on() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert!(is_traceparent(good));
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert!(!is_traceparent(bad), "{bad}");
        }
    }
}
