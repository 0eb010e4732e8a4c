//! Open effects of a tenant: of each task, and counted.

use crate::filters::declared_name;
use crate::{Cx, Refused, Run, cursor};
use counterstep_contracts::http::Page;
use counterstep_contracts::open_effects::{OpenEffectSums, OpenEffects};
use counterstep_contracts::operation::open_effects::{
    ListOpenEffects, OpenEffectSumsQuery, OpenEffectsQuery, SumOpenEffects,
};
use counterstep_kernel::dead_letters::Selection;
use counterstep_kernel::operator::{OPEN_EFFECT_STATES, list_open_effects, sum_open_effects};
use counterstep_kernel::ports::TaskQuery;

impl Run for ListOpenEffects {
    async fn run(cx: Cx, (): (), asked: OpenEffectsQuery) -> Result<Page<OpenEffects>, Refused> {
        let selection = selection(&cx, asked.task_type);
        // What a cursor is sealed with.
        let query = TaskQuery {
            tenant: Some(selection.tenant.clone()),
            task_type: selection.task_type.clone(),
            ..TaskQuery::default()
        };
        let list = format!("open effects {:?}", asked.kind);
        let before = asked.cursor.as_ref();
        let before = before.map(|it| cursor::read(&it.0, &list, &query));
        let most = usize::try_from(asked.limit.0).unwrap_or(usize::MAX);
        let found = list_open_effects(
            &cx.engine,
            &selection,
            &asked.kind,
            before.transpose()?,
            most,
        );
        let (items, next) = found.await?;
        Ok(Page {
            items,
            next_cursor: next.map(|last| cursor::after(last, &list, &query)),
        })
    }
}

impl Run for SumOpenEffects {
    async fn run(cx: Cx, (): (), asked: OpenEffectSumsQuery) -> Result<OpenEffectSums, Refused> {
        let selection = selection(&cx, asked.task_type);
        Ok(sum_open_effects(&cx.engine, &selection).await?)
    }
}

fn selection(cx: &Cx, task_type: Option<String>) -> Selection {
    Selection {
        task_type: task_type.map(|name| declared_name(&cx.engine, &name)),
        ..Selection::of(cx.caller.tenant.clone(), OPEN_EFFECT_STATES.to_vec())
    }
}
