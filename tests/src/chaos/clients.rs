//! The clients of a chaos run: each has one task in flight, keeps its idempotency key until it has
//! an answer, reads the task all the while, and its end. Each call is noted with its times. Reads no
//! rows, and does not judge what the states contradict.

use super::Options;
use super::faults::FullUntil;
use super::fleet::Fleet;
use super::history::{Asked, Call, Got, Shown};
use super::judged::{Cancel, Submitted, Unfit};
use super::soak::BETWEEN_TASKS;
use super::strikes::Strikes;
use crate::api::{Answer, Api};
use crate::archive;
use crate::sample::{Chance, Sample};
use counterstep_contracts::http::{Accepted, CancelAnswer, TaskView};
use counterstep_contracts::{Problem, ProblemCode, TaskId, TaskStatus};
use reqwest::{Method, RequestBuilder, StatusCode};
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

/// All readers together read this often on average.
const READS_A_SECOND: u64 = 60;

/// What clients have submitted.
#[derive(Debug, Default)]
pub(super) struct Load {
    pub(super) submitted: Vec<Submitted>,
    /// Submissions that no API may accept.
    pub(super) unfit: Vec<Unfit>,
}

pub(super) struct Clients {
    over: Arc<AtomicBool>,
    /// How many submissions each API has accepted.
    accepted: Arc<[AtomicU64]>,
    running: Vec<JoinHandle<Load>>,
}

impl Clients {
    pub(super) fn start(fleet: &Fleet, options: &Options, full_until: &FullUntil) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let accepted: Arc<[AtomicU64]> = fleet.apis.iter().map(|_| AtomicU64::new(0)).collect();
        let began = Instant::now();
        let running = (0..options.clients)
            .map(|number| {
                let client = Client {
                    apis: fleet.apis.clone(),
                    full_until: full_until.clone(),
                    accepted: accepted.clone(),
                    old_reads: options.left_behind.is_some(),
                    is_crowd: options.clients > MOST_OF_ONE_ADDRESS,
                    chance: Chance::new(options.seed.wrapping_mul(1_000).wrapping_add(number)),
                    name: format!("{}-{number}", options.seed),
                    began,
                    between_reads: Duration::from_millis(1_000 * options.clients / READS_A_SECOND),
                    between_tasks: match options.strikes {
                        Strikes::Soak => BETWEEN_TASKS,
                        Strikes::All | Strikes::NatsCluster(_) => Duration::ZERO,
                    },
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
    pub(super) async fn stop(self) -> Load {
        self.over.store(true, Ordering::Relaxed);
        let mut all = Load::default();
        for client in self.running {
            match client.await {
                Ok(load) => {
                    all.submitted.extend(load.submitted);
                    all.unfit.extend(load.unfit);
                }
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
    /// Begin of the run.
    began: Instant,
    /// Mean time between two reads of its task.
    between_reads: Duration,
    /// At least, between the begins of two tasks.
    between_tasks: Duration,
}

impl Client {
    async fn run(mut self, over: Arc<AtomicBool>) -> Load {
        let mut all = Load::default();
        let mut number = 0;
        while !over.load(Ordering::Relaxed) {
            number += 1;
            let next = tokio::time::Instant::now() + self.between_tasks;
            let key = format!("{}-{number}", self.name);
            let seed = self.chance.bits();
            let submitted = match self.chance.within(0, 10) {
                0..=5 => self.archive(&key, seed, false).await,
                6 => self.archive(&key, seed, true).await,
                7 | 8 => self.order(&key, false).await,
                _ => self.order(&key, true).await,
            };
            all.submitted.push(submitted);
            if self.chance.within(0, 10) == 0 {
                all.unfit.push(self.unfit(format!("{key}-unfit")).await);
            }
            // Not a wait for anything: it is the pace of the load.
            tokio::time::sleep_until(next).await;
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
        self.follow(&mut submitted, cancels).await;
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
        self.follow(&mut submitted, cancels).await;
        submitted
    }

    /// Until the task is at rest, with a reader beside, and a look at what is answered then.
    async fn follow(&mut self, submitted: &mut Submitted, cancels: bool) {
        let reader = self.reader(submitted.task);
        if cancels {
            submitted.cancel = self.cancel(submitted).await;
        }
        self.at_rest(submitted).await;
        submitted.calls.extend(reader.stop().await);
        if submitted.status.is_some() {
            self.after_rest(submitted).await;
        }
        submitted.calls.sort_by_key(|call| call.began);
    }

    /// A request that is not whole: no API may accept it.
    async fn unfit(&mut self, key: String) -> Unfit {
        let at = self.pick();
        let request = self.apis[at]
            .request(Method::POST, "/api/tasks/place-order")
            .header("idempotency-key", &key)
            .json(&json!({"account": "anna"}));
        let sent = Instant::now();
        let got = outcome_of(request).await;
        let call = self.call(sent, at, Asked::Submit, got);
        Unfit { key, call }
    }

    fn call(&self, sent: Instant, api: usize, asked: Asked, got: Got) -> Call {
        Call {
            began: sent.duration_since(self.began),
            ended: self.began.elapsed(),
            api,
            asked,
            got,
        }
    }

    /// Sends the same submission until it is accepted.
    async fn accepted(&mut self, key: &str, request: &Request<'_>) -> Submitted {
        let began = Instant::now();
        let (mut anomalies, mut calls) = (Vec::new(), Vec::new());
        loop {
            let (sent, at) = (Instant::now(), self.pick());
            let answer = request.send(&self.apis[at], key).await;
            calls.push(self.call(sent, at, Asked::Submit, answered(&answer)));
            match answer {
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
                        calls,
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

    async fn cancel(&mut self, submitted: &mut Submitted) -> Cancel {
        // Not a wait for anything: it chooses the moment.
        tokio::time::sleep(Duration::from_millis(self.chance.within(0, 150))).await;
        match self.change(submitted, Asked::Cancel).await {
            Got::Accepted(_) => Cancel::Accepted,
            Got::Refused(ProblemCode::AlreadyCompleted) => Cancel::AlreadyCompleted,
            Got::Refused(_) | Got::Open | Got::Shown(_) => Cancel::Other,
        }
    }

    /// Asks for a change of a task.
    async fn change(&mut self, submitted: &mut Submitted, asked: Asked) -> Got {
        let at = self.pick();
        let path = format!("/api/tasks/{}", submitted.task);
        let api = &self.apis[at];
        let request = match asked {
            Asked::Cancel => api.request(Method::DELETE, &path),
            _ => api
                .request(Method::POST, &format!("{path}/retry"))
                .json(&json!({"note": "a client of the chaos run"})),
        };
        let sent = Instant::now();
        let got = outcome_of(request).await;
        submitted
            .calls
            .push(self.call(sent, at, asked, got.clone()));
        got
    }

    /// What a task at rest does not take, and a look at it through each API.
    async fn after_rest(&mut self, submitted: &mut Submitted) {
        match self.chance.within(0, 4) {
            0 => _ = self.change(submitted, Asked::Cancel).await,
            1 => _ = self.change(submitted, Asked::Retry).await,
            _ => {}
        }
        let path = format!("/api/tasks/{}", submitted.task);
        for at in 0..self.apis.len() {
            let sent = Instant::now();
            let got = look(&self.apis[at], &path).await;
            submitted.calls.push(self.call(sent, at, Asked::Read, got));
        }
    }

    /// Reads a task now and then, through one API or another, until it is stopped.
    fn reader(&mut self, task: TaskId) -> Reader {
        let over = Arc::new(AtomicBool::new(false));
        let (apis, began) = (self.apis.clone(), self.began);
        let mut chance = Chance::new(self.chance.bits());
        let most = 2 * u64::try_from(self.between_reads.as_millis()).expect("a short time") + 1;
        let is_over = over.clone();
        let read = async move {
            let path = format!("/api/tasks/{task}");
            let mut calls = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let at =
                    usize::try_from(chance.within(0, apis.len() as u64)).expect("a small number");
                let sent = began.elapsed();
                let got = look(&apis[at], &path).await;
                calls.push(Call {
                    began: sent,
                    ended: began.elapsed(),
                    api: at,
                    asked: Asked::Read,
                    got,
                });
                // Not a wait for anything: it chooses the moment.
                tokio::time::sleep(Duration::from_millis(chance.within(0, most))).await;
            }
            calls
        };
        Reader {
            over,
            running: tokio::spawn(read),
        }
    }

    async fn at_rest(&mut self, submitted: &mut Submitted) {
        let began = Instant::now();
        let path = format!("/api/tasks/{}?wait=5s", submitted.task);
        let status = loop {
            let (sent, at) = (Instant::now(), self.pick());
            let got = look(&self.apis[at], &path).await;
            submitted
                .calls
                .push(self.call(sent, at, Asked::Read, got.clone()));
            match got {
                // What it contradicts is in its history.
                Got::Refused(ProblemCode::NoSuchTask) if !self.old_reads => return,
                Got::Shown(shown) if shown.status.is_at_rest() => break shown.status,
                Got::Shown(_) => {}
                _ => tokio::time::sleep(PAUSE).await,
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

/// Reads a task beside its client.
struct Reader {
    over: Arc<AtomicBool>,
    running: JoinHandle<Vec<Call>>,
}

impl Reader {
    async fn stop(self) -> Vec<Call> {
        self.over.store(true, Ordering::Relaxed);
        self.running.await.expect("a reader ends")
    }
}

/// What a read of a task shows.
async fn look(api: &Api, path: &str) -> Got {
    let Ok(answer) = api.request(Method::GET, path).send().await else {
        return Got::Open;
    };
    if !answer.status().is_success() {
        return refusal(answer).await;
    }
    let view = answer.json::<TaskView>().await;
    view.map_or(Got::Open, |view| Got::Shown(Shown::from(&view)))
}

/// What becomes of a change.
async fn outcome_of(request: RequestBuilder) -> Got {
    match request.send().await {
        Ok(answer) if answer.status().is_success() => {
            let answer = answer.json::<CancelAnswer>().await;
            Got::Accepted(answer.ok().map(|answer| answer.status))
        }
        Ok(answer) => refusal(answer).await,
        Err(_) => Got::Open,
    }
}

/// A refusal for good; with a status of 500 and more it is open what was done.
async fn refusal(answer: reqwest::Response) -> Got {
    let status = answer.status();
    let problem = answer.json::<Problem>().await;
    match problem {
        Ok(problem) if status.is_client_error() => Got::Refused(problem.code),
        Ok(_) | Err(_) => Got::Open,
    }
}

fn answered(answer: &reqwest::Result<Answer>) -> Got {
    match answer {
        Ok(Answer::Accepted(Accepted { status, .. })) => Got::Accepted(Some(*status)),
        Ok(Answer::Refused(status, problem)) if status.is_client_error() => {
            Got::Refused(problem.code)
        }
        Ok(Answer::Refused(..)) | Err(_) => Got::Open,
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
