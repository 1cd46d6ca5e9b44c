//! *Owns* the connection to a server: which address, how long to wait for it, and the deadline of a call.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::failure::Failure;
use crate::proto::admin_service_client::AdminServiceClient;
use crate::proto::coordinator_service_client::CoordinatorServiceClient;

/// How long a call without an own `wait` may be parked; the server answers before a deadline in any case.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// More than any server grants, and little enough for the header that carries it.
const LONGEST_PATIENCE: Duration = Duration::from_secs(31 * 24 * 3_600);
/// Notices a path that drops packets in silence; without it a quiet stream would wait for ever.
const KEEPALIVE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub struct Server {
    /// The server
    #[arg(
        long,
        global = true,
        env = "DROVER_SERVER",
        hide_env_values = true,
        value_name = "URL",
        default_value = "http://127.0.0.1:7117",
        value_parser = url
    )]
    pub server: String,
    /// How long an answer may take, on top of any --wait
    #[arg(
        long,
        global = true,
        value_name = "DURATION",
        default_value = "5s",
        value_parser = crate::config::read_duration
    )]
    pub timeout: Duration,
}

/// `host:port`, or a URL with the scheme `http`.
fn url(text: &str) -> Result<String, String> {
    let url = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    match url.split_once("://") {
        Some(("http", _)) => {}
        Some(("https", _)) => return Err("TLS is not there yet, use http:// or a proxy that ends TLS".into()),
        _ => return Err("expected the scheme http, as in http://127.0.0.1:7117".into()),
    }
    match url.parse::<http::Uri>() {
        Ok(uri) if uri.host().is_some_and(|host| !host.is_empty()) => Ok(url),
        _ => Err("expected a URL such as http://127.0.0.1:7117".into()),
    }
}

impl Server {
    /// # Errors
    /// When nobody answers there within the timeout.
    pub async fn connect(&self) -> Result<Channel, Failure> {
        let unreachable = |error| Failure::unreachable(&self.server, &error);
        Endpoint::from_shared(self.server.clone())
            .and_then(|endpoint| endpoint.user_agent(concat!("drover-ctl/", env!("CARGO_PKG_VERSION"))))
            .map_err(unreachable)?
            .connect_timeout(self.timeout)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(self.timeout)
            .connect()
            .await
            .map_err(unreachable)
    }

    /// # Errors
    /// As [`Server::connect`].
    pub async fn coordinator(&self) -> Result<CoordinatorServiceClient<Channel>, Failure> {
        Ok(CoordinatorServiceClient::new(self.connect().await?))
    }

    /// # Errors
    /// As [`Server::connect`].
    pub async fn admin(&self) -> Result<AdminServiceClient<Channel>, Failure> {
        Ok(AdminServiceClient::new(self.connect().await?))
    }

    /// A call whose answer is due after `wait` (what the server was asked to wait; absent: its own maximum).
    pub fn call<T>(&self, message: T, wait: Option<Duration>) -> Call<T> {
        let patience = wait
            .unwrap_or(LONGEST_WAIT)
            .saturating_add(self.timeout)
            .min(LONGEST_PATIENCE);
        let mut request = Request::new(message);
        request.set_timeout(patience);
        Call { request, patience }
    }

    /// A call that waits for nobody.
    pub fn prompt_call<T>(&self, message: T) -> Call<T> {
        self.call(message, Some(Duration::ZERO))
    }
}

/// A request with its deadline.
pub struct Call<T> {
    pub request: Request<T>,
    pub patience: Duration,
}

/// The answer, or the refusal with the deadline that it had.
pub fn settled<T>(result: Result<tonic::Response<T>, Status>, patience: Duration) -> Result<T, Failure> {
    result
        .map(tonic::Response::into_inner)
        .map_err(|status| Failure::refused(&status, patience))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_url_or_by_host_and_port() {
        let good = [
            ("http://127.0.0.1:7117", "http://127.0.0.1:7117"),
            ("drover.internal:7117", "http://drover.internal:7117"),
            ("[::1]:7117", "http://[::1]:7117"),
        ];
        for (text, expected) in good {
            assert_eq!(url(text).as_deref(), Ok(expected));
        }
        let bad = [
            ("https://drover:443", "TLS is not there yet"),
            ("unix:///run/drover", "expected the scheme http"),
            ("ftp://drover", "expected the scheme http"),
            ("http://", "expected a URL"),
            ("", "expected a URL"),
            ("two words", "expected a URL"),
        ];
        for (text, part) in bad {
            let error = url(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn the_deadline_is_the_wait_and_the_timeout_together() {
        let server = Server {
            server: String::new(),
            timeout: Duration::from_secs(5),
        };
        assert_eq!(
            server.call((), Some(Duration::from_secs(2))).patience,
            Duration::from_secs(7)
        );
        assert_eq!(server.call((), None).patience, Duration::from_secs(65));
        assert_eq!(server.prompt_call(()).patience, Duration::from_secs(5));
        assert_eq!(server.call((), Some(Duration::MAX)).patience, LONGEST_PATIENCE);
    }
}
