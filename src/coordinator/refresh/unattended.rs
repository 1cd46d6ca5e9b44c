//! What is planned where no worker is: it is left to the next caller of each key.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use tokio::time::Instant;

use super::{AT_ONCE, Done, HOLD, RefreshNews};
use crate::coordinator::ask::Seen;
use crate::coordinator::{Coordinator, MOST_CONFLICTS, RETRY_SOON};
use crate::decision::{self, Dropped, StoreTime};
use crate::store::{Claim, Commit, Outcome, StoreError, Task, TaskKind, Want};

impl Coordinator {
    /// What is planned in a namespace for which there is no worker anywhere: whoever asks next is to do it.
    pub(super) async fn see_to_planned(self: &Arc<Self>, namespace: &Arc<str>) -> Result<(), StoreError> {
        // This replica may not have heard of one that has just come.
        self.fleet.heard(self.store.fleet().await?);
        while !self.has_workers(namespace) {
            let claim = Claim {
                namespace: namespace.clone(),
                prefixes: Vec::new(),
                most: AT_ONCE,
                hold: HOLD,
            };
            let tasks = self.store.claim(claim).await?.tasks;
            if tasks.is_empty() {
                return Ok(());
            }
            let leave = |task: Task| async move {
                match self.leave_to_callers(&task).await {
                    Ok(at) => Done::Settle(task, at),
                    Err(error) => {
                        tracing::debug!(key = ?task.key, %error, "a planned refresh could not be left to its callers");
                        Done::Nothing
                    }
                }
            };
            let done: Vec<Done> = stream::iter(tasks).map(leave).buffered(AT_ONCE).collect().await;
            self.settle(done).await?;
        }
        Ok(())
    }

    /// When to look again; `None`: it is seen to.
    async fn leave_to_callers(&self, task: &Task) -> Result<Option<StoreTime>, StoreError> {
        let TaskKind::Scheduled(scheduled) = &task.kind else {
            return Ok(None);
        };
        let mut seen = self.see(&task.key, &[], Want::default()).await?;
        for _ in 0..MOST_CONFLICTS {
            let view = seen.loaded.view();
            if let Some(lease) = view.lease() {
                return Ok(Some(lease.deadline));
            }
            let done = decision::is_rebuilt(&view, scheduled.at, scheduled.only_if_missing);
            let Some(draft) = decision::refresh_now(&view).filter(|_| !done) else {
                let why = if done { Dropped::Fresh } else { Dropped::Gone };
                self.tell(&task.key, RefreshNews::Dropped(why));
                return Ok(None);
            };
            let sent = Instant::now();
            match self.store.commit(Commit::new(&task.key, &seen.loaded, draft)).await? {
                Outcome::Committed(_) => return Ok(None),
                Outcome::Conflict(now) => seen = Seen::loaded(now, sent),
            }
        }
        Ok(Some(seen.loaded.now.after(RETRY_SOON)))
    }
}
