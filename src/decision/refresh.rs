//! When a value is to be refreshed, so that its readers never see it end.
//!
//! *Where the rule comes from*: A. Vattani, F. Chierichetti, K. Lowenstein, "Optimal Probabilistic Cache Stampede Prevention", VLDB 2015
//! (XFetch). There every *read* draws: it rebuilds if `now − Δ·β·ln(u) ≥ end`, Δ being the cost of a rebuild and u uniform in (0, 1). So
//! a read fires when what is left of freshness is less than an exponential of mean μ = βΔ. That rule is the right one for local copies, which
//! get Δ and β with each answer.
//!
//! *What one central draw must look like.* With λ reads a second, the gap G that is left when the first read fires has
//! P(G ≤ g) = exp(−λ·∫ e^(−s/μ) ds from g) = exp(−λμ·e^(−g/μ)): a Gumbel distribution around μ·ln(λμ). The many draws of many readers
//! push the gap out, the more so the more readers there are. One draw of the same exponential has nobody to push it: with β = 1 it
//! leaves less than Δ in 63 % of all cases (1 − e^(−1/β)), and such a refresh ends after freshness does. So the central draw takes from the
//! paper what keeps keys apart, the exponential of mean μ, and puts in place of the many readers what they are there for, a least gap:
//!
//! ```text
//!  gap = least + x      least = 2Δ + 50 ms      0 ≤ x < width, P(x) ~ e^(−x/μ)      least + width = half the freshness
//! ```
//!
//! *The least gap*: Δ is the greater of the last cost and the smoothed one, a rebuild may take twice as long, and 50 ms are for handing the
//! refresh to a worker. *The greatest*: a key is never rebuilt more than about twice as often as its lifetime asks. The exponential is
//! truncated to that width by drawing from the inverse of its distribution function, x = −μ·ln(1 − u·(1 − e^(−width/μ))), and not by cutting
//! draws to the bound, where they would heap up; for great β it becomes uniform, for small β nearly all refreshes begin at the least gap.
//!
//! *Where the cost is long*: while Δ + 50 ms is less than half the freshness there is room, and the least gap is at most halfway
//! between the two, so that there is always a width to draw from. Where it is not, no refresh is planned: it would run nearly back to
//! back with the next one. Then stale-while-revalidate serves. So nothing is planned for values that are fresh for less than about 0.1 s either.
//!
//! *β = 0* means never. *Not found* is refreshed like a value, except that workers must have seen demand ([`wanted`]).
//!
//! *Why the gap is stored and not the instant*: freshness can end earlier than was planned, and half the room suffices.

use std::time::Duration;

use super::{Draw, Purpose, StoreTime, micros};

/// For a key that was never rebuilt at any cost; a tenth of the freshness where that is less.
pub const FIRST_COST: Duration = Duration::from_millis(100);
/// For handing a due refresh to a worker.
const HAND_OUT: Duration = Duration::from_millis(50);
/// A rebuild may take so many times its cost.
const SAFE: f64 = 2.0;
/// No policy that was checked has a greater beta.
const MOST_EAGER: f64 = 100.0;

/// What is planned for a value: how long before the end of freshness its refresh begins, and how many in a row nobody asked for. Packed, since
/// every entry has one: the gap in 24 bits, which is one part in 131,072, and the count in 8.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Refresh(u32);

impl Refresh {
    /// No refresh is planned, and somebody asked.
    pub const NONE: Refresh = Refresh(0);

    /// The least gap where there is room for it: a rebuild of that cost fits although it takes longer than usual, and handing it out.
    pub fn room(cost: Duration) -> Duration {
        cost.mul_f64(SAFE) + HAND_OUT
    }

    /// Draws the gap for a value that is fresh for so long and costs so much to rebuild; zero: no refresh is planned.
    pub fn gap(fresh: Duration, cost: Duration, beta: f64, draw: Draw) -> Duration {
        let cost = known_cost(cost, fresh).as_secs_f64();
        let (needed, most) = (cost + HAND_OUT.as_secs_f64(), fresh.as_secs_f64() / 2.0);
        if beta.is_nan() || beta <= 0.0 || needed >= most {
            return Duration::ZERO;
        }
        let safe = SAFE * cost + HAND_OUT.as_secs_f64();
        let least = safe.min((needed + most) / 2.0);
        let (mean, width) = (cost * beta.min(MOST_EAGER), most - least);
        let drawn = truncated_exponential(mean, width, draw.unit(Purpose::Refresh));
        // Faster than the conversion that looks for what can't be here, and this is asked for each lifetime that is chosen from.
        Duration::from_micros(((least + drawn.min(width)) * 1e6) as u64)
    }

    /// The same count with another gap, zero for none.
    pub fn with_gap(self, gap: Duration) -> Refresh {
        // A float without its sign and the last 7 bits of its fraction, rounded to the nearest.
        let bits = (micros(gap) as f32).to_bits().saturating_add(1 << 6) >> 7;
        Refresh(bits << 8 | self.0 & 0xff)
    }

    /// The same gap, once it is known that somebody asked.
    pub fn asked_for(self) -> Refresh {
        Refresh(self.0 & !0xff)
    }

    /// The same gap, once it is known that nobody asked for the value that is being refreshed.
    pub fn not_asked_for(self) -> Refresh {
        Refresh(self.asked_for().0 | u32::from(self.idle()).saturating_add(1).min(0xff))
    }

    /// How long before the end of freshness the refresh begins; `None`: it is not planned.
    pub fn begins_before_end(self) -> Option<Duration> {
        let gap = f32::from_bits(self.0 >> 8 << 7) as u64;
        (gap > 0).then(|| Duration::from_micros(gap))
    }

    /// How many refreshes in a row nobody asked for. It stops at 255.
    pub fn idle(self) -> u8 {
        (self.0 & 0xff) as u8
    }

    /// When the refresh of a value is due whose freshness ends then.
    pub fn due(self, fresh_until: StoreTime) -> Option<StoreTime> {
        let gap = micros(self.begins_before_end()?);
        Some(StoreTime(fresh_until.0.saturating_sub(gap)))
    }

    /// From when on even a caller is asked to refresh it where workers should: half of the gap is over, and none has taken it.
    pub fn overdue(self, fresh_until: StoreTime) -> Option<StoreTime> {
        let gap = micros(self.begins_before_end()?);
        Some(StoreTime(fresh_until.0.saturating_sub(gap / 2)))
    }

    /// As it is written down.
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// From what was written down. Whatever that is, it is harmless: a strange gap refreshes too early or never.
    pub fn from_bits(bits: u32) -> Refresh {
        Refresh(bits)
    }
}

impl std::fmt::Debug for Refresh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Refresh(gap: {:?}, idle: {})", self.begins_before_end(), self.idle())
    }
}

/// Whether a worker is to be given a refresh: somebody asked since the last one, or not too many in a row were in vain. "Not found" has no
/// credit: whoever asks for keys that do not exist would have each of them looked up again and again. `limit` is the policy's
/// `idle_refreshes`.
pub fn wanted(refresh: Refresh, asked_for: bool, found: bool, limit: u32) -> bool {
    asked_for || (found && u32::from(refresh.idle()) < limit.min(0xff))
}

/// A cost, or what is taken for it while none is known.
pub fn known_cost(cost: Duration, fresh: Duration) -> Duration {
    if cost.is_zero() {
        FIRST_COST.min(fresh / 10)
    } else {
        cost
    }
}

/// An exponential of this mean under the condition that it is less than `width`: the inverse of its distribution function at `unit`.
fn truncated_exponential(mean: f64, width: f64, unit: f64) -> f64 {
    // Of so many means the rest is less than a float can tell from none, and this is asked for each lifetime that is chosen from.
    let all = if width > 40.0 * mean {
        1.0
    } else {
        -(-width / mean).exp_m1()
    };
    -mean * (-unit * all).ln_1p()
}
