//! The choices of a run: each from a stream that the seed and a name begin, so that what one part draws changes nothing in
//! another. Written out here, since kept seeds have to mean the same under every version of a library.

/// A stream of numbers: SplitMix64.
#[derive(Debug, Clone)]
pub struct Choice(u64);

impl Choice {
    /// The stream of this name.
    #[must_use]
    pub fn of(seed: u64, name: &str) -> Self {
        let mut start = seed;
        for byte in name.bytes() {
            start = mixed(start ^ u64::from(byte));
        }
        Self(start)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// One of `0..end`; 0 where there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw().checked_rem(end).unwrap_or_default()
    }

    /// One of these numbers.
    pub fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below((to + 1).saturating_sub(from))
    }

    /// Yes in so many of 1,000 cases.
    pub fn chance(&mut self, of_1000: u64) -> bool {
        self.below(1000) < of_1000
    }

    /// One of these.
    ///
    /// # Panics
    /// Where there is none.
    pub fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let at = self.below(of.len() as u64);
        &of[usize::try_from(at).unwrap_or_default()]
    }
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::Choice;

    #[test]
    fn a_stream_is_the_same_under_every_version_and_streams_differ() {
        let mut one = Choice::of(7, "faults");
        let first = [one.draw(), one.draw()];
        assert_eq!(first, [0x9a14_9b4e_15c4_eca8, 0xf54f_a31b_b5c6_a303]);
        assert_ne!(Choice::of(7, "latency").draw(), first[0]);
        assert_ne!(Choice::of(8, "faults").draw(), first[0]);
    }
}
