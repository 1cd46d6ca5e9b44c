//! The end of a run: every watcher is told everything that there was.
//!
//! Keys that nobody uses, the marks, are invalidated until each watcher has heard of all of them: what came before, it was told before.

use std::time::Duration;

use drover::proto;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::calls::{Lines, span};
use crate::field::{self, Field};
use crate::names::{RELAY, SHOP, STILL};

/// A stream that was cut silently is dead for the longest silence before its client notices, and counts for as long after it was noticed.
const SETTLING: Duration = Duration::from_secs(60);

/// How many marks a watcher has not heard of.
pub type Unheard = watch::Receiver<usize>;

/// `thorough`: until an invalidation is confirmed, too, which takes a while after a stream broke.
pub async fn come_to_rest(field: &Field, mut watchers: Vec<Unheard>, thorough: bool) {
    let lines = Lines::to(&field.fronts(), &field.recorder, &field.names, true);
    let begun = Instant::now();
    let wait = Duration::from_millis(if thorough { 3_000 } else { 0 });
    let mut last = String::new();
    for number in 0u16.. {
        if begun.elapsed() > SETTLING {
            let unheard: Vec<usize> = watchers.iter().map(|watcher| *watcher.borrow()).collect();
            let what = format!("no rest once all is well: {last}; marks that were not told {unheard:?}");
            field.recorder.wrong(what);
            return;
        }
        let mut confirmed = true;
        for namespace in [SHOP, RELAY, STILL] {
            let replica = number % lines.replicas();
            match invalidate_marks(&lines, replica, namespace, wait).await {
                Ok(answer) => {
                    confirmed &= answer.confirmed;
                    last = format!(
                        "{} of {} watchers, laggards {:?}",
                        answer.watchers_acknowledged, answer.watchers, answer.laggards
                    );
                }
                Err(status) => {
                    confirmed = false;
                    last = format!("{status:?}");
                }
            }
        }
        let heard = async {
            for watcher in &mut watchers {
                let _ = watcher.wait_for(|unheard| *unheard == 0).await;
            }
        };
        let heard = timeout(Duration::from_secs(1), heard).await.is_ok();
        if heard && (confirmed || !thorough) {
            return;
        }
        field::pass(50).await;
    }
}

async fn invalidate_marks(
    lines: &Lines,
    replica: u16,
    namespace: u16,
    wait: Duration,
) -> Result<proto::InvalidateResponse, tonic::Status> {
    let mut request = tonic::Request::new(proto::InvalidateRequest {
        namespace: lines.names.namespace(namespace).to_owned(),
        keys: lines.names.marks(),
        wait_for_watchers: span(wait.as_micros() as u64),
        ..Default::default()
    });
    request.set_timeout(wait + Duration::from_secs(3));
    let answer = lines.service(replica).invalidate(request).await?;
    Ok(answer.into_inner())
}
