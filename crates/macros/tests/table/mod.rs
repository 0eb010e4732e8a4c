//! What stands in the declaration and the code that the macro writes.

use counterstep_macros::distributed_task;
use counterstep_steps::contracts::declaration::InputDecl;
use counterstep_steps::contracts::{
    Host, OnExhausted, OnLost, OnUndoFailure, StepDecl, StepKind, TaskDecl, UndoDecl, WhenCutOff,
};
use counterstep_steps::declare::Value;
use counterstep_steps::task::{self, Run};
use counterstep_steps::{
    DistributedTask as _, FileName, Inputs, Registry, RetryPolicy, StepContext, StepResult,
    StoredFile, UndoResult, UploadOne, UploadedFile, Work,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct Order {
    id: u32,
    gift: bool,
    paper: UploadedFile,
}
#[derive(Serialize, Deserialize)]
struct Receipt(u32);

const PATIENT: RetryPolicy = RetryPolicy::constant("2s").max_retries(7);

struct PlaceOrder;

#[distributed_task(
    timeout = "10m",
    lease = "3s",
    on_lost = "fail",
    cancellable,
    on_undo_failure = "continue"
)]
impl PlaceOrder {
    type Request = Order;
    type Response = Vec<(u32, bool)>;

    #[step(20, host = "worker", undo = refund, retry = self::PATIENT, timeout = "30s", on_exhausted = "dead_letter")]
    async fn charge(
        ctx: &StepContext,
        order: &Order,
        upload_paper: &StoredFile,
    ) -> StepResult<Receipt> {
        let _ = (ctx, upload_paper);
        Ok(Receipt(order.id))
    }

    #[step(10, host = "api")]
    fn upload_paper(order: &Order) -> UploadOne {
        UploadOne::to("papers", &order.paper)
    }

    #[step(30, host = "worker", heavy, heartbeat = "30s", scratch = "2GiB", isolate = "process", memory = "512MiB", when = is_gift, group = "pack", no_undo = "paper is cheap")]
    async fn wrap() -> StepResult<Vec<Option<u8>>> {
        Ok(Vec::new())
    }

    #[step(31, host = "worker", group = "pack")]
    #[pure]
    async fn weigh(_slip: &Receipt) -> StepResult<()> {
        Ok(())
    }

    async fn refund(_out: Option<Receipt>, _order: &Order) -> UndoResult {
        Ok(())
    }

    fn is_gift(order: &Order) -> bool {
        order.gift
    }

    fn respond(charge: &Receipt, wrap: Option<&Vec<Option<u8>>>) -> Vec<(u32, bool)> {
        vec![(charge.0, wrap.is_some())]
    }
}

struct HTTPPing;

#[distributed_task(
    name = "Ping",
    version = 2,
    queue = "probes",
    max_recoveries = 0,
    heavy
)]
impl HTTPPing {
    type Request = ();
    type Response = ();

    #[step(1, host = "worker", when_cut_off = "finish")]
    #[pure]
    async fn ping() -> StepResult<()> {
        Ok(())
    }

    fn respond() {}
}

fn order(gift: bool) -> Value {
    let paper = UploadedFile {
        field: "paper".into(),
        name: FileName::parse("paper.pdf").unwrap(),
        content_type: "application/pdf".into(),
        size_bytes: 1,
        sha256: "0".repeat(64),
        bucket: String::new(),
        key: String::new(),
    };
    task::output(&Order { id: 7, gift, paper }).unwrap()
}

fn inputs(gift: bool, outputs: &[(&str, Value)]) -> Inputs {
    Inputs::new(
        order(gift),
        outputs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
    )
}

#[test]
fn the_task_row_holds_what_the_attribute_says_and_the_defaults() {
    let decl = PlaceOrder::task_type().decl;
    assert_eq!(
        (decl.name, decl.version, decl.queue),
        ("PlaceOrder", 1, "place-order")
    );
    assert_eq!(
        (decl.timeout, decl.lease),
        (Some(Duration::from_secs(600)), Some(Duration::from_secs(3)))
    );
    assert_eq!((decl.max_recoveries, decl.cancellable), (3, true));
    assert_eq!(
        (decl.on_lost, decl.on_undo_failure),
        (OnLost::Fail, OnUndoFailure::Continue)
    );
    assert_eq!((decl.request, decl.response), ("Order", "Vec<(u32, bool)>"));

    let ping = HTTPPing::task_type().decl;
    assert_eq!(
        (ping.name, ping.version, ping.queue, ping.max_recoveries),
        ("Ping", 2, "probes", 0)
    );
    assert_eq!(
        (ping.cancellable, ping.on_undo_failure),
        (false, OnUndoFailure::Stop)
    );
    assert_eq!(ping.on_lost, OnLost::Requeue);
}

#[test]
fn a_step_is_heavy_by_its_own_mark_or_by_that_of_its_type() {
    let heavy = |decl: &TaskDecl| {
        decl.steps
            .iter()
            .map(|step| (step.name, step.heavy))
            .collect::<Vec<_>>()
    };
    let own = [
        ("upload_paper", false),
        ("charge", false),
        ("wrap", true),
        ("weigh", false),
    ];
    assert_eq!(heavy(PlaceOrder::task_type().decl), own);
    assert_eq!(heavy(HTTPPing::task_type().decl), [("ping", true)]);
}

#[test]
fn a_step_goes_on_when_its_worker_is_cut_off_only_where_it_says_so() {
    let decl = PlaceOrder::task_type().decl;
    let stops = |step: &StepDecl| step.when_cut_off == WhenCutOff::Stop;
    assert!(decl.steps.iter().all(stops));
    assert!(!decl.finishes_when_cut_off());
    let ping = HTTPPing::task_type().decl;
    assert_eq!(ping.steps[0].when_cut_off, WhenCutOff::Finish);
    assert!(ping.finishes_when_cut_off());
}

#[test]
fn the_steps_stand_in_the_order_of_their_numbers_with_what_they_say() {
    let steps = PlaceOrder::task_type().decl.steps;
    let rows: Vec<_> = steps
        .iter()
        .map(|step| (step.no.0, step.name, step.host, step.kind, step.output))
        .collect();
    assert_eq!(
        rows,
        [
            (
                10,
                "upload_paper",
                Host::Api,
                StepKind::BuiltIn,
                "StoredFile"
            ),
            (20, "charge", Host::Worker, StepKind::Custom, "Receipt"),
            (
                30,
                "wrap",
                Host::Worker,
                StepKind::Custom,
                "Vec<Option<u8>>"
            ),
            (31, "weigh", Host::Worker, StepKind::Custom, "()"),
        ]
    );
    let charge = &steps[1];
    assert_eq!(
        (charge.timeout, charge.on_exhausted),
        (Some(Duration::from_secs(30)), OnExhausted::DeadLetter)
    );
    assert_eq!(
        (steps[0].timeout, steps[0].on_exhausted),
        (None, OnExhausted::Compensate)
    );
    assert_eq!(
        steps
            .iter()
            .map(|step| (step.group, step.when))
            .collect::<Vec<_>>(),
        [
            (None, None),
            (None, None),
            (Some("pack"), Some("is_gift")),
            (Some("pack"), None),
        ]
    );
}

#[test]
fn inputs_name_the_source_that_their_name_or_type_led_to() {
    let steps = PlaceOrder::task_type().decl.steps;
    let order = InputDecl {
        name: "order",
        source: "request",
        ty: "Order",
    };
    assert_eq!(steps[0].inputs, [order]);
    let paper = InputDecl {
        name: "upload_paper",
        source: "upload_paper",
        ty: "StoredFile",
    };
    assert_eq!(steps[1].inputs, [order, paper]);
    assert_eq!(steps[2].inputs, []);
    assert_eq!(
        steps[3].inputs,
        [InputDecl {
            name: "_slip",
            source: "charge",
            ty: "Receipt"
        }]
    );
}

#[test]
fn each_step_has_the_undo_and_the_policies_that_it_declares() {
    let task_type = PlaceOrder::task_type();
    let undos: Vec<_> = task_type.decl.steps.iter().map(|step| step.undo).collect();
    assert_eq!(
        undos,
        [
            UndoDecl::BuiltIn,
            UndoDecl::Function { name: "refund" },
            UndoDecl::Waived {
                reason: "paper is cheap"
            },
            UndoDecl::Pure,
        ]
    );
    let policies: Vec<_> = task_type
        .decl
        .steps
        .iter()
        .map(|step| (step.retry.name, step.retry.policy))
        .collect();
    assert_eq!(
        policies,
        [
            ("built-in", RetryPolicy::BUILT_IN),
            ("self::PATIENT", PATIENT),
            ("none", RetryPolicy::NONE),
            ("none", RetryPolicy::NONE),
        ]
    );
    assert!(
        task_type
            .decl
            .steps
            .iter()
            .all(|s| s.undo_retry.name == "undo" && s.undo_retry.policy == RetryPolicy::UNDO)
    );

    let code: Vec<_> = task_type
        .steps
        .iter()
        .map(|code| (code.undo.is_some(), code.when.is_some()))
        .collect();
    assert_eq!(
        code,
        [(false, false), (true, false), (false, true), (false, false)]
    );
    assert!(
        matches!(task_type.steps[0].run, Run::BuiltIn(_))
            && matches!(task_type.steps[1].run, Run::Custom(_))
    );
}

#[test]
fn the_code_reads_its_inputs_and_calls_the_authors_functions() {
    let task_type = PlaceOrder::task_type();
    let Run::BuiltIn(upload) = task_type.steps[0].run else {
        panic!("a built-in step")
    };
    let Work::Upload(upload) = upload(&inputs(false, &[])).unwrap() else {
        panic!("an upload")
    };
    assert_eq!(upload.bucket, "papers");

    let is_gift = task_type.steps[2].when.unwrap();
    assert!(is_gift(&inputs(true, &[])).unwrap() && !is_gift(&inputs(false, &[])).unwrap());

    let receipt = ("charge", task::output(&Receipt(7)).unwrap());
    let skipped = (task_type.respond)(&inputs(false, std::slice::from_ref(&receipt))).unwrap();
    assert_eq!(skipped, task::output(&vec![(7, false)]).unwrap());
    let wrapped = ("wrap", task::output(&Vec::<Option<u8>>::new()).unwrap());
    let response = (task_type.respond)(&inputs(true, &[receipt, wrapped])).unwrap();
    assert_eq!(response, task::output(&vec![(7, true)]).unwrap());

    let missing = (task_type.respond)(&inputs(true, &[])).unwrap_err();
    assert!(
        missing
            .message
            .contains("the output of `charge` is missing"),
        "{missing}"
    );
}

#[test]
fn a_request_is_checked_against_the_declared_type() {
    let read = PlaceOrder::task_type().read_request;
    assert_eq!(read(order(true)).unwrap(), order(true));
    assert!(read(Value::Null).is_err());
}

#[test]
fn several_task_types_of_one_crate_stand_side_by_side() {
    let registry = Registry::new().with::<PlaceOrder>().with::<HTTPPing>();
    assert_eq!(
        registry
            .iter()
            .map(|task_type| task_type.decl.name)
            .collect::<Vec<_>>(),
        ["Ping", "PlaceOrder"]
    );
}
