//! The strategies: ways to keep a herd off the origin, all doing the same work.
//!
//! *Owns* their names and the one door that scenarios use ([`Strategy`]). A caller of the lab stands for one process: callers
//! share neither flights nor local copies, so that the strategy alone decides what reaches the origin.
//!
//! *Why an enum*: there are two implementations, [`recipe`] with its two switches and [`drover`]; no third is in sight.

use std::sync::Arc;

use rand::rngs::SmallRng;

use super::origin::Failing;

pub mod cache;
pub mod client;
pub mod drover;
#[cfg(test)]
pub mod fake;
pub mod recipe;

/// Which strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// A cache and nothing else: who finds the key missing rebuilds it
    None,
    /// A lock in the shared cache; who does not get it polls every 50 ms
    Lock,
    /// Probabilistic early expiry alone (Vattani, Chierichetti, Lowenstein, VLDB 2015)
    Xfetch,
    /// Probabilistic early expiry, and the lock
    #[value(name = "xfetch+lock")]
    XfetchLock,
    /// drover, over real gRPC
    Drover,
}

impl Kind {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::None, Self::Lock, Self::Xfetch, Self::XfetchLock, Self::Drover];

    /// Its name on the command line, in tables, JSON and pictures.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lock => "lock",
            Self::Xfetch => "xfetch",
            Self::XfetchLock => "xfetch+lock",
            Self::Drover => "drover",
        }
    }

    /// What it is, in a few words for a picture.
    pub fn explained(self) -> &'static str {
        match self {
            Self::None => "cache only",
            Self::Lock => "polling every 50 ms",
            Self::Xfetch => "early expiry",
            Self::XfetchLock => "early expiry, lock",
            Self::Drover => "lease over gRPC",
        }
    }
}

/// Why a caller got no value.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The wait was over before there was a value.
    #[error("the wait was over before there was a value")]
    Busy,
    /// drover says that the origin is failing.
    #[error("drover holds callers off a failing origin: {0}")]
    Backoff(String),
    /// The origin answered with an error.
    #[error(transparent)]
    Origin(#[from] Failing),
    /// The call to drover failed.
    #[error("{call}: {} ({:?})", .status.message(), .status.code())]
    Rpc {
        /// Which call.
        call: &'static str,
        /// What came back.
        status: Box<tonic::Status>,
    },
    /// An answer that a server of this contract does not give.
    #[error("drover's answer makes no sense: {0}")]
    Nonsense(&'static str),
}

/// One way, ready to use. Cloning is cheap and gives the same one.
#[derive(Clone, Debug)]
pub enum Strategy {
    /// Over the simulated shared cache.
    Recipe(Arc<recipe::Recipe>),
    /// Over gRPC.
    Drover(Arc<drover::Drover>),
}

impl Strategy {
    /// What a caller does to get the value of `key`; answers the number of the data that it would show its user.
    pub async fn get(&self, key: &str, rng: &mut SmallRng) -> Result<u64, Trouble> {
        match self {
            Self::Recipe(recipe) => recipe.get(key, rng).await,
            Self::Drover(drover) => drover.get(key).await,
        }
    }

    /// What a writer does after it has changed the data.
    pub async fn invalidate(&self, key: &str) -> Result<(), Trouble> {
        match self {
            Self::Recipe(recipe) => {
                recipe.invalidate(key).await;
                Ok(())
            }
            Self::Drover(drover) => drover.invalidate(key).await,
        }
    }

    /// Waits until nothing goes on in the background: no refresh, no report.
    pub async fn settle(&self) {
        match self {
            Self::Recipe(recipe) => recipe.settle().await,
            Self::Drover(drover) => drover.settle().await,
        }
    }

    /// The callers that count come from now on.
    pub fn begin(&self) {
        if let Self::Drover(drover) = self {
            drover.ledger().begin();
        }
    }

    /// How many writes into the cache were refused because something newer had happened.
    pub fn refused(&self) -> u64 {
        match self {
            Self::Recipe(_) => 0,
            Self::Drover(drover) => drover.refused(),
        }
    }

    /// The first thing that went wrong where no caller waited for it.
    pub fn background_trouble(&self) -> Option<String> {
        match self {
            Self::Recipe(_) => None,
            Self::Drover(drover) => drover.background_trouble(),
        }
    }
}
