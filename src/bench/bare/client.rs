//! Calls to the bare service.

use bytes::Bytes;
use http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::{Ask, Blob, ECHO, GRANT, LEARN, PUBLISH, REPORT, SUBSCRIBE, WAIT, WAITING};

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
