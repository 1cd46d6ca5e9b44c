//! `drover config check FILE`: what a file means, or all that is wrong with it.

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::Args;

use super::file::{self, File};
use super::settings::read_file;
use super::sheet::join;
use super::text::{differing_toml, policy_toml};
use super::{ConfigError, Overrides};

/// Options of `drover config check`.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// The file to check, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Print every field of every namespace, not only what differs from `[defaults]`
    #[arg(long)]
    pub full: bool,
}

/// Checks a file as `drover serve --config FILE` would read it, environment and flags aside.
///
/// Good: prints the policies in force to standard output and exits with 0. Otherwise prints one line a mistake to
/// standard error, `FILE:LINE:COLUMN: FIELD: what is wrong; what is allowed`, and exits with 1.
pub fn check(args: &CheckArgs) -> ExitCode {
    let (name, text) = if args.file == Path::new("-") {
        (Path::new("<stdin>"), read_stdin())
    } else {
        (args.file.as_path(), read_file(&args.file))
    };
    let read = text.and_then(|text| file::parse(name, &text, &Overrides::default()));
    // Who closes the pipe early has seen enough: that the rest can't be written is no error of the file's.
    match read {
        Ok(file) => {
            _ = print(&file, name, args.full, &mut anstream::stdout().lock());
            ExitCode::SUCCESS
        }
        Err(error) => {
            _ = complain(&error, &mut anstream::stderr().lock());
            ExitCode::FAILURE
        }
    }
}

fn read_stdin() -> Result<String, ConfigError> {
    let mut text = String::new();
    match io::stdin().lock().read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(ConfigError::Unreadable {
            path: PathBuf::from("<stdin>"),
            reason: error.to_string(),
        }),
    }
}

const HEADER: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();

pub(super) fn print(file: &File, path: &Path, full: bool, out: &mut dyn Write) -> io::Result<()> {
    let policies = &file.policies;
    writeln!(out, "{:<23} = {}", "strict_namespaces", policies.strict)?;
    if !file.server.written.is_empty() {
        writeln!(out, "\n{HEADER}[server]{HEADER:#}")?;
        for (name, value) in &file.server.written {
            writeln!(out, "{name:<23} = {value}")?;
        }
    }
    writeln!(out, "\n{HEADER}[defaults]{HEADER:#}")?;
    write!(out, "{}", policy_toml(&policies.defaults))?;
    for name in policies.names() {
        let header = format!("[{}]", join("namespaces", name));
        let Some(policy) = policies.namespaces.get(name) else {
            continue;
        };
        if full {
            writeln!(out, "\n{HEADER}{header}{HEADER:#}")?;
            write!(out, "{}", policy_toml(policy))?;
            continue;
        }
        let differing = differing_toml(policy, &policies.defaults);
        let rest = if differing.is_empty() { "all" } else { "the rest" };
        writeln!(
            out,
            "\n{HEADER}{header}{HEADER:#} {FAINT}# {rest} as in [defaults]{FAINT:#}"
        )?;
        write!(out, "{differing}")?;
    }
    writeln!(out, "\n{}: {GOOD}OK{GOOD:#}: {}", path.display(), summary(file))
}

fn summary(file: &File) -> String {
    let listed = match file.policies.namespaces.len() {
        0 => "no namespace is listed".to_owned(),
        1 => "1 namespace is listed".to_owned(),
        more => format!("{more} namespaces are listed"),
    };
    match (file.policies.strict, file.policies.namespaces.is_empty()) {
        (false, false) => format!("{listed}, any other has the defaults"),
        (false, true) => format!("{listed}, all have the defaults"),
        (true, false) => format!("{listed}, any other is refused"),
        (true, true) => format!("{listed} and strict_namespaces is true, so every call will be refused"),
    }
}

pub(super) fn complain(error: &ConfigError, out: &mut dyn Write) -> io::Result<()> {
    let ConfigError::Invalid { path, mistakes } = error else {
        return writeln!(out, "{BAD}error{BAD:#}: {error}");
    };
    for mistake in mistakes {
        writeln!(out, "{HEADER}{}{HEADER:#}: {mistake}", mistake.place(path))?;
    }
    let count = match mistakes.len() {
        1 => "1 mistake".to_owned(),
        more => format!("{more} mistakes"),
    };
    writeln!(out, "{BAD}error{BAD:#}: {}: {count}", path.display())
}
