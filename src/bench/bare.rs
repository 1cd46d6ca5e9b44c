//! The bare tonic service that drover is compared with, and its client.
//!
//! *Owns* methods with messages of any wanted size: `Echo` (unary), `Subscribe` (server stream) and `Publish` (unary, one message to
//! every subscriber); and, once it was told how by `Learn`, `Grant`, `Report` and `Wait`, which make drover's trips to Redis. It is what a person would write who wants nothing but the traffic: no allocation for an answer
//! (all are cut from one buffer), no boxed future a handler, a plain broadcast channel behind the streams.
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
use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::broadcast;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;
use tonic::body::Body;
use tonic::transport::{Channel, Server, server::TcpIncoming};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::replay::Replay;
use super::wire::Exchange;

/// The largest answer that can be asked for: above every message that drover's transport lets through.
const LARGEST: usize = 5 << 20;
/// Messages that a subscriber may lag behind.
const BACKLOG: usize = 1024;

const ECHO: &str = "/drover.bench.Bare/Echo";
const PUBLISH: &str = "/drover.bench.Bare/Publish";
const SUBSCRIBE: &str = "/drover.bench.Bare/Subscribe";
const LEARN: &str = "/drover.bench.Bare/Learn";
const GRANT: &str = "/drover.bench.Bare/Grant";
const REPORT: &str = "/drover.bench.Bare/Report";
const WAIT: &str = "/drover.bench.Bare/Wait";
const WAITING: &str = "/drover.bench.Bare/Waiting";

/// A request: as long as wanted, and it says how long the answers shall be.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Ask {
    /// Fills the request up.
    #[prost(bytes = "bytes", tag = "1")]
    pub payload: Bytes,
    /// Payload of the answer, in bytes.
    #[prost(uint32, tag = "2")]
    pub answer: u32,
    /// Payload of the message that is published, in bytes.
    #[prost(uint32, tag = "3")]
    pub event: u32,
    /// What a call to Redis is about.
    #[prost(bytes = "bytes", tag = "4")]
    pub key: Bytes,
    /// Of the grant that is reported.
    #[prost(fixed64, tag = "5")]
    pub revision: u64,
}

/// An answer or an event.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Blob {
    /// Zeros.
    #[prost(bytes = "bytes", tag = "1")]
    pub payload: Bytes,
    /// Of a grant.
    #[prost(fixed64, tag = "2")]
    pub revision: u64,
}

/// What a revision takes in a message.
const REVISION: usize = 9;

impl Ask {
    /// A request that takes `request` bytes encoded, for an answer that takes `answer` bytes, and an event that takes `event`.
    /// Where no payload gives exactly that length, one byte less.
    pub fn sized(request: usize, answer: usize, event: usize) -> Self {
        let small = |bytes| u32::try_from(payload_of(bytes)).unwrap_or(u32::MAX);
        let ask = Self {
            answer: small(answer),
            event: small(event),
            ..Self::default()
        };
        ask.filled_up_to(request)
    }

    /// A request about a key that is answered with a revision.
    pub fn about(key: String, sizes: Exchange) -> Self {
        let ask = Self {
            key: key.into(),
            ..Self::sized(0, sizes.answer.saturating_sub(REVISION), 0)
        };
        ask.filled_up_to(sizes.request)
    }

    /// A request about a grant of this revision.
    pub fn about_grant(key: String, revision: u64, sizes: Exchange) -> Self {
        let ask = Self {
            key: key.into(),
            revision,
            ..Self::sized(0, sizes.answer, 0)
        };
        ask.filled_up_to(sizes.request)
    }

    fn filled_up_to(mut self, request: usize) -> Self {
        self.payload = Bytes::new();
        self.payload = Bytes::from(vec![0; payload_of(request.saturating_sub(self.encoded_len()))]);
        self
    }
}

/// Length of the payload that makes a field of `field` bytes: its tag, the length as a varint, and itself.
fn payload_of(field: usize) -> usize {
    let mut payload = field.saturating_sub(2);
    while 1 + prost::length_delimiter_len(payload) + payload > field.max(2) {
        payload -= 1;
    }
    payload
}

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

/// Calls the bare service over one channel.
#[derive(Clone)]
pub struct Client(tonic::client::Grpc<Channel>);

impl Client {
    /// Over this connection.
    pub fn new(channel: Channel) -> Self {
        Self(tonic::client::Grpc::new(channel))
    }

    /// One unary call.
    pub async fn echo(&mut self, ask: Ask) -> Result<Blob, Status> {
        self.unary(ask, ECHO).await
    }

    /// One message to every subscriber.
    pub async fn publish(&mut self, ask: Ask) -> Result<Blob, Status> {
        self.unary(ask, PUBLISH).await
    }

    /// Tells how it is to make drover's trips.
    pub async fn learn(&mut self, lesson: Bytes) -> Result<Blob, Status> {
        let ask = Ask {
            payload: lesson,
            ..Ask::default()
        };
        self.unary(ask, LEARN).await
    }

    /// A grant's trip; answers its revision.
    pub async fn grant(&mut self, ask: Ask) -> Result<Blob, Status> {
        self.unary(ask, GRANT).await
    }

    /// A report's trip.
    pub async fn report(&mut self, ask: Ask) -> Result<Blob, Status> {
        self.unary(ask, REPORT).await
    }

    /// Until a report of the key, at any of the servers.
    pub async fn wait(&mut self, ask: Ask) -> Result<Blob, Status> {
        self.unary(ask, WAIT).await
    }

    /// How many wait.
    pub async fn waiting(&mut self) -> Result<u64, Status> {
        Ok(self.unary(Ask::default(), WAITING).await?.revision)
    }

    /// What is published from now on.
    pub async fn subscribe(&mut self) -> Result<Streaming<Blob>, Status> {
        self.ready().await?;
        let path = PathAndQuery::from_static(SUBSCRIBE);
        let answer = self
            .0
            .server_streaming(Request::new(Ask::default()), path, codec())
            .await?;
        Ok(answer.into_inner())
    }

    async fn unary(&mut self, ask: Ask, path: &'static str) -> Result<Blob, Status> {
        self.ready().await?;
        let answer = self
            .0
            .unary(Request::new(ask), PathAndQuery::from_static(path), codec())
            .await?;
        Ok(answer.into_inner())
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.0
            .ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))
    }
}

fn codec() -> ProstCodec<Ask, Blob> {
    ProstCodec::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::JoinSet;

    #[test]
    fn a_request_has_the_encoded_length_that_was_asked_for() {
        for request in [20, 64, 128, 133, 300, 5_000, 1 << 20] {
            let ask = Ask::sized(request, 90, 0);
            let found = ask.encoded_len();
            assert!(
                found == request || found + 1 == request,
                "{found} bytes instead of {request}"
            );
        }
    }

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
