//! The page of the invariants has the table of guards.

use super::{Found, Violation};
use crate::guards;

pub(super) fn check() -> Found {
    let what =
        "the table is not that of `xtask/src/guards.rs`: `cargo xtask guards --table` writes it";
    let misfit = guards::misfit()?;
    let found = misfit.map(|(page, line)| Violation::new(page, line, what));
    Ok(found.into_iter().collect())
}
