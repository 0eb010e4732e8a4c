//! Faults that are planted at the steps of one task type, the engines that they strike in, and what else
//! strikes a task from outside.

use counterstep_kernel::Engine;
use counterstep_kernel::faults::Fault;
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
