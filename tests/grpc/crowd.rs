//! Thousands parked hold nobody up.

use std::time::{Duration, Instant};

use drover::proto::RenewLeaseRequest;

use crate::support::{Drover, ask, drop_keys, got, hit, lease, report, text, until, wait};

/// On the very connection on which they are parked.
#[tokio::test]
async fn reports_and_renewals_are_served_beside_three_thousand_parked_callers() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let herd: Vec<_> = (0..3_000).map(|_| drover.asking(wait("item"))).collect();
    until(|| drover.parked() == 3_000).await;
    let began = Instant::now();
    let renewal = RenewLeaseRequest {
        namespace: "shop".to_owned(),
        key: "item".to_owned(),
        lease_id: lease(&rebuild).lease_id,
        ttl: None,
    };
    assert!(
        drover
            .calls
            .clone()
            .renew_lease(renewal)
            .await
            .expect("an answer")
            .into_inner()
            .renewed
    );
    drover.fill("other", "value").await;
    drover.invalidate(drop_keys(&["other"])).await;
    drover.granted(ask("other")).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    drover.accept(report("item", &rebuild, "value")).await;
    for asking in herd {
        assert_eq!(text(&hit(got(asking).await)), "value");
    }
    assert_eq!(drover.parked(), 0);
    drover.end().await;
}
