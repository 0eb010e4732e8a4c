//! The list of the pages for programs is the one of today's pages.

use super::{Found, Violation};
use crate::{llms, tree};

pub(super) fn check() -> Found {
    let (made, kept) = (llms::list()?, tree::text(llms::LIST).unwrap_or_default());
    let same = made
        .lines()
        .zip(kept.lines())
        .take_while(|(made, kept)| made == kept);
    let at = same.count() + 1;
    let differs = Violation::new(
        llms::LIST,
        at,
        "it is not the list of today's pages: run `cargo xtask llms`",
    );
    Ok((made != kept).then_some(differs).into_iter().collect())
}
