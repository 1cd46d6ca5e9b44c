//! The primary, as the sentinels know it.
//!
//! *Invariants.* All sentinels are asked, and the newest configuration wins: a sentinel that is cut off together with an old primary goes on
//! naming it, under an older epoch. Once a second is often enough to leave a primary that was cut off soon after the others have
//! agreed on another; when a connection breaks or a server says that it is a replica, they are asked at once.

use std::collections::HashMap;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{RedisError, cmd, from_redis_value};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::timeout;

use super::super::Link;
use super::super::access::Place;
use super::super::trouble::Trouble;
use crate::config::Address;
use crate::store::redis::condition::Condition;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// Who watches the primary, and its name.
#[derive(Debug)]
pub(in super::super) struct Sentinels {
    pub addresses: Vec<Address>,
    pub master: String,
}

/// What a sentinel says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    epoch: u64,
    address: Address,
}

/// One sentinel, and the connection to it.
struct Asked<'a> {
    address: &'a Address,
    connection: Option<MultiplexedConnection>,
    authenticated: bool,
}

impl Sentinels {
    pub async fn go(&self, link: &Link) {
        let mut all: Vec<Asked<'_>> = self.addresses.iter().map(Asked::new).collect();
        let mut newest = 0;
        loop {
            self.look(link, &mut all, &mut newest).await;
            link.rest(LOOK).await;
        }
    }

    /// Asks them all, and follows each answer that is at least as new as what is known.
    async fn look(&self, link: &Link, all: &mut [Asked<'_>], newest: &mut u64) {
        let count = all.len();
        let mut asking: FuturesUnordered<_> = all.iter_mut().map(|one| one.ask(link, &self.master)).collect();
        let (mut answers, mut trouble): (Vec<Named>, _) = (Vec::new(), None);
        while let Some(answer) = asking.next().await {
            match answer {
                Ok(named) => {
                    if named.epoch >= *newest {
                        *newest = named.epoch;
                        follow(link, &named.address);
                    }
                    answers.push(named);
                }
                Err(problem) => trouble = Some(problem),
            }
        }
        let latest = answers.iter().max_by_key(|named| named.epoch);
        match (latest, trouble) {
            // Sentinels that were set up anew count from the beginning.
            (Some(named), _) if named.epoch < *newest && answers.len() * 2 > count => {
                *newest = named.epoch;
                follow(link, &named.address);
            }
            (None, Some(trouble)) => link.is_nowhere(&trouble),
            _ => {}
        }
    }
}

fn follow(link: &Link, address: &Address) {
    let before = link.seats.of(0);
    if link.seat(0, address.clone()) {
        match &before.place {
            Some(place) => {
                tracing::warn!("Redis: the sentinels name another primary: {address} instead of {place}");
                link.retire(&before);
            }
            None => tracing::info!("Redis: the sentinels name the primary: {address}"),
        }
    }
}

impl<'a> Asked<'a> {
    fn new(address: &'a Address) -> Asked<'a> {
        Asked {
            address,
            connection: None,
            authenticated: false,
        }
    }

    async fn ask(&mut self, link: &Link, master: &str) -> Result<Named, Trouble> {
        let answer = match timeout(link.timeout, self.named(link, master)).await {
            Ok(answer) => answer,
            Err(_) => Err(Refusal::Late),
        };
        answer.map_err(|refusal| {
            self.connection = None;
            let address = self.address;
            match refusal {
                Refusal::Late => {
                    let text = format!("sentinel {address}: no answer for {} ms", link.timeout.as_millis());
                    Trouble::new(Condition::TimedOut, text)
                }
                Refusal::Strange => Trouble::new(
                    Condition::Other,
                    format!("sentinel {address}: what it says of {master} can't be understood"),
                ),
                Refusal::Error(error) if error.to_string().contains("No such master") => Trouble::new(
                    Condition::Other,
                    format!("sentinel {address}: it knows no primary called {master}; the name stands after the / of the URL"),
                ),
                Refusal::Error(error) => {
                    let place = Place::Tcp(address.clone());
                    let told = Trouble::of(&place, &error, link.access.is_secured());
                    Trouble::new(told.condition, format!("sentinel {told}"))
                }
            }
        })
    }

    async fn named(&mut self, link: &Link, master: &str) -> Result<Named, Refusal> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => link.access.sentinel(self.address, self.authenticated).await?,
        };
        let asked = cmd("SENTINEL").arg("MASTER").arg(master).take();
        let mut answer = asked.query_async::<::redis::Value>(&mut connection).await;
        // Most sentinels want no password, and refuse one that is shown to them.
        if matches!(&answer, Err(error) if error.code() == Some("NOAUTH")) && link.access.has_credentials() {
            connection = link.access.sentinel(self.address, true).await?;
            self.authenticated = true;
            answer = asked.query_async(&mut connection).await;
        }
        let fields: HashMap<String, String> = from_redis_value(answer?).map_err(|_| Refusal::Strange)?;
        self.connection = Some(connection);
        let field = |name: &str| fields.get(name).ok_or(Refusal::Strange);
        Ok(Named {
            epoch: field("config-epoch")?.parse().map_err(|_| Refusal::Strange)?,
            address: Address {
                host: field("ip")?.clone(),
                port: field("port")?.parse().map_err(|_| Refusal::Strange)?,
            },
        })
    }
}

/// Why a sentinel named nobody.
enum Refusal {
    Late,
    Strange,
    Error(RedisError),
}

impl From<RedisError> for Refusal {
    fn from(error: RedisError) -> Refusal {
        Refusal::Error(error)
    }
}
