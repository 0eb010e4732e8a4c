//! `#[distributed_task]`: reads a task type's declaration, checks it, and writes it down as data
//! and function pointers.
//!
//! The way of a declaration: `parse` → `check` → `expand`. Owns every diagnostic that tokens can
//! tell; those that need types are bounds in `counterstep_steps::declare`. Runs no step and knows
//! no state.

mod args;
mod check;
mod code;
mod declaration;
mod expand;
#[cfg(test)]
mod fuzzed;
mod parse;
mod report;
mod root;
mod text;

use proc_macro::TokenStream;
use report::Report;

/// Declares a task type on an inherent impl block.
///
/// `name` (default: the type's name), `version` (1), `queue` (the name in kebab-case), `timeout`
/// (deadline since submit), `lease`, `max_recoveries` (3), `on_lost` (`"requeue"`, or `"fail"`),
/// `cancellable`, `heavy`, `on_undo_failure` (`"stop"`, or `"continue"`), `auto_disable = PATH`.
///
/// In the block stand `type Request`, `type Response`, `fn respond`, and a function for each step:
///
/// - `#[step(N, host = "api" | "worker")]`, and where wanted `retry = PATH`, `breaker = PATH`,
///   `limit = PATH`,
///   `undo = function`, `undo_retry = PATH`, `no_undo = "reason"`, `timeout = "30s"`,
///   `probe = function`, `probe_retry = PATH`, `on_probe_failure = "park" | "run_again"`,
///   `group = "name"`, `when = function`, `when_cut_off = "stop" | "finish"` and
///   `on_exhausted = "compensate" | "fail" | "dead_letter"`. An `async fn` is a custom step, a
///   plain `fn` a built-in.
/// - `#[pure]` beside it: the step has no effects, so there is nothing to undo.
/// - `#[undo(step)]` on the function that undoes a step.
///
/// Each mistake has a code `CS0001`…; `docs/diagnostics.md` explains them.
#[proc_macro_attribute]
pub fn distributed_task(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut report = Report::default();
    let item = item.into();
    match parse::parse(attribute.into(), &item, &mut report) {
        Some(declaration) => {
            let readings = check::check(&declaration, &mut report);
            expand::expand(&declaration, &readings, &report).into()
        }
        // What is not even an impl block is given back as it came.
        None => report.beside(item).into(),
    }
}
