//! A cable that can be cut: forwards TCP connections to one server and, while they live, delays them, stops them, swallows what they
//! carry in either direction, or breaks them.
//!
//! *Why swallow*: a process that is stopped, or a reader that pauses, still takes what is in its socket's buffer later, and hides the
//! loss. Bytes that were swallowed are gone, and their way never works again, as after a lost network path: both ends think it is open,
//! and the other way may go on.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What becomes of bytes on their way in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    #[default]
    Pass,
    /// They wait until it is over, and then arrive.
    Stall,
    /// They are lost, and so is all that follows on this connection, without a word.
    Swallow,
    /// They arrive so much later.
    Delay(Duration),
}

/// What the cable does now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    pub to_server: Way,
    pub to_client: Way,
    /// New connections are reset.
    pub refuse: bool,
}

impl Mode {
    pub const PASS: Mode = Mode::both(Way::Pass);

    pub const fn both(way: Way) -> Mode {
        Mode {
            to_server: way,
            to_client: way,
            refuse: false,
        }
    }
}

/// One cable. Dropped, it is torn out.
pub struct Proxy {
    pub address: SocketAddr,
    mode: watch::Sender<Mode>,
    upstream: watch::Sender<SocketAddr>,
    /// Cuts the connections that there are.
    cut: watch::Sender<CancellationToken>,
    listening: JoinHandle<()>,
}

impl Proxy {
    pub async fn to(upstream: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (mode, modes) = watch::channel(Mode::PASS);
        let (upstream, upstreams) = watch::channel(upstream);
        let (cut, cuts) = watch::channel(CancellationToken::new());
        let listening = tokio::spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else {
                    continue;
                };
                if modes.borrow().refuse {
                    reset(&client);
                    continue;
                }
                let (to, cut) = (*upstreams.borrow(), cuts.borrow().clone());
                tokio::spawn(carry(client, to, modes.clone(), cut));
            }
        });
        Proxy {
            address,
            mode,
            upstream,
            cut,
            listening,
        }
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Connections to come go there.
    pub fn lead_to(&self, upstream: SocketAddr) {
        self.upstream.send_replace(upstream);
    }

    /// Breaks every connection with a reset.
    pub fn reset(&self) {
        self.cut.send_replace(CancellationToken::new()).cancel();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
        self.cut.borrow().cancel();
    }
}

/// The other end is told so when it is dropped.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

async fn carry(client: TcpStream, upstream: SocketAddr, modes: watch::Receiver<Mode>, cut: CancellationToken) {
    let _ = client.set_nodelay(true);
    let connecting = async {
        // In a cable that is cut nobody answers, nor says no.
        pass(&modes, |mode| mode.to_server).await;
        TcpStream::connect(upstream).await
    };
    let server = tokio::select! {
        () = cut.cancelled() => return reset(&client),
        server = connecting => server,
    };
    let Ok(server) = server else { return reset(&client) };
    let _ = server.set_nodelay(true);
    // Wherever this ends from here on without a proper end before, both sides see a broken connection.
    reset(&client);
    reset(&server);
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let up = pump(from_client, to_server, modes.clone(), |mode| mode.to_server);
    let down = pump(from_server, to_client, modes, |mode| mode.to_client);
    tokio::select! {
        () = cut.cancelled() => {}
        _ = futures_util::future::join(up, down) => {}
    }
}

/// Waits until the cable is whole; one that swallows is never again for who is connecting.
async fn pass(modes: &watch::Receiver<Mode>, way: fn(&Mode) -> Way) {
    let mut modes = modes.clone();
    while matches!(way(&modes.borrow_and_update()), Way::Stall | Way::Swallow) {
        if modes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// One direction of one connection, until either side ends it.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut modes: watch::Receiver<Mode>,
    way: fn(&Mode) -> Way,
) -> (OwnedReadHalf, OwnedWriteHalf) {
    let mut buffer = vec![0; 64 * 1024];
    let mut lost = false;
    loop {
        let now = way(&modes.borrow_and_update());
        if now == Way::Stall {
            if modes.changed().await.is_err() {
                break;
            }
            continue;
        }
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            changed = modes.changed() => match changed {
                Ok(()) => continue,
                Err(_) => break,
            },
        };
        let count = match read {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        // The mode may have changed while these were waited for.
        let now = way(&modes.borrow_and_update());
        lost |= now == Way::Swallow;
        if lost {
            continue;
        }
        if let Way::Delay(length) = now {
            tokio::time::sleep(length).await;
        }
        if now == Way::Stall {
            pass(&modes, way).await;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    // An end is news, and news do not get through a cable that has lost something.
    if !lost {
        let _ = to.shutdown().await;
    }
    (from, to)
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(100);

    /// A server that sends back what it gets, behind a cable, and a connection to it.
    async fn echo() -> (Proxy, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        let proxy = Proxy::to(address).await;
        let mut stream = TcpStream::connect(proxy.address).await.expect("it listens");
        assert_eq!(said(&mut stream, b"a").await.as_deref(), Some(&b"a"[..]));
        (proxy, stream)
    }

    /// What comes back for it, if something does; an empty answer is an end.
    async fn said(stream: &mut TcpStream, what: &[u8]) -> Option<Vec<u8>> {
        if stream.write_all(what).await.is_err() {
            return Some(Vec::new());
        }
        heard(stream).await
    }

    async fn heard(stream: &mut TcpStream) -> Option<Vec<u8>> {
        let mut buffer = [0; 16];
        match timeout(MOMENT, stream.read(&mut buffer)).await {
            Ok(Ok(count)) => Some(buffer[..count].to_vec()),
            Ok(Err(_)) => Some(Vec::new()),
            Err(_) => None,
        }
    }

    #[tokio::test]
    async fn what_was_stalled_arrives_once_the_cable_is_whole() {
        for mode in [
            Mode::both(Way::Stall),
            Mode {
                to_client: Way::Stall,
                ..Mode::PASS
            },
        ] {
            let (proxy, mut stream) = echo().await;
            proxy.set(mode);
            assert_eq!(said(&mut stream, b"b").await, None);
            proxy.set(Mode::PASS);
            assert_eq!(heard(&mut stream).await.as_deref(), Some(&b"b"[..]));
        }
    }

    #[tokio::test]
    async fn a_connection_that_lost_something_is_dead_and_does_not_say_so() {
        for mode in [
            Mode::both(Way::Swallow),
            Mode {
                to_client: Way::Swallow,
                ..Mode::PASS
            },
        ] {
            let (proxy, mut stream) = echo().await;
            proxy.set(mode);
            assert_eq!(said(&mut stream, b"b").await, None);
            proxy.set(Mode::PASS);
            assert_eq!(said(&mut stream, b"c").await, None);
            let mut other = TcpStream::connect(proxy.address).await.expect("it listens");
            assert_eq!(said(&mut other, b"d").await.as_deref(), Some(&b"d"[..]));
        }
    }

    #[tokio::test]
    async fn a_reset_ends_the_connections_that_there_are() {
        let (proxy, mut stream) = echo().await;
        proxy.reset();
        assert_eq!(heard(&mut stream).await.as_deref(), Some(&[][..]));
        let mut other = TcpStream::connect(proxy.address).await.expect("it listens");
        assert_eq!(said(&mut other, b"d").await.as_deref(), Some(&b"d"[..]));
    }

    #[tokio::test]
    async fn a_cable_that_refuses_lets_nobody_in() {
        let (proxy, mut stream) = echo().await;
        proxy.set(Mode {
            refuse: true,
            ..Mode::PASS
        });
        let mut other = TcpStream::connect(proxy.address).await.expect("it listens");
        assert_eq!(said(&mut other, b"d").await.as_deref(), Some(&[][..]));
        assert_eq!(said(&mut stream, b"b").await.as_deref(), Some(&b"b"[..]));
    }
}
