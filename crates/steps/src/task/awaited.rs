//! Types whose tasks are submitted by steps of others: a program has to have them.

use super::registry::Registry;
use counterstep_contracts::WaitDecl;

/// A step submits tasks of a type that is not registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "task type `{task_type}`: step `{step}` submits tasks of `{awaited}`, and the program does not have this type; \
     expected `Registry::with::<{awaited}>()`"
)]
pub struct MissingType {
    /// Declared name of the task type.
    pub task_type: &'static str,
    /// The step.
    pub step: &'static str,
    /// Declared name of the type that is missing.
    pub awaited: &'static str,
}

impl Registry {
    /// Whether the program has all types whose tasks its steps submit.
    ///
    /// # Errors
    /// The first that it does not have.
    pub fn check_types(&self) -> Result<(), MissingType> {
        self.missing_types().next().map_or(Ok(()), Err)
    }

    /// Steps that submit tasks of a type that the program does not have. Those of several types find
    /// out when they run.
    pub fn missing_types(&self) -> impl Iterator<Item = MissingType> + '_ {
        self.iter().flat_map(|task_type| {
            let awaited = task_type
                .decl
                .steps
                .iter()
                .filter_map(|step| match step.waits {
                    Some(WaitDecl::Tasks { of: Some(of) }) => Some((step.name, of)),
                    _ => None,
                });
            let missing = awaited.filter(|(_, of)| self.newest(of).is_none());
            missing.map(|(step, awaited)| MissingType {
                task_type: task_type.decl.name,
                step,
                awaited,
            })
        })
    }
}
