//! Messages to bytes and back, as tonic does it, but a request that cannot be read is told as the caller's mistake.
//!
//! *Why*: tonic answers INTERNAL for bytes that are no message, such as a key that is not UTF-8. To callers that means a bug in drover.

use std::any::type_name;
use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder};

use super::status;

/// Buffers begin with what most messages need, and grow to what a message says it needs. tonic's own begin with 8 KiB each, which
/// thousands of parked callers would hold at once.
fn small() -> BufferSettings {
    BufferSettings::new(1_024, 32 * 1_024)
}

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
    type Encoder = Writer<T>;
    type Decoder = Reader<U>;

    fn encoder(&mut self) -> Writer<T> {
        Writer(PhantomData)
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
        small()
    }
}

/// Writes messages.
#[derive(Clone, Debug)]
pub struct Writer<T>(PhantomData<fn(T)>);

impl<T: Message> Encoder for Writer<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, target: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let length = message.encoded_len();
        target.reserve(length);
        message.encode_raw(target);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        small()
    }
}
