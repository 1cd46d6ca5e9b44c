//! The primary, as the sentinels know it.
//!
//! *Invariants.* All sentinels are asked, and the newest configuration wins: a sentinel that is cut off together with an old primary goes on
//! naming it, under an older epoch. Once a second is often enough to leave a primary that was cut off soon after the others have
//! agreed on another; when a connection breaks or a server says that it is a replica, they are asked at once.
//!
//! A server that was away is taken for the primary only after they were asked again ([`Sentinels::vouch`]): one that died and is started
//! by its supervisor while they replace it believes that it is the primary, takes writes, and loses them when it hears of the other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{RedisError, cmd, from_redis_value};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::super::Link;
use super::super::access::Place;
use super::super::trouble::Trouble;
use crate::config::Address;
use crate::store::redis::condition::Condition;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Sentinels that were set up anew count from the beginning; those that only have not heard yet of the newest configuration, have after two
/// seconds, and an old primary that is started again is told so after eight.
const SET_UP_ANEW: Duration = Duration::from_secs(15);

/// Who watches the primary, and its name.
#[derive(Debug)]
pub(in super::super) struct Sentinels {
    addresses: Vec<Address>,
    master: String,
    /// How many looks were begun.
    begun: AtomicU64,
    /// What the last one has come to.
    looked: watch::Sender<Looked>,
}

/// What a look has come to. All that answer in time count: most of them may not know yet what the one knows that replaces the primary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Looked {
    /// The number of the look.
    number: u64,
    /// The primary under the newest configuration; `None`: nobody answers.
    primary: Option<Address>,
    is_doubted: bool,
}

/// What a sentinel says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    epoch: u64,
    address: Address,
    /// It thinks that this primary is down.
    is_down: bool,
    /// It is about to name another.
    is_replacing: bool,
}

impl Looked {
    /// `known`: the newest configuration that was heard of.
    fn from(number: u64, answers: &[Named], known: u64) -> Looked {
        let newest = answers.iter().max_by_key(|named| named.epoch);
        let down = answers.iter().filter(|named| named.is_down).count();
        let is_old = newest.is_some_and(|named| named.epoch < known);
        Looked {
            number,
            primary: newest.map(|named| named.address.clone()),
            is_doubted: is_old || down * 2 > answers.len() || answers.iter().any(|named| named.is_replacing),
        }
    }
}

/// One sentinel, and the connection to it.
struct Asked<'a> {
    address: &'a Address,
    connection: Option<MultiplexedConnection>,
    authenticated: bool,
}

impl Sentinels {
    pub fn new(addresses: Vec<Address>, master: String) -> Sentinels {
        Sentinels {
            addresses,
            master,
            begun: AtomicU64::new(0),
            looked: watch::Sender::default(),
        }
    }

    /// Asks them anew whether a server that has just answered is the primary. Where none of them answers, nobody knows better.
    pub async fn vouch(&self, link: &Link, place: &Place) -> Result<(), Trouble> {
        let mut looked = self.looked.subscribe();
        let next = self.begun.load(Ordering::SeqCst) + 1;
        link.search.notify_one();
        let new = looked.wait_for(|looked| looked.number >= next);
        // One look may be under way, and the next takes as long at the most.
        let Ok(Ok(looked)) = timeout(link.timeout * 3, new).await else {
            return Ok(());
        };
        let doubt = |why: &str| {
            Err(Trouble {
                answered: true,
                ..Trouble::new(Condition::Doubted, format!("{place}: {why}"))
            })
        };
        match &looked.primary {
            Some(address) if Place::Tcp(address.clone()) != *place => {
                doubt(&format!("the sentinels name another primary, {address}"))
            }
            Some(_) if looked.is_doubted => {
                doubt("the sentinels think that it is down, or have replaced it, or are about to")
            }
            _ => Ok(()),
        }
    }

    pub async fn go(&self, link: &Link) {
        let mut all: Vec<Asked<'_>> = self.addresses.iter().map(Asked::new).collect();
        let (mut newest, mut last_new) = (0, Instant::now());
        loop {
            if self.look(link, &mut all, &mut newest).await {
                last_new = Instant::now();
            } else if last_new.elapsed() >= SET_UP_ANEW {
                newest = 0;
            }
            link.rest(LOOK).await;
        }
    }

    /// Asks them all, and follows each answer that is at least as new as what is known. Whether there was one, or none at all.
    async fn look(&self, link: &Link, all: &mut [Asked<'_>], newest: &mut u64) -> bool {
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
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
        self.looked.send_replace(Looked::from(number, &answers, *newest));
        if let (true, Some(trouble)) = (answers.is_empty(), trouble) {
            link.is_nowhere(&trouble);
        }
        answers.is_empty() || answers.iter().any(|named| named.epoch >= *newest)
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
        let flags = field("flags")?;
        let is = |flag: &str| flags.split(',').any(|one| one == flag);
        Ok(Named {
            is_down: is("s_down") || is("o_down"),
            is_replacing: is("failover_in_progress"),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn named(epoch: u64, port: u16) -> Named {
        Named {
            epoch,
            address: at(port),
            is_down: false,
            is_replacing: false,
        }
    }

    fn at(port: u16) -> Address {
        Address {
            host: "127.0.0.1".to_owned(),
            port,
        }
    }

    fn primary(answers: &[Named], known: u64) -> (Option<Address>, bool) {
        let looked = Looked::from(1, answers, known);
        (looked.primary, looked.is_doubted)
    }

    #[test]
    fn the_newest_configuration_says_who_the_primary_is() {
        assert_eq!(
            primary(&[named(1, 7), named(2, 8), named(1, 7)], 2),
            (Some(at(8)), false)
        );
        assert_eq!(primary(&[], 2), (None, false));
    }

    #[test]
    fn sentinels_that_have_not_heard_of_the_newest_configuration_vouch_for_nobody() {
        assert_eq!(primary(&[named(1, 7), named(1, 7)], 2), (Some(at(7)), true));
    }

    #[test]
    fn a_primary_is_doubted_that_most_think_is_down_or_that_one_is_replacing() {
        let down = |count: usize| {
            let mut answers = vec![named(1, 7); 3];
            answers[..count].iter_mut().for_each(|named| named.is_down = true);
            primary(&answers, 1).1
        };
        assert_eq!([0, 1, 2, 3].map(down), [false, false, true, true]);
        let replacing = Named {
            is_replacing: true,
            ..named(1, 7)
        };
        assert!(primary(&[named(1, 7), replacing], 1).1);
    }
}
