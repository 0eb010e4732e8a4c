//! Operations on many tasks: starting one, which there are, one of them and its tasks, and pausing, resuming and stopping it. The
//! kernel executes them.

use crate::filters::{declared_name, failure_filter, millis};
use crate::{Cx, Refused, Run, cursor, invalid, search};
use counterstep_contracts::bulk::{
    BulkAction, BulkAnswer, BulkFilter, BulkPreview, BulkRequest, BulkView,
};
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::bulk::{
    BulkId, GetBulkOperation, ListBulkOperations, StartBulkOperation, StopBulkOperation,
};
use counterstep_contracts::operation::bulk_pace::{
    BulkTasksQuery, ListBulkOperationTasks, PauseBulkOperation, ResumeBulkOperation,
};
use counterstep_contracts::pace::{BulkTask, MOST_OF_PACE, MOST_PER_MINUTE, Pace};
use counterstep_contracts::{Labels, ProblemCode, SettledAs, TaskStatus};
use counterstep_kernel::bulk::{self, BulkError, BulkSpec};
use counterstep_kernel::dead_letters::Selection;

impl Run for StartBulkOperation {
    async fn run(cx: Cx, (): (), mut body: BulkRequest) -> Result<BulkAnswer, Refused> {
        if let Some(filter) = &mut body.filter {
            *filter = searched(&cx, std::mem::take(filter)).await?;
        }
        let (actor, note) = cx.decided::<Self>(&body.note, body.actor.as_deref())?;
        let selection = selection(&cx, &body)?;
        fits_its_action(&body)?;
        let spec = BulkSpec {
            action: body.action,
            settled: body.settled,
            patch: body.patch,
            from: body.from,
            selection,
            pace: body.pace,
            note,
            actor,
        };
        if body.preview {
            let found = bulk::preview(&cx.engine, &spec).await?;
            return Ok(BulkAnswer::Preview(BulkPreview {
                filter: body.filter,
                ..found
            }));
        }
        Ok(BulkAnswer::Started(bulk::start(&cx.engine, spec).await?))
    }
}

/// A filter with what its search was read as in place of it: each term of one that is to change something means one thing.
async fn searched(cx: &Cx, mut filter: BulkFilter) -> Result<BulkFilter, Refused> {
    let Some(q) = filter.q.take() else {
        return Ok(filter);
    };
    let at_filter = |refused: Refused| refused.at("filter.q");
    let found = search::resolve(cx, &q).await.map_err(at_filter)?;
    let Some(read) = found.filter() else {
        let several = found.ambiguous().join(", ");
        let detail = format!(
            "{several}: a term here means one thing, as `name=value` or `type:NAME`; for one task use its own operations"
        );
        return Err(invalid(detail).at("filter.q"));
    };
    if filter != BulkFilter::default() {
        let detail = "a filter has `q` or other fields: write them as terms of `q`";
        return Err(invalid(detail).at("filter.q"));
    }
    if read == BulkFilter::default() {
        let detail = "the search names no condition, and would mean all tasks: send an empty filter without `q` for that";
        return Err(invalid(detail).at("filter.q"));
    }
    Ok(read)
}

/// Refuses what goes with another action.
fn fits_its_action(body: &BulkRequest) -> Result<(), Refused> {
    match (body.action, body.settled) {
        (BulkAction::Resolve, None) => {
            let detail =
                "`resolve` needs `as`: what has become of the tasks, one of done, undone, skipped";
            return Err(invalid(detail).at("as"));
        }
        (BulkAction::Redrive | BulkAction::Cancel | BulkAction::RunAgain, Some(_)) => {
            return Err(invalid("`as` goes with `resolve` only: leave it out").at("as"));
        }
        (BulkAction::Resolve, Some(SettledAs::Redriven)) => {
            let detail = "`redriven` names the task that has done the work of one: resolve tasks one by one for that";
            return Err(invalid(detail).at("as"));
        }
        _ => {}
    }
    if body.patch.is_some() && !matches!(body.action, BulkAction::Redrive | BulkAction::RunAgain) {
        let detail = "`patch` goes with `redrive` and `run-again` only: leave it out";
        return Err(invalid(detail).at("patch"));
    }
    if body.from.is_some() && body.action != BulkAction::RunAgain {
        return Err(invalid("`from` goes with `run-again` only: leave it out").at("from"));
    }
    body.pace.as_ref().map_or(Ok(()), is_possible)
}

fn is_possible(pace: &Pace) -> Result<(), Refused> {
    for (name, value, most) in [
        ("sample", pace.sample, MOST_OF_PACE),
        ("per_minute", pace.per_minute, MOST_PER_MINUTE),
        ("max_failures", pace.max_failures, MOST_OF_PACE),
    ] {
        if value.is_some_and(|value| value < 1 || value > most) {
            let detail = format!("`{name}` is a number from 1 to {most}");
            return Err(invalid(detail).at(format!("pace.{name}")));
        }
    }
    Ok(())
}

fn selection(cx: &Cx, body: &BulkRequest) -> Result<Selection, Refused> {
    if body.group.is_none() && body.filter.is_none() {
        let detail = "which tasks? send a `group`, a `filter`, or both; an empty filter means all that the action is for";
        return Err(invalid(detail).at("group"));
    }
    if body.group.as_deref().is_some_and(|group| !is_group(group)) {
        let detail = "a group is named by the 16 digits of its id: see /api/dead-letters/groups";
        return Err(invalid(detail).at("group"));
    }
    let BulkFilter {
        q: _,
        task_type,
        status,
        labels,
        failure_class,
        failure_text,
        since,
        until,
    } = body.filter.clone().unwrap_or_default();
    let action = body.action;
    let all = TaskStatus::ALL.iter().filter(|it| action.is_for(**it));
    if !status.iter().all(|status| action.is_for(*status)) {
        let known: Vec<_> = all.map(|it| it.as_str()).collect();
        let detail = format!("with `{action}`, `status` is one of {}", known.join(", "));
        return Err(invalid(detail).at("filter.status"));
    }
    if status.is_empty() && action == BulkAction::RunAgain {
        let detail = "`run-again` is for tasks that ended in the way that you say: send a `status`";
        return Err(invalid(detail).at("filter.status"));
    }
    let statuses = all.filter(|it| status.is_empty() || status.contains(it));
    let time = |name: &'static str, text: Option<String>| {
        let time = text.map(|text| millis(name, &text)).transpose();
        time.map_err(|refused| refused.at(format!("filter.{name}")))
    };
    Ok(Selection {
        tenant: cx.caller.tenant.clone(),
        task_type: task_type.map(|name| declared_name(&cx.engine, &name)),
        statuses: statuses.copied().collect(),
        labels: checked(&labels)?,
        failure: failure_filter(failure_class.as_deref(), failure_text.as_deref())
            .map_err(|(field, detail)| invalid(detail).at(format!("filter.{field}")))?,
        group: body.group.clone(),
        since: time("since", since)?,
        until: time("until", until)?,
    })
}

fn is_group(text: &str) -> bool {
    text.len() == 16
        && text
            .bytes()
            .all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

fn checked(labels: &Labels) -> Result<Labels, Refused> {
    let mut known = Labels::new();
    for (name, value) in labels.iter() {
        known.look_for(name, value).map_err(|error| {
            Refused::new(ProblemCode::InvalidLabel, error.to_string()).at("filter.labels")
        })?;
    }
    Ok(known)
}

impl Run for ListBulkOperations {
    async fn run(cx: Cx, (): (), (): ()) -> Result<Page<BulkView>, Refused> {
        let items = bulk::list(&cx.engine.ports.store, &cx.caller.tenant).await?;
        Ok(Page::whole(items))
    }
}

impl Run for GetBulkOperation {
    async fn run(cx: Cx, BulkId(id): BulkId, (): ()) -> Result<BulkView, Refused> {
        Ok(bulk::show(&cx.engine.ports.store, &cx.caller.tenant, &id).await?)
    }
}

impl Run for StopBulkOperation {
    async fn run(cx: Cx, BulkId(id): BulkId, (): ()) -> Result<BulkView, Refused> {
        let (store, actor) = (&cx.engine.ports.store, cx.actor::<Self>());
        Ok(bulk::stop(store, &cx.caller.tenant, &id, &actor).await?)
    }
}

impl Run for PauseBulkOperation {
    async fn run(cx: Cx, BulkId(id): BulkId, (): ()) -> Result<BulkView, Refused> {
        let (store, actor) = (&cx.engine.ports.store, cx.actor::<Self>());
        Ok(bulk::pause(store, &cx.caller.tenant, &id, &actor).await?)
    }
}

impl Run for ResumeBulkOperation {
    async fn run(cx: Cx, BulkId(id): BulkId, (): ()) -> Result<BulkView, Refused> {
        let (store, actor) = (&cx.engine.ports.store, cx.actor::<Self>());
        Ok(bulk::resume(store, &cx.caller.tenant, &id, &actor).await?)
    }
}

impl Run for ListBulkOperationTasks {
    async fn run(
        cx: Cx,
        BulkId(id): BulkId,
        asked: BulkTasksQuery,
    ) -> Result<Page<BulkTask>, Refused> {
        let tenant = &cx.caller.tenant;
        let from = asked
            .cursor
            .as_ref()
            .map_or(Ok(0), |cursor| cursor::read_place(&cursor.0, &id, tenant))?;
        let most = usize::try_from(asked.limit.0).unwrap_or(usize::MAX);
        let found = bulk::tasks(&cx.engine.ports.store, tenant, &id, from, most);
        let (items, is_more) = found.await?;
        Ok(Page {
            next_cursor: is_more.then(|| cursor::at_place(from + items.len(), &id, tenant)),
            items,
        })
    }
}

impl From<BulkError> for Refused {
    fn from(error: BulkError) -> Self {
        let detail = error.to_string();
        match error {
            BulkError::Gone => Refused::new(
                ProblemCode::NoSuchBulkOperation,
                "see /api/bulk-operations for those that there are",
            ),
            BulkError::Renamed(_) => Refused::new(ProblemCode::GroupRenamed, detail).at("group"),
            BulkError::TooMany => Refused::new(ProblemCode::TooManyRequests, detail),
            BulkError::Moved => Refused::new(ProblemCode::Unavailable, detail).retry_after(1),
            BulkError::Store(error) => error.into(),
        }
    }
}
