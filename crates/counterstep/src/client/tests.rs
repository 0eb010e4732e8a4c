//! One interface, in process and over HTTP: the same questions get the same answers.

mod children;
mod events;
mod links;
mod log;

use super::{Client, ClientError, Submit, Way};
use crate::prelude::*;
use counterstep_api::ApiSettings;
use counterstep_contracts::http::TaskView;
use counterstep_contracts::{Labels, ProblemCode, TaskId, TaskStatus};
use counterstep_steps::CancelToken;
use counterstep_testkit::Harness;
use counterstep_testkit::many_tasks::{Site, eventually};
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::net::TcpListener;
use std::pin::Pin;

#[derive(Debug, Serialize, Deserialize)]
struct Invitation {
    name: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Reply {
    comes: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Seat {
    number: u32,
}

struct Invite;

#[distributed_task(cancellable)]
impl Invite {
    type Request = Invitation;
    type Response = Seat;

    #[step(1, host = "worker")]
    fn reply(_invitation: &Invitation) -> AwaitSignal<Reply> {
        AwaitSignal::within("1h")
    }

    #[step(2, host = "worker", no_undo = "a seat costs nothing")]
    async fn seat(invitation: &Invitation, reply: &Reply) -> StepResult<Seat> {
        if !reply.comes {
            return Err(StepError::permanent(format_args!(
                "{} stays away",
                invitation.name
            )));
        }
        Ok(Seat { number: 7 })
    }

    fn respond(seat: &Seat) -> Seat {
        Seat {
            number: seat.number,
        }
    }
}

struct Note;

#[distributed_task]
impl Note {
    type Request = Invitation;
    type Response = ();

    #[step(1, host = "worker")]
    #[pure]
    async fn write(_invitation: &Invitation) -> StepResult<()> {
        Ok(())
    }

    fn respond(_invitation: &Invitation) {}
}

/// Takes no submissions for an hour once a task has failed.
struct Fussy;

const AT_ONCE: AutoDisable = AutoDisable::after_failures(1).within("1h").cooldown("1h");

#[distributed_task(auto_disable = AT_ONCE)]
impl Fussy {
    type Request = Invitation;
    type Response = ();

    #[step(1, host = "worker", no_undo = "it does nothing")]
    async fn fail(invitation: &Invitation) -> StepResult<()> {
        Err(StepError::transient(format_args!(
            "{} again",
            invitation.name
        )))
    }

    fn respond(_invitation: &Invitation) {}
}

/// Registered nowhere.
struct Elsewhere;

#[distributed_task]
impl Elsewhere {
    type Request = Invitation;
    type Response = ();

    #[step(1, host = "worker")]
    #[pure]
    async fn write(_invitation: &Invitation) -> StepResult<()> {
        Ok(())
    }

    fn respond(_invitation: &Invitation) {}
}

type Scenario = fn(Client) -> Pin<Box<dyn Future<Output = ()>>>;

/// Runs it on an engine of its own each, in process and over HTTP.
async fn both(scenario: Scenario) {
    for over_http in [false, true] {
        let mut site: Site = Harness::embedded(
            Registry::new()
                .with::<Invite>()
                .with::<Note>()
                .with::<Fussy>()
                .with::<children::Party>()
                .with::<log::Chat>(),
        )
        .start()
        .await;
        site.serve(4);
        if !over_http {
            scenario(Client::of(&site.engine)).await;
            continue;
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (engine, shutdown) = (site.engine.clone(), CancelToken::new());
        let serving = counterstep_api::serve(engine, ApiSettings::default(), listener, shutdown);
        let serving = tokio::spawn(serving);
        scenario(Client::at(&format!("http://{address}/")).expect("a client")).await;
        serving.abort();
    }
}

fn ada() -> Invitation {
    Invitation {
        name: "Ada".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_submitted_answered_and_gives_its_typed_response() {
    both(|client| {
        Box::pin(async move {
            let task = client.submit::<Invite>(&ada()).await.expect("accepted");
            assert!(!task.status().await.expect("it is there").is_at_rest());
            let (answered, response) = futures::join!(
                task.signal("reply", &Reply { comes: true }),
                task.response()
            );
            answered.expect("it waits for it");
            assert_eq!(response.expect("a seat"), Seat { number: 7 });
            let late = task.signal("reply", &Reply { comes: false }).await;
            assert!(matches!(late, Err(ClientError::Refused(_))), "{late:?}");
            let too_late = task.cancel().await;
            assert!(
                matches!(too_late, Err(ClientError::Refused(_))),
                "{too_late:?}"
            );
            let again = client.handle::<Invite>(task.id());
            assert_eq!(again.wait().await.expect("it rests"), TaskStatus::Completed);
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_submits_once_and_a_task_without_a_response_says_why() {
    both(|client| {
        Box::pin(async move {
            let first = client
                .submit_once::<Invite>("ada", &ada())
                .await
                .expect("accepted");
            let again = client
                .submit_once::<Invite>("ada", &ada())
                .await
                .expect("the same");
            assert_eq!(first.task_id(), again.task_id());
            let other = Invitation {
                name: "Bob".to_owned(),
            };
            let refused = client.submit_once::<Invite>("ada", &other).await;
            assert!(
                matches!(refused, Err(ClientError::Refused(_))),
                "{refused:?}"
            );
            first
                .signal("reply", &Reply { comes: false })
                .await
                .expect("it waits, or will");
            let declined = first.response().await.expect_err("no seat");
            assert_eq!(declined.to_string(), "the task is failed: Ada stays away");
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_a_task_and_one_that_is_not_there_is_refused() {
    both(|client| {
        Box::pin(async move {
            let task = client.submit::<Invite>(&ada()).await.expect("accepted");
            task.cancel().await.expect("it waits");
            assert_eq!(task.wait().await.expect("it rests"), TaskStatus::Cancelled);
            let again = task.run_again(None, "she comes after all").await;
            let again = again.expect("accepted");
            assert_ne!(again.task_id(), task.task_id());
            let too_early = again.run_again(None, "twice").await;
            assert!(matches!(too_early, Err(ClientError::Refused(_))));
            let no_step = task.run_again(Some("bake"), "from nowhere").await;
            assert!(matches!(no_step, Err(ClientError::Refused(_))));
            let nothing = client.handle::<Invite>(TaskId(Default::default()));
            let refused = nothing.status().await;
            assert!(
                matches!(refused, Err(ClientError::Refused(_))),
                "{refused:?}"
            );
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_of_no_value_is_one_and_what_does_not_fit_is_refused() {
    both(|client| {
        Box::pin(async move {
            let note = client.submit::<Note>(&ada()).await.expect("accepted");
            note.response().await.expect("no value is a response");
            let wrong = client.handle::<Invite>(note.task_id()).response().await;
            assert!(matches!(wrong, Err(ClientError::Refused(_))), "{wrong:?}");
            let unknown = client.submit::<Elsewhere>(&ada()).await;
            assert!(
                matches!(unknown, Err(ClientError::Refused(_))),
                "{unknown:?}"
            );
            for key in ["", "a b", "\"a\"", "\n"] {
                let refused = client.submit_once::<Note>(key, &ada()).await;
                assert!(matches!(refused, Err(ClientError::Refused(_))), "{key:?}");
            }
            let nul = Invitation {
                name: "\0".to_owned(),
            };
            let refused = client.submit::<Note>(&nul).await;
            assert!(
                matches!(refused, Err(ClientError::Refused(_))),
                "{refused:?}"
            );
        })
    })
    .await;
}

/// Code, pointer, and seconds until it may be tried again.
fn refusal<T: std::fmt::Debug>(
    refused: Result<T, ClientError>,
) -> (ProblemCode, Option<String>, Option<u64>) {
    match refused {
        Err(ClientError::Refused(why)) => {
            let code = why.code.expect("it came before an engine");
            let said = format!("{} ({}): {}", code.title(), code.as_str(), why.detail);
            assert_eq!(why.to_string(), said);
            (
                code,
                why.pointer,
                why.retry_after.map(|after| after.as_secs()),
            )
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_has_the_code_and_the_place_of_a_problem_document() {
    both(|client| {
        Box::pin(async move {
            let task = client
                .submit_once::<Invite>("ada", &ada())
                .await
                .expect("accepted");
            let at = |code, pointer: &str| (code, Some(pointer.to_owned()), None);
            let mut other = ada();
            other.name.push('x');
            let key = client.submit_once::<Invite>("ada", &other).await;
            assert_eq!(
                refusal(key),
                at(ProblemCode::IdempotencyMismatch, "Idempotency-Key")
            );
            let key = client.submit_once::<Invite>("a b", &other).await;
            assert_eq!(
                refusal(key),
                at(ProblemCode::MalformedIdempotencyKey, "Idempotency-Key")
            );
            let unknown = client.submit::<Elsewhere>(&ada()).await;
            assert_eq!(refusal(unknown), (ProblemCode::NoSuchTaskType, None, None));
            let unknown = task.signal("write", &Reply { comes: true }).await;
            assert_eq!(refusal(unknown), at(ProblemCode::NoSuchSignal, "name"));
            let typed = task.signal("reply", &5).await;
            assert_eq!(refusal(typed).0, ProblemCode::InvalidRequest);
            let nothing = client.handle::<Invite>(TaskId(Default::default()));
            for refused in [
                nothing.status().await.map(drop),
                nothing.cancel().await.map(drop),
                nothing.signal("reply", &5).await,
            ] {
                assert_eq!(refusal(refused), (ProblemCode::NoSuchTask, None, None));
            }
            task.signal("reply", &Reply { comes: true })
                .await
                .expect("it waits, or will");
            task.response().await.expect("a seat");
            assert_eq!(
                refusal(task.cancel().await),
                (ProblemCode::AlreadyCompleted, None, None)
            );
            let other = task.signal("reply", &Reply { comes: false }).await;
            assert_eq!(refusal(other), (ProblemCode::SignalTaken, None, None));
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_type_says_when_to_come_again() {
    both(|client| {
        Box::pin(async move {
            let first = client.submit::<Fussy>(&ada()).await.expect("accepted");
            first.wait().await.expect("it rests");
            // A process remembers for a moment that a type takes submissions.
            let alone = eventually("a refusal", || async {
                let alone = client.submit::<Fussy>(&ada()).await;
                alone.is_err().then_some(alone)
            });
            let alone = alone.await;
            let item = [(Submit::new().key("ada"), &ada())];
            let batch = client.submit_batch::<Fussy>(item).await.expect("an answer");
            let batch = batch.into_iter().next().expect("one outcome");
            for refused in [alone, batch] {
                let (code, pointer, after) = refusal(refused);
                assert_eq!((code, pointer), (ProblemCode::TypeDisabled, None));
                assert!(
                    (3_000..=3_600).contains(&after.expect("a time")),
                    "{after:?}"
                );
            }
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_gives_each_request_its_own_outcome() {
    both(|client| {
        Box::pin(async move {
            let named = |name: &str| Invitation {
                name: name.to_owned(),
            };
            let (ada, bob, nul) = (named("Ada"), named("Bob"), named("\0"));
            let batch = [
                (Submit::new().key("ada").label("guest", "ada"), &ada),
                (Submit::new(), &bob),
                (Submit::new().key("a b"), &bob),
                (Submit::new().label("Guest", "bob"), &bob),
                (Submit::new(), &nul),
                (Submit::new().key("ada"), &bob),
                (Submit::new().key("ada"), &ada),
            ];
            let outcomes = client.submit_batch::<Note>(batch).await.expect("an answer");
            let tasks: Vec<_> = outcomes
                .iter()
                .map(|outcome| outcome.as_ref().map(|task| task.task_id()).ok())
                .collect();
            let accepted: Vec<_> = tasks.iter().map(Option::is_some).collect();
            assert_eq!(accepted, [true, true, false, false, false, false, true]);
            assert_eq!(tasks[0], tasks[6]);
            for refused in &outcomes[2..6] {
                assert!(
                    matches!(refused, Err(ClientError::Refused(_))),
                    "{refused:?}"
                );
            }
            let again = client
                .submit_once::<Note>("ada", &ada)
                .await
                .expect("the same");
            assert_eq!(Some(again.task_id()), tasks[0]);
            for outcome in outcomes.iter().flatten() {
                outcome.response().await.expect("it completes");
            }
            let nothing = client.submit_batch::<Note>([]).await.expect("no request");
            assert!(nothing.is_empty());
            let many = client
                .submit_batch::<Note>(vec![(Submit::new(), &ada); 1001])
                .await;
            assert!(matches!(many, Err(ClientError::Refused(_))), "{many:?}");
            let unknown = client
                .submit_batch::<Elsewhere>([(Submit::new(), &ada)])
                .await;
            assert!(
                matches!(unknown, Err(ClientError::Refused(_))),
                "{unknown:?}"
            );
        })
    })
    .await;
}

#[tokio::test]
async fn an_address_that_is_none_is_refused_and_no_password_is_shown() {
    for address in ["", "127.0.0.1:7400", "ftp://127.0.0.1", "http://"] {
        assert!(
            matches!(Client::at(address), Err(ClientError::Refused(_))),
            "{address}"
        );
    }
    let client = Client::at("http://ada:hunter2@127.0.0.1:1").expect("an address");
    assert!(!format!("{client:?}").contains("hunter2"));
    let nothing = client.submit::<Note>(&ada()).await.expect_err("no server");
    assert!(matches!(nothing, ClientError::Unavailable(_)), "{nothing}");
    assert!(!nothing.to_string().contains("hunter2"), "{nothing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_submitted_with_labels_by_both_ways() {
    both(|client| {
        Box::pin(async move {
            let value = "a \"b\", \\ ü";
            let how = || {
                Submit::new()
                    .key("ada")
                    .label("order", 4711)
                    .label("odd", value)
            };
            let first = client
                .submit_with::<Note>(how(), &ada())
                .await
                .expect("accepted");
            let again = client
                .submit_with::<Note>(how().label("third", "x"), &ada())
                .await;
            assert_eq!(first.task_id(), again.expect("the same").task_id());
            let labels = labels_of(&client, first.task_id()).await;
            assert_eq!(
                serde_json::json!(labels),
                serde_json::json!({ "odd": value, "order": "4711" })
            );
            for (name, value) in [("Order", "1"), ("order", ""), ("order", "a\nb")] {
                let how = Submit::new().label(name, value);
                let refused = client.submit_with::<Note>(how, &ada()).await;
                assert!(
                    matches!(refused, Err(ClientError::Refused(_))),
                    "{name}={value:?}"
                );
            }
            let twice = Submit::new().label("a", "1").label("a", "2");
            let refused = client.submit_with::<Note>(twice, &ada()).await;
            assert!(matches!(refused, Err(ClientError::Refused(_))));
        })
    })
    .await;
}

/// A client does not show them: nothing that it does goes by them.
async fn labels_of(client: &Client, task: TaskId) -> Labels {
    match &client.0 {
        Way::InProcess(here) => {
            let record = here.engine.ports.store.load(task).await.expect("an answer");
            record.expect("the task").task.labels
        }
        Way::Http(http) => {
            let url = format!("{}/api/tasks/{task}", http.base);
            let view = reqwest::get(url)
                .await
                .expect("an answer")
                .json::<TaskView>()
                .await;
            view.expect("a task").labels
        }
    }
}
