//! How a search may go on: what its last term is the beginning of. Must not list a task.

use crate::{Cx, Refused, Run, invalid};
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::task_lists::{SuggestQuery, SuggestSearches};
use counterstep_contracts::search::{Field, Suggestion, check, quoted};
use counterstep_contracts::{Labels, TaskStatus};
use counterstep_kernel::documents::views;
use counterstep_kernel::ports::LabelQuery;

/// Maximum number of suggestions.
const MOST: usize = 20;
/// Maximum number of names, or of values, of labels among them.
const MOST_OF_LABELS: u32 = 10;

impl Run for SuggestSearches {
    async fn run(cx: Cx, (): (), asked: SuggestQuery) -> Result<Page<Suggestion>, Refused> {
        let q = asked.q.unwrap_or_default();
        check(&q).map_err(|error| invalid(error.to_string()).at("q"))?;
        let at = q.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        // A space of more than one byte.
        let at = (at..=q.len()).find(|at| q.is_char_boundary(*at));
        let (before, last) = q.split_at(at.unwrap_or(q.len()));
        let last = last.trim_start();
        // Within quotes a space ends no term.
        if before.matches('"').count() % 2 == 1 {
            return Ok(Page::whole(Vec::new()));
        }
        let found = terms(&cx, last).await?;
        let found = found.into_iter().filter(|(term, _)| term != last);
        let suggestion = |(term, about): (String, &str)| Suggestion {
            q: format!("{before}{term}"),
            about: about.to_owned(),
        };
        Ok(Page::whole(found.take(MOST).map(suggestion).collect()))
    }
}

/// Whole terms that begin so.
async fn terms(cx: &Cx, last: &str) -> Result<Vec<(String, &'static str)>, Refused> {
    let (store, tenant) = (&cx.engine.ports.store, &cx.caller.tenant);
    if let Some((name, prefix)) = last.split_once('=') {
        // A name that is none has no values.
        if Labels::new().look_for(name, "x").is_err() {
            return Ok(Vec::new());
        }
        let query = LabelQuery::Values {
            tenant: tenant.clone(),
            name: name.to_owned(),
            prefix: prefix.trim_matches('"').to_owned(),
            limit: MOST_OF_LABELS,
        };
        let values = store.labels(&query).await?.into_iter();
        let term = |value: String| (format!("{name}={}", quoted(&value)), "label");
        return Ok(values.map(term).collect());
    }
    let of_field = |field: Field, value: &str| format!("{}:{}", field.as_str(), quoted(value));
    let types = cx.engine.registry.iter().map(|it| it.decl.name);
    let mut types: Vec<_> = types
        .map(|it| (of_field(Field::Type, it), it, "type"))
        .collect();
    types.sort();
    types.dedup();
    let states = TaskStatus::ALL.iter().map(|it| it.as_str());
    let states = ["open", "parked", "ended"].into_iter().chain(states);
    let states = states.map(|it| (of_field(Field::Status, it), it, "state"));
    let saved = views(store, tenant).await?;
    let saved = saved
        .iter()
        .map(|it| (of_field(Field::View, &it.name), &*it.name, "view"));
    let fields = [
        "class:",
        "since:1h",
        "since:24h",
        "since:7d",
        "sort:oldest",
        "text:",
        "until:",
    ];
    let fields = fields.map(|it| (it.to_owned(), it, "condition"));
    let begins = |whole: &str| {
        let start = whole.get(..last.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(last))
    };
    let all = saved.chain(types).chain(states).chain(fields);
    // A browser shows of what is offered what contains the text that was typed: a name that is a term by itself stands alone.
    let term = |(term, name, about): (String, &str, _)| match begins(name) {
        true if !begins(&term) && about != "view" => Some((name.to_owned(), about)),
        is_name => (is_name || begins(&term)).then_some((term, about)),
    };
    let mut found: Vec<_> = all.filter_map(term).collect();
    if Labels::new().look_for(last, "x").is_ok() || last.is_empty() {
        let query = LabelQuery::Names {
            tenant: tenant.clone(),
            prefix: last.to_owned(),
            limit: MOST_OF_LABELS,
        };
        let names = store.labels(&query).await?.into_iter();
        let names: Vec<_> = names.map(|name| (format!("{name}="), "label")).collect();
        // Half of the room, where there is much else.
        found.truncate(MOST - names.len());
        found.extend(names);
    }
    Ok(found)
}
