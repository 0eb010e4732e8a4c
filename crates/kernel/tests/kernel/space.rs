//! Everything that the judge can be asked: each state of a task with none, one or two steps, and
//! each event. Small enough to be tried whole, so nothing about the judge needs to be sampled.

use counterstep_contracts::{StepStatus, TaskStatus};
use counterstep_kernel::saga::{
    Event, Illegal, LifecycleEvent, Ruling, State, StepEvent, StepState, judge,
};
use std::hash::{Hash, Hasher};

/// One state that the judge can be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) status: Option<TaskStatus>,
    pub(super) cancel_requested: bool,
    pub(super) is_child: bool,
    pub(super) steps: Vec<StepState>,
}

// By hand: the judge's own `StepState` has no use for a hash.
impl Hash for Case {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.status, self.cancel_requested, self.is_child).hash(hasher);
        self.steps
            .iter()
            .for_each(|step| (step.status, step.effects, step.started).hash(hasher));
    }
}

impl Case {
    /// A task that does not exist yet, with two steps.
    pub(super) fn unborn(is_child: bool, effects: [bool; 2]) -> Self {
        let steps = effects
            .map(|effects| StepState {
                status: StepStatus::Pending,
                effects,
                started: false,
            })
            .to_vec();
        Self {
            status: None,
            cancel_requested: false,
            is_child,
            steps,
        }
    }

    pub(super) fn state(&self) -> State<'_> {
        State {
            status: self.status,
            cancel_requested: self.cancel_requested,
            is_child: self.is_child,
            steps: &self.steps,
        }
    }

    pub(super) fn judge(&self, event: Event) -> Result<Ruling, Illegal> {
        judge(&self.state(), event)
    }

    pub(super) fn any_step(&self, status: StepStatus) -> bool {
        self.steps.iter().any(|step| step.status == status)
    }

    /// What comes of a ruling, as the draft does it.
    fn after(&self, event: Event, ruling: Ruling) -> Self {
        let mut next = self.clone();
        next.status = Some(ruling.task);
        next.cancel_requested |= event == Event::Task(LifecycleEvent::CancelRequested);
        if let Some((at, to)) = ruling.step {
            next.steps[at].status = to;
            next.steps[at].started |= matches!(
                event,
                Event::Step(_, StepEvent::Started | StepEvent::Supplied)
            );
        }
        next
    }

    /// What can come of a ruling: an attempt that failed may have been a call that was never sent.
    fn outcomes(&self, event: Event, ruling: Ruling) -> Vec<Self> {
        let next = self.after(event, ruling);
        let mut unsent = next.clone();
        if let Event::Step(at, StepEvent::Failed | StepEvent::Retries | StepEvent::FallsBack) =
            event
        {
            unsent.steps[at].started = false;
        }
        if unsent == next {
            vec![next]
        } else {
            vec![next, unsent]
        }
    }

    /// The same with the steps in the other order. The samples concern the first step, and the
    /// judge does not look at the order, so the events of a second step are those of the first in
    /// the mirror.
    fn mirrored(&self) -> Self {
        let mut mirrored = self.clone();
        mirrored.steps.reverse();
        mirrored
    }

    /// All that can happen next, to either step.
    pub(super) fn successors(&self) -> Vec<(Event, Self)> {
        let mut next = Vec::new();
        for event in Event::samples() {
            if let Ok(ruling) = self.judge(event) {
                next.extend(
                    self.outcomes(event, ruling)
                        .into_iter()
                        .map(|next| (event, next)),
                );
            }
            let mirrored = self.mirrored();
            if event.step().is_some()
                && self.steps.len() == 2
                && let Ok(ruling) = mirrored.judge(event)
            {
                next.extend(
                    mirrored
                        .outcomes(event, ruling)
                        .into_iter()
                        .map(|next| (event, next.mirrored())),
                );
            }
        }
        next
    }
}

/// Each state of a task, that of one which does not exist included.
pub(super) fn statuses() -> impl Iterator<Item = Option<TaskStatus>> {
    std::iter::once(None).chain(TaskStatus::ALL.iter().copied().map(Some))
}

/// Every case there is.
pub(super) fn cases() -> Vec<Case> {
    let step = |&status: &StepStatus| {
        // A step that was skipped never started; one that is pending may have, before its scratch
        // was lost; one that failed or will be tried again has, unless its calls were never sent;
        // any other has.
        let started: &[bool] = match status {
            StepStatus::Skipped => &[false],
            StepStatus::Pending | StepStatus::Waiting | StepStatus::Failed => &[false, true],
            _ => &[true],
        };
        started.iter().flat_map(move |&started| {
            [true, false].map(|effects| StepState {
                status,
                effects,
                started,
            })
        })
    };
    let each: Vec<StepState> = StepStatus::ALL.iter().flat_map(step).collect();
    let mut mixes = vec![Vec::new()];
    mixes.extend(each.iter().map(|&one| vec![one]));
    mixes.extend(
        each.iter()
            .flat_map(|&one| each.iter().map(move |&other| vec![one, other])),
    );
    let mut cases = Vec::new();
    for status in statuses() {
        for (cancel_requested, is_child) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            cases.extend(mixes.iter().map(|steps| Case {
                status,
                cancel_requested,
                is_child,
                steps: steps.clone(),
            }));
        }
    }
    cases
}
