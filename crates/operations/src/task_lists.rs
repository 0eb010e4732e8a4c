//! Lists of tasks: all, and those that one has submitted; and what the steps of a task have logged. Must not show one of another
//! tenant.

use crate::filters::{and_one, declared_name, failure_filter, id_at, labels_of, page};
use crate::{Cx, Refused, Run, cursor, invalid, load, search, task_bodies};
use counterstep_contracts::http::{ChildSummary, Page};
use counterstep_contracts::log::LogPage;
use counterstep_contracts::operation::task_lists::{
    ChildrenQuery, GetLog, ListChildren, ListTasks, LogQuery, TasksQuery,
};
use counterstep_contracts::search::FoundTasks;
use counterstep_contracts::{StepNo, TaskId};
use counterstep_kernel::ports::{ChildLine, ChildQuery, TaskLine, TaskPage, TaskQuery};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::status::task_log;

impl Run for ListTasks {
    async fn run(cx: Cx, (): (), asked: TasksQuery) -> Result<FoundTasks, Refused> {
        let (class, text) = (
            asked.failure_class.as_deref(),
            asked.failure_text.as_deref(),
        );
        let of_type = asked.task_type.map(|name| declared_name(&cx.engine, &name));
        let until = asked.until.map(|it| id_at("until", &it.0)).transpose()?;
        let base = TaskQuery {
            tenant: Some(cx.caller.tenant.clone()),
            task_type: of_type,
            statuses: asked.status,
            labels: labels_of(asked.label.iter().map(String::as_str))?,
            failure: failure_filter(class, text)
                .map_err(|(field, detail)| invalid(detail).at(field))?,
            from: asked.since.map(|it| id_at("since", &it.0)).transpose()?,
            before: until,
            limit: and_one(asked.limit),
            ..TaskQuery::default()
        };
        // Choices depend on what is there: a cursor holds for what was asked for.
        let sealed = base.clone();
        let (mut queries, search) = match asked.q.as_deref() {
            None => (vec![base], None),
            Some(q) => {
                let found = search::resolve(&cx, q).await?;
                (found.queries(base)?, Some(found.searched()))
            }
        };
        let is_broad = |query: &TaskQuery| {
            query.failure.text.is_some() && query.task_type.is_none() && query.from.is_none()
        };
        if queries.iter().any(is_broad) {
            let detail = "`failure_text` is looked for among the tasks of a `type`, or `since` a time: send one of these";
            return Err(invalid(detail).at("failure_text"));
        }
        // What several lists have in common stands for all of them.
        let all = queries.first().cloned().unwrap_or_default();
        let list = asked.q.as_deref().map_or_else(
            || cursor::TASKS.to_owned(),
            |q| format!("{} of {q}", cursor::TASKS),
        );
        if let Some(last) = &asked.cursor {
            let last = cursor::read(&last.0, &list, &sealed)?;
            queries = queries.into_iter().map(|it| it.behind(last)).collect();
        }
        let store = &cx.engine.ports.store;
        let mut pages = Vec::new();
        for query in &queries {
            pages.push(store.list(query).await?);
        }
        let TaskPage { lines, looked_to } = TaskPage::merged(pages, &all);
        let next = |last: &TaskLine| cursor::after(last.task, &list, &sealed);
        let page = page(lines, asked.limit, next, task_bodies::summary);
        // A text is looked for in so many tasks at a time: the next page goes on behind them.
        let next_cursor = page
            .next_cursor
            .or_else(|| looked_to.map(|last| cursor::after(last, &list, &sealed)));
        Ok(FoundTasks {
            items: page.items,
            next_cursor,
            search,
        })
    }
}

impl Run for GetLog {
    async fn run(cx: Cx, id: TaskId, asked: LogQuery) -> Result<LogPage, Refused> {
        let after = asked.cursor.map(|it| cursor::read_log(&it.0)).transpose()?;
        load(&cx.engine, &cx.caller.tenant, id).await?;
        let limit = usize::try_from(asked.limit.0).unwrap_or(usize::MAX);
        Ok(task_log::read(&cx.engine.ports.store, id, after, limit).await?)
    }
}

impl Run for ListChildren {
    async fn run(cx: Cx, id: TaskId, asked: ChildrenQuery) -> Result<Page<ChildSummary>, Refused> {
        let record = load(&cx.engine, &cx.caller.tenant, id).await?;
        let step = asked.step.map(|name| step_of(&record, &name));
        let mut query = ChildQuery {
            parent: id,
            step: step.transpose()?,
            statuses: asked.status,
            after: None,
            limit: and_one(asked.limit),
        };
        let after = asked.cursor.map(|it| cursor::read_child(&it.0, &query));
        query.after = after.transpose()?;
        let lines = cx.engine.ports.store.children(&query).await?;
        let next = |last: &ChildLine| cursor::after_child(last.step, last.no, &query);
        let item = |line| task_bodies::child(&record, line);
        Ok(page(lines, asked.limit, next, item))
    }
}

fn step_of(record: &TaskRecord, name: &str) -> Result<StepNo, Refused> {
    let step = record.steps.iter().find(|step| step.name == name);
    step.map(|step| step.no).ok_or_else(|| {
        let known: Vec<&str> = record.steps.iter().map(|step| &*step.name).collect();
        invalid(format!("`step` is one of {}", known.join(", "))).at("step")
    })
}
