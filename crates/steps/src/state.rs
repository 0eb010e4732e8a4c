//! What a program provides to the code of its steps: connection pools, clients, secrets. One value of
//! each type, made once at the start of the process and shared by all tasks.

use crate::error::chain;
use futures::future::BoxFuture;
use std::any::{Any, TypeId, type_name};
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A value that the program provides with [`Registry::provide`](crate::Registry::provide). A step, an
/// undo, a condition, a fallback or a probe takes it as `name: &State<T>`. Clones share the value.
pub struct State<T>(Arc<T>);

impl<T> State<T> {
    /// For calling a step's function by itself, in a unit test.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for State<T> {
    /// The type alone: the value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State<{}>", type_name::<T>())
    }
}

/// The values of a program, by their types. Clones share them.
#[derive(Clone, Default)]
pub struct States(Arc<HashMap<TypeId, Provided>>);

#[derive(Clone)]
struct Provided {
    type_name: &'static str,
    from: Source,
}

#[derive(Clone)]
enum Source {
    Value(Value),
    /// Makes the value at the start of a process that takes work.
    Maker(Arc<dyn Fn() -> BoxFuture<'static, Result<Value, BoxError>> + Send + Sync>),
}

type Value = Arc<dyn Any + Send + Sync>;
type BoxError = Box<dyn Error + Send + Sync>;

impl States {
    /// Adds a value, in the place of one of the same type.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.put::<T>(Source::Value(Arc::new(value)));
    }

    /// Adds a value that is made later, in the place of one of the same type.
    pub(crate) fn insert_maker<T, M, F, E>(&mut self, make: M)
    where
        T: Send + Sync + 'static,
        M: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.put::<T>(Source::Maker(Arc::new(move || {
            let made = make();
            Box::pin(async move {
                let value: Value = Arc::new(made.await.map_err(Into::into)?);
                Ok(value)
            })
        })));
    }

    fn put<T: 'static>(&mut self, from: Source) {
        let type_name = type_name::<T>();
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), Provided { type_name, from });
    }

    /// Makes the values that are made at the start, one after the other.
    pub(crate) async fn make(&mut self) -> Result<(), NotMade> {
        let all = self.0.keys().copied().collect();
        self.make_these(&all).await
    }

    /// Makes only the values that these parameters take.
    pub(crate) async fn make_only<'a>(
        &mut self,
        taken: impl Iterator<Item = &'a StateParameter>,
    ) -> Result<(), NotMade> {
        let these = taken.map(|parameter| (parameter.id)()).collect();
        self.make_these(&these).await
    }

    async fn make_these(&mut self, these: &HashSet<TypeId>) -> Result<(), NotMade> {
        for (id, provided) in Arc::make_mut(&mut self.0) {
            if let Source::Maker(make) = &provided.from
                && these.contains(id)
            {
                let made = make().await.map_err(|error| NotMade {
                    type_name: provided.type_name,
                    why: chain(error.as_ref()),
                })?;
                provided.from = Source::Value(made);
            }
        }
        Ok(())
    }

    /// The value of a type; `None`: the program provides none, or it has not been made yet.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<State<T>> {
        match &self.0.get(&TypeId::of::<T>())?.from {
            Source::Value(value) => value.clone().downcast().ok().map(State),
            Source::Maker(_) => None,
        }
    }

    /// The full paths of the types that none of these parameters takes, in their order.
    pub(crate) fn besides<'a>(
        &self,
        taken: impl Iterator<Item = &'a StateParameter>,
    ) -> Vec<&'static str> {
        let taken: HashSet<TypeId> = taken.map(|parameter| (parameter.id)()).collect();
        let others = self.0.iter().filter(|(id, _)| !taken.contains(id));
        let mut names: Vec<_> = others.map(|(_, provided)| provided.type_name).collect();
        names.sort_unstable();
        names
    }

    /// Whether there is a value for a parameter, or will be.
    #[must_use]
    pub fn has(&self, parameter: &StateParameter) -> bool {
        self.0.contains_key(&(parameter.id)())
    }
}

impl fmt::Debug for States {
    /// The types alone: a value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.values().map(|provided| provided.type_name))
            .finish()
    }
}

/// A parameter `&State<T>` of a declared function. Written by `#[distributed_task]`.
#[derive(Debug, Clone, Copy)]
pub struct StateParameter {
    /// The step that the function belongs to.
    pub step: &'static str,
    /// The function that takes it.
    pub function: &'static str,
    type_name: fn() -> &'static str,
    id: fn() -> TypeId,
}

impl StateParameter {
    /// Of type `T`.
    #[must_use]
    pub const fn of<T: Send + Sync + 'static>(step: &'static str, function: &'static str) -> Self {
        Self {
            step,
            function,
            type_name: type_name::<T>,
            id: TypeId::of::<T>,
        }
    }

    /// The full path of `T`.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        (self.type_name)()
    }
}

/// A declared function takes a state that the program does not provide.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "task type `{task_type}`: `{function}` of step `{step}` takes `&State<{type_name}>`, and the program provides no \
     such value; expected `Registry::provide(..)` with one"
)]
pub struct MissingState {
    /// Declared name of the task type.
    pub task_type: &'static str,
    /// The step.
    pub step: &'static str,
    /// The function that takes it.
    pub function: &'static str,
    /// The full path of the type.
    pub type_name: &'static str,
}

/// A value that the program provides could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the value that the program provides as `State<{type_name}>` could not be made: {why}")]
pub struct NotMade {
    /// The full path of its type.
    pub type_name: &'static str,
    /// The error, with its causes.
    pub why: String,
}
