//! What lists are filtered by, as it came, and how they are cut into pages. Must not read a row.

use crate::{Refused, invalid};
use counterstep_contracts::cause::FAILURE_CLASSES;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::Limit;
use counterstep_contracts::{Labels, ProblemCode, TaskId};
use counterstep_kernel::Engine;
use counterstep_kernel::ports::{FailureFilter, first_id_at};
use counterstep_steps::times::{DbTime, read_time};

/// Maximum characters of a text that is searched for.
const LONGEST_TEXT: usize = 256;

/// How many items a page has: what came over HTTP is within the bound of its schema, and what a program asked for itself may not be.
const fn at_most(limit: Limit) -> u32 {
    if limit.0 < Limit::MOST.0 {
        limit.0
    } else {
        Limit::MOST.0
    }
}

/// How many rows a page is read with: one more than it shows, to know whether there is a next one.
pub(crate) const fn and_one(limit: Limit) -> u32 {
    at_most(limit) + 1
}

/// A page of rows that were read with [`and_one`]; `cursor`: of the page behind a row.
pub(crate) fn page<R, T>(
    mut rows: Vec<R>,
    limit: Limit,
    cursor: impl FnOnce(&R) -> String,
    item: impl FnMut(R) -> T,
) -> Page<T> {
    let most = usize::try_from(at_most(limit)).unwrap_or(usize::MAX);
    let has_more = rows.len() > most;
    rows.truncate(most);
    let next_cursor = rows.last().filter(|_| has_more).map(cursor);
    let items = rows.into_iter().map(item).collect();
    Page { items, next_cursor }
}

/// `order=4711`, once for each label.
///
/// # Errors
/// Where one is no label.
pub fn labels_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Labels, Refused> {
    Labels::of_pairs(texts)
        .map_err(|error| Refused::new(ProblemCode::InvalidLabel, error.to_string()).at("label"))
}

/// A class and a text as they came.
///
/// # Errors
/// The field that is at fault, and why.
pub fn failure_filter(
    class: Option<&str>,
    text: Option<&str>,
) -> Result<FailureFilter, (&'static str, String)> {
    if class.is_some_and(|class| !FAILURE_CLASSES.contains(&class)) {
        let known = FAILURE_CLASSES.join(", ");
        return Err((
            "failure_class",
            format!("`failure_class` is one of {known}"),
        ));
    }
    if text.is_some_and(|text| text.is_empty() || text.chars().count() > LONGEST_TEXT) {
        let detail = format!("`failure_text` has 1 to {LONGEST_TEXT} characters");
        return Err(("failure_text", detail));
    }
    Ok(FailureFilter {
        class: class.map(str::to_owned),
        text: text.map(str::to_owned),
    })
}

/// The least id of that time.
///
/// # Errors
/// Where it is no time.
pub fn id_at(name: &'static str, text: &str) -> Result<TaskId, Refused> {
    millis(name, text).map(first_id_at)
}

/// A time in milliseconds since 1970.
///
/// # Errors
/// Where it is no time.
pub fn millis(name: &'static str, text: &str) -> Result<u64, Refused> {
    Ok(u64::try_from(time(name, text)?.0 / 1_000).unwrap_or(0))
}

/// A time.
pub(crate) fn time(name: &'static str, text: &str) -> Result<DbTime, Refused> {
    read_time(text).map_err(|why| invalid(why).at(name))
}

/// The declared name of a type, by it or by its route, in any case.
pub(crate) fn known_type(engine: &Engine, name: &str) -> Option<String> {
    let mut all = engine.registry.iter().map(|it| &it.decl);
    let is_it = |of: &str| of.eq_ignore_ascii_case(name);
    let found = all.find(|decl| is_it(decl.name) || is_it(&decl.route()));
    found.map(|decl| decl.name.to_owned())
}

/// A type by its route or by its declared name. One that this program does not know may still have
/// tasks, of an older program, so it is no error.
#[must_use]
pub fn declared_name(engine: &Engine, name: &str) -> String {
    known_type(engine, name).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Limit, and_one};

    #[test]
    fn a_program_that_asks_for_more_than_a_page_may_have_gets_a_page() {
        assert_eq!(and_one(Limit(7)), 8);
        assert_eq!(and_one(Limit(u32::MAX)), 201);
    }
}
