//! Parked tasks of a tenant: one by one, and counted by cause.

use crate::filters::{and_one, declared_name, labels_of, millis, page, time};
use crate::{Cx, Refused, Run, cursor, invalid, task_bodies};
use counterstep_contracts::TaskStatus;
use counterstep_contracts::groups::DeadLetterGroups;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::dead_letters::{
    DeadLetterOrder, DeadLettersQuery, GroupDeadLetters, GroupsQuery, GroupsWith, ListDeadLetters,
    has_cause,
};
use counterstep_contracts::operator::DeadLetter;
use counterstep_kernel::bulk;
use counterstep_kernel::dead_letters::{Selection, add_first_programs, groups, longest_parked};
use counterstep_kernel::ports::{TaskLine, TaskQuery};
use counterstep_steps::times::rfc3339;

impl Run for ListDeadLetters {
    async fn run(cx: Cx, (): (), asked: DeadLettersQuery) -> Result<Page<DeadLetter>, Refused> {
        let of_type = asked.task_type.map(|name| declared_name(&cx.engine, &name));
        let since = asked.parked_since.map(|it| time("parked_since", &it.0));
        let since = since.transpose()?;
        if asked.order == Some(DeadLetterOrder::LongestParked) {
            if asked.cursor.is_some() {
                let detail = "`order=longest_parked` has one page: leave `cursor` out";
                return Err(invalid(detail).at("cursor"));
            }
            let selection = Selection {
                task_type: of_type,
                ..Selection::of(cx.caller.tenant, parked(&asked.status))
            };
            let most = usize::try_from(asked.limit.0).unwrap_or(usize::MAX);
            let store = &cx.engine.ports.store;
            let lines = longest_parked(store, &selection, since, most).await?;
            return Ok(Page::whole(
                lines.into_iter().map(task_bodies::dead_letter).collect(),
            ));
        }
        let since = since.map(rfc3339);
        let mut query = TaskQuery {
            tenant: Some(cx.caller.tenant),
            task_type: of_type,
            statuses: asked.status,
            limit: and_one(asked.limit),
            ..TaskQuery::default()
        };
        let before = asked.cursor.as_ref();
        let before = before.map(|it| cursor::read(&it.0, cursor::DEAD_LETTERS, &query));
        query.before = before.transpose()?;
        let of_all = TaskQuery {
            statuses: parked(&query.statuses),
            ..query.clone()
        };
        let lines = cx.engine.ports.store.list(&of_all).await?.lines;
        let next = |last: &TaskLine| cursor::after(last.task, cursor::DEAD_LETTERS, &query);
        let mut page = page(lines, asked.limit, next, task_bodies::dead_letter);
        // They are read by when they were submitted, which says nothing of when they were parked: each page may have some.
        if let Some(since) = since {
            let is_since = |it: &DeadLetter| it.updated_at >= since;
            page.items.retain(is_since);
        }
        Ok(page)
    }
}

impl Run for GroupDeadLetters {
    async fn run(cx: Cx, (): (), asked: GroupsQuery) -> Result<DeadLetterGroups, Refused> {
        let of_type = asked.task_type.map(|name| declared_name(&cx.engine, &name));
        let statuses = match asked.status.contains(&TaskStatus::Failed) {
            true => asked
                .status
                .into_iter()
                .filter(|it| has_cause(*it))
                .collect(),
            false => parked(&asked.status),
        };
        let since = asked.since.map(|it| millis("since", &it.0));
        let selection = Selection {
            task_type: of_type,
            labels: labels_of(asked.label.iter().map(String::as_str))?,
            since: since.transpose()?,
            ..Selection::of(cx.caller.tenant.clone(), statuses)
        };
        let store = &cx.engine.ports.store;
        let mut found = groups(store, &selection).await?;
        if asked.with == Some(GroupsWith::Decisions) {
            bulk::add_last_decisions(store, &selection.tenant, &mut found.groups).await?;
            // Processes are shown to callers of the installation alone.
            if cx.caller.is_of_installation() {
                add_first_programs(store, &mut found.groups).await?;
            }
        }
        Ok(found)
    }
}

/// Those of the states in which tasks are parked that are asked for; none: all of them.
fn parked(asked: &[TaskStatus]) -> Vec<TaskStatus> {
    let parked = TaskStatus::ALL.iter().filter(|it| it.is_parked());
    let parked = parked.filter(|it| asked.is_empty() || asked.contains(it));
    parked.copied().collect()
}
