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

mod args;
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

pub use args::Args;
use scenario::{Finding, Plan, Scenario, World};
use strategy::Kind;
use strategy::client::Client;

/// The longest that a herd may keep an origin busy that nobody protects.
const BOUND: Duration = Duration::from_secs(600);

/// Runs the lab. An error is one of the command line, of the connection to drover, or of writing; a strategy whose callers fail is
/// something that was seen.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let scenarios = args.scenarios();
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

#[cfg(test)]
mod tests {
    use super::args::tests::parsed;
    use super::*;

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
