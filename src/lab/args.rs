//! What `drover lab` is told on the command line.

use std::path::PathBuf;
use std::time::Duration;

use super::scenario::{Plan, Scenario};
use super::strategy::Kind;
use crate::config::{read_duration, write_duration};

/// Send a herd of callers at a slow origin, once for each way to protect it, and see what reaches it.
///
/// Nothing needs to be installed or running: the lab brings the origin, a simulated shared cache for the usual recipes
/// (1 ms a round trip), and a drover of its own, which it calls over gRPC.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  drover lab                              the herd on an empty key
  drover lab all --svg lab.svg            everything, drawn to lab-burst.svg, lab-steady.svg, …
  drover lab burst --callers 2000         a larger herd
  drover lab steady --strategies none,drover --json
  drover lab steady --workers 4 --keys 20 more workers, for more keys
  drover lab avalanche --restart 1000000  a restart that fills a million keys
  drover lab coldstart --strategies drover
  drover lab --server 127.0.0.1:7117      against a drover that runs already

The exit code is 0 when everything ran, whatever was seen.")]
pub struct Args {
    /// What happens to the herd
    #[arg(value_enum, value_name = "SCENARIO", default_value = "burst")]
    scenario: Chosen,

    /// Strategies to compare, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "none,lock,xfetch,xfetch+lock,drover"
    )]
    pub(super) strategies: Vec<Kind>,

    /// Callers at a time [default: 200 in burst, 50 in steady and outage, 2,000 in coldstart; avalanche fills its keys with 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) callers: Option<u32>,

    /// How long one query takes at the origin, 1ms to 60s
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = query_time)]
    pub(super) query: Duration,

    /// How many queries the origin answers at a time
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) connections: u32,

    /// How long a value lives, 1s to 1h [default: 3s in steady and outage, 5min elsewhere]
    #[arg(long, value_name = "TIME", value_parser = life_time)]
    pub(super) lives: Option<Duration>,

    /// How long the herd of `steady` goes on, 1s to 10min
    #[arg(long, value_name = "TIME", default_value = "12s", value_parser = herd_time)]
    pub(super) duration: Duration,

    /// How many keys `steady` reads or `avalanche` fills [default: 5 in steady, 10,000 in avalanche]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5_000_000))]
    pub(super) keys: Option<u32>,

    /// How many keys `avalanche` fills once more, as after a restart; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(..=5_000_000))]
    pub(super) restart: u32,

    /// How many workers refresh the keys of `steady` beside drover's second herd; 0 leaves that out
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(..=1_000))]
    pub(super) workers: u32,

    /// Where random draws start: the same seed gives the same herd (its timing is still the machine's)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// Use the drover at this address (host:port, no TLS) instead of an own one; the keys carry a random prefix and live for `--lives`
    #[arg(long, value_name = "ADDR")]
    pub(super) server: Option<String>,

    /// The namespace in which the lab's keys are
    #[arg(long, value_name = "NAME", default_value = "lab")]
    pub(super) namespace: String,

    /// Draw what was seen into this file; `all` draws one file a scenario, FILE-burst.svg and so on
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,

    /// Print JSON instead of tables
    #[arg(long)]
    pub(super) json: bool,
}

/// A scenario, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Chosen {
    /// A herd meets an empty key, all at once
    Burst,
    /// A herd reads a key that expires again and again
    Steady,
    /// A slow reader brings old data back after an invalidation
    Race,
    /// Many keys are filled together: when do they come due?
    Avalanche,
    /// The cache is empty, and everybody comes at once for many keys
    Coldstart,
    /// The origin fails for a while
    Outage,
    /// One after the other
    All,
}

impl Chosen {
    fn scenarios(self) -> &'static [Scenario] {
        match self {
            Self::Burst => &[Scenario::Burst],
            Self::Steady => &[Scenario::Steady],
            Self::Race => &[Scenario::Race],
            Self::Avalanche => &[Scenario::Avalanche],
            Self::Coldstart => &[Scenario::Coldstart],
            Self::Outage => &[Scenario::Outage],
            Self::All => &Scenario::ALL,
        }
    }
}

impl Args {
    /// What is to be run.
    pub(super) fn scenarios(&self) -> &'static [Scenario] {
        self.scenario.scenarios()
    }

    /// The settings of one scenario.
    pub(super) fn plan(&self, scenario: Scenario) -> Plan {
        let (callers, lives, keys) = scenario.defaults();
        let mut strategies = Vec::new();
        for &kind in &self.strategies {
            if !strategies.contains(&kind) {
                strategies.push(kind);
            }
        }
        Plan {
            strategies,
            callers: self.callers.map_or(callers, |callers| callers as usize),
            query: self.query,
            connections: self.connections as usize,
            lives: self.lives.unwrap_or(lives),
            duration: self.duration,
            keys: self.keys.map_or(keys, |keys| keys as usize),
            restart: self.restart as usize,
            workers: self.workers as usize,
            seed: self.seed,
        }
    }
}

fn time_between(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let length = read_duration(text).map_err(|wrong| format!("{wrong}; write it as 200ms, 3s or 1m 30s"))?;
    if (least..=most).contains(&length) {
        return Ok(length);
    }
    Err(format!(
        "it must be {} to {}",
        write_duration(least),
        write_duration(most)
    ))
}

fn query_time(text: &str) -> Result<Duration, String> {
    time_between(text, Duration::from_millis(1), Duration::from_secs(60))
}

fn life_time(text: &str) -> Result<Duration, String> {
    time_between(text, Duration::from_secs(1), Duration::from_secs(3_600))
}

fn herd_time(text: &str) -> Result<Duration, String> {
    time_between(text, Duration::from_secs(1), Duration::from_secs(600))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Lab {
        #[command(flatten)]
        args: Args,
    }

    pub fn parsed(line: &str) -> Result<Args, String> {
        let words = std::iter::once("lab").chain(line.split_whitespace());
        Lab::try_parse_from(words)
            .map(|lab| lab.args)
            .map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn without_arguments_it_is_the_burst_of_the_readme() {
        let args = parsed("").unwrap();
        assert_eq!(args.scenarios(), [Scenario::Burst]);
        let plan = args.plan(Scenario::Burst);
        assert_eq!(
            (plan.callers, plan.connections, plan.query),
            (200, 20, Duration::from_millis(200))
        );
        assert_eq!(plan.strategies, Kind::ALL);
    }

    #[test]
    fn each_scenario_has_its_own_defaults() {
        let args = parsed("all").unwrap();
        assert_eq!(args.scenarios(), Scenario::ALL);
        let steady = args.plan(Scenario::Steady);
        assert_eq!(
            (steady.callers, steady.lives, steady.duration),
            (50, Duration::from_secs(3), Duration::from_secs(12))
        );
        assert_eq!((steady.keys, steady.workers), (5, 2));
        let avalanche = args.plan(Scenario::Avalanche);
        assert_eq!((avalanche.keys, avalanche.restart), (10_000, 100_000));
    }

    #[test]
    fn strategies_are_a_list_and_named_once() {
        let args = parsed("steady --strategies drover,xfetch+lock,drover").unwrap();
        assert_eq!(args.plan(Scenario::Steady).strategies, [Kind::Drover, Kind::XfetchLock]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_does() {
        for (line, told) in [
            ("--query 0ms", "1ms to 1m"),
            ("--query 2min", "1ms to 1m"),
            ("--query soon", "200ms"),
            ("--callers 0", "1..=100000"),
            ("--lives 1ms", "1s to 1h"),
            ("--strategies all", "xfetch+lock"),
            ("bursts", "burst"),
        ] {
            let wrong = parsed(line).unwrap_err();
            assert!(wrong.contains(told), "{line}: {wrong}");
        }
    }
}
