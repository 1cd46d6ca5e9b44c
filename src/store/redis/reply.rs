//! What scripts answer, read.
//!
//! A reply that does not have the shape that its script promises is a broken thing, not an answer: [`StoreError::Unavailable`], with the
//! shape named, so that it is found.

use std::sync::Arc;

use ::redis::Value;

use crate::decision::{Generation, Generations, Seq, StoreTime, Tag};
use crate::store::StoreError;

/// Why a node must not be asked; see `open` in `common.lua`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It takes no writes.
    Replica,
    /// The partition has no header.
    Headless,
    /// It is another primary than the header's.
    Primary,
    /// It has lost so many replicas that it counts as cut off.
    CutOff,
    /// The log has begun anew.
    Epoch(u64),
}

/// A reply, its first word read.
pub enum Reply {
    /// From the second word on.
    Ok(Words),
    /// How an entry is, from the second word on.
    Is(Words),
    /// Nothing was looked at.
    Closed(Closed),
}

/// What is left of a reply.
pub struct Words(std::vec::IntoIter<Value>);

impl Reply {
    /// Reads the first word.
    pub fn read(value: Value) -> Result<Reply, StoreError> {
        let Value::Array(words) = value else {
            return Err(odd("no list"));
        };
        let mut words = Words(words.into_iter());
        Ok(match words.bytes()?.as_slice() {
            b"ok" => Reply::Ok(words),
            b"is" => Reply::Is(words),
            b"replica" => Reply::Closed(Closed::Replica),
            b"headless" => Reply::Closed(Closed::Headless),
            b"primary" => Reply::Closed(Closed::Primary),
            b"cut_off" => Reply::Closed(Closed::CutOff),
            b"epoch" => Reply::Closed(Closed::Epoch(words.number()?)),
            _ => return Err(odd("an unknown word")),
        })
    }

    /// A reply that has no other shape but `ok`.
    pub fn ok(self) -> Result<Words, StoreError> {
        match self {
            Reply::Ok(words) => Ok(words),
            Reply::Is(_) | Reply::Closed(_) => Err(odd("no 'ok'")),
        }
    }
}

impl Words {
    /// The next word, if there is one and it is not nil.
    pub fn maybe(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        match self.0.next() {
            None => Err(odd("too few words")),
            Some(Value::Nil) => Ok(None),
            Some(Value::BulkString(bytes)) => Ok(Some(bytes)),
            Some(Value::SimpleString(text)) => Ok(Some(text.into_bytes())),
            Some(Value::Int(number)) => Ok(Some(number.to_string().into_bytes())),
            Some(_) => Err(odd("a word of another type")),
        }
    }

    /// The next word.
    pub fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        self.maybe()?.ok_or_else(|| odd("nil"))
    }

    /// The next word, which is a number.
    pub fn number(&mut self) -> Result<u64, StoreError> {
        let bytes = self.bytes()?;
        let text = std::str::from_utf8(&bytes).ok();
        text.and_then(|text| text.parse().ok()).ok_or_else(|| odd("no number"))
    }

    /// The next word, which is an instant.
    pub fn time(&mut self) -> Result<StoreTime, StoreError> {
        self.number().map(StoreTime)
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        self.0.len()
    }

    /// The rest: pairs of tag and generation.
    pub fn generations(mut self, floor: Seq) -> Result<Generations, StoreError> {
        let mut generations = Generations {
            floor,
            ..Generations::default()
        };
        while self.left() > 0 {
            let tag = self.bytes()?;
            let generation = read_generation(&self.bytes()?).ok_or_else(|| odd("no generation"))?;
            if tag.is_empty() {
                generations.namespace = Some(generation);
            } else {
                let tag: Tag = String::from_utf8_lossy(&tag).into();
                if !generations.tags.iter().any(|(known, _)| *known == tag) {
                    generations.tags.push((tag, generation));
                }
            }
        }
        Ok(generations)
    }
}

/// `newest dropped settle_until [number µs]…`
fn read_generation(text: &[u8]) -> Option<Generation> {
    let text = std::str::from_utf8(text).ok()?;
    let words = text.split(' ').map(|word| word.parse().ok());
    let [_newest, dropped, settle_until, soft @ ..] = &words.collect::<Option<Vec<u64>>>()?[..] else {
        return None;
    };
    let (pairs, []) = soft.as_chunks::<2>() else {
        return None;
    };
    Some(Generation {
        dropped: Seq(*dropped),
        expired: pairs
            .iter()
            .map(|[number, at]| (Seq(*number), StoreTime(*at)))
            .collect(),
        settle_until: StoreTime(*settle_until),
    })
}

/// The first field of a stream's record, and its value: there is one.
pub fn record_field(fields: &Value) -> Option<(&[u8], &[u8])> {
    match fields {
        Value::Array(words) => match &words[..] {
            [Value::BulkString(name), Value::BulkString(value), ..] => Some((name, value)),
            _ => None,
        },
        Value::Map(pairs) => match &pairs[..] {
            [(Value::BulkString(name), Value::BulkString(value)), ..] => Some((name, value)),
            _ => None,
        },
        _ => None,
    }
}

fn odd(what: &str) -> StoreError {
    StoreError::Unavailable(format!(
        "a script answered {what} where its contract says otherwise; is something else running scripts of drover's name?"
    ))
}

/// Bytes that many may hold.
pub fn shared(bytes: Vec<u8>) -> Arc<[u8]> {
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(texts: &[&str]) -> Value {
        Value::Array(
            texts
                .iter()
                .map(|text| Value::BulkString(text.as_bytes().to_vec()))
                .collect(),
        )
    }

    #[test]
    fn a_generation_is_read_with_its_soft_invalidations() {
        let generation = read_generation(b"30 10 500 20 200 30 300").expect("one");
        assert_eq!(generation.dropped, Seq(10));
        assert_eq!(generation.settle_until, StoreTime(500));
        assert_eq!(
            generation.expired,
            [(Seq(20), StoreTime(200)), (Seq(30), StoreTime(300))]
        );
        assert_eq!(generation.newest(), Seq(30));
    }

    #[test]
    fn what_is_no_generation_is_not_taken_for_one() {
        for text in ["", "1", "1 2", "1 2 x", "1 2 3 4", "-1 2 3"] {
            assert_eq!(read_generation(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_node_that_must_not_be_asked_says_why() {
        let closed = |texts: &[&str]| match Reply::read(words(texts)) {
            Ok(Reply::Closed(closed)) => closed,
            _ => panic!("{texts:?}"),
        };
        assert_eq!(closed(&["replica"]), Closed::Replica);
        assert_eq!(closed(&["headless"]), Closed::Headless);
        assert_eq!(closed(&["primary"]), Closed::Primary);
        assert_eq!(closed(&["cut_off", "0"]), Closed::CutOff);
        assert_eq!(closed(&["epoch", "77"]), Closed::Epoch(77));
    }

    #[test]
    fn a_reply_of_another_shape_is_an_error_and_no_panic() {
        for value in [
            Value::Nil,
            Value::Int(3),
            words(&[]),
            words(&["what"]),
            words(&["epoch", "x"]),
        ] {
            assert!(Reply::read(value).is_err());
        }
    }
}
