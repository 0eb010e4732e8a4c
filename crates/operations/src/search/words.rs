//! What single words of a search are: states, types, times, names of labels that have a value, ids that end so. Must not know a term.

use crate::filters::id_at;
use crate::{Cx, Refused};
use counterstep_contracts::retry::parse_duration;
use counterstep_contracts::search::{MOST_LABEL_NAMES, SHORTEST_ENDING};
use counterstep_contracts::{Labels, TaskId, TaskStatus};
use counterstep_kernel::ports::{LabelQuery, TaskPage, TaskQuery, first_id_at};
use counterstep_steps::times::{DbTime, rfc3339};
use uuid::Uuid;

/// Maximum pages of open tasks, each of [`TaskQuery::MOST_CANDIDATES`], in which an ending is looked for.
const MOST_PAGES: u32 = 10;

/// Maximum number of tasks that are named for an ending.
const MOST_ENDINGS: u32 = 10;

/// States by the name of one, or of several.
pub(super) fn states(name: &str) -> Option<Vec<TaskStatus>> {
    let name = name.to_ascii_lowercase().replace([' ', '-'], "_");
    let all = TaskStatus::ALL.iter().copied();
    let fits = |status: &TaskStatus| match &*name {
        "open" => !status.is_terminal(),
        "parked" => status.is_parked(),
        "ended" => status.is_terminal(),
        name => status.as_str() == name,
    };
    let found: Vec<_> = all.filter(fits).collect();
    (!found.is_empty()).then_some(found)
}

/// A whole id.
pub(super) fn id(text: &str) -> Option<TaskId> {
    Uuid::try_parse(text).ok().map(TaskId)
}

/// The ending of an id as it is compared: hexadecimal digits, at least eight.
pub(super) fn ending(text: &str) -> Option<String> {
    let is_of_id = |sign: u8| sign.is_ascii_hexdigit() || sign == b'-';
    let digits = text.replace('-', "").to_ascii_lowercase();
    let is_one = text.bytes().all(is_of_id) && (SHORTEST_ENDING..=32).contains(&digits.len());
    is_one.then_some(digits)
}

/// A time, or how long ago it was, as the least id of then and as a text.
pub(super) fn time(cx: &Cx, text: &str) -> Result<(TaskId, String), Refused> {
    let Some(age) = parse_duration(text) else {
        let at = id_at("q", text)?;
        return Ok((at, text.to_owned()));
    };
    // By the clock by which ids are made.
    let now = cx.engine.ports.clock.unix_millis();
    let millis = now.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    let at = DbTime(i64::try_from(millis.saturating_mul(1_000)).unwrap_or(i64::MAX));
    Ok((first_id_at(millis), rfc3339(at)))
}

/// The names of labels under which a task has this value; and how far was looked, where there are more names.
pub(super) async fn names_with(
    cx: &Cx,
    value: &str,
) -> Result<(Vec<String>, Option<String>), Refused> {
    if Labels::new().look_for("any", value).is_err() {
        return Ok((Vec::new(), None));
    }
    let (store, tenant) = (&cx.engine.ports.store, &cx.caller.tenant);
    let limit = u32::try_from(MOST_LABEL_NAMES + 1).unwrap_or(u32::MAX);
    let mut names = store
        .labels(&LabelQuery::Names {
            tenant: tenant.clone(),
            prefix: String::new(),
            limit,
        })
        .await?;
    let has_more = names.len() > MOST_LABEL_NAMES;
    names.truncate(MOST_LABEL_NAMES);
    let found = store
        .labels(&LabelQuery::With {
            tenant: tenant.clone(),
            names,
            value: value.to_owned(),
        })
        .await?;
    let far =
        || format!("the first {MOST_LABEL_NAMES} names of labels: write others as name=value");
    Ok((found, has_more.then(far)))
}

/// Tasks whose ids end so, among the newest and among those that are open; and among which was looked.
pub(super) async fn tasks_with(cx: &Cx, ending: &str) -> Result<(Vec<TaskId>, String), Refused> {
    let store = &cx.engine.ports.store;
    let newest = TaskQuery {
        tenant: Some(cx.caller.tenant.clone()),
        ending: Some(ending.to_owned()),
        limit: MOST_ENDINGS,
        ..TaskQuery::default()
    };
    let open = TaskStatus::ALL.iter().filter(|it| !it.is_terminal());
    let mut open = TaskQuery {
        statuses: open.copied().collect(),
        ..newest.clone()
    };
    let mut pages = vec![store.list(&newest).await?];
    let mut is_whole = false;
    for _ in 0..MOST_PAGES {
        let page = store.list(&open).await?;
        let looked_to = page.looked_to;
        pages.push(TaskPage {
            looked_to: None,
            ..page
        });
        match looked_to {
            Some(last) => open = open.behind(last),
            None => {
                is_whole = true;
                break;
            }
        }
    }
    pages[0].looked_to = None;
    let most = TaskQuery::MOST_CANDIDATES;
    let open = match is_whole {
        true => "all that are open".to_owned(),
        false => format!("the newest {} that are open", most * MOST_PAGES),
    };
    let found = TaskPage::merged(pages, &newest).lines.into_iter();
    let tasks = found.map(|line| line.task).collect();
    Ok((tasks, format!("the newest {most} tasks and {open}")))
}

#[cfg(test)]
mod tests {
    use super::{ending, states};
    use counterstep_contracts::TaskStatus;

    #[test]
    fn an_ending_has_eight_digits_of_an_id_at_least() {
        for (text, digits) in [
            ("1BADCAFE", Some("1badcafe")),
            ("8000-00001badcafe", Some("800000001badcafe")),
            ("1badcaf", None),
            ("--------", None),
            ("order-4711", None),
        ] {
            assert_eq!(ending(text).as_deref(), digits, "{text}");
        }
    }

    #[test]
    fn states_go_by_their_names_and_by_what_they_have_in_common() {
        assert_eq!(
            states("dead-lettered"),
            Some(vec![TaskStatus::DeadLettered])
        );
        assert_eq!(states("Failed"), Some(vec![TaskStatus::Failed]));
        let parked = [TaskStatus::CompensationFailed, TaskStatus::DeadLettered];
        let mut found = states("parked").unwrap();
        found.sort_unstable();
        let mut parked = parked.to_vec();
        parked.sort_unstable();
        assert_eq!(found, parked);
        assert_eq!(states("4715"), None);
    }
}
