//! Bytes to send: pseudo-random, so that nothing compresses them away, and from a seed, so that a
//! failure can be repeated. Also the seed of what else is random in a test.

use bytes::Bytes;

/// Xorshift64*: small and even enough for sample data, and for choosing moments.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// From a seed; 0 is as good as any other.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        // The generator's one fixed point is 0.
        Self(seed ^ 0x9e37_79b9_7f4a_7c15 | 1)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number in `from..to`.
    pub const fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.bits() % (to - from)
    }

    /// `count` pseudo-random bytes.
    #[must_use]
    pub fn bytes(&mut self, count: usize) -> Bytes {
        let mut bytes = Vec::with_capacity(count + 7);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.bits().to_le_bytes());
        }
        bytes.truncate(count);
        bytes.into()
    }
}

/// A file as a client sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// What it is called.
    pub name: String,
    /// What is in it.
    pub bytes: Bytes,
}

impl Sample {
    /// With these bytes.
    #[must_use]
    pub fn new(name: &str, bytes: impl Into<Bytes>) -> Self {
        Self {
            name: name.to_owned(),
            bytes: bytes.into(),
        }
    }

    /// With `size` pseudo-random bytes.
    #[must_use]
    pub fn random(name: &str, chance: &mut Chance, size: usize) -> Self {
        Self::new(name, chance.bytes(size))
    }

    /// Two files of one name, of up to `limit` bytes each. The seed is the whole difference between
    /// two pairs.
    #[must_use]
    pub fn pair(seed: u64, limit: u64) -> Vec<Self> {
        let mut chance = Chance::new(seed);
        (0..2)
            .map(|_| {
                let size = chance.within(1, limit);
                Self::random(
                    "sample.bin",
                    &mut chance,
                    usize::try_from(size).expect("a small number"),
                )
            })
            .collect()
    }
}
