//! Cables that are cut: one way or both, silently or with a reset, for one replica at a time.

use std::time::Duration;

use super::Rhythm;
use crate::checker::model::Kind;
use crate::field::Field;
use crate::proxy::{Mode, Way};

/// What gets lost: questions, answers, or both.
fn one_way(draw: usize) -> Mode {
    match draw {
        0 => Mode {
            to_server: Way::Swallow,
            ..Mode::PASS
        },
        1 => Mode {
            to_client: Way::Swallow,
            ..Mode::PASS
        },
        _ => Mode::both(Way::Swallow),
    }
}

pub async fn store_half_open(field: &mut Field, rhythm: &mut Rhythm) {
    while rhythm.goes_on(3_000).await {
        let number = rhythm.one_of(field.replicas.len());
        let mode = one_way(rhythm.one_of(3));
        let away = field.recorder.begin(Kind::Away(Some(number as u16)));
        field.backs[number].set(mode);
        rhythm.between(300, 3_000).await;
        field.backs[number].set(Mode::PASS);
        field.recorder.end(away);
    }
}

/// What was sent meanwhile arrives afterwards.
pub async fn store_stalled(field: &mut Field, rhythm: &mut Rhythm) {
    while rhythm.goes_on(2_500).await {
        let number = rhythm.one_of(field.replicas.len());
        let ways = [Way::Stall, Way::Stall, Way::Delay(Duration::from_millis(50)), Way::Pass];
        let mode = Mode {
            to_server: ways[rhythm.one_of(4)],
            to_client: ways[rhythm.one_of(3)],
            refuse: false,
        };
        let away = field.recorder.begin(Kind::Away(Some(number as u16)));
        field.backs[number].set(mode);
        rhythm.between(200, 2_500).await;
        field.backs[number].set(Mode::PASS);
        field.recorder.end(away);
    }
}

pub async fn store_reset(field: &mut Field, rhythm: &mut Rhythm) {
    while rhythm.goes_on(1_500).await {
        let number = rhythm.one_of(field.replicas.len());
        let away = field.recorder.begin(Kind::Away(Some(number as u16)));
        let refuse = rhythm.one_of(2) == 0;
        field.backs[number].set(Mode { refuse, ..Mode::PASS });
        field.backs[number].reset();
        if refuse {
            rhythm.between(100, 1_500).await;
        }
        field.backs[number].set(Mode::PASS);
        field.recorder.end(away);
    }
}

pub async fn client_half_open(field: &mut Field, rhythm: &mut Rhythm) {
    while rhythm.goes_on(3_000).await {
        let number = rhythm.one_of(field.replicas.len());
        let mode = one_way(rhythm.one_of(3));
        let cut = field.recorder.begin(Kind::CutOff(number as u16));
        field.replicas[number].front.set(mode);
        rhythm.between(300, 3_000).await;
        field.replicas[number].front.set(Mode::PASS);
        field.recorder.end(cut);
    }
}

pub async fn client_stalled(field: &mut Field, rhythm: &mut Rhythm) {
    while rhythm.goes_on(2_500).await {
        let number = rhythm.one_of(field.replicas.len());
        let ways = [Way::Stall, Way::Delay(Duration::from_millis(50)), Way::Pass];
        let mode = Mode {
            to_server: ways[rhythm.one_of(3)],
            to_client: ways[rhythm.one_of(2)],
            refuse: false,
        };
        let cut = field.recorder.begin(Kind::CutOff(number as u16));
        field.replicas[number].front.set(mode);
        rhythm.between(200, 2_500).await;
        field.replicas[number].front.set(Mode::PASS);
        field.recorder.end(cut);
    }
}
