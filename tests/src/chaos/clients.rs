//! The clients of a chaos run: each has one task in flight, keeps its idempotency key until it has
//! an answer, and reads the task's end. Reads no rows, and does not judge what the states contradict.

use super::Options;
use super::faults::FullUntil;
use super::fleet::Fleet;
use super::judged::{Cancel, Submitted};
use crate::api::{Answer, Api};
use crate::archive;
use crate::sample::{Chance, Sample};
use counterstep_contracts::http::{Accepted, TaskView};
use counterstep_contracts::{Problem, ProblemCode, TaskId, TaskStatus};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Largest file of an archive; a task has two.
const SIZE: u64 = 60_000;
/// Time after which a task that is not at rest is an anomaly: faults last for seconds.
const LIMIT: Duration = Duration::from_secs(240);
/// Forms that an API takes from one address at a time: of more clients it may refuse some.
const MOST_OF_ONE_ADDRESS: u64 = 100;
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Clients {
    over: Arc<AtomicBool>,
    /// How many submissions each API has accepted.
    accepted: Arc<[AtomicU64]>,
    running: Vec<JoinHandle<Vec<Submitted>>>,
}

impl Clients {
    pub(super) fn start(fleet: &Fleet, options: &Options, full_until: &FullUntil) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let accepted: Arc<[AtomicU64]> = fleet.apis.iter().map(|_| AtomicU64::new(0)).collect();
        let running = (0..options.clients)
            .map(|number| {
                let client = Client {
                    apis: fleet.apis.clone(),
                    full_until: full_until.clone(),
                    accepted: accepted.clone(),
                    old_reads: options.old_reads,
                    is_crowd: options.clients > MOST_OF_ONE_ADDRESS,
                    chance: Chance::new(options.seed.wrapping_mul(1_000).wrapping_add(number)),
                    name: format!("{}-{number}", options.seed),
                };
                tokio::spawn(client.run(over.clone()))
            })
            .collect();
        Self {
            over,
            accepted,
            running,
        }
    }

    /// How many submissions each API has accepted.
    pub(super) fn accepted(&self) -> Vec<u64> {
        let each = self.accepted.iter();
        each.map(|count| count.load(Ordering::SeqCst)).collect()
    }

    /// Lets each client finish the task that it has.
    pub(super) async fn stop(self) -> Vec<Submitted> {
        self.over.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for client in self.running {
            match client.await {
                Ok(submitted) => all.extend(submitted),
                Err(error) => panic!("a client ended: {error}"),
            }
        }
        all
    }
}

/// What is submitted.
enum Request<'a> {
    Archive(&'a [Sample]),
    Order(Value),
}

impl Request<'_> {
    async fn send(&self, api: &Api, key: &str) -> reqwest::Result<Answer> {
        let body = match self {
            Self::Archive(samples) => return api.try_submit(samples, Some(key)).await,
            Self::Order(body) => body,
        };
        let request = api
            .request(Method::POST, "/api/tasks/place-order")
            .header("idempotency-key", key);
        let answer = request.json(body).send().await?;
        let (status, bytes) = (answer.status(), answer.bytes().await?);
        Ok(answer_of(status, &bytes))
    }
}

struct Client {
    apis: Vec<Api>,
    full_until: FullUntil,
    accepted: Arc<[AtomicU64]>,
    old_reads: bool,
    is_crowd: bool,
    chance: Chance,
    name: String,
}

impl Client {
    async fn run(mut self, over: Arc<AtomicBool>) -> Vec<Submitted> {
        let mut all = Vec::new();
        let mut number = 0;
        while !over.load(Ordering::Relaxed) {
            number += 1;
            let key = format!("{}-{number}", self.name);
            let seed = self.chance.bits();
            let submitted = match self.chance.within(0, 10) {
                0..=5 => self.archive(&key, seed, false).await,
                6 => self.archive(&key, seed, true).await,
                7 | 8 => self.order(&key, false).await,
                _ => self.order(&key, true).await,
            };
            all.push(submitted);
        }
        all
    }

    fn pick(&mut self) -> usize {
        let at = self.chance.within(0, self.apis.len() as u64);
        usize::try_from(at).expect("a small number")
    }

    fn api(&mut self) -> Api {
        let at = self.pick();
        self.apis[at].clone()
    }

    async fn archive(&mut self, key: &str, seed: u64, cancels: bool) -> Submitted {
        let samples = Sample::pair(seed, SIZE);
        let mut submitted = self.accepted(key, &Request::Archive(&samples)).await;
        submitted.cancel = self.cancel(submitted.task, cancels).await;
        self.at_rest(&mut submitted).await;
        if submitted.status == Some(TaskStatus::Completed) {
            self.read(&mut submitted, &samples).await;
        }
        submitted
    }

    async fn order(&mut self, key: &str, cancels: bool) -> Submitted {
        let amount = self.chance.within(100, 5_000);
        let body =
            json!({"account": "anna", "item": "lamp", "quantity": 1, "amount_cents": amount});
        let mut submitted = self.accepted(key, &Request::Order(body)).await;
        submitted.cancel = self.cancel(submitted.task, cancels).await;
        self.at_rest(&mut submitted).await;
        submitted
    }

    /// Sends the same submission until it is accepted.
    async fn accepted(&mut self, key: &str, request: &Request<'_>) -> Submitted {
        let began = Instant::now();
        let mut anomalies = Vec::new();
        loop {
            let (sent, at) = (Instant::now(), self.pick());
            match request.send(&self.apis[at], key).await {
                Ok(Answer::Accepted(Accepted { task_id, .. })) => {
                    self.accepted[at].fetch_add(1, Ordering::SeqCst);
                    let is_order = matches!(request, Request::Order(_));
                    return Submitted {
                        task: task_id,
                        key: key.to_owned(),
                        is_order,
                        answered_in: sent.elapsed(),
                        status: None,
                        cancel: Cancel::NotAsked,
                        anomalies,
                    };
                }
                Ok(Answer::Refused(status, _)) if status.is_server_error() => {
                    let is_full = status == StatusCode::INSUFFICIENT_STORAGE
                        && self.full_until.is_after(sent);
                    if status != StatusCode::SERVICE_UNAVAILABLE && !is_full {
                        anomalies.push(format!("a submission was answered {status}"));
                    }
                }
                Ok(Answer::Refused(
                    _,
                    Problem {
                        code: ProblemCode::InProgress,
                        ..
                    },
                ))
                | Err(_) => {}
                Ok(Answer::Refused(StatusCode::TOO_MANY_REQUESTS, _)) if self.is_crowd => {}
                Ok(refused) => anomalies.push(format!("a submission was refused: {refused:?}")),
            }
            assert!(
                began.elapsed() < LIMIT,
                "no answer to a submission in {LIMIT:?}: {anomalies:?}"
            );
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn cancel(&mut self, task: TaskId, cancels: bool) -> Cancel {
        if !cancels {
            return Cancel::NotAsked;
        }
        // Not a wait for anything: it chooses the moment.
        tokio::time::sleep(Duration::from_millis(self.chance.within(0, 150))).await;
        let Ok(answer) = self
            .api()
            .request(Method::DELETE, &format!("/api/tasks/{task}"))
            .send()
            .await
        else {
            return Cancel::Other;
        };
        let status = answer.status();
        match (status, answer.json::<Problem>().await) {
            (StatusCode::ACCEPTED | StatusCode::OK, _) => Cancel::Accepted,
            (StatusCode::CONFLICT, Ok(problem))
                if problem.code == ProblemCode::AlreadyCompleted =>
            {
                Cancel::AlreadyCompleted
            }
            _ => Cancel::Other,
        }
    }

    async fn at_rest(&mut self, submitted: &mut Submitted) {
        let began = Instant::now();
        let path = format!("/api/tasks/{}?wait=5s", submitted.task);
        let status = loop {
            let answer = self.api().request(Method::GET, &path).send().await;
            match answer {
                Ok(answer) if answer.status() == StatusCode::NOT_FOUND && !self.old_reads => {
                    submitted
                        .anomalies
                        .push("an accepted task is unknown".to_owned());
                    return;
                }
                Ok(answer) if answer.status().is_success() => {
                    let view = answer.json::<TaskView>().await;
                    if let Some(view) = view.ok().filter(|view| view.status.is_at_rest()) {
                        break view.status;
                    }
                }
                Ok(_) | Err(_) => tokio::time::sleep(PAUSE).await,
            }
            if began.elapsed() > LIMIT {
                submitted
                    .anomalies
                    .push(format!("the task is not at rest after {LIMIT:?}"));
                return;
            }
        };
        submitted.status = Some(status);
    }

    async fn read(&mut self, submitted: &mut Submitted, samples: &[Sample]) {
        let began = Instant::now();
        let path = format!("/api/tasks/{}/result/zip", submitted.task);
        while began.elapsed() < LIMIT {
            if let Ok(answer) = self.api().request(Method::GET, &path).send().await
                && answer.status().is_success()
                && let Ok(bytes) = answer.bytes().await
            {
                let holds = std::panic::catch_unwind(|| archive::assert_holds(&bytes, samples));
                if holds.is_err() {
                    submitted
                        .anomalies
                        .push("its archive does not hold what was sent".to_owned());
                }
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
        submitted
            .anomalies
            .push("its archive cannot be read".to_owned());
    }
}

fn answer_of(status: StatusCode, body: &[u8]) -> Answer {
    let text = || String::from_utf8_lossy(body).into_owned();
    if status == StatusCode::ACCEPTED {
        Answer::Accepted(
            serde_json::from_slice(body).unwrap_or_else(|error| panic!("{error}: {}", text())),
        )
    } else {
        let problem = serde_json::from_slice(body)
            .unwrap_or_else(|error| panic!("{error}: {status} {}", text()));
        Answer::Refused(status, problem)
    }
}
