//! What `why` offers of a task in each state is what the rules take of it, but for what the table of moves marks with a reason.

use crate::errand::only;
use counterstep_contracts::operator::OperatorMove;
use counterstep_contracts::{Direction, SettledAs, StepStatus, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::Engine;
use counterstep_kernel::client::{accept_cancel, accept_signal, again_request, again_type};
use counterstep_kernel::draft::Draft;
use counterstep_kernel::operator::{
    Recount, Resolution, Retrial, go_on, recount, settle, taken, why,
};
use counterstep_kernel::record::{ChildrenRow, ProbeRow, SignalRow, StepRow, TaskRecord, UndoGoal};
use counterstep_macros::distributed_task;
use counterstep_steps::{
    AwaitSignal, AwaitTask, Probe, Registry, Sleep, StepContext, StepResult, UndoResult,
};
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Wish {
    city: String,
}

/// One of everything that a person can decide about.
struct Tour;

#[distributed_task(name = "Tour", queue = "tours", max_recoveries = 3, cancellable)]
impl Tour {
    type Request = Wish;
    type Response = ();

    #[step(1, host = "worker", undo = unbook)]
    async fn book(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    async fn unbook(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", group = "talk")]
    fn consent(_wish: &Wish) -> AwaitSignal<bool> {
        AwaitSignal::within("30d")
    }

    #[step(3, host = "worker", group = "talk")]
    fn nap(_wish: &Wish) -> Sleep {
        Sleep::for_("5m")
    }

    #[step(4, host = "worker", group = "shop", probe = look, undo = refund, on_exhausted = "dead_letter")]
    async fn pay(_ctx: &StepContext) -> StepResult<u64> {
        Ok(2)
    }

    async fn look(_ctx: &StepContext) -> StepResult<Probe<u64>> {
        Ok(Probe::NothingHappened)
    }

    async fn refund(_out: Option<u64>) -> UndoResult {
        Ok(())
    }

    #[step(5, host = "worker", group = "shop")]
    fn parts(wish: &Wish) -> AwaitTask<Kiosk> {
        AwaitTask::of(wish)
    }

    #[step(6, host = "worker", undo = recall, on_exhausted = "dead_letter")]
    async fn send(_ctx: &StepContext) -> StepResult<i64> {
        Ok(3)
    }

    async fn recall(_out: Option<i64>) -> UndoResult {
        Ok(())
    }

    fn respond() {}
}

/// Its tasks cannot be cancelled.
struct Kiosk;

#[distributed_task(name = "Kiosk", queue = "tours")]
impl Kiosk {
    type Request = Wish;
    type Response = ();

    #[step(1, host = "worker")]
    fn order(_wish: &Wish) -> AwaitSignal<bool> {
        AwaitSignal::within("30d")
    }

    fn respond() {}
}

/// Other definitions under the same names.
mod changed {
    use super::{StepContext, StepResult, Wish, distributed_task};

    pub(super) struct Tour;

    #[distributed_task(name = "Tour", queue = "tours", cancellable)]
    impl Tour {
        type Request = Wish;
        type Response = ();

        #[step(1, host = "worker", no_undo = "does nothing")]
        async fn book(_ctx: &StepContext) -> StepResult<u32> {
            Ok(1)
        }

        fn respond() {}
    }

    pub(super) struct Kiosk;

    #[distributed_task(name = "Kiosk", queue = "tours", cancellable)]
    impl Kiosk {
        type Request = Wish;
        type Response = ();

        #[step(1, host = "worker", no_undo = "does nothing")]
        async fn order(_ctx: &StepContext) -> StepResult<u32> {
            Ok(1)
        }

        fn respond() {}
    }
}

fn registry() -> Registry {
    Registry::new().with::<Tour>().with::<Kiosk>()
}

/// A task in a state.
struct State {
    name: &'static str,
    record: TaskRecord,
}

/// The states, from tasks as they were submitted.
struct States {
    tour: TaskRecord,
    kiosk: TaskRecord,
    all: Vec<State>,
}

impl States {
    fn add(
        &mut self,
        name: &'static str,
        status: TaskStatus,
        steps: &[(&str, StepStatus)],
        more: impl FnOnce(&mut TaskRecord),
    ) {
        let record = self.tour.clone();
        self.add_of(record, name, status, steps, more);
    }

    fn add_of(
        &mut self,
        mut record: TaskRecord,
        name: &'static str,
        status: TaskStatus,
        steps: &[(&str, StepStatus)],
        more: impl FnOnce(&mut TaskRecord),
    ) {
        record.task.status = status;
        if matches!(
            status,
            TaskStatus::Compensating | TaskStatus::CompensationFailed | TaskStatus::Failed
        ) {
            record.task.goal = Some(UndoGoal::Failed);
        }
        for (name, status) in steps {
            let seq = record.task.audit_seq;
            let row = row(&mut record, name);
            row.status = *status;
            if *status != StepStatus::Pending {
                row.started_seq = Some(seq);
                row.attempts.0 = 1;
            }
        }
        more(&mut record);
        self.all.push(State { name, record });
    }
}

fn row<'a>(record: &'a mut TaskRecord, name: &str) -> &'a mut StepRow {
    let mut rows = record.steps.iter_mut();
    rows.find(|row| row.name == name).expect("a step")
}

fn waits_for(reason: WaitReason) -> impl FnOnce(&mut TaskRecord) {
    move |record| record.task.waiting = Some(reason)
}

fn gave_up_probing(record: &mut TaskRecord, step: &str) {
    row(record, step).probe = Some(ProbeRow {
        retries_used: 3,
        gave_up: true,
    });
}

fn has_submitted(record: &mut TaskRecord) {
    row(record, "parts").children = Some(ChildrenRow {
        started: 1,
        ..ChildrenRow::default()
    });
}

#[rustfmt::skip] // A table is read by its columns.
fn states(tour: TaskRecord, kiosk: TaskRecord) -> Vec<State> {
    use StepStatus as S;
    use TaskStatus as T;
    let mut all = States { tour, kiosk, all: Vec::new() };
    let cancelled = |record: &mut TaskRecord| record.task.cancel_requested_at = Some(record.now);
    let lost = |record: &mut TaskRecord| record.task.recovery_attempts = 1;
    let (booked, talks) = (("book", S::Completed), [("book", S::Completed), ("consent", S::Waiting), ("nap", S::Waiting)]);
    let talked = [booked, ("consent", S::Completed), ("nap", S::Completed)];
    let with = |more: &[(&'static str, S)]| [&talked[..], more].concat();

    all.add("submitted", T::Submitted, &[], |_| {});
    all.add("dispatched", T::Dispatched, &[], |_| {});
    all.add("runs", T::Running, &[("book", S::Running)], |_| {});
    all.add("runs, a cancel was accepted", T::Running, &[("book", S::Running)], cancelled);
    all.add("runs after a lost host", T::Running, &[("book", S::Running)], lost);
    all.add("waits for its signal", T::Waiting, &talks, waits_for(WaitReason::Signal));
    all.add("waits for a timer, then for its signal", T::Waiting, &talks, waits_for(WaitReason::Timer));
    all.add("its signal has come", T::Waiting, &talks, |record| {
        let (body, actor, at) = (json!(true), "client".to_owned(), record.now);
        row(record, "consent").signal = Some(SignalRow { body, actor, at });
        record.task.waiting = Some(WaitReason::Signal);
    });
    all.add("waits for its signal, a cancel was accepted", T::Waiting, &talks, |record| {
        cancelled(record);
        record.task.waiting = Some(WaitReason::Signal);
    });
    all.add("its signal timed out, and its fallback is tried again", T::Waiting, &talks, |record| {
        row(record, "consent").in_fallback = true;
        record.task.waiting = Some(WaitReason::Signal);
    });
    all.add("waits for a retry", T::Waiting, &with(&[("pay", S::Waiting)]), waits_for(WaitReason::Retry));
    all.add("waits for a task", T::Waiting, &with(&[("pay", S::Completed), ("parts", S::Waiting)]), |record| {
        has_submitted(record);
        record.task.waiting = Some(WaitReason::Children);
    });
    all.add("waits for a host of its version", T::Waiting, &[booked], waits_for(WaitReason::Version));
    let kiosk = all.kiosk.clone();
    all.add_of(kiosk.clone(), "cannot be cancelled, dispatched", T::Dispatched, &[], |_| {});
    all.add_of(kiosk, "cannot be cancelled, waits for its signal", T::Waiting, &[("order", S::Waiting)], waits_for(WaitReason::Signal));
    all.add("is undone", T::Compensating, &with(&[("pay", S::Failed)]), |_| {});
    all.add("is undone after a cancel", T::Compensating, &with(&[("pay", S::Compensating)]), |record| {
        cancelled(record);
        record.task.goal = Some(UndoGoal::Cancelled);
    });
    all.add("is undone after a lost host", T::Compensating, &with(&[("pay", S::Compensating)]), lost);
    let paid = [("pay", S::Completed), ("parts", S::Completed)];
    all.add("an undo gave up", T::CompensationFailed, &with(&[("pay", S::CompensationFailed)]), |_| {});
    all.add("two undos gave up", T::CompensationFailed, &with(&[("pay", S::CompensationFailed), ("parts", S::Completed), ("send", S::CompensationFailed)]), |_| {});
    all.add("the probe of an undo gave up", T::CompensationFailed, &with(&[("pay", S::CompensationFailed)]), |record| gave_up_probing(record, "pay"));
    all.add("an undo gave up after a lost host", T::CompensationFailed, &with(&[("pay", S::CompensationFailed)]), lost);
    all.add("an undo gave up after a cancel", T::CompensationFailed, &with(&[("pay", S::CompensationFailed)]), |record| {
        cancelled(record);
        record.task.goal = Some(UndoGoal::Cancelled);
    });
    all.add("a step gave up", T::DeadLettered, &with(&[paid[0], paid[1], ("send", S::Failed)]), |_| {});
    all.add("a probe gave up", T::DeadLettered, &with(&[("pay", S::InDoubt)]), |record| gave_up_probing(record, "pay"));
    all.add("a step gave up after a lost host", T::DeadLettered, &with(&[paid[0], paid[1], ("send", S::Failed)]), lost);
    all.add("a step gave up beside a task", T::DeadLettered, &with(&[("pay", S::Failed), ("parts", S::Waiting)]), has_submitted);
    all.add("a task of it gave up", T::DeadLettered, &with(&[("pay", S::Completed), ("parts", S::Failed)]), has_submitted);
    all.add("completed", T::Completed, &with(&[paid[0], paid[1], ("send", S::Completed)]), |_| {});
    all.add("failed", T::Failed, &[("book", S::Failed)], |_| {});
    all.add("failed after a lost host", T::Failed, &[("book", S::Failed)], lost);
    all.add("cancelled", T::Cancelled, &[("book", S::Compensated)], cancelled);
    all.add("resolved", T::Resolved, &with(&[paid[0], paid[1], ("send", S::Failed)]), |_| {});
    all.add("completed, and its request was erased", T::Completed, &talked, |record| record.task.request = Value::Null);
    all.all
}

/// What a person can do with a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Try {
    Cancel,
    Signal,
    Retry,
    Undo,
    Step(SettledAs),
    Settle(SettledAs),
    Recount,
    RunAgain,
}

impl Try {
    const OF_TASK: [Self; 8] = [
        Self::Cancel,
        Self::Retry,
        Self::Undo,
        Self::Settle(SettledAs::Undone),
        Self::Settle(SettledAs::Done),
        Self::Settle(SettledAs::Skipped),
        Self::Settle(SettledAs::NotNeeded),
        Self::Recount,
    ];

    const OF_STEP: [Self; 4] = [
        Self::Signal,
        Self::Step(SettledAs::Done),
        Self::Step(SettledAs::Undone),
        Self::Step(SettledAs::Skipped),
    ];

    /// All of them, each with its step.
    fn all(record: &TaskRecord) -> Vec<(Self, Option<String>)> {
        let of_task = Self::OF_TASK.into_iter().chain([Self::RunAgain]);
        let of_steps = record.steps.iter().flat_map(|row| {
            let step = row.name.clone();
            Self::OF_STEP.map(move |it| (it, Some(step.clone())))
        });
        of_task.map(|it| (it, None)).chain(of_steps).collect()
    }

    /// What it asks of the interface, without what a person adds.
    fn call(self, task: TaskId, step: Option<&str>) -> String {
        let of = |what: &str| format!("POST /api/tasks/{task}/{what}");
        match self {
            Self::Cancel => format!("DELETE /api/tasks/{task}"),
            Self::Signal => of(&format!("signals/{}", step.unwrap_or_default())),
            Self::Retry => of("retry {}"),
            Self::Undo => of(r#"retry {"direction":"undo"}"#),
            Self::Step(settled) => of(&format!("resolve {}", json!({"as": settled, "step": step}))),
            Self::Settle(settled) => of(&format!("resolve {}", json!({"as": settled}))),
            Self::Recount => of(r#"recoveries {"recovery_attempts":0}"#),
            Self::RunAgain => of("run-again {}"),
        }
    }

    /// Whether the rules take it.
    fn is_taken(self, engine: &Engine, record: &TaskRecord, step: Option<&str>) -> bool {
        let (actor, note) = ("operator:kim".to_owned(), "seen to it".to_owned());
        let registry = &engine.registry;
        if self == Self::RunAgain {
            let again = again_type(registry, &record.task, false);
            return again.is_ok_and(|it| again_request(&it, &record.task, None).is_ok());
        }
        let Some(task_type) = registry.of(&*record.task) else {
            return false;
        };
        let resolution = |settled, output| Resolution {
            step: step.map(str::to_owned),
            settled,
            output,
            task: None,
            actor: actor.clone(),
            note: note.clone(),
            bulk: None,
        };
        let retrial = |direction| Retrial {
            direction,
            edit: None,
            actor: actor.clone(),
            note: note.clone(),
            bulk: None,
        };
        let to = Recount {
            attempts: 0,
            actor: actor.clone(),
            note: note.clone(),
        };
        let mut draft = Draft::new(task_type.decl, record.clone(), &*actor);
        let draft_of = &mut draft;
        let is_ruled = match self {
            Self::Cancel => accept_cancel(draft_of, None).is_ok_and(|it| it.is_ok()),
            Self::Signal => {
                let name = step.unwrap_or_default();
                let ruled = accept_signal(draft_of, name, &json!(true), &actor);
                ruled.is_ok_and(|it| it.is_ok())
            }
            Self::Retry => {
                go_on(engine, &task_type, draft_of, &retrial(None)).is_ok_and(|it| it.is_ok())
            }
            Self::Undo => {
                // What is being undone goes on by the same word: that is its retry.
                let is_forward = record.task.status != TaskStatus::CompensationFailed;
                let ruled = go_on(
                    engine,
                    &task_type,
                    draft_of,
                    &retrial(Some(Direction::Undo)),
                );
                is_forward && ruled.is_ok_and(|it| it.is_ok())
            }
            Self::Step(settled) => {
                let outputs = [json!(1), Value::Null].into_iter().map(Some);
                let outputs = outputs.filter(|_| settled == SettledAs::Done).chain([None]);
                // One of them fits its type.
                outputs.into_iter().any(|output| {
                    let mut draft = Draft::new(task_type.decl, record.clone(), &*actor);
                    let ruled = settle(&task_type, &mut draft, &resolution(settled, output));
                    ruled.is_ok_and(|it| it.is_ok()) && !draft.is_empty()
                })
            }
            Self::Settle(settled) => {
                settle(&task_type, draft_of, &resolution(settled, None)).is_ok_and(|it| it.is_ok())
            }
            Self::Recount => recount(draft_of, &to).is_ok_and(|it| it.is_ok()),
            Self::RunAgain => unreachable!("it is no change of the task"),
        };
        // What was accepted before is accepted again, and changes nothing.
        is_ruled && (!draft.is_empty() || matches!(self, Self::Step(_)))
    }
}

/// What a move asks of the interface, without what a person adds.
fn call(can: &OperatorMove) -> String {
    let mut body = can.body.clone().unwrap_or(Value::Null);
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|name, _| name != "note" && name != "output");
    }
    let body = Some(body).filter(|body| !body.is_null());
    let body = body.map_or_else(String::new, |body| format!(" {body}"));
    format!("{} {}{body}", can.method, can.path)
}

/// The engine of a program with these types.
async fn engine(registry: Registry) -> Engine {
    Harness::embedded(registry).start().await.engine.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_why_offers_of_a_task_is_what_the_rules_take_of_it() {
    let site = Harness::embedded(registry()).start().await;
    let wish = |form: Form| form.field("city", "Bonn");
    let tour = site.submit(wish(Form::to::<Tour>())).await;
    let kiosk = site.submit(wish(Form::to::<Kiosk>())).await;
    let states = states(site.record(tour).await, site.record(kiosk).await);
    let changed = Registry::new()
        .with::<changed::Tour>()
        .with::<changed::Kiosk>();
    let programs = [
        ("", site.engine.clone()),
        (
            " (the program does not know its type)",
            engine(only::<crate::errand::Errand>()).await,
        ),
        (
            " (the program has another definition)",
            engine(changed).await,
        ),
    ];
    let (mut wrong, mut names, mut quiet_names) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for State { name, record } in &states {
        for (of, engine) in &programs {
            let why = why(&engine.registry, record);
            assert_complete(&why.operator_can);
            names.extend(why.operator_can.iter().map(|can| can.name.clone()));
            let offered: BTreeSet<_> = why.operator_can.iter().map(call).collect();
            let marked = taken(&engine.registry, record).into_iter();
            let marked: Vec<_> = marked.filter(|it| it.quiet.is_some()).collect();
            quiet_names.extend(marked.iter().map(|it| it.can.name.clone()));
            let quiet: BTreeSet<_> = marked.iter().map(|it| call(&it.can)).collect();
            let mut known = BTreeSet::new();
            for (it, step) in Try::all(record) {
                let step = step.as_deref();
                let call = it.call(record.task.id, step);
                let is_taken = it.is_taken(engine, record, step);
                let what = match (offered.contains(&call), quiet.contains(&call), is_taken) {
                    (true, true, _) => Some("is offered, and is marked as one that is not"),
                    (true, false, false) => Some("is offered and refused"),
                    (false, true, false) => Some("is marked as one that is taken, and is refused"),
                    (false, false, true) => Some("is taken and not offered"),
                    (true, false, true) | (false, true, true) | (false, false, false) => None,
                };
                let step = step.unwrap_or_default();
                wrong.extend(what.map(|what| format!("{name}{of}: {it:?} {step} {what}")));
                known.insert(call);
            }
            let all: BTreeSet<_> = offered.union(&quiet).cloned().collect();
            let other: Vec<_> = all.difference(&known).collect();
            assert!(other.is_empty(), "{name}{of}: {other:?}");
        }
    }
    assert!(states.len() >= 30, "{}", states.len());
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    // Each row of the table is offered in one of these states.
    assert_eq!(names, documented());
    assert_eq!(names.len(), 13);
    let quiet = ["recount", "settle-done", "settle-not-needed", "signal"];
    assert!(quiet_names.iter().eq(quiet), "{quiet_names:?}");
}

/// The names of a column of the documentation.
fn documented() -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http.md");
    let text = std::fs::read_to_string(path).expect("the documentation");
    let (_, section) = text.split_once("\n### Moves\n").expect("a section");
    let (_, table) = section.split_once("\n|---").expect("a table");
    let rows = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let rows = rows.filter_map(|line| line.split('|').nth(1));
    let names = rows.flat_map(|cell| cell.split('\u{b7}'));
    names
        .map(|name| name.trim_matches([' ', '`']).to_owned())
        .collect()
}

/// Each has what a page, and a person, go by.
fn assert_complete(moves: &[OperatorMove]) {
    for can in moves {
        let texts = [&can.title, &can.does, &can.button];
        assert!(
            texts
                .iter()
                .all(|text| !text.is_empty() && !text.contains("{}")),
            "{can:?}"
        );
        assert!(can.operation.is_some() && can.role.is_some(), "{can:?}");
        let note = can.body.as_ref().map(|body| &body["note"]);
        assert!(note.is_none_or(|note| note == "why"), "{can:?}");
        assert!(can.words().is_some(), "no command: {can:?}");
    }
}
