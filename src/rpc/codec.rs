//! Messages to bytes and back, as tonic does it, but a request that cannot be read is told as the caller's mistake.
//!
//! *Why*: tonic answers INTERNAL for bytes that are no message, such as a key that is not UTF-8. To callers that means a bug in drover.

use std::any::type_name;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use super::status;

/// The codec of drover's services and clients.
#[derive(Clone, Debug)]
pub struct Codec<T, U>(ProstCodec<T, U>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Codec<T, U> {
        Codec(ProstCodec::default())
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = Reader<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        self.0.encoder()
    }

    fn decoder(&mut self) -> Reader<U> {
        Reader(self.0.decoder())
    }
}

/// Reads messages.
#[derive(Clone, Debug)]
pub struct Reader<U>(ProstDecoder<U>);

impl<U: Message + Default> Decoder for Reader<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        self.0.decode(source).map_err(|error| {
            // Servers and clients share this type. The lint of the proto files makes each request's name end like this.
            if type_name::<U>().ends_with("Request") {
                status::malformed(error.message())
            } else {
                error
            }
        })
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}
