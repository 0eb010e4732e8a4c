//! Limits of steps, what is in use of them, and what a person sets in place of what is declared.

use crate::{Cx, Refused, Run, invalid};
use counterstep_contracts::http::Page;
use counterstep_contracts::limit::{
    LimitSetView, LimitUseView, LimitView, ResetLimitRequest, SetLimitRequest,
};
use counterstep_contracts::operation::limits::{LimitName, ListLimits, ResetLimit, SetLimit};
use counterstep_kernel::Engine;
use counterstep_kernel::admission::limits::{
    LimitError, LimitRow, LimitUse, NewLimit, limits, reset_limit, set_limit,
};
use counterstep_steps::times::rfc3339;

impl Run for ListLimits {
    async fn run(cx: Cx, (): (), (): ()) -> Result<Page<LimitView>, Refused> {
        let rows = limits(&cx.engine).await?;
        Ok(Page::whole(rows.into_iter().map(view).collect()))
    }
}

impl Run for SetLimit {
    async fn run(
        cx: Cx,
        LimitName(name): LimitName,
        input: SetLimitRequest,
    ) -> Result<LimitView, Refused> {
        let (actor, note) = cx.decided::<Self>(&input.note, input.actor.as_deref())?;
        let new = NewLimit {
            at_once: input.at_once,
            rate: input.rate,
            actor: &actor,
            note: &note,
        };
        set_limit(&cx.engine, &name, new).await?;
        named(&cx.engine, &name).await
    }
}

impl Run for ResetLimit {
    async fn run(
        cx: Cx,
        LimitName(name): LimitName,
        input: ResetLimitRequest,
    ) -> Result<LimitView, Refused> {
        let (actor, note) = cx.decided::<Self>(&input.note, input.actor.as_deref())?;
        reset_limit(&cx.engine, &name, &actor, &note).await?;
        named(&cx.engine, &name).await
    }
}

async fn named(engine: &Engine, name: &str) -> Result<LimitView, Refused> {
    let rows = limits(engine).await?;
    let row = rows.into_iter().find(|row| row.name == name);
    Ok(view(row.unwrap_or_else(|| LimitRow::unused(name))))
}

fn view(row: LimitRow) -> LimitView {
    let used = |used: LimitUse| LimitUseView {
        of: used.of,
        held: used.held,
        waiting: used.waiting,
        holders: used.holders,
    };
    LimitView {
        name: row.name,
        declared: row.declared,
        set: row.set.map(|set| LimitSetView {
            at_once: set.at_once,
            rate: set.rate,
            by: set.by,
            note: set.note,
            since: rfc3339(set.since),
        }),
        uses: row.uses.into_iter().map(used).collect(),
    }
}

impl From<LimitError> for Refused {
    fn from(error: LimitError) -> Self {
        match error {
            LimitError::Impossible(_) | LimitError::NotOfTasks => invalid(error.to_string()),
            LimitError::Setting(error) => error.into(),
        }
    }
}
