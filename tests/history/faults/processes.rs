//! Processes that are killed, stopped, or asked to leave.

use super::Rhythm;
use crate::checker::model::Kind;
use crate::field::Field;

/// SIGKILL, and after a while a new one.
pub async fn replica_killed(field: &mut Field, rhythm: &mut Rhythm) {
    while rhythm.goes_on(1_500).await {
        let number = rhythm.one_of(field.replicas.len());
        let away = field.recorder.begin(Kind::Away(Some(number as u16)));
        field.replicas[number].kill().await;
        rhythm.between(200, 900).await;
        field.replicas[number].run().await;
        field.recorder.end(away);
    }
}

/// SIGSTOP, and after a while SIGCONT: what it had begun it goes on with.
pub async fn replica_stopped(field: &mut Field, rhythm: &mut Rhythm, least: u64, most: u64) {
    while rhythm.goes_on(most).await {
        let number = rhythm.one_of(field.replicas.len());
        let away = field.recorder.begin(Kind::Away(Some(number as u16)));
        field.replicas[number].signal("STOP").await;
        rhythm.between(least, most).await;
        field.replicas[number].signal("CONT").await;
        field.recorder.end(away);
    }
}

/// SIGTERM: it answers whom it has, and leaves; then a new one comes. One after the other.
pub async fn rolling_restart(field: &mut Field, rhythm: &mut Rhythm) {
    let mut next = 0;
    while rhythm.goes_on(1_500).await {
        let number = next % field.replicas.len();
        next += 1;
        let away = field.recorder.begin(Kind::Away(Some(number as u16)));
        if let Err(how) = field.replicas[number].leave().await {
            field.recorder.wrong(how);
        }
        field.replicas[number].run().await;
        field.recorder.end(away);
    }
}

pub async fn redis_stopped(field: &mut Field, rhythm: &mut Rhythm, least: u64, most: u64) {
    while rhythm.goes_on(most).await {
        let away = field.recorder.begin(Kind::Away(None));
        tokio::task::block_in_place(|| field.server().stop());
        rhythm.between(least, most).await;
        tokio::task::block_in_place(|| field.server().cont());
        field.recorder.end(away);
    }
}

/// SIGKILL, and after a while it is there again, with or without what it knew.
pub async fn redis_killed(field: &mut Field, rhythm: &mut Rhythm, empty: bool) {
    while rhythm.goes_on(1_500).await {
        let away = field.recorder.begin(Kind::Away(None));
        let lost = empty.then(|| field.recorder.begin(Kind::Lost));
        tokio::task::block_in_place(|| field.server().kill());
        rhythm.between(100, 1_200).await;
        tokio::task::block_in_place(|| match empty {
            true => field.server().restart_empty(),
            false => field.server().restart(),
        });
        field.recorder.end(away);
        if let Some(lost) = lost {
            field.recorder.end(lost);
        }
    }
}
