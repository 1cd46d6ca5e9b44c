//! The gRPC port: one task a connection, each with its own age and its own end.
//!
//! *Owns* the settings of HTTP/2, and how a connection ends: told to go (GOAWAY) when it is old or the server leaves, cut when
//! what runs on it is not done in time.
//!
//! *Why not* `tonic::transport::Server`: it gives all connections the same age, so that the callers that came together after a
//! rollout come back together, for ever; and it puts a timeout around each call that answers CANCELLED at the very deadline where
//! drover promises an answer just before it. What is left to do is this loop.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

/// What a client of HTTP/2 says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A client that has not said it by then is sent away.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a part of it, which hardly ever comes alone.
const PEEK_AGAIN: Duration = Duration::from_millis(20);
/// Calls at once on one connection. A parked acquire is one of them, and a client has one connection for all its callers: this is
/// twice what a policy lets wait for one key.
const MAX_CONCURRENT_STREAMS: u32 = 20_000;
/// Calls that a client may take back before they were looked at; more, and the connection is ended: the rapid-reset attack.
const MAX_PENDING_RESETS: usize = 200;
/// Of all headers of a call together.
const MAX_HEADERS: u32 = 16 << 10;
/// A connection that is silent for so long is asked whether anybody is there …
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// … and is given up if nobody says so in time; whoever was parked on it has left.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// What runs on a connection that was told to go may go on for so long: the default of a policy's longest hold.
const GRACE: Duration = Duration::from_secs(120);
/// Each connection's age is drawn from this part around the one that is set.
const AGE_JITTER: f64 = 0.1;
/// After an accept that failed, mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How a server's connections live and end.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    /// About how old they get; `None`: as old as they like.
    pub(super) max_age: Option<Duration>,
    /// No new ones, and those that exist are told to go.
    pub(super) closing: CancellationToken,
    /// All are cut.
    pub(super) cut: CancellationToken,
    /// Waits for them.
    pub(super) tasks: TaskTracker,
}

impl Connections {
    /// Accepts until it is closing or cut.
    pub(super) async fn accept<S, B>(self, listener: TcpListener, service: S)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send + 'static,
        B: hyper::body::Body<Data = Bytes, Error: Into<tonic::codegen::StdError>> + Send + 'static,
    {
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                () = self.cut.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    self.tasks.spawn(self.clone().serve(stream, service.clone()));
                }
                Err(error) => {
                    if !is_of_one_connection(&error) {
                        tracing::warn!(%error, "no connection can be accepted; trying again");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }
    }

    async fn serve<S, B>(self, stream: TcpStream, service: S)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send + 'static,
        B: hyper::body::Body<Data = Bytes, Error: Into<tonic::codegen::StdError>> + Send + 'static,
    {
        // Answers are small and somebody waits for each of them.
        if stream.set_nodelay(true).is_err() {
            return;
        }
        tokio::select! {
            greets = greets(&stream) => if !greets {
                return;
            },
            () = self.closing.cancelled() => return,
            () = self.cut.cancelled() => return,
        }
        let connection = http2().serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        let mut connection = pin!(connection);
        let age = self.max_age.map(|age| Instant::now() + jittered(age));
        tokio::select! {
            _ = &mut connection => return,
            () = self.cut.cancelled() => return,
            () = self.closing.cancelled() => {}
            () = at(age) => {}
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            _ = &mut connection => {}
            () = self.cut.cancelled() => {}
            () = sleep(GRACE) => tracing::debug!("a connection that was told to go is cut"),
        }
    }
}

/// Whether the client says in time that it speaks HTTP/2: keepalive looks after a connection only from then on. What it says is
/// left for whoever reads the stream.
async fn greets(stream: &TcpStream) -> bool {
    let greeting = async {
        let mut said = [0; PREFACE.len()];
        loop {
            match stream.peek(&mut said).await {
                Ok(0) | Err(_) => return false,
                Ok(length) if length < PREFACE.len() && PREFACE.starts_with(&said[..length]) => {}
                // Whoever says something else is told so by HTTP/2.
                Ok(_) => return true,
            }
            // A part is there, so that the stream is readable: it does not say when there is more.
            sleep(PEEK_AGAIN).await;
        }
    };
    timeout(PATIENCE, greeting).await.unwrap_or(false)
}

fn http2() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_header_list_size(MAX_HEADERS)
        // No gRPC client reads it.
        .auto_date_header(false);
    builder
}

/// The caller has gone between knocking and being let in: nothing to log, nothing to wait for.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}

fn jittered(age: Duration) -> Duration {
    let around: f64 = rand::random_range(-AGE_JITTER..=AGE_JITTER);
    age.mul_f64(1.0 + around)
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[test]
    fn ages_lie_within_a_tenth_around_the_one_that_is_set_and_differ() {
        let set = Duration::from_secs(1_000);
        let ages: Vec<Duration> = (0..100).map(|_| jittered(set)).collect();
        let around = Duration::from_secs(900)..=Duration::from_secs(1_100);
        assert!(ages.iter().all(|age| around.contains(age)), "{ages:?}");
        assert!(ages.iter().any(|age| *age != ages[0]));
    }

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (client.expect("connected"), accepted.expect("accepted").0)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_says_what_it_speaks_is_sent_away() {
        let (mut client, stream) = pair().await;
        assert!(!greets(&stream).await, "it says nothing");
        client.write_all(&PREFACE[..10]).await.expect("sent");
        assert!(!greets(&stream).await, "it stops half-way");
    }

    #[tokio::test]
    async fn a_client_that_says_it_is_let_in_and_one_that_says_something_else_is_left_to_http2() {
        let (mut client, stream) = pair().await;
        client.write_all(&PREFACE[..10]).await.expect("sent");
        let (greets_well, _) = tokio::join!(greets(&stream), client.write_all(&PREFACE[10..]));
        assert!(greets_well);
        let (mut client, stream) = pair().await;
        client.write_all(b"GET / HTTP/1.1\r\n").await.expect("sent");
        assert!(greets(&stream).await);
        let (client, stream) = pair().await;
        drop(client);
        assert!(!greets(&stream).await);
    }
}
