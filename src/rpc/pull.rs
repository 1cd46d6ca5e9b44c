//! `PullRefreshes`: a stream of registrations and a worker's stream of tasks, as one.
//!
//! *Owns* the order of the client's messages: one Register first, further ones whenever it wants more or less. A client that closes its own side
//! wants no more, and hears of the end once it has nothing in hand.
//!
//! *Never does* spawn: see [`watch`](super::watch) for why, and for what that costs.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use tokio::time::sleep;
use tonic::Status;

use super::convert::{self, Violations};
use super::status::{self, draining, stream_protocol};
use super::watch::PATIENCE;
use crate::coordinator::{Coordinator, Pulling};
use crate::proto::pull_refreshes_request::Kind;
use crate::proto::{PullRefreshesRequest, PullRefreshesResponse, Register};

/// So many requests are read between two tasks.
const TURN: usize = 64;

/// Answers one call of `PullRefreshes`. Dropping the stream unregisters the worker.
pub fn pull<R>(coordinator: &Arc<Coordinator>, requests: R) -> Pull<R>
where
    R: Stream<Item = Result<PullRefreshesRequest, Status>> + Unpin,
{
    let (patience, stopping) = (sleep(PATIENCE), coordinator.hub().stopping());
    let give_up = async move {
        tokio::select! {
            () = patience => no_register(),
            () = stopping => draining(),
        }
    };
    Pull {
        coordinator: coordinator.clone(),
        requests: Some(requests),
        stage: Stage::Opening(Box::pin(give_up)),
    }
}

/// The answer to a call of `PullRefreshes`.
pub struct Pull<R> {
    coordinator: Arc<Coordinator>,
    /// `None` once the client has closed its side.
    requests: Option<R>,
    stage: Stage,
}

enum Stage {
    /// Nothing came yet; the future ends when it is no use waiting.
    Opening(Pin<Box<dyn Future<Output = Status> + Send>>),
    Live(Box<Pulling>),
    Ended,
}

impl<R> Pull<R>
where
    R: Stream<Item = Result<PullRefreshesRequest, Status>> + Unpin,
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
                    match &mut self.stage {
                        Stage::Opening(_) => return Err(no_register()),
                        Stage::Live(pulling) => pulling.retire(),
                        Stage::Ended => {}
                    }
                }
                Poll::Pending => return Ok(()),
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    fn hear(&mut self, request: PullRefreshesRequest) -> Result<(), Status> {
        match request.kind {
            None => Err(Violations::one("kind", "is not set; set register").into()),
            Some(Kind::Register(register)) => self.register(register),
        }
    }

    fn register(&mut self, register: Register) -> Result<(), Status> {
        let registration = convert::register(register)?;
        match &self.stage {
            Stage::Opening(_) => {
                let pulling = self.coordinator.pull(registration)?;
                self.stage = Stage::Live(Box::new(pulling));
            }
            Stage::Live(pulling) => pulling.change(registration)?,
            Stage::Ended => {}
        }
        Ok(())
    }

    fn poll_tasks(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<PullRefreshesResponse, Status>>> {
        match &mut self.stage {
            Stage::Opening(give_up) => Poll::Ready(Some(Err(ready!(give_up.as_mut().poll(cx))))),
            Stage::Live(pulling) => Pin::new(&mut **pulling)
                .poll_next(cx)
                .map(|pulled| Some(Ok(convert::pulled(pulled?)))),
            Stage::Ended => Poll::Ready(None),
        }
    }
}

fn no_register() -> Status {
    stream_protocol("no register came; send it as the first message of the stream")
}

impl<R> Stream for Pull<R>
where
    R: Stream<Item = Result<PullRefreshesRequest, Status>> + Unpin,
{
    type Item = Result<PullRefreshesResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if matches!(self.stage, Stage::Ended) {
            return Poll::Ready(None);
        }
        let answer = match self.poll_requests(cx) {
            Ok(()) => ready!(self.poll_tasks(cx)),
            Err(status) => Some(Err(status)),
        };
        if !matches!(answer, Some(Ok(_))) {
            self.stage = Stage::Ended;
            self.requests = None;
        }
        Poll::Ready(answer)
    }
}
