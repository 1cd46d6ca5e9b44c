//! `drover lab`: the picture that convinces.
//!
//! *Owns* an [`origin`] that counts its queries, the [`strategy`]s that try to spare it, and the [`scenario`]s that a herd of callers
//! goes through; it measures, and shows what it saw as a table, JSON and a picture. *Never does* anything that a caller of drover
//! could not do: it talks to drover over real gRPC, its own server included.
//!
//! *Why in this process*: a newcomer needs one command and nothing installed. Callers and server then share the machine's cores,
//! which makes drover look slower than it is, never faster.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

pub mod human;
pub mod json;
pub mod measure;
pub mod origin;
mod own_server;
pub mod picture;
pub mod progress;
pub mod scenario;
pub mod strategy;
pub mod table;

use scenario::{Finding, Plan, Scenario, World};
use strategy::Kind;
use strategy::client::Client;

use crate::config::{read_duration, write_duration};

/// The longest that a herd may keep an origin busy that nobody protects.
const BOUND: Duration = Duration::from_secs(600);

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
  drover lab avalanche --keys 100000      a restart that fills everything
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
    strategies: Vec<Kind>,

    /// Callers at a time [default: 200 in burst, 50 in steady and outage, 2,000 in coldstart; avalanche fills its keys with 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    callers: Option<u32>,

    /// How long one query takes at the origin, 1ms to 60s
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = query_time)]
    query: Duration,

    /// How many queries the origin answers at a time
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,

    /// How long a value lives, 1s to 1h [default: 3s in steady and outage, 5min elsewhere]
    #[arg(long, value_name = "TIME", value_parser = life_time)]
    lives: Option<Duration>,

    /// How long the herd of `steady` goes on, 1s to 10min
    #[arg(long, value_name = "TIME", default_value = "12s", value_parser = herd_time)]
    duration: Duration,

    /// How many keys `avalanche` fills
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=5_000_000))]
    keys: u32,

    /// Where random draws start: the same seed gives the same herd (its timing is still the machine's)
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Use the drover at this address (host:port, no TLS) instead of an own one; the keys carry a random prefix and live for `--lives`
    #[arg(long, value_name = "ADDR")]
    server: Option<String>,

    /// The namespace in which the lab's keys are
    #[arg(long, value_name = "NAME", default_value = "lab")]
    namespace: String,

    /// Draw what was seen into this file; `all` draws one file a scenario, FILE-burst.svg and so on
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

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

/// Runs the lab. An error is one of the command line, of the connection to drover, or of writing; a strategy whose callers fail is
/// something that was seen.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let scenarios = args.scenario.scenarios();
    let plans: Vec<_> = scenarios.iter().map(|&scenario| args.plan(scenario)).collect();
    for (scenario, plan) in scenarios.iter().zip(&plans) {
        refuse_what_takes_for_ever(*scenario, plan)?;
    }
    if let Some(folder) = args
        .svg
        .as_deref()
        .and_then(Path::parent)
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        anyhow::ensure!(folder.is_dir(), "--svg: there is no folder {}", folder.display());
    }
    let callers = plans.iter().map(|plan| plan.callers).max().unwrap_or_default();
    let (client, own) = match (args.strategies.contains(&Kind::Drover), &args.server) {
        (false, _) => (None, None),
        (true, Some(address)) => (
            Some(Client::connect(&url(address)?, &args.namespace, callers).await?),
            None,
        ),
        (true, None) => {
            let (url, own) = own_server::start(&args.namespace, args.connections).await?;
            (Some(Client::connect(&url, &args.namespace, callers).await?), Some(own))
        }
    };
    let world = World {
        client: client.map(Arc::new),
        is_own: own.is_some(),
        bars: progress::Bars::on_terminal(),
    };

    let mut findings = Vec::new();
    for (&scenario, plan) in scenarios.iter().zip(plans) {
        let finding = scenario.run(plan, &world).await?;
        if !args.json {
            anstream::println!(
                "{}{}",
                if findings.is_empty() { "" } else { "\n" },
                table::render(&finding).trim_end()
            );
        }
        findings.push(finding);
    }
    if args.json {
        anstream::println!("{:#}", json::render(&findings));
    }
    if let Some(file) = &args.svg {
        draw(file, &findings, args.json)?;
    }
    drop(world);
    if let Some(own) = own {
        own.stop().await;
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn plan(&self, scenario: Scenario) -> Plan {
        let (callers, lives) = scenario.defaults();
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
            keys: self.keys as usize,
            seed: self.seed,
        }
    }
}

fn refuse_what_takes_for_ever(scenario: Scenario, plan: &Plan) -> anyhow::Result<()> {
    let rounds = plan.callers.div_ceil(plan.connections).min(u32::MAX as usize) as u32;
    let needed = plan.query.saturating_mul(rounds);
    anyhow::ensure!(
        scenario != Scenario::Burst
            || needed <= BOUND
            || !plan
                .strategies
                .iter()
                .any(|kind| matches!(kind, Kind::None | Kind::Xfetch)),
        "without protection {} queries of {} over {} connections would take {}; the lab stops at {}: let there be fewer --callers, \
         a shorter --query, more --connections, or leave `none` and `xfetch` out of --strategies",
        human::count(plan.callers as u64),
        human::time(plan.query),
        human::count(plan.connections as u64),
        human::time(needed),
        human::time(BOUND),
    );
    Ok(())
}

fn url(address: &str) -> anyhow::Result<String> {
    anyhow::ensure!(
        !address.starts_with("https://"),
        "`--server {address}`: the lab speaks no TLS; write host:port"
    );
    Ok(if address.starts_with("http://") {
        address.to_owned()
    } else {
        format!("http://{address}")
    })
}

fn draw(file: &Path, findings: &[Finding], quietly: bool) -> anyhow::Result<()> {
    for finding in findings {
        let file = if findings.len() == 1 {
            file.to_owned()
        } else {
            named_for(file, finding.scenario)
        };
        let svg = picture::render(finding).with_context(|| format!("cannot draw `{}`", finding.scenario.as_str()))?;
        std::fs::write(&file, svg).with_context(|| format!("cannot write {}", file.display()))?;
        if !quietly {
            anstream::println!("\ndrawn: {}", file.display());
        }
    }
    Ok(())
}

/// `lab.svg` → `lab-burst.svg`.
fn named_for(file: &Path, scenario: Scenario) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let extension = file
        .extension()
        .map_or("svg".into(), |extension| extension.to_string_lossy());
    file.with_file_name(format!("{stem}-{}.{extension}", scenario.as_str()))
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
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Lab {
        #[command(flatten)]
        args: Args,
    }

    fn parsed(line: &str) -> Result<Args, String> {
        let words = std::iter::once("lab").chain(line.split_whitespace());
        Lab::try_parse_from(words)
            .map(|lab| lab.args)
            .map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn without_arguments_it_is_the_burst_of_the_readme() {
        let args = parsed("").unwrap();
        assert_eq!(args.scenario.scenarios(), [Scenario::Burst]);
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
        assert_eq!(args.scenario.scenarios(), Scenario::ALL);
        let steady = args.plan(Scenario::Steady);
        assert_eq!(
            (steady.callers, steady.lives, steady.duration),
            (50, Duration::from_secs(3), Duration::from_secs(12))
        );
        assert_eq!(args.plan(Scenario::Avalanche).keys, 10_000);
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

    #[tokio::test]
    async fn a_herd_that_would_never_end_is_refused() {
        let wrong = run(parsed("--callers 100000 --connections 1").unwrap())
            .await
            .unwrap_err()
            .to_string();
        assert!(
            wrong.contains("would take 5.6 h") && wrong.contains("--callers"),
            "{wrong}"
        );
        assert!(
            refuse_what_takes_for_ever(
                Scenario::Burst,
                &parsed("--callers 100000 --connections 1 --strategies drover")
                    .unwrap()
                    .plan(Scenario::Burst)
            )
            .is_ok()
        );
    }

    #[tokio::test]
    async fn a_picture_without_a_folder_is_refused_before_anything_runs() {
        let wrong = run(parsed("--svg there/is/none/lab.svg").unwrap())
            .await
            .unwrap_err()
            .to_string();
        assert!(wrong.contains("there/is/none"), "{wrong}");
    }

    #[test]
    fn files_are_named_for_their_scenario() {
        assert_eq!(
            named_for(Path::new("docs/lab.svg"), Scenario::Race),
            Path::new("docs/lab-race.svg")
        );
        assert_eq!(named_for(Path::new("lab"), Scenario::Burst), Path::new("lab-burst.svg"));
    }

    #[test]
    fn an_address_needs_no_scheme_and_must_not_want_tls() {
        assert_eq!(url("127.0.0.1:7117").unwrap(), "http://127.0.0.1:7117");
        assert!(url("https://drover:443").unwrap_err().to_string().contains("no TLS"));
    }
}
