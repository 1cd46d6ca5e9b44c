//! Clocks that are wrong. The monotonic ones are not touched: they are nobody's to set.
//!
//! *Why a library in front of the system's*: drover has no option that makes its clock wrong, and needs none.

use std::path::Path;

use super::Rhythm;
use crate::checker::model::Kind;
use crate::field::{Field, pass};

const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
];

fn library() -> String {
    let found = LIBRARIES.into_iter().find(|library| Path::new(library).exists());
    found
        .expect("libfaketime is missing; this test needs it: apt-get install libfaketime (Debian, Ubuntu)")
        .to_owned()
}

fn environment(more: (&str, String)) -> Vec<(String, String)> {
    let words = [
        ("LD_PRELOAD", library()),
        ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        more,
    ];
    words.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Each replica has another time.
pub fn of_replicas() -> [Vec<(String, String)>; 3] {
    ["+300", "-300", "+10"].map(|offset| environment(("FAKETIME", offset.to_owned())))
}

/// Redis reads its offset from a file.
pub fn of_redis(file: &Path) -> Vec<(String, String)> {
    set(file, 0);
    environment(("FAKETIME_TIMESTAMP_FILE", file.display().to_string()))
}

fn set(file: &Path, offset: i64) {
    std::fs::write(file, format!("{offset:+}\n")).expect("a temporary directory");
}

pub async fn redis_clock(field: &mut Field, rhythm: &mut Rhythm) {
    let file = field.redis_clock.clone().expect("of this layout");
    for offset in [10, 0, 300, 290, 0, -10, 0, -300].into_iter().cycle() {
        if !rhythm.goes_on(0).await {
            break;
        }
        let stepped = field.recorder.begin(Kind::Stepped);
        set(&file, offset);
        pass(5).await;
        field.recorder.end(stepped);
    }
}
