//! A worker: it pulls refreshes, and rebuilds as a caller does that holds a lease.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Drover;
use crate::lab::strategy::Trouble;
use crate::lab::strategy::client::Pull;
use crate::proto::pull_refreshes_response::Event;

impl Drover {
    /// Registers a worker for keys that start so, with at most so many tasks at once. It is registered when this answers; then poll
    /// [`Drover::work_off`].
    pub async fn register(&self, key_prefix: &str, most: usize) -> Result<Pull, Trouble> {
        let mut pull = self.client.pull(key_prefix, most).await?;
        while let Some(event) = pull.next().await? {
            if matches!(event, Event::Started(_)) {
                return Ok(pull);
            }
        }
        Err(Trouble::Nonsense("a stream of refreshes that ends before it starts"))
    }

    /// Rebuilds what comes, until it is dropped. A stream that ends is kept as trouble.
    pub async fn work_off(self: Arc<Self>, mut pull: Pull) {
        let trouble = loop {
            match pull.next().await {
                Ok(Some(Event::Task(task))) => {
                    let Some(lease) = task.lease else {
                        break Trouble::Nonsense("a refresh without a lease");
                    };
                    // Nobody waits for what it brings.
                    let (answer, _) = oneshot::channel();
                    self.background.spawn(self.clone().work(task.key, lease, answer));
                }
                Ok(Some(_)) => {}
                Ok(None) => break Trouble::Nonsense("the stream of refreshes ended"),
                Err(trouble) => break trouble,
            }
        };
        let _ = self.trouble.set(trouble.to_string());
    }

    /// Has these keys built by workers, now: the warming call.
    pub async fn warm(&self, keys: &[String]) -> Result<(), Trouble> {
        let told = self.client.schedule(keys).await?;
        match usize::try_from(told.scheduled) {
            Ok(scheduled) if scheduled == keys.len() => Ok(()),
            _ => Err(Trouble::Nonsense("keys that nobody else knows were not scheduled")),
        }
    }
}
