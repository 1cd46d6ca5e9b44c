//! What replicas write to each other, layout 1: a byte with the number of the layout, then a protobuf message.
//!
//! *Invariants.* Reading is total: whatever the bytes, it gives a message within bounds or says why not. A layout that is not known is not
//! guessed at: who wrote it counts this replica as one that was not heard, which is true.

use std::sync::Arc;
use std::time::Duration;

use crate::decision::Key;
use crate::fanout::{Barrier, Question};
use crate::store::{Place, Target};

const LAYOUT: u8 = 1;
/// So many namespaces are named in a registration; the others share one count.
const NAMED: usize = 256;
/// No wait is longer.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3_600);
/// As many partitions as a store may have.
const PARTITIONS: usize = 16;
/// Holders of an answer.
const LAGGARDS: usize = 10;

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The replica that wrote it.
    pub from: u64,
    /// Which barrier of the replica that asked.
    pub round: u64,
    /// What it says.
    pub said: Said,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// How far are your watchers?
    Question(Question),
    /// So far.
    Answer {
        /// The replica that asked.
        to: u64,
        /// How far they are.
        barrier: Barrier,
    },
}

/// Bytes that are no message of this layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Another release wrote it.
    #[error("it has layout {0}, and this release knows layout {LAYOUT}")]
    Layout(u8),
    /// Nobody wrote it so.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

impl Message {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let said = match &self.said {
            Said::Question(question) => wire::Said::Question(wire::Question::from(question)),
            Said::Answer { to, barrier } => wire::Said::Answer(wire::Answer {
                to: *to,
                watchers: barrier.watchers as u64,
                acknowledged: barrier.acknowledged as u64,
                confirmed: barrier.confirmed,
                laggards: barrier.laggards.iter().map(|holder| holder.to_string()).collect(),
            }),
        };
        framed(&wire::Message {
            from: self.from,
            round: self.round,
            said: Some(said),
        })
    }

    /// From bytes that anybody may have written.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] for what [`Message::encode`] of this release does not write.
    pub fn decode(bytes: &[u8]) -> Result<Message, Unreadable> {
        let message: wire::Message = unframed(bytes)?;
        let said = match message.said {
            Some(wire::Said::Question(question)) => Said::Question(question.checked()?),
            Some(wire::Said::Answer(answer)) => Said::Answer {
                to: answer.to,
                barrier: answer.checked(),
            },
            None => return Err(Unreadable::Damaged("it says nothing".to_owned())),
        };
        Ok(Message {
            from: message.from,
            round: message.round,
            said,
        })
    }
}

/// The registered watchers of each namespace and its workers, as bytes. Beyond so many namespaces only the largest are named.
pub fn encode_counts(mut counts: Vec<(Arc<str>, u32)>, mut workers: Vec<(Arc<str>, u32)>) -> Vec<u8> {
    counts.sort_unstable_by(|(one, more), (other, less)| less.cmp(more).then_with(|| one.cmp(other)));
    let unnamed = counts.get(NAMED).map_or(0, |(_, count)| *count);
    counts.truncate(NAMED);
    workers.truncate(NAMED);
    let named = |(name, count): (Arc<str>, u32)| wire::Count {
        name: name.to_string(),
        count,
    };
    framed(&wire::Counts {
        named: counts.into_iter().map(named).collect(),
        unnamed,
        left: false,
        workers: workers.into_iter().map(named).collect(),
    })
}

/// What a replica says that has left.
pub fn encode_left() -> Vec<u8> {
    framed(&wire::Counts {
        left: true,
        ..wire::Counts::default()
    })
}

/// Whether a replica has left, so that nobody trusts what it told.
pub fn has_left(says: &[u8]) -> bool {
    unframed::<wire::Counts>(says).is_ok_and(|counts| counts.left)
}

/// How many are registered for a namespace, at the most. What can't be read counts as one: there may be watchers.
pub fn count_of(says: &[u8], namespace: &str) -> u32 {
    let Ok(counts) = unframed::<wire::Counts>(says) else {
        return 1;
    };
    let named = counts.named.iter().find(|count| count.name == namespace);
    named.map_or(counts.unnamed, |count| count.count)
}

/// The workers of each namespace that a replica has named. What can't be read names none.
pub fn workers_of(says: &[u8]) -> Vec<(Arc<str>, u32)> {
    let counts = unframed::<wire::Counts>(says).unwrap_or_default();
    let workers = counts.workers.into_iter().take(NAMED);
    workers.map(|count| (count.name.into(), count.count)).collect()
}

fn framed(message: &impl prost::Message) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + message.encoded_len());
    bytes.push(LAYOUT);
    bytes.extend(message.encode_to_vec());
    bytes
}

fn unframed<M: prost::Message + Default>(bytes: &[u8]) -> Result<M, Unreadable> {
    match bytes.split_first() {
        Some((&LAYOUT, body)) => M::decode(body).map_err(|error| Unreadable::Damaged(error.to_string())),
        Some((&layout, _)) => Err(Unreadable::Layout(layout)),
        None => Err(Unreadable::Damaged("it is empty".to_owned())),
    }
}

impl From<&Question> for wire::Question {
    fn from(question: &Question) -> wire::Question {
        let target = |target: &Target| wire::Target {
            target: Some(match target {
                Target::Key(key) => wire::Named::Key(key.name().to_owned()),
                Target::Tag(tag) => wire::Named::Tag(tag.to_string()),
                Target::Everything => wire::Named::Everything(true),
            }),
        };
        let place = |place: &Place| wire::Place {
            partition: u32::from(place.partition),
            at: place.at,
        };
        wire::Question {
            namespace: question.namespace.to_string(),
            targets: question.targets.iter().map(target).collect(),
            places: question.places.iter().map(place).collect(),
            wait: u64::try_from(question.wait.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

impl wire::Question {
    fn checked(self) -> Result<Question, Unreadable> {
        let damaged = |what: &str| Unreadable::Damaged(what.to_owned());
        if self.places.len() > PARTITIONS {
            return Err(damaged("it has too many places"));
        }
        if self.namespace.len() > 64 || self.namespace.contains('/') {
            return Err(damaged("what it names is no namespace"));
        }
        let place = |place: wire::Place| {
            Some(Place {
                partition: u16::try_from(place.partition).ok()?,
                at: place.at,
            })
        };
        let target = |target: wire::Target| {
            Some(match target.target? {
                wire::Named::Key(name) => Target::Key(Key::new(&self.namespace, &name)),
                wire::Named::Tag(tag) => Target::Tag(tag.into()),
                wire::Named::Everything(_) => Target::Everything,
            })
        };
        let places: Option<Vec<Place>> = self.places.into_iter().map(place).collect();
        let targets: Option<Vec<Target>> = self.targets.into_iter().map(target).collect();
        Ok(Question {
            targets: targets.ok_or_else(|| damaged("one of its targets is none"))?,
            places: places.ok_or_else(|| damaged("one of its places is none"))?,
            namespace: self.namespace.into(),
            wait: Duration::from_micros(self.wait).min(LONGEST),
        })
    }
}

impl wire::Answer {
    fn checked(self) -> Barrier {
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Barrier {
            watchers: count(self.watchers),
            acknowledged: count(self.acknowledged),
            confirmed: self.confirmed && self.acknowledged == self.watchers,
            laggards: self.laggards.into_iter().take(LAGGARDS).map(Arc::from).collect(),
        }
    }
}

/// The messages as protobuf sees them. Numbers of fields are for ever.
mod wire {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Message {
        #[prost(fixed64, tag = "1")]
        pub from: u64,
        #[prost(uint64, tag = "2")]
        pub round: u64,
        #[prost(oneof = "Said", tags = "3, 4")]
        pub said: Option<Said>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Said {
        #[prost(message, tag = "3")]
        Question(Question),
        #[prost(message, tag = "4")]
        Answer(Answer),
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Question {
        #[prost(string, tag = "1")]
        pub namespace: String,
        #[prost(message, repeated, tag = "2")]
        pub targets: Vec<Target>,
        #[prost(message, repeated, tag = "3")]
        pub places: Vec<Place>,
        /// Microseconds.
        #[prost(uint64, tag = "4")]
        pub wait: u64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Target {
        #[prost(oneof = "Named", tags = "1, 2, 3")]
        pub target: Option<Named>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Named {
        #[prost(string, tag = "1")]
        Key(String),
        #[prost(string, tag = "2")]
        Tag(String),
        #[prost(bool, tag = "3")]
        Everything(bool),
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Place {
        #[prost(uint32, tag = "1")]
        pub partition: u32,
        #[prost(uint64, tag = "2")]
        pub at: u64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Answer {
        #[prost(fixed64, tag = "1")]
        pub to: u64,
        #[prost(uint64, tag = "2")]
        pub watchers: u64,
        #[prost(uint64, tag = "3")]
        pub acknowledged: u64,
        #[prost(bool, tag = "4")]
        pub confirmed: bool,
        #[prost(string, repeated, tag = "5")]
        pub laggards: Vec<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Counts {
        #[prost(message, repeated, tag = "1")]
        pub named: Vec<Count>,
        /// Of each namespace that is not named, at the most.
        #[prost(uint32, tag = "2")]
        pub unnamed: u32,
        /// The replica has left.
        #[prost(bool, tag = "3")]
        pub left: bool,
        /// Those that rebuild, not those that watch.
        #[prost(message, repeated, tag = "4")]
        pub workers: Vec<Count>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Count {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(uint32, tag = "2")]
        pub count: u32,
    }
}

#[cfg(test)]
mod tests;
