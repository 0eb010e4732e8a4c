//! Schedules of a tenant: those that there are, one of them, deleting it, pausing it, resuming it, and a task of it at once.

use crate::filters::{and_one, declared_name, page};
use crate::{Cx, Refused, Run, cursor, invalid};
use counterstep_contracts::http::{Accepted, Page};
use counterstep_contracts::operation::schedules::{
    DeleteSchedule, GetSchedule, ListSchedules, PauseSchedule, PutSchedule, ResumeSchedule,
    RunSchedule, ScheduleName, ScheduleQuery, ScheduleSet, SchedulesQuery,
};
use counterstep_contracts::schedule::ScheduleView;
use counterstep_contracts::{ProblemCode, ScheduleSpec};
use counterstep_kernel::ports::{self, ScheduleRow};
use counterstep_kernel::schedule::{ScheduleError, delete, get, pause, run_now, set};
use counterstep_steps::schedule;
use counterstep_steps::times::{DbTime, rfc3339};

impl Run for ListSchedules {
    async fn run(cx: Cx, (): (), asked: SchedulesQuery) -> Result<Page<ScheduleView>, Refused> {
        let tenant = cx.caller.tenant;
        let after = asked.cursor.map(|it| cursor::read_name(&it.0, &tenant));
        let query = ports::ScheduleQuery::Page {
            tenant: tenant.clone(),
            after: after.transpose()?,
            limit: and_one(asked.limit),
        };
        let rows = cx.engine.ports.store.schedules(&query).await?.rows;
        let next = |last: &ScheduleRow| cursor::after_name(&last.name, &tenant);
        let item = |row| schedule_view(row, Vec::new());
        let mut page = page(rows, asked.limit, next, item);
        // Schedules are few: those of a type are looked for among the rows of a page.
        if let Some(name) = asked.task_type {
            let name = declared_name(&cx.engine, &name);
            page.items.retain(|it| it.spec.task_type == name);
        }
        Ok(page)
    }
}

impl Run for GetSchedule {
    async fn run(
        cx: Cx,
        ScheduleName(name): ScheduleName,
        asked: ScheduleQuery,
    ) -> Result<ScheduleView, Refused> {
        let kept = get(&cx.engine, &cx.caller.tenant, &name).await?;
        let next = asked.next.and_then(|next| usize::try_from(next).ok());
        let upcoming = kept.upcoming(next.unwrap_or(0));
        Ok(schedule_view(kept.row, upcoming))
    }
}

impl Run for PutSchedule {
    async fn run(
        cx: Cx,
        ScheduleName(name): ScheduleName,
        spec: ScheduleSpec,
    ) -> Result<ScheduleSet, Refused> {
        let actor = cx.actor::<Self>();
        let kept = set(&cx.engine, &cx.caller.tenant, &name, spec, &actor).await?;
        Ok(ScheduleSet {
            is_new: kept.is_new,
            schedule: schedule_view(kept.row, Vec::new()),
        })
    }
}

impl Run for DeleteSchedule {
    async fn run(cx: Cx, ScheduleName(name): ScheduleName, (): ()) -> Result<(), Refused> {
        let actor = cx.actor::<Self>();
        Ok(delete(&cx.engine, &cx.caller.tenant, &name, &actor).await?)
    }
}

impl Run for PauseSchedule {
    async fn run(cx: Cx, name: ScheduleName, (): ()) -> Result<ScheduleView, Refused> {
        let actor = cx.actor::<Self>();
        set_paused(&cx, &name, true, &actor).await
    }
}

impl Run for ResumeSchedule {
    async fn run(cx: Cx, name: ScheduleName, (): ()) -> Result<ScheduleView, Refused> {
        let actor = cx.actor::<Self>();
        set_paused(&cx, &name, false, &actor).await
    }
}

impl Run for RunSchedule {
    async fn run(cx: Cx, ScheduleName(name): ScheduleName, (): ()) -> Result<Accepted, Refused> {
        let actor = cx.actor::<Self>();
        Ok(run_now(&cx.engine, &cx.caller.tenant, &name, &actor).await?)
    }
}

async fn set_paused(
    cx: &Cx,
    ScheduleName(name): &ScheduleName,
    is_paused: bool,
    actor: &str,
) -> Result<ScheduleView, Refused> {
    let kept = pause(&cx.engine, &cx.caller.tenant, name, is_paused, actor).await?;
    Ok(schedule_view(kept.row, Vec::new()))
}

/// A schedule, with its next due times.
fn schedule_view(row: ScheduleRow, upcoming: Vec<DbTime>) -> ScheduleView {
    let stored = schedule::read_stored(&row.spec);
    let refused = match stored {
        Ok(stored) => stored.refused,
        Err(error) => Some(error),
    };
    ScheduleView {
        warning: refused.map(|error| error.to_string()),
        name: row.name,
        spec: row.spec,
        origin: row.origin,
        paused: row.paused,
        next_due_at: row.next_due_at.filter(|_| !row.paused).map(rfc3339),
        last_due_at: row.last_due_at.map(rfc3339),
        last_fired_at: row.last_fired_at.map(rfc3339),
        last_task: row.last_task,
        revision: row.rev.0,
        created_at: rfc3339(row.created_at),
        updated_at: rfc3339(row.updated_at),
        upcoming: upcoming.into_iter().map(rfc3339).collect(),
    }
}

impl From<ScheduleError> for Refused {
    fn from(error: ScheduleError) -> Self {
        let detail = error.to_string();
        match error {
            ScheduleError::Gone => Refused::new(
                ProblemCode::NoSuchSchedule,
                "see /api/schedules for those that there are",
            ),
            ScheduleError::Declared => Refused::new(
                ProblemCode::ScheduleDeclared,
                "the program that runs here declares it: change the declaration, or pause the schedule",
            ),
            ScheduleError::Invalid(error) => invalid(error.message).at(error.pointer),
            ScheduleError::UnknownType(_) => invalid(format!(
                "{detail}: see /api/task-types for those that there are"
            ))
            .at("type"),
            ScheduleError::Busy(_) => Refused::new(
                ProblemCode::ScheduleBusy,
                format!("{detail}: wait for it or cancel it, or set `overlap` to allow"),
            ),
            ScheduleError::Submit(error) => error.into(),
            ScheduleError::Moved => Refused::new(ProblemCode::Unavailable, detail).retry_after(1),
            ScheduleError::Store(error) => error.into(),
        }
    }
}
