//! Adds up what the test binaries report. Reads cargo's words, prints nothing.

/// How many tests passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Tally {
    /// Takes in a line of the output: one that is not a binary's closing line changes nothing.
    pub(crate) fn read(&mut self, line: &str) {
        let Some(rest) = line.trim_start().strip_prefix("test result: ") else {
            return;
        };
        let Some((_, counts)) = rest.split_once(". ") else {
            return;
        };
        self.passed += count(counts, "passed");
        self.failed += count(counts, "failed");
    }

    /// Takes in another count.
    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

fn count(counts: &str, word: &str) -> u64 {
    counts
        .split(';')
        .find_map(|part| part.trim().strip_suffix(word))
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn the_closing_lines_of_all_binaries_add_up() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test saga::tests::a ... ok",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s",
            "test result: FAILED. 40 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s",
            "    not test result: ok. 9 passed; 9 failed;",
        ] {
            tally.read(line);
        }
        assert_eq!(
            tally,
            Tally {
                passed: 43,
                failed: 2
            }
        );
        assert_eq!(tally.to_string(), "43 passed, 2 failed");
    }
}
