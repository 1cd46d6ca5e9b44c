//! A cable that can be cut: forwards TCP connections to one server and, while they live, delays them, stops them, swallows what they
//! carry in either direction, or breaks them.
//!
//! *Why swallow*: a process that is stopped, or a reader that pauses, still takes what is in its socket's buffer later, and hides the
//! loss. Bytes that were swallowed are gone, and their connection never works again, as after a lost network path: both ends
//! think it is open.

use std::net::SocketAddr;
use std::sync::Arc;
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
    /// They are lost, and so is the connection, without a word.
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
    let lost = Arc::new(CancellationToken::new());
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let up = pump(
        from_client,
        to_server,
        modes.clone(),
        |mode| mode.to_server,
        lost.clone(),
    );
    let down = pump(from_server, to_client, modes, |mode| mode.to_client, lost);
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
    lost: Arc<CancellationToken>,
) -> (OwnedReadHalf, OwnedWriteHalf) {
    let mut buffer = vec![0; 64 * 1024];
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
        if now == Way::Swallow {
            lost.cancel();
        }
        if lost.is_cancelled() {
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
    if !lost.is_cancelled() {
        let _ = to.shutdown().await;
    }
    (from, to)
}
