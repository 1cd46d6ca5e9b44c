//! `Watch`: a stream of requests and a watcher's stream of events, as one.
//!
//! *Owns* the order of the client's messages: one Subscribe first, acknowledgements after it.
//!
//! *Never does* spawn: requests are read as part of the answer's stream, so nothing outlives it, and a client that closes its own side
//! goes on hearing events. The answer's stream exists at once, so the response headers leave before the Subscribe is read.
//!
//! *Invariant.* Requests get their turn before each event, but never more than `TURN` of them: neither side can starve the other.
//!
//! *Why no task that reads requests on the side*: it would have to be joined, and would cost each watcher a task and a channel. The
//! price: while a client does not read, its acknowledgements are not read either. A client must not wait for an Ack to be written
//! before it reads on, as with any bidirectional call.

mod convert;
mod refusal;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::Stream;
use tokio::time::sleep;
use tonic::Status;

use crate::config::Policies;
use crate::coordinator::Error;
use crate::fanout::{Hub, Watching};
use crate::proto::watch_request::Kind;
use crate::proto::{Ack, Subscribe, WatchRequest, WatchResponse};
use refusal::Refusal;

use super::convert::{Violations, check_ack, check_subscribe};
use super::status;

/// So many requests are read between two events.
const TURN: usize = 64;
/// A stream on which no Subscribe comes ends after this.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Answers one call of `Watch`. The stream ends with an error if the client breaks the protocol; dropping it unsubscribes.
pub fn watch<R>(hub: &Arc<Hub>, policies: &Policies, requests: R) -> Watch<R>
where
    R: Stream<Item = Result<WatchRequest, Status>> + Unpin,
{
    let (patience, stopping) = (sleep(PATIENCE), hub.stopping());
    let give_up = async move {
        tokio::select! {
            () = patience => Refusal::NoSubscribe,
            () = stopping => Refusal::Draining,
        }
    };
    Watch {
        hub: hub.clone(),
        policies: policies.clone(),
        requests: Some(requests),
        stage: Stage::Opening(Box::pin(give_up)),
    }
}

/// The answer to a call of `Watch`.
pub struct Watch<R> {
    hub: Arc<Hub>,
    policies: Policies,
    /// `None` once the client has closed its side.
    requests: Option<R>,
    stage: Stage,
}

enum Stage {
    /// Nothing came yet; the future ends when it is no use waiting.
    Opening(Pin<Box<dyn Future<Output = Refusal> + Send>>),
    Live(Box<Watching>),
    Ended,
}

impl<R> Watch<R>
where
    R: Stream<Item = Result<WatchRequest, Status>> + Unpin,
{
    /// Reads requests until there are none for now.
    fn poll_requests(&mut self, cx: &mut Context<'_>) -> Result<(), Status> {
        for _ in 0..TURN {
            let Some(requests) = &mut self.requests else {
                return Ok(());
            };
            match Pin::new(requests).poll_next(cx) {
                Poll::Ready(Some(request)) => self.hear(request.map_err(status::unreadable)?)?,
                Poll::Ready(None) => {
                    self.requests = None;
                    if matches!(self.stage, Stage::Opening(_)) {
                        return Err(Refusal::NoSubscribe.into());
                    }
                }
                Poll::Pending => return Ok(()),
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    fn hear(&mut self, request: WatchRequest) -> Result<(), Status> {
        match (&self.stage, request.kind) {
            (_, None) => Err(Violations::one("kind", "is not set; set subscribe or ack").into()),
            (Stage::Opening(_), Some(Kind::Subscribe(subscribe))) => self.subscribe(subscribe),
            (Stage::Opening(_), Some(Kind::Ack(_))) => Err(Refusal::AckFirst.into()),
            (_, Some(Kind::Subscribe(_))) => Err(Refusal::SubscribedTwice.into()),
            (Stage::Live(watching), Some(Kind::Ack(ack))) => acknowledge(watching, &ack),
            (Stage::Ended, Some(Kind::Ack(_))) => Ok(()),
        }
    }

    fn subscribe(&mut self, subscribe: Subscribe) -> Result<(), Status> {
        check_subscribe(&subscribe)?;
        // Who watches what is not served hears nothing, and would trust its copies for ever.
        if let Some(unknown) = subscribe
            .namespaces
            .iter()
            .find(|name| self.policies.of(name).is_none())
        {
            return Err(Error::UnknownNamespace(unknown.clone()).into());
        }
        let watching = self
            .hub
            .watch(&convert::subscription(subscribe))
            .map_err(Refusal::Hub)?;
        self.stage = Stage::Live(Box::new(watching));
        Ok(())
    }

    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchResponse, Status>>> {
        match &mut self.stage {
            Stage::Opening(give_up) => {
                let refusal = ready!(give_up.as_mut().poll(cx));
                Poll::Ready(Some(Err(refusal.into())))
            }
            Stage::Live(watching) => Pin::new(&mut **watching)
                .poll_next(cx)
                .map(|event| Some(Ok(convert::event(event?)))),
            Stage::Ended => Poll::Ready(None),
        }
    }
}

fn acknowledge(watching: &Watching, ack: &Ack) -> Result<(), Status> {
    check_ack(ack)?;
    let known = watching.acknowledge(&ack.cursor);
    known.map_err(|bad| Violations::one("ack.cursor", format!("is {bad}")))?;
    for read in &ack.hits {
        watching.hit(&read.namespace, &read.key, u64::try_from(read.hits).unwrap_or(0));
    }
    Ok(())
}

impl<R> Stream for Watch<R>
where
    R: Stream<Item = Result<WatchRequest, Status>> + Unpin,
{
    type Item = Result<WatchResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if matches!(self.stage, Stage::Ended) {
            return Poll::Ready(None);
        }
        let answer = match self.poll_requests(cx) {
            Ok(()) => ready!(self.poll_events(cx)),
            Err(status) => Some(Err(status)),
        };
        if !matches!(answer, Some(Ok(_))) {
            self.stage = Stage::Ended;
            self.requests = None;
        }
        Poll::Ready(answer)
    }
}

#[cfg(test)]
mod tests;
