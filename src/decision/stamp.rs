//! From an entry to a draft and back: every fact copied, every instant and number carried over or resolved.
//!
//! Dull on purpose. Nothing here chooses; a field that is forgotten does not compile.

use super::entry::{Draft, Drafted, Entry, Lease, Mark, Number, Reported, Stamp, Trouble, Value};
use super::{Seq, When};

impl Entry {
    /// The same facts as a draft that changes nothing yet.
    pub fn draft(&self) -> Draft {
        Draft {
            value: self.value.as_ref().map(Value::draft),
            lease: self.lease.as_ref().map(|lease| Box::new(lease.draft())),
            reported: self.reported.map(|reported| Reported {
                lease: reported.lease,
                at: When::at(reported.at),
            }),
            trouble: self.trouble.as_ref().map(|trouble| Box::new(trouble.draft())),
            mark: self.mark.as_ref().map(|mark| Box::new(mark.draft())),
            cost: self.cost,
            refresh: self.refresh,
        }
    }
}

impl Draft {
    /// Whether the commit must take a number.
    pub fn takes_number(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.token == Number::Next)
            || self.mark.as_ref().is_some_and(|mark| mark.number == Number::Next)
    }

    /// What the store writes.
    pub fn stamp(self, stamp: Stamp) -> Entry {
        Entry {
            value: self.value.map(|value| value.stamp(stamp)),
            lease: self.lease.map(|lease| Box::new(lease.stamp(stamp))),
            reported: self.reported.map(|done| Reported {
                lease: done.lease,
                at: done.at.resolve(stamp.now),
            }),
            trouble: self.trouble.map(|trouble| Box::new(trouble.stamp(stamp))),
            mark: self.mark.map(|mark| Box::new(mark.stamp(stamp))),
            cost: self.cost,
            refresh: self.refresh,
        }
    }
}

impl Number {
    fn stamp(self, stamp: Stamp) -> Seq {
        match self {
            Number::Is(seq) => seq,
            Number::Next => stamp.number,
        }
    }
}

impl Value {
    fn draft(&self) -> Value<Drafted> {
        Value {
            version: self.version,
            since: self.since,
            content: self.content.clone(),
            stored_at: When::at(self.stored_at),
            fresh_until: When::at(self.fresh_until),
            stale_while_revalidate: self.stale_while_revalidate,
            stale_if_error: self.stale_if_error,
            labels: self.labels.clone(),
        }
    }
}

impl Value<Drafted> {
    fn stamp(self, stamp: Stamp) -> Value {
        Value {
            version: self.version,
            since: self.since,
            content: self.content,
            stored_at: self.stored_at.resolve(stamp.now),
            fresh_until: self.fresh_until.resolve(stamp.now),
            stale_while_revalidate: self.stale_while_revalidate,
            stale_if_error: self.stale_if_error,
            labels: self.labels,
        }
    }
}

impl Lease {
    fn draft(&self) -> Lease<Drafted> {
        Lease {
            token: Number::Is(self.token),
            secret: self.secret,
            holder: self.holder.clone(),
            request_id: self.request_id.clone(),
            cause: self.cause,
            granted_at: When::at(self.granted_at),
            deadline: When::at(self.deadline),
            hold_until: When::at(self.hold_until),
            tags: self.tags.clone(),
            traceparent: self.traceparent.clone(),
        }
    }
}

impl Lease<Drafted> {
    fn stamp(self, stamp: Stamp) -> Lease {
        Lease {
            token: self.token.stamp(stamp),
            secret: self.secret,
            holder: self.holder,
            request_id: self.request_id,
            cause: self.cause,
            granted_at: self.granted_at.resolve(stamp.now),
            deadline: self.deadline.resolve(stamp.now),
            hold_until: self.hold_until.resolve(stamp.now),
            tags: self.tags,
            traceparent: self.traceparent,
        }
    }
}

impl Trouble {
    fn draft(&self) -> Trouble<Drafted> {
        Trouble {
            failures: self.failures,
            retry_at: When::at(self.retry_at),
            remember_until: When::at(self.remember_until),
            message: self.message.clone(),
        }
    }
}

impl Trouble<Drafted> {
    fn stamp(self, stamp: Stamp) -> Trouble {
        Trouble {
            failures: self.failures,
            retry_at: self.retry_at.resolve(stamp.now),
            remember_until: self.remember_until.resolve(stamp.now),
            message: self.message,
        }
    }
}

impl Mark {
    fn draft(&self) -> Mark<Drafted> {
        Mark {
            number: Number::Is(self.number),
            settle_until: When::at(self.settle_until),
            keep_until: When::at(self.keep_until),
        }
    }
}

impl Mark<Drafted> {
    fn stamp(self, stamp: Stamp) -> Mark {
        Mark {
            number: self.number.stamp(stamp),
            settle_until: self.settle_until.resolve(stamp.now),
            keep_until: self.keep_until.resolve(stamp.now),
        }
    }
}
