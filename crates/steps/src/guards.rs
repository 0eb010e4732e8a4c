//! Conditions that keep an invariant, by name. In a build for `cargo xtask mutants` a variable takes one of them away, and the
//! simulation has to notice. In every other build a guard is its condition, and nothing else.

/// The variable that names the guard that is taken away.
#[cfg(counterstep_mutants)]
const REMOVED: &str = "COUNTERSTEP_REMOVED_GUARD";

/// Whether the guard of this name is taken away.
#[cfg(counterstep_mutants)]
#[must_use]
pub fn is_removed(name: &str) -> bool {
    static WHICH: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let which = WHICH.get_or_init(|| std::env::var(REMOVED).ok());
    which.as_deref() == Some(name)
}

/// Whether a condition holds.
#[cfg(not(counterstep_mutants))]
#[inline]
#[must_use]
pub const fn holds(condition: bool) -> bool {
    condition
}

/// A condition that keeps an invariant, and its name: it holds where the condition does.
#[cfg(not(counterstep_mutants))]
#[doc(hidden)]
#[macro_export]
macro_rules! guard {
    ($name:literal, $holds:expr) => {
        $crate::guards::holds($holds)
    };
}

/// The same in a build for mutants: it holds also where the guard is taken away.
#[cfg(counterstep_mutants)]
#[doc(hidden)]
#[macro_export]
macro_rules! guard {
    ($name:literal, $holds:expr) => {
        $crate::guards::is_removed($name) || $holds
    };
}
