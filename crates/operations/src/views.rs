//! Saved views of the list of tasks: which there are, saving one and deleting it.

use crate::search::{no_such_view, resolve};
use crate::{Cx, Refused, Run, invalid};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::views::{DeleteView, ListViews, PutView, ViewName};
use counterstep_contracts::search::{Field, Term, parse};
use counterstep_contracts::view::{SavedView, ViewSpec};
use counterstep_kernel::documents::{ViewError, delete_view, set_view, views};

impl Run for ListViews {
    async fn run(cx: Cx, (): (), (): ()) -> Result<Page<SavedView>, Refused> {
        let items = views(&cx.engine.ports.store, &cx.caller.tenant).await?;
        Ok(Page::whole(items))
    }
}

impl Run for PutView {
    async fn run(cx: Cx, ViewName(name): ViewName, input: ViewSpec) -> Result<SavedView, Refused> {
        let names_view = |it: &Term| matches!(it, Term::Field(Field::View, _));
        let terms = parse(&input.q).map_err(|error| invalid(error.to_string()).at("q"))?;
        if terms.is_empty() {
            return Err(invalid("a saved view has one term at least").at("q"));
        }
        if terms.iter().any(names_view) {
            return Err(
                invalid("a saved view names no other view: write what that one has").at("q"),
            );
        }
        if !input.columns.as_deref().is_none_or(are_columns) {
            let detail = "columns are their names with commas between them, as `id,order,submitted`, at most 200 characters";
            return Err(invalid(detail).at("columns"));
        }
        // What no list would take is not saved.
        resolve(&cx, &input.q).await?;
        let (store, actor) = (&cx.engine.ports.store, cx.actor::<Self>());
        Ok(set_view(store, &cx.caller.tenant, &name, input, &actor).await?)
    }
}

/// As the schema of a view says.
fn are_columns(text: &str) -> bool {
    let is_of_name = |it: u8| matches!(it, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b',' | b'-');
    (1..=200).contains(&text.len()) && text.bytes().all(is_of_name)
}

impl Run for DeleteView {
    async fn run(cx: Cx, ViewName(name): ViewName, (): ()) -> Result<(), Refused> {
        let (store, actor) = (&cx.engine.ports.store, cx.actor::<Self>());
        Ok(delete_view(store, &cx.caller.tenant, &name, &actor).await?)
    }
}

impl From<ViewError> for Refused {
    fn from(error: ViewError) -> Self {
        let detail = error.to_string();
        match error {
            ViewError::Name => invalid(detail).at("name"),
            ViewError::TooMany => Self::new(ProblemCode::TooManyRequests, detail),
            ViewError::Gone => no_such_view(),
            ViewError::Moved => Self::new(ProblemCode::Unavailable, detail).retry_after(1),
            ViewError::Store(error) => error.into(),
        }
    }
}
