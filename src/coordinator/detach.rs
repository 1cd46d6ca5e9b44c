//! Finishing what a caller who left has begun.
//!
//! A gRPC call that is cancelled drops its future wherever it stands, also between the store's commit and the answer. A grant that
//! nobody was told of would then block its key until the lease is over. So such a commit goes on without its caller, and what
//! comes of it is handed to `orphan`.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

/// Awaits `future`, which is finished even if this is dropped; then `orphan` gets the result.
///
/// The first poll is made here: a store that answers at once costs no task.
pub async fn finish<T, F, O>(tasks: &TaskTracker, future: F, orphan: O) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
    O: FnOnce(T) + Send + 'static,
{
    let mut future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
    let first = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
    if let Poll::Ready(done) = first {
        return done;
    }
    let (give, take) = oneshot::channel();
    tasks.spawn(async move {
        let _ = give.send(future.await);
    });
    let mut taken = Taken {
        take: Some(take),
        orphan: Some(orphan),
        tasks: tasks.clone(),
    };
    let done = match taken.take.as_mut() {
        Some(take) => take.await,
        None => unreachable!("taken only on drop"),
    };
    taken.orphan = None;
    match done {
        Ok(done) => done,
        // The task ended without a result: it panicked, or the runtime is going away. There is no answer to give.
        Err(_) => std::future::pending().await,
    }
}

/// Sees to it that a result which nobody awaits any more is not lost.
struct Taken<T: Send + 'static, O: FnOnce(T) + Send + 'static> {
    take: Option<oneshot::Receiver<T>>,
    orphan: Option<O>,
    tasks: TaskTracker,
}

impl<T: Send + 'static, O: FnOnce(T) + Send + 'static> Drop for Taken<T, O> {
    fn drop(&mut self) {
        if let (Some(take), Some(orphan)) = (self.take.take(), self.orphan.take()) {
            self.tasks.spawn(async move {
                if let Ok(done) = take.await {
                    orphan(done);
                }
            });
        }
    }
}
