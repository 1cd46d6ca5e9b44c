//! The gRPC services.
//!
//! *Owns* everything between a decoded message and the coordinator. *Never* decides: an adapter checks, converts, asks and converts
//! back.
//!
//! | to learn | read |
//! |---|---|
//! | which services there are, and their limits | [`services`] |
//! | what a request may say | [`convert`] |
//! | which status an error has | [`status`] |
//! | when a wait ends before the caller's deadline | [`deadline`] |
//!
//! A call passes these layers from the top to the bottom, its answer comes back the other way. The first three are put around the
//! services by the server:
//!
//! | layer | why there |
//! |---|---|
//! | [`layers::Calls`] | outermost, so that its span covers everything and sees every status, also that of a panic |
//! | [`catch_panics`] | turns a bug into INTERNAL, so that it costs one call and not the connection |
//! | [`status::in_our_words`] | what tonic could not read is the caller's mistake, not a bug of drover |
//! | tonic: size limits, gzip | a message of over 4 MiB is refused before it is held in memory |
//! | [`Codec`] | what is no message is the caller's mistake, not a bug of drover |
//! | adapter | [`convert`] refuses what breaks a rule; nothing behind it sees unchecked input |
//!
//! Permissions will come between the panic layer and tonic: they need the metadata, and nothing of the message.

pub mod convert;
pub mod deadline;
pub mod layers;
pub mod pull;
pub mod status;
pub mod watch;

mod admin;
mod codec;
mod coordinator;
mod front;
mod observe;
mod panic;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tonic::codec::CompressionEncoding;
use tonic::service::Routes;

pub use admin::AdminRpc;
pub use codec::Codec;
pub use coordinator::CoordinatorRpc;
pub use front::Front;
pub use panic::{CatchPanics, catch_panics};

use crate::coordinator::Coordinator;
use crate::metrics::Metrics;
use crate::proto::admin_service_server::AdminServiceServer;
use crate::proto::coordinator_service_server::CoordinatorServiceServer;

/// Bytes of a message, in either direction: 4 MiB, what gRPC libraries allow unless told otherwise.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// `CoordinatorService` and `AdminService`, and in `others` whatever is served beside them. What is answered is counted in `metrics`.
///
/// Requests may come compressed with gzip. Answers never are: most callers announce that they could read gzip whether they want it
/// or not, and the time that it takes would be paid by each hit.
pub fn services(coordinator: Arc<Coordinator>, metrics: Arc<Metrics>, others: Routes) -> Front {
    let calls = CoordinatorServiceServer::new(CoordinatorRpc::new(Arc::clone(&coordinator), metrics))
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let admin = AdminServiceServer::new(AdminRpc::new(coordinator))
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    Front::new(calls, others.add_service(admin).prepare())
}
