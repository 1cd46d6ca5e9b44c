//! Clocks that are wrong: those of processes, by a library of a page that is loaded before theirs (`clock.c`).
//!
//! *Why no option of drover*: it has none that makes its clock wrong, and needs none.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Rhythm;
use crate::checker::model::Kind;
use crate::field::{Field, pass};

/// A process's clock, that can be set while it runs.
#[derive(Clone, Debug)]
pub struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    /// It is right at first. What it is made of lies in the folder.
    pub fn make(folder: &Path, name: &str) -> Clock {
        let library = folder.join("clock.so");
        if !library.exists() {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/history/faults/clock.c");
            let made = Command::new("cc")
                .args(["-shared", "-fPIC", "-O1", "-Wall", "-o"])
                .args([&library, &source])
                .status();
            assert!(
                made.as_ref().is_ok_and(std::process::ExitStatus::success),
                "cc, by which Rust links, can't make a library: {made:?}"
            );
        }
        let clock = Clock {
            library,
            file: folder.join(format!("{name}.clock")),
        };
        clock.set(0);
        clock
    }

    /// So many seconds further than now; how far it is from what is right.
    pub fn step(&self, seconds: i64) -> i64 {
        let mut read = [0; 8];
        let bytes = std::fs::read(&self.file).expect("a temporary directory");
        read.copy_from_slice(&bytes[..8]);
        let offset = i64::from_ne_bytes(read) + seconds;
        self.set(offset);
        offset
    }

    /// So many seconds from what is right.
    pub fn set(&self, seconds: i64) {
        // In its place: a page of a file that is cut short for a moment is none to read from.
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&self.file);
        let written = file.and_then(|mut file| file.write_all(&seconds.to_ne_bytes()));
        written.expect("a temporary directory");
    }

    pub fn environment(&self) -> Vec<(String, String)> {
        let words = [("LD_PRELOAD", &self.library), ("DROVER_TEST_CLOCK", &self.file)];
        words
            .map(|(name, path)| (name.to_owned(), path.display().to_string()))
            .into()
    }
}

/// In steps of 10 s and 300 s, forwards and back. A clock that is set back is right again a moment later: for as long as it is behind what it was,
/// whatever was given a time before lasts longer.
pub async fn redis_clock(field: &mut Field, rhythm: &mut Rhythm) {
    let clock = field.redis_clock.clone().expect("of this layout");
    let mut latest = 0;
    let mut behind = None;
    for step in [10, -10, 10, 300, -10, 10, -300, 300].into_iter().cycle() {
        if !rhythm.goes_on(0).await {
            break;
        }
        let stepped = behind.take().unwrap_or_else(|| field.recorder.begin(Kind::Stepped));
        let now = clock.step(step);
        if now < latest {
            behind = Some(stepped);
        } else {
            latest = now;
            pass(5).await;
            field.recorder.end(stepped);
        }
    }
    if let Some(stepped) = behind {
        clock.set(latest);
        field.recorder.end(stepped);
    }
}
