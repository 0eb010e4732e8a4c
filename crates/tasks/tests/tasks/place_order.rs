//! PlaceOrder against a bank, a shop and a carrier over real HTTP: whatever breaks, money and goods
//! are conserved, and each order is paid once or not at all.

use counterstep_kernel::client;
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::turn::turn;
use counterstep_steps::contracts::{
    BreakerOverride, Direction, Host, Overrides, TaskId, TaskStatus, WaitReason,
};
use counterstep_steps::policies::Policies;
use counterstep_steps::ports::{HttpServices, ServiceAnswer, ServiceRequest};
use counterstep_steps::{CancelToken, Registry};
use counterstep_tasks::PlaceOrder;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::seed::seeded;
use counterstep_testkit::services::{Services, Trouble};
use counterstep_testkit::sweep::{Surroundings, every_fault_amid};
use counterstep_testkit::{Form, Harness, TestTask};
use futures::future::join_all;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn only_orders() -> Registry {
    Registry::new().with::<PlaceOrder>()
}

fn order(amount_cents: u64) -> Form {
    lamps(2).field("amount_cents", amount_cents)
}

fn lamps(quantity: u32) -> Form {
    Form::new()
        .field("account", "anna")
        .field("item", "lamp")
        .field("quantity", quantity)
}

fn small() -> Form {
    order(2_500)
}

fn large() -> Form {
    order(250_000)
}

fn harness(services: &Services) -> Harness {
    Harness::embedded(only_orders()).services(services.http_services())
}

/// How long a service that does not answer is waited for. A healthy one needs milliseconds, and on
/// a busy machine less than this.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// Attempts are cut short, for services that do not answer.
fn impatient(services: &Services) -> Harness {
    harness(services).settings(|settings| settings.longest_attempt = Some(PATIENCE))
}

/// One set of clients for all runs of a sweep: each client reads the authorities of the machine.
struct Around {
    services: Services,
    clients: Arc<dyn HttpServices>,
}

impl Around {
    async fn start() -> Arc<Self> {
        let services = Services::start().await;
        let clients = services.http_services();
        Arc::new(Self { services, clients })
    }
}

impl Surroundings for Around {
    fn around(&self, harness: Harness) -> Harness {
        harness.services(self.clients.clone())
    }

    fn assert_after(&self, task: &TestTask, status: TaskStatus) {
        self.services
            .assert_settled(task.id, status == TaskStatus::Completed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_at_every_step_of_place_order_leaves_a_clean_slate() {
    every_fault_amid(Around::start().await, only_orders, small).await;
}

fn approved() -> Form {
    large().answer("approval", json!({"approved": true, "by": "carla"}))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_at_every_step_of_a_large_order_that_is_approved_leaves_a_clean_slate() {
    every_fault_amid(Around::start().await, only_orders, approved).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_comes_late_or_never_pays_the_order_back() {
    let services = Services::start().await;
    let late = large().answer_late("approval", json!({"approved": true, "by": "carla"}));
    for form in [late, large().never_answer("approval")] {
        let task = harness(&services).submit(form).await;
        assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
        task.assert_invariants().await;
        services.assert_settled(task.id, false);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_may_be_one_closure() {
    let services = Services::start().await;
    let charges = Arc::new(AtomicUsize::new(0));
    let seen = charges.clone();
    let bank = move |request: &ServiceRequest| {
        let (status, body) = match request.path.as_str() {
            "/charges" => (402, json!({"error": "declined"})),
            _ => (200, json!({})),
        };
        seen.fetch_add(usize::from(status == 402), Ordering::SeqCst);
        Ok(ServiceAnswer::json(status, &body))
    };
    let task = harness(&services)
        .service("bank", bank)
        .submit(small())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_invariants().await;
    assert_eq!(
        charges.load(Ordering::SeqCst),
        1,
        "a refusal is not tried again"
    );
    services.assert_settled(task.id, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_order_asks_nobody_and_each_service_once() {
    let services = Services::start().await;
    let task = harness(&services).submit(small()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail("reserve ok, charge ok, approval skipped, clear ok, ship ok, completed")
        .await;
    services.assert_settled(task.id, true);
    assert_eq!(services.balance("shop"), 2_500);
    let response = task.record().await.task.response.expect("a response");
    assert_eq!(response["approved_by"], json!(null));
    assert!(
        response["tracking"]
            .as_str()
            .is_some_and(|tracking| tracking.starts_with('t')),
        "{response}"
    );
    for request in FORWARD {
        assert_eq!(services.requests(request), 1, "{request}");
    }
}

/// A large order that waits for a person.
async fn waiting(services: &Services, form: Form) -> TestTask {
    let task = harness(services).submit(form).await;
    let running = task.engine.clone();
    eventually("an order that waits for its approval", || async {
        turn(&running, Host::Worker, task.id, &CancelToken::new()).await;
        (task.record().await.task.waiting == Some(WaitReason::Signal)).then_some(())
    })
    .await;
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_order_is_shipped_once_somebody_has_approved_it() {
    let services = Services::start().await;
    let task = waiting(&services, large()).await;
    let body = json!({"approved": true, "by": "carla"});
    client::signal(&task.engine, task.id, "approval", body, "client:carla")
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_invariants().await;
    assert_eq!(
        task.record().await.task.response.expect("a response")["approved_by"],
        "carla"
    );
    services.assert_settled(task.id, true);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_declined_is_paid_back_and_says_by_whom() {
    let services = Services::start().await;
    let task = waiting(&services, large()).await;
    assert_eq!(services.balance("shop"), 250_000);
    let untyped = client::signal(
        &task.engine,
        task.id,
        "approval",
        json!({"approved": "perhaps"}),
        "client",
    )
    .await;
    assert!(untyped.is_err());
    let body = json!({"approved": false, "by": "carla"});
    client::signal(&task.engine, task.id, "approval", body, "client:carla")
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_invariants().await;
    let failure = task.record().await.task.failure.expect("a reason");
    assert!(
        failure.message.contains("carla declined the order"),
        "{failure:?}"
    );
    services.assert_settled(task.id, false);
    assert_eq!(
        (
            services.balance("shop"),
            services.requests("POST /shipping/shipments")
        ),
        (0, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_nobody_approves_in_time_is_paid_back() {
    let services = Services::start().await;
    let task = harness(&services)
        .submit(large().field("hold_seconds", 1))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_invariants().await;
    services.assert_settled(task.id, false);
    assert_eq!(services.requests("POST /bank/refunds"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_cancelled_while_it_waits_is_paid_back() {
    let services = Services::start().await;
    let task = waiting(&services, large()).await;
    client::cancel(&task.engine, task.id, "client")
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Cancelled);
    task.assert_invariants().await;
    services.assert_settled(task.id, false);
}

const FORWARD: [&str; 3] = [
    "POST /inventory/reservations",
    "POST /bank/charges",
    "POST /shipping/shipments",
];
const BACKWARD: [&str; 3] = [
    "DELETE /inventory/reservations",
    "POST /bank/refunds",
    "DELETE /shipping/shipments",
];

/// One order, one trouble, on services of its own: all of these wait at the same time.
async fn with_trouble(
    request: &str,
    trouble: Trouble,
    expected: TaskStatus,
    prepare: fn(Harness) -> Harness,
) -> String {
    let services = Services::start().await;
    services.plant(request, trouble.clone());
    let task = prepare(impatient(&services)).submit(small()).await;
    assert_eq!(
        task.run_to_rest().await,
        expected,
        "{trouble:?} at {request}: {}",
        task.trail().await
    );
    task.assert_invariants().await;
    assert_eq!(services.planted(), 0, "{trouble:?} struck");
    eventually("the end of late work", || async {
        (services.late() == 0).then_some(())
    })
    .await;
    services.assert_settled(task.id, expected == TaskStatus::Completed);
    task.record()
        .await
        .task
        .failure
        .map(|failure| failure.message)
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_by_itself_delays_an_order_and_does_nothing_twice() {
    let soon = || Some("0".to_owned());
    let troubles = [
        Trouble::Refuses(503, soon()),
        Trouble::Refuses(429, soon()),
        Trouble::Refuses(429, None),
        Trouble::Refuses(500, None),
        Trouble::CutBefore,
        Trouble::CutAfter,
        Trouble::Silent,
        Trouble::Late(PATIENCE + Duration::from_millis(300)),
    ];
    let cases = troubles
        .iter()
        .flat_map(|trouble| FORWARD.map(|request| (request, trouble.clone())));
    join_all(
        cases.map(|(request, trouble)| {
            with_trouble(request, trouble, TaskStatus::Completed, |it| it)
        }),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_pass_undoes_an_order_also_where_the_work_was_done() {
    let troubles = [
        Trouble::Refuses(422, None),
        Trouble::Refuses(302, None),
        Trouble::Garbled,
    ];
    let cases = troubles
        .iter()
        .flat_map(|trouble| FORWARD.map(|request| (request, trouble.clone())));
    join_all(cases.map(async |(request, trouble)| {
        let said = with_trouble(request, trouble, TaskStatus::Failed, |it| it).await;
        let service = request.split('/').nth(1).expect("a service");
        assert!(
            said.contains(&format!("of the service `{service}`")),
            "{said}"
        );
    }))
    .await;
    let services = Services::start().await;
    let greedy = harness(&services)
        .submit(lamps(2_000_000).field("amount_cents", 1))
        .await;
    assert_eq!(greedy.run_to_rest().await, TaskStatus::Failed);
    let failure = greedy.record().await.task.failure.expect("a reason");
    assert!(
        failure.message.contains("409") && failure.message.contains("not enough goods"),
        "{failure:?}"
    );
    services.assert_settled(greedy.id, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_whose_call_breaks_is_tried_again_and_pays_back_once() {
    let troubles = [
        Trouble::Refuses(503, Some("0".to_owned())),
        Trouble::CutAfter,
        Trouble::Silent,
    ];
    let cases = troubles
        .iter()
        .flat_map(|trouble| BACKWARD.map(|request| (request, trouble.clone())));
    join_all(cases.map(|(request, trouble)| {
        with_trouble(request, trouble, TaskStatus::Failed, |harness| {
            harness.fail_at("ship")
        })
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_arrives_after_its_refund_is_refused() {
    let services = Services::start().await;
    services.plant(
        "POST /bank/charges",
        Trouble::Late(Duration::from_millis(700)),
    );
    let task = harness(&services).submit(small()).await;
    let cancel = async {
        eventually("a charge on its way", || async {
            (services.requests("POST /bank/charges") == 1).then_some(())
        })
        .await;
        client::cancel(&task.engine, task.id, "client")
            .await
            .expect("accepted");
    };
    let (status, ()) = futures::join!(task.run_to_rest(), cancel);
    assert_eq!(status, TaskStatus::Cancelled, "{}", task.trail().await);
    assert_eq!(services.requests("POST /bank/refunds"), 1);
    eventually("the end of the late charge", || async {
        (services.late() == 0).then_some(())
    })
    .await;
    services.assert_settled(task.id, false);
    assert_eq!(services.balance("shop"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_lost_while_it_pays_back_is_replaced_and_pays_back_once() {
    let services = Services::start().await;
    let task = harness(&services)
        .fail_at("ship")
        .crash_in_undo_of("charge")
        .submit(small())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_invariants().await;
    services.assert_settled(task.id, false);
    assert_eq!(
        services.requests("POST /bank/refunds"),
        2,
        "the second one finds that the first was done"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_without_services_fails_with_their_name_and_leaves_nothing_to_undo() {
    let task = Harness::embedded(only_orders()).submit(small()).await;
    assert_eq!(
        task.run_to_rest().await,
        TaskStatus::Failed,
        "{}",
        task.trail().await
    );
    let record = task.record().await;
    let failure = record.task.failure.expect("a reason");
    assert!(
        failure.message.contains("[services.inventory]"),
        "{failure:?}"
    );
    assert_eq!(
        record.steps[0].retries_used, 0,
        "trying again would not help"
    );
    assert_eq!(record.steps[0].undo_attempts.0, 0, "nothing was ever sent");
    task.assert_invariants().await;
}

/// Troubles that an order meets at each request, at most: fewer than its retries, so that each of
/// them ends, however the orders beside it fare, and leaves retries for what a busy machine adds.
const AT_MOST: usize = 2;

/// Draws what goes wrong with an order: the same from the same seed, whichever order is served
/// first.
fn storm_over(services: &Services, task: TaskId, chance: &mut StdRng) {
    for request in FORWARD.into_iter().chain(BACKWARD) {
        for _ in 0..chance.random_range(0..=AT_MOST) {
            let trouble = match chance.random_range(0..12) {
                0..4 => Trouble::CutAfter,
                4..8 => Trouble::Refuses(503, Some("0".to_owned())),
                8..11 => Trouble::CutBefore,
                _ if chance.random() => Trouble::Silent,
                _ => Trouble::Late(PATIENCE + Duration::from_millis(300)),
            };
            services.plant_for(task, request, trouble);
        }
    }
}

/// Forty orders, eight at a time, while all three services break again and again, the breaker of
/// the bank opens, and every fourth order is cancelled: at the end each one is paid for once, or
/// not at all.
#[tokio::test(flavor = "multi_thread")]
async fn through_a_storm_each_order_is_charged_once_or_not_at_all() {
    let mut chance = seeded();
    let services = Services::start().await;
    let soon = BreakerOverride {
        open_for: Some(Duration::from_millis(400)),
        ..BreakerOverride::default()
    };
    let breakers = [("bank".to_owned(), soon)].into();
    let policies = Policies::checked(
        &only_orders(),
        Overrides {
            breakers,
            ..Overrides::default()
        },
    )
    .expect("policies");
    let mut site = impatient(&services)
        .settings(|settings| settings.policies = policies.into())
        .fault(Fault::at("ship", FaultKind::FailTransiently).on_attempt(1))
        .start()
        .await;
    let mut tasks: Vec<TaskId> = Vec::new();
    for n in 0..40 {
        tasks.push(site.submit(order(1_000 + n)).await);
        storm_over(&services, *tasks.last().expect("an order"), &mut chance);
    }
    let planted = services.planted();
    site.serve(8);
    for task in tasks.iter().skip(3).step_by(4) {
        // At a drawn place of its way, and also behind its end.
        let after = chance.random_range(0..=8);
        eventually("an order that is far enough to be cancelled", || async {
            let record = site.record(*task).await;
            let attempts = record.steps.iter().map(|step| step.attempts.0).sum::<i32>();
            (attempts >= after || record.task.status.is_at_rest()).then_some(())
        })
        .await;
        let _ = client::cancel(&site.engine, *task, "client").await;
    }
    let rests = site
        .all("at rest", &tasks, |record| record.task.status.is_at_rest())
        .await;
    eventually("the end of late work", || async {
        (services.late() == 0).then_some(())
    })
    .await;
    let mut charged = 0;
    for record in &rests {
        let (task, status) = (record.task.id, record.task.status);
        assert!(
            matches!(status, TaskStatus::Completed | TaskStatus::Cancelled),
            "{status}: {:?}",
            record.task.failure
        );
        services.assert_settled(task, status == TaskStatus::Completed);
        if status == TaskStatus::Completed {
            charged += record.task.request["amount_cents"]
                .as_i64()
                .expect("an amount");
            let calm = FORWARD
                .iter()
                .all(|request| services.planted_for(task, request) == 0);
            assert!(calm, "an order completed before all of its troubles struck");
        }
    }
    assert_eq!(services.balance("shop"), charged);
    assert!(
        services.planted() < planted,
        "of {planted} planted troubles none struck"
    );
    site.assert_invariants(&tasks).await;
    site.stop().await;
    for task in tasks {
        let history = site.history(task).await;
        let again = history
            .attempts
            .iter()
            .filter(|attempt| attempt.direction == Direction::Undo);
        let rows = format!("{:?}{:?}", history.audit, again.collect::<Vec<_>>());
        assert!(!rows.contains(services.token()), "a secret is in a row");
    }
}
