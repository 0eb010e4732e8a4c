//! The planner case by case: a task as it stands, and what is next for it. Each table is one
//! subject; a case that fails is named by its text.

mod backward;
mod cases;
mod children;
mod children_retried;
mod failures;
mod forward;
mod resources;
