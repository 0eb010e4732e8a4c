//! Faults that are planted at the steps of one task type, the engines that they strike in, and what else
//! strikes a task from outside.

use counterstep_contracts::LogPart;
use counterstep_kernel::Engine;
use counterstep_kernel::engine::faults::Fault;
use counterstep_steps::Registry;
use std::collections::BTreeMap;

/// A fault and where it strikes.
#[derive(Debug, Clone)]
pub(crate) struct Planted {
    /// At steps of this type only; `None`: at those of any.
    pub(crate) of: Option<&'static str>,
    pub(crate) fault: Fault,
}

impl Planted {
    pub(crate) const fn anywhere(fault: Fault) -> Self {
        Self { of: None, fault }
    }

    pub(crate) const fn at_steps_of(task_type: &'static str, fault: Fault) -> Self {
        Self {
            of: Some(task_type),
            fault,
        }
    }

    fn strikes(&self, task_type: &str) -> bool {
        self.of.is_none_or(|of| of == task_type)
    }
}

/// # Panics
/// When no type of the registry has a step of the fault's name: it could never strike.
#[track_caller]
pub(crate) fn assert_known(fault: &Fault, registry: &Registry) {
    let mut known = Vec::new();
    for decl in registry.iter().map(|it| it.decl) {
        let steps: Vec<_> = decl
            .steps
            .iter()
            .map(|step| format!("`{}`", step.name))
            .collect();
        if decl.steps.iter().any(|step| step.name == fault.step) {
            return;
        }
        known.push(format!("{} of {}", steps.join(", "), decl.name));
    }
    panic!(
        "no step `{}` to plant a fault at; expected one of {}",
        fault.step,
        known.join("; ")
    )
}

/// A fault as text.
pub(crate) fn in_words(fault: &Fault) -> String {
    let at = match fault.part {
        LogPart::Run => "at",
        LogPart::Undo => "in the undo of",
        LogPart::Probe => "in the probe of",
    };
    let attempt = fault
        .attempt
        .map(|attempt| format!(", in attempt {attempt}"));
    format!(
        "{:?} {at} `{}`{}",
        fault.kind,
        fault.step,
        attempt.unwrap_or_default()
    )
}

/// Faults that a test has planted. One that has not struck when this is dropped fails the test: it would pass without having
/// shown anything.
#[derive(Debug)]
pub(crate) struct MustStrike(Vec<Fault>);

impl MustStrike {
    pub(crate) fn all(faults: &[Fault]) -> Self {
        Self(faults.to_vec())
    }
}

impl Drop for MustStrike {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if let Some(missed) = self.0.iter().find(|fault| fault.struck() == 0) {
            panic!("the planted fault did not strike: {}", in_words(missed));
        }
    }
}

/// What happens to a task from outside, before it is run to its rest.
#[derive(Debug, Clone)]
pub(crate) enum Before {
    /// Its host is lost at this fault.
    Lost(Planted),
    /// A client cancels it.
    Cancelled,
    /// It is parked on its way forward, and a person has it undone.
    Undone,
}

/// The engines that give turns. A fault knows no types, so a type with faults of its own has an
/// engine of its own, with the same ports.
#[derive(Debug)]
pub(crate) struct Engines {
    of_others: Engine,
    by_type: BTreeMap<&'static str, Engine>,
}

impl Engines {
    /// Engines like this one, with these faults in front of its own.
    pub(crate) fn with(engine: &Engine, planted: &[Planted], id: &str) -> Self {
        let engine_of = |strikes: &dyn Fn(&Planted) -> bool| {
            let faults = planted.iter().filter(|it| strikes(it));
            let faults: Vec<_> = faults.map(|it| it.fault.clone()).collect();
            if faults.is_empty() && *engine.id == *id {
                return engine.clone();
            }
            let mut settings = (*engine.settings).clone();
            settings.faults.splice(0..0, faults);
            let (ports, registry) = (engine.ports.clone(), engine.registry.clone());
            Engine::new(ports, registry, settings, id)
        };
        let types = planted.iter().filter_map(|it| it.of);
        Self {
            of_others: engine_of(&|it| it.of.is_none()),
            by_type: types
                .map(|of| (of, engine_of(&|it| it.strikes(of))))
                .collect(),
        }
    }

    /// The one for tasks of this type.
    pub(crate) fn of(&self, task_type: &str) -> &Engine {
        self.by_type.get(task_type).unwrap_or(&self.of_others)
    }
}
