//! Which keys of a namespace are asked for most, in bounded memory.
//!
//! *Source*: N. Homem, J. P. Carvalho, "Finding top-k elements in data streams", Information Sciences 180(24), 2010: Filtered Space-Saving, which puts
//! a filter in front of Space-Saving (A. Metwally, D. Agrawal, A. El Abbadi, ICDT 2005). [`COUNTERS`] keys have a counter each. A key that has none
//! is counted in a cell that it shares, and gets the least counter only when its cell has come as far; the cell's count is then what
//! its own may be too high by. Decay is that of G. Cormode, V. Shkapenyuk, D. Srivastava, B. Xu, "Forward Decay", ICDE 2009: an ask weighs
//! 2^(t / half-life) at its time t, and what is told is divided by the weight of now, so that nothing ever has to be counted down.
//!
//! *Bounds*, N being all asks with their weight: a count is never too low, and too high at most by its error, which is told and never
//! more than N / 256; and each key with more than N / 256 has a counter. (Every ask adds its weight to the sum of the counters at most:
//! no cell exceeds the least counter, so who takes that over adds no more than was asked. 256 counters share N, and the least of them has
//! no more than its part.)
//!
//! *Cost*: a known key is one look into a table and a step or two in a heap, and allocates nothing; an unknown one a cell, mostly. 32 KiB at
//! most, which grow with the keys that are seen.
//!
//! *Lately*: the half-life is 30 s. A rate is what asks at that rate would have left by now, so it is right within seconds of the first.
//!
//! *Hot* is what is for certain asked for ten times a second or more, by one in a hundred asks of its namespace or more: at most 100 keys, and none
//! with 1.4 % is missed. *Copies*: as many as keep each below 5,000 asks a second, some part of what one node of a cache can do,
//! as a power of two, so that the hint changes seldom; 64 at most.
//!
//! *Rejected*: HeavyKeeper and count-min sketches, which are smaller a counter but bound their error only with a probability, and a key's
//! count may then be too low.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash as _, Hasher};
use std::time::Duration;

use super::{Key, StoreTime};

/// Keys that have a counter.
pub const COUNTERS: usize = 256;
/// Cells for all others.
const CELLS: usize = 1_024;
/// An ask counts half after so long.
pub const HALF_LIFE: Duration = Duration::from_secs(30);
/// Weights are set back to 1 after so many half-lives; they double with each.
const SET_BACK: f64 = 64.0;
/// Asks a second from which on a key is hot, if they are a hundredth of all.
const HOT_RATE: f64 = 10.0;
const HOT_SHARE: f64 = 0.01;
/// Asks a second that one copy of a key is to bear.
const COPY_BEARS: f64 = 5_000.0;
const MOST_COPIES: u32 = 64;

/// A key that is asked for much.
#[derive(Clone, Debug, PartialEq)]
pub struct Hot {
    /// Which.
    pub key: Key,
    /// Estimated asks a second, lately.
    pub rate: f64,
    /// At most this much too high, and never too low.
    pub error: f64,
}

/// What a caller is told about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Among the namespace's top keys.
    pub hot: bool,
    /// Over how many own keys to spread it; 1: it is none too many for one.
    pub copies: u32,
}

/// The asks of one namespace.
#[derive(Clone, Debug)]
pub struct Sketch {
    counters: Vec<Counter>,
    /// Numbers of counters, the least first: each is at most the two at twice its place and one, two further.
    heap: Vec<u16>,
    /// By the hash of the key. Two keys with the same 64 bits are one here.
    known: HashMap<u64, u16, BuildHasherDefault<Hashed>>,
    /// What the keys without a counter may have been asked for at most.
    cells: Vec<f64>,
    /// All asks, weighed.
    all: f64,
    /// Where the weight is 1.
    zero: StoreTime,
    /// The first ask.
    first: Option<StoreTime>,
    /// Keys come from outside: who does not know it can't foresee which share a cell.
    seed: u64,
}

#[derive(Clone, Debug)]
struct Counter {
    key: Key,
    hash: u64,
    count: f64,
    error: f64,
    /// In the heap.
    place: u16,
}

/// Of what is a hash already, that.
#[derive(Clone, Copy, Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only hashes are hashed");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Sketch {
    /// Empty. `seed` is random.
    pub fn new(seed: u64) -> Sketch {
        Sketch {
            counters: Vec::new(),
            heap: Vec::new(),
            known: HashMap::default(),
            cells: Vec::new(),
            all: 0.0,
            zero: StoreTime::ZERO,
            first: None,
            seed,
        }
    }

    /// A key was asked for so many times.
    pub fn hit(&mut self, key: &Key, times: u64, now: StoreTime) {
        self.count(key, self.hash(key), times, now);
    }

    /// The same, and what to tell its callers.
    pub fn ask(&mut self, key: &Key, times: u64, now: StoreTime) -> Hint {
        let hash = self.hash(key);
        self.count(key, hash, times, now);
        self.hint_of(hash, now)
    }

    fn count(&mut self, key: &Key, hash: u64, times: u64, now: StoreTime) {
        if times == 0 {
            return;
        }
        self.first = self.first.or(Some(now));
        let weight = times as f64 * self.weigh(now);
        self.all += weight;
        if let Some(&number) = self.known.get(&hash) {
            let counter = &mut self.counters[usize::from(number)];
            counter.count += weight;
            let place = counter.place;
            self.sink(usize::from(place));
        } else if self.counters.len() < COUNTERS {
            self.admit(key, hash, weight);
        } else {
            self.filter(key, hash, weight);
        }
    }

    /// The keys that are asked for most, the first most of all.
    pub fn top(&self, count: usize, now: StoreTime) -> Vec<Hot> {
        let scale = self.rate_of_one(now);
        let mut order: Vec<&Counter> = self.counters.iter().collect();
        order.sort_unstable_by(|one, other| other.count.total_cmp(&one.count).then_with(|| one.key.cmp(&other.key)));
        order.truncate(count);
        let hot = |counter: &Counter| Hot {
            key: counter.key.clone(),
            rate: counter.count * scale,
            error: counter.error * scale,
        };
        order.into_iter().map(hot).collect()
    }

    /// What to tell the callers of a key.
    pub fn hint(&self, key: &Key, now: StoreTime) -> Hint {
        self.hint_of(self.hash(key), now)
    }

    fn hint_of(&self, hash: u64, now: StoreTime) -> Hint {
        const COOL: Hint = Hint { hot: false, copies: 1 };
        let counter = self.known.get(&hash).map(|number| &self.counters[usize::from(*number)]);
        let certain = counter.map_or(0.0, |counter| counter.count - counter.error);
        if certain < self.all * HOT_SHARE {
            return COOL;
        }
        let rate = certain * self.rate_of_one(now);
        if rate < HOT_RATE {
            return COOL;
        }
        let copies = (rate / COPY_BEARS).ceil() as u32;
        Hint {
            hot: true,
            copies: copies.clamp(1, MOST_COPIES).next_power_of_two(),
        }
    }

    /// Asks a second of the whole namespace, lately.
    pub fn rate(&self, now: StoreTime) -> f64 {
        self.all * self.rate_of_one(now)
    }

    /// How much an ask at this time weighs.
    fn weigh(&mut self, now: StoreTime) -> f64 {
        if half_lives(self.zero, now) > SET_BACK {
            let factor = half_lives(self.zero, now).exp2().recip();
            let counters = self.counters.iter_mut();
            let counts = counters.flat_map(|counter| [&mut counter.count, &mut counter.error]);
            let all = [&mut self.all].into_iter();
            counts
                .chain(&mut self.cells)
                .chain(all)
                .for_each(|count| *count *= factor);
            self.zero = now;
        }
        half_lives(self.zero, now).exp2()
    }

    /// How many asks a second a weight of one stands for: a constant rate leaves rate · half-life / ln 2 after a long time, and of that
    /// 1 − 2^(−age / half-life) after a shorter one.
    fn rate_of_one(&self, now: StoreTime) -> f64 {
        let age = half_lives(self.first.unwrap_or(now), now).max(1.0 / HALF_LIFE.as_secs_f64());
        let settled = std::f64::consts::LN_2 / HALF_LIFE.as_secs_f64();
        settled / (1.0 - (-age).exp2()) / half_lives(self.zero, now).exp2()
    }

    /// A counter for one more key, while there are any.
    fn admit(&mut self, key: &Key, hash: u64, weight: f64) {
        let (number, place) = (self.counters.len() as u16, self.heap.len());
        self.counters.push(Counter {
            key: key.clone(),
            hash,
            count: weight,
            error: 0.0,
            place: number,
        });
        self.heap.push(number);
        self.known.insert(hash, number);
        self.rise(place);
    }

    /// A key without a counter: it takes the least one if it may have been asked for as often.
    fn filter(&mut self, key: &Key, hash: u64, weight: f64) {
        self.cells.resize(CELLS, 0.0);
        let (cell, number) = (cell_of(hash), self.heap[0]);
        let before = self.cells[cell];
        let least = &mut self.counters[usize::from(number)];
        if before + weight < least.count {
            self.cells[cell] = before + weight;
            return;
        }
        let count = std::mem::replace(&mut least.count, before + weight);
        let gone = std::mem::replace(&mut least.hash, hash);
        least.key = key.clone();
        least.error = before;
        self.known.remove(&gone);
        self.known.insert(hash, number);
        let left = cell_of(gone);
        self.cells[left] = self.cells[left].max(count);
        self.sink(0);
    }

    fn hash(&self, key: &Key) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        key.hash(&mut hasher);
        hasher.finish()
    }

    /// A counter has grown.
    fn sink(&mut self, mut place: usize) {
        loop {
            let least = [2 * place + 1, 2 * place + 2]
                .into_iter()
                .filter(|child| *child < self.heap.len())
                .min_by(|one, other| self.count_at(*one).total_cmp(&self.count_at(*other)));
            match least {
                Some(child) if self.count_at(child) < self.count_at(place) => self.swap(place, child),
                _ => return,
            }
            place = least.unwrap_or(place);
        }
    }

    /// A counter is new.
    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.count_at(place) < self.count_at((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn count_at(&self, place: usize) -> f64 {
        self.counters[usize::from(self.heap[place])].count
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            self.counters[usize::from(self.heap[place])].place = place as u16;
        }
    }
}

/// Of bits that no table of so few keys looks at.
fn cell_of(hash: u64) -> usize {
    (hash >> 32) as usize % CELLS
}

fn half_lives(from: StoreTime, to: StoreTime) -> f64 {
    to.since(from).as_secs_f64() / HALF_LIFE.as_secs_f64()
}
