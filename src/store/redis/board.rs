//! What replicas tell each other, in Redis: registrations in a hash of the first partition, messages in the rings.

use std::sync::Arc;
use std::time::Duration;

use ::redis::cmd;

use super::StoreError;
use super::commit::RINGS;
use super::peers::{Board, Registration};
use super::shared::Shared;
use crate::decision::micros;
use crate::store::Answer;

/// The rings hold fewer records after a message of so many bytes, so that long ones do not fill the memory.
const LONG: usize = 16 << 10;
/// So many then. Whoever is parked looks once a second in any case.
const RINGS_OF_LONG: usize = 100;

/// Over the store's link.
pub struct RedisBoard {
    shared: Arc<Shared>,
}

impl RedisBoard {
    /// Over what the store shares.
    pub fn new(shared: Arc<Shared>) -> RedisBoard {
        RedisBoard { shared }
    }

    /// `replica`: `None` to read only.
    async fn call(
        &self,
        replica: Option<u64>,
        holds: Duration,
        says: Vec<u8>,
    ) -> Result<Vec<Registration>, StoreError> {
        let Some(partition) = self.shared.partitions.first() else {
            return Ok(Vec::new());
        };
        let args = [
            replica
                .map(|replica| replica.to_string().into_bytes())
                .unwrap_or_default(),
            micros(holds).to_string().into_bytes(),
            says,
        ];
        let names = [
            &*partition.keys.header,
            &*partition.keys.replicas,
            &*partition.keys.plans,
        ];
        let script = &self.shared.scripts.register;
        let reply = self
            .shared
            .ask(partition, script, &names, args, replica.is_some())
            .await?;
        let mut words = reply.ok()?;
        let mut planned = Vec::new();
        for _ in 0..words.number()? {
            planned.push(String::from_utf8_lossy(&words.bytes()?).into());
        }
        *self.shared.planned.lock() = planned;
        let mut registered = Vec::new();
        while words.left() > 0 {
            registered.push(Registration {
                replica: words.number()?,
                lapses_in: Duration::from_micros(words.number()?),
                says: words.bytes()?,
            });
        }
        Ok(registered)
    }
}

impl Board for RedisBoard {
    fn register(&self, replica: u64, lapses_in: Duration, says: Vec<u8>) -> Answer<'_, Vec<Registration>> {
        Box::pin(self.call(Some(replica), lapses_in, says))
    }

    fn registered(&self) -> Answer<'_, Vec<Registration>> {
        Box::pin(self.call(None, Duration::ZERO, Vec::new()))
    }

    fn post(&self, partition: u16, message: Vec<u8>) -> Answer<'_, ()> {
        Box::pin(async move {
            let Some(to) = self.shared.partitions.get(usize::from(partition)) else {
                return Err(StoreError::Unavailable(format!("there is no partition {partition}")));
            };
            let most = if message.len() > LONG { RINGS_OF_LONG } else { RINGS };
            let mut add = cmd("XADD");
            add.arg(&to.keys.rings)
                .arg("MAXLEN")
                .arg("~")
                .arg(most)
                .arg("*")
                .arg("m")
                .arg(message);
            self.shared.link.cold(partition, add).await.map(drop)
        })
    }
}
