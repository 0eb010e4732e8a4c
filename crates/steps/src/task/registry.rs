//! The task types that a process knows, and what their program declares beside them: policies,
//! services, schedules, and what becomes of orphans and of tasks that have ended.

use super::request::RequestError;
use super::tables::TableRights;
use super::types::{DistributedTask, TaskType};
use crate::orphans::OrphanRule;
use crate::schedule::{self, Schedule, ScheduleMistake};
use crate::state::{MissingState, NotMade, States};
use counterstep_contracts::declaration::NamedPolicy;
use counterstep_contracts::overrides::OTHERS;
use counterstep_contracts::schedule::{NAME, is_name};
use counterstep_contracts::{Host, Retention, ScheduleSpec, StepDecl, UndoDecl};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The task types that a process knows.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// By name and version.
    pub(super) types: BTreeMap<(&'static str, u32), Registered>,
    policies: Vec<NamedPolicy>,
    /// By name.
    schedules: BTreeMap<String, ScheduleSpec>,
    /// Services that steps call, and the types that call each, as far as they were named.
    services: BTreeMap<&'static str, BTreeSet<&'static str>>,
    /// By the type's name.
    upkeep: BTreeMap<&'static str, Upkeep>,
    other_orphans: Option<OrphanRule>,
    states: States,
    /// Of the program's own.
    pub(super) tables: BTreeMap<&'static str, TableRights>,
}

/// A version of a task type.
#[derive(Debug, Clone)]
pub(super) struct Registered {
    task_type: TaskType,
    /// Digest of its declaration, worked out once: every claim compares one.
    pub(super) definition: String,
    /// Schemas of the bodies of signals, by the step that waits; also worked out once.
    pub(super) signals: BTreeMap<String, Value>,
    /// Its tasks are left to other processes.
    pub(super) left: bool,
}

/// What becomes of the orphans and of the ended tasks of a type, all its versions.
#[derive(Debug, Clone, Default)]
struct Upkeep {
    orphans: Option<OrphanRule>,
    retention: Option<Retention>,
}

/// Two declarations that cannot stand side by side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The same name and version twice.
    #[error(
        "task type `{name}` version {version} is registered twice: give one of them another name or version"
    )]
    Twice {
        /// Name of the task type.
        name: &'static str,
        /// Its version.
        version: u32,
    },
    /// Two names, one route.
    #[error(
        "task types `{first}` and `{second}` both have the route `{route}`: rename one of them"
    )]
    SameRoute {
        /// One name.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// What both become.
        route: String,
    },
}

/// A setting of orphans or retention that this program cannot act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("setting `{setting}`: {why}")]
pub struct UpkeepMistake {
    /// As in the settings file: `orphans.NAME`, `retention.NAME`.
    pub setting: String,
    /// What is wrong with it.
    pub why: String,
}

/// A task type that a host can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownType {
    /// Declared name.
    pub name: String,
    /// Version.
    pub version: u32,
    /// Digest of its declaration.
    pub definition: String,
}

impl KnownType {
    /// `{name}/{version}/{definition}`: one text to compare.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}/{}", self.name, self.version, self.definition)
    }
}

/// How a task's row names its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeRef<'a> {
    /// Its declared name.
    pub name: &'a str,
    /// Its version.
    pub version: u32,
    /// Digest of its declaration.
    pub definition: &'a str,
}

impl Registry {
    /// With no type yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a task type; panics where it collides with another, because that is a mistake in the
    /// program.
    ///
    /// # Panics
    /// When [`try_with`](Self::try_with) would err.
    #[must_use]
    pub fn with<T: DistributedTask>(self) -> Self {
        match self.try_with(T::task_type()) {
            Ok(registry) => registry,
            Err(error) => panic!("{error}"),
        }
    }

    /// Adds a task type.
    ///
    /// # Errors
    /// When name and version, or the route, are taken by another one.
    pub fn try_with(mut self, task_type: TaskType) -> Result<Self, RegistryError> {
        let (name, version) = (task_type.decl.name, task_type.decl.version);
        if let Some(other) = self
            .iter()
            .find(|other| other.decl.name != name && other.decl.route() == task_type.decl.route())
        {
            let (first, second, route) = (other.decl.name, name, task_type.decl.route());
            return Err(RegistryError::SameRoute {
                first,
                second,
                route,
            });
        }
        let registered = Registered {
            task_type,
            definition: task_type.decl.definition_hash(),
            signals: task_type.signals(),
            left: false,
        };
        if self.types.insert((name, version), registered).is_some() {
            return Err(RegistryError::Twice { name, version });
        }
        Ok(self)
    }

    /// Provides a value to all steps that take `&State<T>`, in the place of an earlier one of its type.
    /// Made before the process takes work, and shared by all tasks.
    #[must_use]
    pub fn provide<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// The same, of a value that is made at the start of each process that takes work, on its runtime:
    /// a connection pool, say. A command that only looks, as `describe`, makes none.
    #[must_use]
    pub fn provide_with<T, M, F, E>(mut self, make: M) -> Self
    where
        T: Send + Sync + 'static,
        M: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.states.insert_maker(make);
        self
    }

    /// Makes what [`provide_with`](Self::provide_with) promised.
    ///
    /// # Errors
    /// The first value that cannot be made.
    pub async fn make_states(&mut self) -> Result<(), NotMade> {
        self.states.make().await
    }

    /// The same, of the values alone that code of one step takes.
    ///
    /// # Errors
    /// The first value that cannot be made.
    pub async fn make_states_of(
        &mut self,
        task_type: &TaskType,
        step: &str,
    ) -> Result<(), NotMade> {
        let taken = task_type.states.iter().filter(|it| it.step == step);
        self.states.make_only(taken).await
    }

    /// The first type with a step whose code runs in a process of its own on one of these hosts. An undo and a
    /// probe may run on any.
    #[must_use]
    pub fn isolated_on(&self, hosts: &[Host]) -> Option<&'static str> {
        let mut types = self.iter().map(|task_type| task_type.decl);
        let runs_anywhere = |step: &StepDecl| {
            step.probe.is_some() || matches!(step.undo, UndoDecl::Function { .. })
        };
        let isolated = |step: &StepDecl| {
            step.isolate.is_some() && (hosts.contains(&step.host) || runs_anywhere(step))
        };
        let found = types.find(|decl| decl.steps.iter().any(isolated))?;
        Some(found.name)
    }

    /// What the program provides.
    #[must_use]
    pub const fn states(&self) -> &States {
        &self.states
    }

    /// Whether the program provides all that its task types take.
    ///
    /// # Errors
    /// The first parameter without a value.
    pub fn check_states(&self) -> Result<(), MissingState> {
        self.missing_states().next().map_or(Ok(()), Err)
    }

    /// Each parameter of a declared function for which the program provides no value.
    pub fn missing_states(&self) -> impl Iterator<Item = MissingState> + '_ {
        self.iter().flat_map(|task_type| {
            let missing = task_type.states.iter().filter(|it| !self.states.has(it));
            missing.map(|parameter| MissingState {
                task_type: task_type.decl.name,
                step: parameter.step,
                function: parameter.function,
                type_name: parameter.type_name(),
            })
        })
    }

    /// The full paths of types of which the program provides a value that no declared function
    /// takes, in their order.
    #[must_use]
    pub fn unused_states(&self) -> Vec<&'static str> {
        let taken = self.iter().flat_map(|task_type| task_type.states);
        self.states.besides(taken)
    }

    /// Makes a policy that code outside of tasks uses known by its name, so that settings may
    /// change it.
    #[must_use]
    pub fn with_policy(mut self, policy: NamedPolicy) -> Self {
        self.policies.push(policy);
        self
    }

    /// Says that steps of these types call a service of this name, so that a process can tell at
    /// its start that the settings do not have it. Calls need no such word.
    #[must_use]
    pub fn with_service(mut self, name: &'static str) -> Self {
        self.services.entry(name).or_default();
        self
    }

    /// Adds a task type whose steps call these services: [`with`](Self::with) and
    /// [`with_service`](Self::with_service), and a process can tell which types cannot run without
    /// a service that the settings do not have.
    ///
    /// # Panics
    /// As `with` does.
    #[must_use]
    pub fn with_calls<T: DistributedTask>(mut self, services: &[&'static str]) -> Self {
        for &service in services {
            self.services
                .entry(service)
                .or_default()
                .insert(T::task_type().decl.name);
        }
        self.with::<T>()
    }

    /// Adds a schedule of a task type that was added before; panics where it cannot be, because
    /// that is a mistake in the program.
    ///
    /// # Panics
    /// When [`try_schedule`](Self::try_schedule) would err.
    #[must_use]
    pub fn schedule<T: DistributedTask>(self, schedule: Schedule) -> Self {
        match self.try_schedule(T::task_type().decl.name, schedule) {
            Ok(registry) => registry,
            Err(mistake) => panic!("{mistake}"),
        }
    }

    /// Adds a schedule of a task type that was added before.
    ///
    /// # Errors
    /// When the name is taken or unusable, the type is not registered or takes uploads, or the
    /// times or the request cannot be read.
    pub fn try_schedule(
        mut self,
        task_type: &str,
        schedule: Schedule,
    ) -> Result<Self, ScheduleMistake> {
        let Schedule { name, mut spec } = schedule;
        let mistake = |why: String| ScheduleMistake {
            name: name.clone(),
            why,
        };
        if !is_name(&name) {
            return Err(mistake(NAME.to_owned()));
        }
        task_type.clone_into(&mut spec.task_type);
        let at = |error: RequestError| mistake(format!("{}: {}", error.pointer, error.message));
        schedule::read(&mut spec).map_err(at)?;
        let Some(known) = self.newest(task_type) else {
            return Err(mistake(format!(
                "task type `{task_type}` is not registered: add it with `.with` before"
            )));
        };
        schedule::check(&known, &spec.request).map_err(at)?;
        if self.schedules.insert(name.clone(), spec).is_some() {
            return Err(mistake(
                "it is declared twice: give one of them another name".to_owned(),
            ));
        }
        Ok(self)
    }

    /// Says what becomes of the orphans of a type, all its versions. Without a word they are
    /// deleted.
    #[must_use]
    pub fn orphans<T: DistributedTask>(mut self, rule: OrphanRule) -> Self {
        self.upkeep
            .entry(T::task_type().decl.name)
            .or_default()
            .orphans = Some(rule);
        self
    }

    /// Says what becomes of the orphans of all tasks whose type has no rule of its own, is not
    /// known to this program, or that have no row.
    #[must_use]
    pub fn other_orphans(mut self, rule: OrphanRule) -> Self {
        self.other_orphans = Some(rule);
        self
    }

    /// Sets what becomes of the tasks of a type, all its versions, after they have ended. By
    /// default they are kept without limit.
    #[must_use]
    pub fn retention<T: DistributedTask>(mut self, retention: Retention) -> Self {
        self.upkeep
            .entry(T::task_type().decl.name)
            .or_default()
            .retention = Some(retention);
        self
    }

    /// The services that steps were said to call, by name.
    pub fn services(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.services.keys().copied()
    }

    /// The services that steps of a type were said to call, by name.
    pub fn services_of<'a>(
        &'a self,
        task_type: &'a TaskType,
    ) -> impl Iterator<Item = &'static str> + 'a {
        self.services
            .iter()
            .filter(|(_, types)| types.contains(task_type.decl.name))
            .map(|(service, _)| *service)
    }

    /// The policies of code outside of tasks.
    pub fn policies(&self) -> impl Iterator<Item = &NamedPolicy> {
        self.policies.iter()
    }

    /// The schedules that were declared, by name.
    #[must_use]
    pub const fn schedules(&self) -> &BTreeMap<String, ScheduleSpec> {
        &self.schedules
    }

    /// What becomes of the orphans of a type, where that was declared for it.
    #[must_use]
    pub fn orphan_rule_of(&self, name: &str) -> Option<&OrphanRule> {
        self.upkeep.get(name)?.orphans.as_ref()
    }

    /// What becomes of all other orphans, where that was declared.
    #[must_use]
    pub const fn other_orphan_rule(&self) -> Option<&OrphanRule> {
        self.other_orphans.as_ref()
    }

    /// What becomes of a type's tasks that have ended, where that was declared.
    #[must_use]
    pub fn retention_of(&self, name: &str) -> Option<&Retention> {
        self.upkeep.get(name)?.retention.as_ref()
    }

    /// Whether settings of orphans and retention, by declared name or [`OTHERS`], are of types of
    /// this program.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check_upkeep<O, R>(
        &self,
        orphans: &BTreeMap<String, O>,
        retention: &BTreeMap<String, R>,
    ) -> Result<(), UpkeepMistake> {
        let orphans = orphans.keys().map(|name| ("orphans", name));
        let retention = retention.keys().map(|name| ("retention", name));
        let mut names = orphans.chain(retention);
        if let Some((group, name)) =
            names.find(|(_, name)| *name != OTHERS && self.newest(name).is_none())
        {
            let known: BTreeSet<&str> = self.iter().map(|known| known.decl.name).collect();
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            let why =
                format!("no such task type: known are {known}, and \"{OTHERS}\" for all others");
            let setting = format!("{group}.{name}");
            return Err(UpkeepMistake { setting, why });
        }
        Ok(())
    }

    /// The type of this name and version.
    #[must_use]
    pub fn get(&self, name: &str, version: u32) -> Option<TaskType> {
        self.registered(name, version).map(|it| it.task_type)
    }

    pub(super) fn registered<'a>(&'a self, name: &'a str, version: u32) -> Option<&'a Registered> {
        // The names of its keys live longer than the one that is asked for.
        let types: &BTreeMap<(&str, u32), Registered> = &self.types;
        types.get(&(name, version))
    }

    /// The type under which a task was submitted: name, version and definition are the same. A
    /// changed declaration under the same version would run the wrong code on the wrong outputs.
    #[must_use]
    pub fn of<'a>(&self, submitted: impl Into<TypeRef<'a>>) -> Option<TaskType> {
        let submitted = submitted.into();
        let registered = self.registered(submitted.name, submitted.version)?;
        (registered.definition == submitted.definition).then_some(registered.task_type)
    }

    /// The newest version of the type with this route, or with this declared name: an address takes both.
    #[must_use]
    pub fn by_route(&self, route: &str) -> Option<TaskType> {
        self.rfind(|it| it.decl.route() == route || it.decl.name == route)
    }

    /// The newest version of the type with this declared name.
    #[must_use]
    pub fn newest(&self, name: &str) -> Option<TaskType> {
        self.rfind(|it| it.decl.name == name)
    }

    fn rfind(&self, is_it: impl Fn(&TaskType) -> bool) -> Option<TaskType> {
        let mut types = self.types.values().map(|it| it.task_type);
        types.rfind(is_it)
    }

    /// All of them, by name and version.
    pub fn iter(&self) -> impl Iterator<Item = &TaskType> {
        self.types.values().map(|it| &it.task_type)
    }
}
