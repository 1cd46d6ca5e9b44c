//! The bare tonic service that drover is compared with, and its client.
//!
//! *Owns* methods with messages of any wanted size: `Echo` (unary), `Subscribe` (server stream) and `Publish` (unary, one message to
//! every subscriber); and, once it was told how by `Learn`, `Grant`, `Report` and `Wait`, which make drover's trips to Redis. It is
//! what a person would write who wants nothing but the traffic: no allocation for an answer (all are cut from one buffer), no boxed future
//! for a handler that need not wait, a plain broadcast channel behind the streams.
//!
//! *Why by hand:* generated code needs a `.proto`, and everything under `proto/` is a promise to callers.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use anyhow::Context as _;
use bytes::Bytes;
use tokio::sync::broadcast;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;
use tonic::body::Body;
use tonic::transport::{Server, server::TcpIncoming};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::replay::Replay;

mod client;
mod messages;

pub use client::Client;
pub use messages::{Ask, Blob};

/// The largest answer that can be asked for: above every message that drover's transport lets through.
const LARGEST: usize = 5 << 20;
/// Messages that a subscriber may lag behind.
const BACKLOG: usize = 1 << 16;

const ECHO: &str = "/drover.bench.Bare/Echo";
const PUBLISH: &str = "/drover.bench.Bare/Publish";
const SUBSCRIBE: &str = "/drover.bench.Bare/Subscribe";
const LEARN: &str = "/drover.bench.Bare/Learn";
const GRANT: &str = "/drover.bench.Bare/Grant";
const REPORT: &str = "/drover.bench.Bare/Report";
const WAIT: &str = "/drover.bench.Bare/Wait";
const WAITING: &str = "/drover.bench.Bare/Waiting";

/// The service.
#[derive(Clone)]
struct Bare {
    zeros: Bytes,
    events: broadcast::Sender<Bytes>,
    replay: Arc<OnceLock<Replay>>,
}

impl Bare {
    fn new(zeros: usize, backlog: usize) -> Self {
        Self {
            zeros: Bytes::from(vec![0; zeros]),
            events: broadcast::Sender::new(backlog),
            replay: Arc::default(),
        }
    }

    async fn learn(&self, ask: Ask) -> Result<Blob, Status> {
        let replay = Replay::new(&ask.payload, self.events.clone()).await;
        let replay = replay.map_err(|error| Status::failed_precondition(format!("{error:#}")))?;
        match self.replay.set(replay) {
            Ok(()) => Ok(Blob::default()),
            Err(_) => Err(Status::already_exists("a bare server learns once")),
        }
    }

    fn replay(&self) -> Result<&Replay, Status> {
        self.replay
            .get()
            .ok_or_else(|| Status::failed_precondition("it has learnt nothing"))
    }

    async fn grant(&self, ask: Ask) -> Result<Blob, Status> {
        let revision = self.replay()?.grant(&ask.key).await?;
        Ok(Blob {
            revision,
            ..self.echo(&ask)
        })
    }

    async fn report(&self, ask: Ask) -> Result<Blob, Status> {
        self.replay()?.report(&ask.key, ask.revision).await?;
        Ok(self.echo(&ask))
    }

    async fn wait(&self, ask: Ask) -> Result<Blob, Status> {
        self.replay()?.wait(ask.key.clone()).await?;
        Ok(self.echo(&ask))
    }

    fn cut(&self, length: u32) -> Bytes {
        self.zeros.slice(..(length as usize).min(self.zeros.len()))
    }

    fn echo(&self, ask: &Ask) -> Blob {
        Blob {
            payload: self.cut(ask.answer),
            revision: 0,
        }
    }

    fn publish(&self, ask: &Ask) -> Blob {
        // Nobody listening is no error: the caller counts what arrives.
        let _ = self.events.send(self.cut(ask.event));
        self.echo(ask)
    }

    fn subscribe(&self) -> impl tokio_stream::Stream<Item = Result<Blob, Status>> + Send + use<> {
        BroadcastStream::new(self.events.subscribe()).map(|event| {
            event
                .map(|payload| Blob { payload, revision: 0 })
                .map_err(|_| Status::data_loss("a subscriber fell behind"))
        })
    }
}

impl tonic::server::NamedService for Bare {
    const NAME: &'static str = "drover.bench.Bare";
}

impl tower::Service<http::Request<Body>> for Bare {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let bare = self.clone();
        match request.uri().path() {
            ECHO => Box::pin(async move {
                let handler = Handler(move |ask: Ask| bare.echo(&ask));
                Ok(grpc().unary(handler, request).await)
            }),
            PUBLISH => Box::pin(async move {
                let handler = Handler(move |ask: Ask| bare.publish(&ask));
                Ok(grpc().unary(handler, request).await)
            }),
            SUBSCRIBE => Box::pin(async move {
                let handler = Handler(move |_: Ask| bare.subscribe());
                Ok(grpc().server_streaming(handler, request).await)
            }),
            LEARN => Box::pin(async move { Ok(grpc().unary(Trips(bare, Trip::Learn), request).await) }),
            GRANT => Box::pin(async move { Ok(grpc().unary(Trips(bare, Trip::Grant), request).await) }),
            REPORT => Box::pin(async move { Ok(grpc().unary(Trips(bare, Trip::Report), request).await) }),
            WAITING => Box::pin(async move {
                let handler = Handler(move |_: Ask| Blob {
                    revision: bare.replay.get().map_or(0, Replay::parked),
                    ..Blob::default()
                });
                Ok(grpc().unary(handler, request).await)
            }),
            WAIT => Box::pin(async move { Ok(grpc().unary(Trips(bare, Trip::Wait), request).await) }),
            _ => Box::pin(ready(Ok(
                Status::unimplemented("the bare server does not know this").into_http()
            ))),
        }
    }
}

fn grpc() -> tonic::server::Grpc<ProstCodec<Blob, Ask>> {
    tonic::server::Grpc::new(ProstCodec::default())
}

/// A handler that answers at once: no boxed future, unlike what code generation makes.
struct Handler<F>(F);

impl<F, A> tower::Service<Request<Ask>> for Handler<F>
where
    F: Fn(Ask) -> A,
{
    type Response = Response<A>;
    type Error = Status;
    type Future = Ready<Result<Response<A>, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Ask>) -> Self::Future {
        ready(Ok(Response::new((self.0)(request.into_inner()))))
    }
}

/// Which of the calls that wait for Redis.
#[derive(Clone, Copy)]
enum Trip {
    Learn,
    Grant,
    Report,
    Wait,
}

/// A handler that waits for Redis.
struct Trips(Bare, Trip);

impl tower::Service<Request<Ask>> for Trips {
    type Response = Response<Blob>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Blob>, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Ask>) -> Self::Future {
        let (bare, trip, ask) = (self.0.clone(), self.1, request.into_inner());
        Box::pin(async move {
            let answer = match trip {
                Trip::Learn => bare.learn(ask).await,
                Trip::Grant => bare.grant(ask).await,
                Trip::Report => bare.report(ask).await,
                Trip::Wait => bare.wait(ask).await,
            };
            answer.map(Response::new)
        })
    }
}

/// Listens on `address`, prints where, and serves until standard input closes: so it ends with the process that started it,
/// however that ends.
pub async fn serve_until_input_closes(address: SocketAddr) -> anyhow::Result<()> {
    let incoming = TcpIncoming::bind(address)
        .context("the bare server cannot listen")?
        .with_nodelay(Some(true));
    anstream::println!("bare tonic server on {}", incoming.local_addr()?);
    let (closed, input) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        drop(closed);
    });
    let serving = serve(incoming);
    tokio::select! {
        served = serving => served,
        _ = input => Ok(()),
    }
}

async fn serve(incoming: TcpIncoming) -> anyhow::Result<()> {
    let bare = Bare::new(LARGEST, BACKLOG);
    Server::builder()
        .add_service(bare)
        .serve_with_incoming(incoming)
        .await
        .context("the bare server failed")
}

#[cfg(test)]
mod tests {
    use super::super::wire::Exchange;
    use super::*;
    use prost::Message as _;
    use tokio::task::JoinSet;

    #[test]
    fn an_answer_has_the_encoded_length_that_was_asked_for() {
        let bare = Bare::new(4096, 1);
        for answer in [3, 40, 129, 131, 200, 3_000] {
            assert_eq!(bare.echo(&Ask::sized(100, answer, 0)).encoded_len(), answer);
        }
        assert_eq!(
            bare.echo(&Ask::sized(100, 130, 0)).encoded_len(),
            129,
            "no payload makes 130"
        );
        assert_eq!(bare.echo(&Ask::sized(100, 0, 0)).encoded_len(), 0);
    }

    #[test]
    fn a_call_about_a_key_is_as_long_as_drovers() {
        let sizes = Exchange {
            request: 120,
            answer: 60,
        };
        let key = || "k0123456789-123456789".to_owned();
        let (grant, report) = (Ask::about(key(), sizes), Ask::about_grant(key(), u64::MAX, sizes));
        assert_eq!([grant.encoded_len(), report.encoded_len()], [120, 120]);
        let bare = Bare::new(4096, 1);
        let granted = Blob {
            revision: u64::MAX,
            ..bare.echo(&grant)
        };
        assert_eq!([granted.encoded_len(), bare.echo(&report).encoded_len()], [60, 60]);
    }

    #[test]
    fn an_answer_larger_than_the_buffer_is_cut_and_does_not_panic() {
        let bare = Bare::new(16, 1);
        assert_eq!(
            bare.echo(&Ask {
                answer: u32::MAX,
                ..Ask::default()
            })
            .payload
            .len(),
            16
        );
    }

    /// A server on a free port, which ends with the set, and a client of it.
    async fn served() -> anyhow::Result<(JoinSet<anyhow::Result<()>>, Client)> {
        let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = incoming.local_addr()?;
        let mut server = JoinSet::new();
        server.spawn(serve(incoming));
        let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}"))?
            .connect()
            .await?;
        Ok((server, Client::new(channel)))
    }

    #[tokio::test]
    async fn an_echo_is_as_long_as_it_was_asked_to_be() -> anyhow::Result<()> {
        let (_server, mut client) = served().await?;
        assert_eq!(client.echo(Ask::sized(64, 113, 0)).await?.encoded_len(), 113);
        Ok(())
    }

    #[tokio::test]
    async fn what_is_published_reaches_whoever_had_subscribed() -> anyhow::Result<()> {
        let (_server, mut client) = served().await?;
        let mut streams = [client.subscribe().await?, client.subscribe().await?];
        assert_eq!(client.publish(Ask::sized(31, 0, 84)).await?.encoded_len(), 0);
        for stream in &mut streams {
            assert_eq!(stream.message().await?.map(|event| event.encoded_len()), Some(84));
        }
        Ok(())
    }
}
