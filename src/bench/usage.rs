//! What a process has used: CPU time and resident memory, from `/proc`.
//!
//! *Why both clocks:* the scheduler's figures are in nanoseconds but only a thread at a time, and a thread that ends takes its
//! own away; the process's clock keeps them but ticks in 10 ms. The fine one is used while no thread has ended, else the coarse.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

/// The kernel reports in hundredths of a second to user space on every architecture that we know.
const TICK: Duration = Duration::from_millis(10);

/// CPU time that a process had used at one moment.
#[derive(Debug, Clone)]
pub struct Cpu {
    threads: BTreeMap<u32, u64>,
    ticks: u64,
}

impl Cpu {
    /// Reads the clocks of process `pid`.
    pub fn read(pid: u32) -> anyhow::Result<Self> {
        let stat = read(&process(pid).join("stat"))?;
        let ticks = parse_ticks(&stat).context("/proc/PID/stat has an unknown form")?;
        let mut threads = BTreeMap::new();
        if let Ok(tasks) = std::fs::read_dir(process(pid).join("task")) {
            for task in tasks.flatten() {
                let id = task.file_name().to_str().and_then(|name| name.parse().ok());
                let nanos = std::fs::read_to_string(task.path().join("schedstat")).ok();
                if let (Some(id), Some(nanos)) = (id, nanos.as_deref().and_then(parse_schedstat)) {
                    threads.insert(id, nanos);
                }
            }
        }
        Ok(Self { threads, ticks })
    }

    /// Of both processes together.
    pub fn and(mut self, other: Self) -> Self {
        self.threads.extend(other.threads);
        self.ticks += other.ticks;
        self
    }

    /// CPU time used between `earlier` and this reading.
    pub fn since(&self, earlier: &Self) -> Duration {
        let ended = earlier.threads.keys().any(|id| !self.threads.contains_key(id));
        if ended || earlier.threads.is_empty() {
            let ticks = self.ticks.saturating_sub(earlier.ticks);
            return TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX));
        }
        let total = |reading: &Self| reading.threads.values().sum::<u64>();
        Duration::from_nanos(total(self).saturating_sub(total(earlier)))
    }
}

/// Resident memory of process `pid`, in bytes.
pub fn resident(pid: u32) -> anyhow::Result<u64> {
    // The rollup walks the page tables; `status` lags behind by some pages a thread.
    for file in ["smaps_rollup", "status"] {
        let found = std::fs::read_to_string(process(pid).join(file)).ok();
        if let Some(kib) = found.as_deref().and_then(parse_resident) {
            return Ok(kib * 1024);
        }
    }
    bail!("/proc says nothing about the memory of process {pid}: the bench needs Linux")
}

fn process(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}: the bench needs Linux", path.display()))
}

/// User and system time in ticks. The name in front may hold spaces and brackets, so what counts starts after the last one.
fn parse_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Nanoseconds on a CPU.
fn parse_schedstat(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// KiB.
fn parse_resident(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Rss:").or_else(|| line.strip_prefix("VmRSS:")))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(threads: &[(u32, u64)], ticks: u64) -> Cpu {
        Cpu {
            threads: threads.iter().copied().collect(),
            ticks,
        }
    }

    #[test]
    fn ticks_are_found_behind_a_name_with_spaces_and_brackets() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 900 0 3 0 170 30 0 0 20 0 5 0 100 1 2";
        assert_eq!(parse_ticks(stat), Some(200));
        assert_eq!(parse_ticks("42 (cut"), None);
        assert_eq!(parse_ticks("42 (drover) S 1 2"), None);
    }

    #[test]
    fn resident_memory_is_read_from_either_file() {
        assert_eq!(
            parse_resident("5590-7ffd ---p 00000000 [rollup]\nRss:    2012 kB\nPss: 900 kB\n"),
            Some(2012)
        );
        assert_eq!(
            parse_resident("Name:\tdrover\nVmHWM:\t 99 kB\nVmRSS:\t  4096 kB\n"),
            Some(4096)
        );
        assert_eq!(parse_resident("Name:\tdrover\n"), None);
    }

    #[test]
    fn a_thread_that_started_meanwhile_counts_in_full() {
        let earlier = reading(&[(1, 1_000), (2, 500)], 10);
        let later = reading(&[(1, 4_000), (2, 500), (3, 250)], 999);
        assert_eq!(later.since(&earlier), Duration::from_nanos(3_250));
    }

    #[test]
    fn when_a_thread_has_ended_the_coarse_clock_of_the_process_decides() {
        let earlier = reading(&[(1, 1_000), (2, 9_000_000)], 10);
        let later = reading(&[(1, 4_000)], 13);
        assert_eq!(later.since(&earlier), Duration::from_millis(30));
    }

    #[test]
    fn two_processes_are_read_as_one() {
        let earlier = reading(&[(1, 1_000)], 10).and(reading(&[(7, 2_000)], 20));
        let later = reading(&[(1, 1_500)], 11).and(reading(&[(7, 2_250)], 22));
        assert_eq!(later.since(&earlier), Duration::from_nanos(750));
        let (earlier, later) = (
            reading(&[], 10).and(reading(&[], 20)),
            reading(&[], 11).and(reading(&[], 22)),
        );
        assert_eq!(later.since(&earlier), Duration::from_millis(30));
    }

    #[test]
    fn without_a_clock_a_thread_the_coarse_clock_decides() {
        assert_eq!(reading(&[], 13).since(&reading(&[], 10)), Duration::from_millis(30));
    }

    #[test]
    fn this_process_has_memory_and_a_clock() {
        let pid = std::process::id();
        assert!(resident(pid).is_ok_and(|bytes| bytes > 100_000));
        assert!(Cpu::read(pid).is_ok());
        assert!(Cpu::read(u32::MAX).is_err());
    }
}
