//! A whole engine in a temporary folder, as a test sets it up: with its faults, its state, its
//! services and its tables.

use crate::answers::Answers;
use crate::clock::TestClock;
use crate::database;
use crate::form::{Form, submit};
use crate::many_tasks::{Site, with_states};
use crate::planted::{Before, Engines, MustStrike, Planted, assert_known};
use crate::service_of::{OwnService, ServiceOf};
use crate::test_task::TestTask;
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::ports::{HttpServices, ServiceAnswer, ServiceError, ServiceRequest};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_steps::Registry;
use std::sync::Arc;
use std::time::Duration;

/// Longer than a busy machine delays a heartbeat.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// What a test sets up.
#[derive(Debug)]
pub struct Harness {
    pub(crate) registry: Registry,
    settings: EngineSettings,
    /// At the steps of one type only; the others are in the settings.
    planted: Vec<Planted>,
    /// In this order.
    before: Vec<Before>,
    services: Option<Arc<dyn HttpServices>>,
    own_services: Vec<OwnService>,
    tables: Vec<String>,
}

impl Harness {
    /// On the embedded adapters, with a lease that outlasts every pause of a busy machine: where no
    /// host is lost, none is to look so.
    #[must_use]
    pub fn embedded(registry: Registry) -> Self {
        let settings = EngineSettings {
            lease: LEASE,
            step_timeout: Duration::from_secs(2),
            cancel_grace: Duration::from_millis(100),
            ..EngineSettings::default()
        };
        Self {
            registry,
            settings,
            planted: Vec::new(),
            before: Vec::new(),
            services: None,
            own_services: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// The step does its work and then fails permanently.
    ///
    /// # Panics
    /// When no type has such a step; so do all that plant a fault. One that has not struck at the end of the test fails it.
    #[must_use]
    #[track_caller]
    pub fn fail_at(self, step: &str) -> Self {
        self.fault(Fault::at(step, FaultKind::FailAfter))
    }

    /// The host is lost in the first attempt of the step, after its work and before its commit.
    #[must_use]
    #[track_caller]
    pub fn crash_at(self, step: &str) -> Self {
        let fault = Fault::at(step, FaultKind::Hang).on_attempt(1);
        self.lose_host(Planted::anywhere(fault))
    }

    /// The host is lost in the first attempt of the step, before its work.
    #[must_use]
    #[track_caller]
    pub fn crash_before(self, step: &str) -> Self {
        let fault = Fault::at(step, FaultKind::HangBefore).on_attempt(1);
        self.lose_host(Planted::anywhere(fault))
    }

    /// The host is lost in the first attempt of the step's undo.
    #[must_use]
    #[track_caller]
    pub fn crash_in_undo_of(self, step: &str) -> Self {
        let fault = Fault::at(step, FaultKind::Hang).on_attempt(1).in_undo();
        self.lose_host(Planted::anywhere(fault))
    }

    /// The host is lost in the first try of the step's probe, before it has looked. Behind
    /// [`crash_at`](Self::crash_at) or [`crash_before`](Self::crash_before): without an attempt in
    /// doubt no probe runs.
    #[must_use]
    #[track_caller]
    pub fn crash_in_probe_of(self, step: &str) -> Self {
        let fault = Fault::at(step, FaultKind::HangBefore).on_attempt(1);
        self.lose_host(Planted::anywhere(fault.in_probe()))
    }

    /// With this fault.
    #[must_use]
    #[track_caller]
    pub fn fault(mut self, fault: Fault) -> Self {
        assert_known(&fault, &self.registry);
        self.settings.faults.push(fault);
        self
    }

    pub(crate) fn plant(mut self, planted: Planted) -> Self {
        self.planted.push(planted);
        self
    }

    #[track_caller]
    pub(crate) fn lose_host(mut self, at: Planted) -> Self {
        assert_known(&at.fault, &self.registry);
        self.before.push(Before::Lost(at));
        self
    }

    pub(crate) fn cancelled(mut self) -> Self {
        self.before.push(Before::Cancelled);
        self
    }

    /// A person has it undone once it is parked on its way forward.
    pub(crate) fn undone_when_parked(mut self) -> Self {
        self.before.push(Before::Undone);
        self
    }

    /// With these settings, changed.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut EngineSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// With a value for steps that take `&State<T>`, in the place of what the registry provides.
    #[must_use]
    pub fn provide<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.registry = self.registry.provide(value);
        self
    }

    /// With tables of one's own in its database, for steps that write to them: statements for SQLite,
    /// executed before anything is submitted. [`TestTask::rows`] and [`Site::rows`] read them.
    #[must_use]
    pub fn tables(mut self, sql: &str) -> Self {
        self.tables.push(sql.to_owned());
        self
    }

    /// With services that steps call, besides those that a closure implements.
    #[must_use]
    pub fn services(mut self, services: Arc<dyn HttpServices>) -> Self {
        self.services = Some(services);
        self
    }

    /// With a service of this name that a closure stands for, in the place of an earlier one. Others
    /// are as before.
    #[must_use]
    pub fn service(
        mut self,
        name: &str,
        answer: impl Fn(&ServiceRequest) -> Result<ServiceAnswer, ServiceError> + Send + Sync + 'static,
    ) -> Self {
        self.own_services.push(OwnService {
            name: name.to_owned(),
            answer: Box::new(answer),
        });
        self
    }

    pub(crate) fn has_services(&self) -> bool {
        self.services.is_some() || !self.own_services.is_empty()
    }

    /// Starts the engine without a task, for tests of many tasks at once, of one type or of several.
    ///
    /// # Panics
    /// When anything goes wrong: it is a test.
    pub async fn start(self) -> Site {
        let mut site = Site::start(self.registry, self.settings, &self.tables).await;
        let services = &mut site.engine.ports.services;
        *services = services_of(self.services, self.own_services, services.clone());
        site
    }

    /// Starts the engine and submits.
    ///
    /// # Panics
    /// When anything goes wrong: it is a test.
    pub async fn submit(self, mut form: Form) -> TestTask {
        let answers = Answers::of(std::mem::take(&mut form.answers), &self.registry);
        let folder = tempfile::Builder::new()
            .prefix("counterstep-test-")
            .tempdir()
            .expect("a temporary folder");
        let clock = TestClock::new();
        let mut ports = database::open(folder.path(), &clock).await;
        for sql in &self.tables {
            database::execute(folder.path(), sql);
        }
        ports.services = services_of(self.services, self.own_services, ports.services);
        let registry = Arc::new(with_states(self.registry).await);
        let must_strike = MustStrike::all(&self.settings.faults);
        let engine = Engine::new(ports, registry, self.settings, "test");
        // A step that is to be struck must not have run ahead of its task.
        let lost = self.before.iter().filter_map(|it| match it {
            Before::Lost(at) => Some(at),
            Before::Cancelled | Before::Undone => None,
        });
        let struck: Vec<_> = lost.chain(&self.planted).cloned().collect();
        let to = form.task_type(&engine.registry).decl.name;
        let id = submit(Engines::with(&engine, &struck, "test").of(to), form).await;
        clock.runs(id);
        TestTask {
            engine,
            id,
            clock,
            planted: self.planted,
            before: self.before,
            answers,
            folder,
            _must_strike: must_strike,
        }
    }
}

/// The closures, before what was given, else before the default.
fn services_of(
    given: Option<Arc<dyn HttpServices>>,
    own: Vec<OwnService>,
    default: Arc<dyn HttpServices>,
) -> Arc<dyn HttpServices> {
    let others = given.unwrap_or(default);
    own.into_iter()
        .fold(others, |others, own| Arc::new(ServiceOf { own, others }))
}
