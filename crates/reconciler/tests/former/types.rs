//! Task types of a fixture: each state and each wait can be reached with one of them. A type here never changes, since
//! the fixtures hold tasks of it: a new case is a new type.

use counterstep_contracts::LogLevel;
use counterstep_macros::distributed_task;
use counterstep_steps::{
    AwaitSignal, BreakerPolicy, ForEach, Limit, Registry, RetryPolicy, Sleep, Slept, State,
    StepContext, StepError, StepResult, StoredFiles, UndoResult, UploadMany, UploadedFile,
};
use serde::{Deserialize, Serialize};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What the steps meet outside. Its troubles last until it is mended.
#[derive(Debug, Clone, Default)]
pub(crate) struct World(Arc<(AtomicBool, AtomicUsize)>);

impl World {
    pub(crate) fn mended() -> Self {
        let world = Self::default();
        world.0.0.store(true, Ordering::SeqCst);
        world
    }

    fn is_mended(&self) -> bool {
        self.0.0.load(Ordering::SeqCst)
    }

    /// How many steps have begun to hang.
    pub(crate) fn hanging(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }

    async fn hang(&self) {
        if !self.is_mended() {
            self.0.1.fetch_add(1, Ordering::SeqCst);
            pending::<()>().await;
        }
    }

    fn fail(&self, error: StepError) -> StepResult<()> {
        match self.is_mended() {
            true => Ok(()),
            false => Err(error),
        }
    }
}

/// What goes wrong with an order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Trouble {
    #[default]
    None,
    PickRetries,
    PickHangs,
    PayFails,
    /// For good, also in a mended world; its undo has no trouble.
    DeliverFails,
    UndoRetries,
    UndoHangs,
    UndoFails,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OrderRequest {
    customer: String,
    trouble: Trouble,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Picked(String);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Paid(u32);

const HOURLY: RetryPolicy = RetryPolicy::constant("1h").max_retries(3).jitter(false);

pub(crate) struct Order;

#[distributed_task(
    name = "Order",
    queue = "orders",
    cancellable,
    label(customer = "req.customer")
)]
impl Order {
    type Request = OrderRequest;
    type Response = String;

    #[step(1, host = "api", undo = forget)]
    async fn note(ctx: &StepContext) -> StepResult<String> {
        Ok(ctx.effect_key())
    }

    async fn forget(_out: Option<String>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", retry = HOURLY, undo = put_back, undo_retry = HOURLY)]
    async fn pick(
        ctx: &StepContext,
        order: &OrderRequest,
        world: &State<World>,
    ) -> StepResult<Picked> {
        ctx.log(LogLevel::Info, format_args!("picks for {}", order.customer));
        match order.trouble {
            Trouble::PickRetries => world.fail(StepError::transient("the shelf is empty"))?,
            Trouble::PickHangs => world.hang().await,
            _ => {}
        }
        Ok(Picked("apples".to_owned()))
    }

    async fn put_back(ctx: &StepContext, order: &OrderRequest, world: &State<World>) -> UndoResult {
        ctx.log(LogLevel::Warn, "puts back");
        match order.trouble {
            Trouble::UndoRetries => world.fail(StepError::transient("the shelf is full"))?,
            Trouble::UndoFails => world.fail(StepError::permanent("the shelf is gone"))?,
            Trouble::UndoHangs => world.hang().await,
            _ => {}
        }
        Ok(())
    }

    #[step(3, host = "worker", when = is_gift, no_undo = "paper is cheap")]
    async fn wrap(picked: &Picked) -> StepResult<u8> {
        Ok(u8::from(!picked.0.is_empty()))
    }

    fn is_gift(order: &OrderRequest) -> bool {
        order.customer == "gift"
    }

    #[step(4, host = "worker", on_exhausted = "dead_letter", undo = refund)]
    async fn pay(order: &OrderRequest, world: &State<World>) -> StepResult<Paid> {
        if order.trouble == Trouble::PayFails {
            world.fail(StepError::permanent("the card was declined"))?;
        }
        Ok(Paid(320))
    }

    async fn refund(_out: Option<Paid>) -> UndoResult {
        Ok(())
    }

    #[step(5, host = "worker", on_exhausted = "compensate", undo = fetch_back)]
    async fn deliver(order: &OrderRequest, paid: &Paid) -> StepResult<u32> {
        match order.trouble {
            Trouble::DeliverFails
            | Trouble::UndoRetries
            | Trouble::UndoHangs
            | Trouble::UndoFails => Err(StepError::permanent("the road is closed")),
            _ => Ok(paid.0),
        }
    }

    async fn fetch_back(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    fn respond(pick: &Picked) -> String {
        pick.0.clone()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NapRequest {
    rest: String,
}

pub(crate) struct Nap;

#[distributed_task(name = "Nap", queue = "naps", cancellable)]
impl Nap {
    type Request = NapRequest;
    type Response = String;

    #[step(1, host = "worker")]
    fn rest(nap: &NapRequest) -> Sleep {
        Sleep::for_(&nap.rest)
    }

    fn respond(rest: &Slept) -> String {
        rest.due_at.to_string()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Approval {
    by: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Nothing {}

pub(crate) struct Ask;

#[distributed_task(name = "Ask", queue = "asks")]
impl Ask {
    type Request = Nothing;
    type Response = String;

    #[step(1, host = "worker")]
    fn approval(_ask: &Nothing) -> AwaitSignal<Approval> {
        AwaitSignal::within("1000d")
    }

    fn respond(approval: &Approval) -> String {
        approval.by.clone()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NapsRequest {
    naps: Vec<NapRequest>,
}

pub(crate) struct Naps;

#[distributed_task(name = "Naps", queue = "naps")]
impl Naps {
    type Request = NapsRequest;
    type Response = usize;

    #[step(1, host = "worker")]
    fn naps(all: &NapsRequest) -> ForEach<Nap> {
        ForEach::of(&all.naps).at_a_time(2)
    }

    fn respond(naps: &Vec<String>) -> usize {
        naps.len()
    }
}

const RARELY: Limit = Limit::named("rarely").rate(1, "1h");

pub(crate) struct Call;

#[distributed_task(name = "Call", queue = "calls")]
impl Call {
    type Request = Nothing;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "a look into the book")]
    async fn dial() -> StepResult<u8> {
        Ok(7)
    }

    #[step(2, host = "worker", limit = RARELY, no_undo = "a call")]
    async fn call(dial: &u8) -> StepResult<u32> {
        Ok((*dial).into())
    }

    fn respond(call: &u32) -> u32 {
        *call
    }
}

const AT_ONCE: RetryPolicy = RetryPolicy::constant("1ms").max_retries(50);
const BANK: BreakerPolicy = BreakerPolicy::named("bank")
    .after_failures(1)
    .within("1h")
    .open_for("1h");

pub(crate) struct Sale;

#[distributed_task(name = "Sale", queue = "sales")]
impl Sale {
    type Request = Nothing;
    type Response = u32;

    #[step(1, host = "worker", retry = AT_ONCE, breaker = BANK, no_undo = "a sale")]
    async fn charge(world: &State<World>) -> StepResult<u32> {
        world.fail(StepError::transient("the bank does not answer"))?;
        Ok(1)
    }

    fn respond(charge: &u32) -> u32 {
        *charge
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ImportRequest {
    customer: String,
}

pub(crate) struct ImportInTurn;

#[distributed_task(
    name = "ImportInTurn",
    queue = "imports",
    key = "req.customer",
    at_once = 1
)]
impl ImportInTurn {
    type Request = ImportRequest;
    type Response = u32;

    #[step(1, host = "worker")]
    fn rest(_import: &ImportRequest) -> Sleep {
        Sleep::for_("1h")
    }

    #[step(2, host = "worker", no_undo = "an import")]
    async fn import(_rest: &Slept) -> StepResult<u32> {
        Ok(1)
    }

    fn respond(import: &u32) -> u32 {
        *import
    }
}

pub(crate) struct ImportLast;

#[distributed_task(
    name = "ImportLast",
    queue = "imports",
    key = "req.customer",
    at_once = 1,
    debounce = "1h",
    cancellable
)]
impl ImportLast {
    type Request = ImportRequest;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "an import")]
    async fn import() -> StepResult<u32> {
        Ok(1)
    }

    fn respond(import: &u32) -> u32 {
        *import
    }
}

pub(crate) struct GreetingOne;

#[distributed_task(name = "Greeting", version = 1, queue = "greetings")]
impl GreetingOne {
    type Request = Nothing;
    type Response = String;

    #[step(1, host = "worker")]
    #[pure]
    async fn greet() -> StepResult<String> {
        Ok("hello".to_owned())
    }

    fn respond(greet: &String) -> String {
        greet.clone()
    }
}

pub(crate) struct GreetingTwo;

#[distributed_task(name = "Greeting", version = 2, queue = "greetings")]
impl GreetingTwo {
    type Request = Nothing;
    type Response = String;

    #[step(1, host = "worker")]
    #[pure]
    async fn greet() -> StepResult<String> {
        Ok("good day".to_owned())
    }

    fn respond(greet: &String) -> String {
        greet.clone()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PaperRequest {
    files: Vec<UploadedFile>,
}

pub(crate) struct Papers;

#[distributed_task(name = "Papers", queue = "papers")]
impl Papers {
    type Request = PaperRequest;
    type Response = usize;

    #[step(1, host = "api")]
    fn upload(req: &PaperRequest) -> UploadMany {
        UploadMany::to("papers", &req.files)
    }

    #[step(2, host = "worker", no_undo = "only counts")]
    async fn count(upload: &StoredFiles) -> StepResult<usize> {
        Ok(upload.len())
    }

    fn respond(count: &usize) -> usize {
        *count
    }
}

/// Of a queue that is paused.
pub(crate) struct Errand;

#[distributed_task(name = "Errand", queue = "errands")]
impl Errand {
    type Request = Nothing;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "an errand")]
    async fn run() -> StepResult<u32> {
        Ok(1)
    }

    fn respond(run: &u32) -> u32 {
        *run
    }
}

/// All types, in this world.
pub(crate) fn types(world: &World) -> Registry {
    Registry::new()
        .provide(world.clone())
        .with::<Order>()
        .with::<Nap>()
        .with::<Ask>()
        .with::<Naps>()
        .with::<Call>()
        .with::<Sale>()
        .with::<ImportInTurn>()
        .with::<ImportLast>()
        .with::<GreetingOne>()
        .with::<GreetingTwo>()
        .with::<Papers>()
        .with::<Errand>()
}

/// What a worker of the time before the second greeting knows.
pub(crate) fn types_before() -> Registry {
    Registry::new().with::<GreetingOne>()
}
