//! The API and the worker in this process, under clocks that stand still, and a client of theirs.

use crate::work;
use counterstep_api::ApiSettings;
use counterstep_contracts::http::TaskView;
use counterstep_contracts::{Host, TaskStatus};
use counterstep_kernel::host::{self, HostSettings};
use counterstep_kernel::ports::{Clock, Ports};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_steps::Registry;
use counterstep_steps::{CancelReason, CancelToken};
use counterstep_testkit::many_tasks::eventually;
use counterstep_worker::WorkerSettings;
use futures::future::BoxFuture;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The types whose tasks are counted.
pub(super) fn registry() -> Registry {
    Registry::new()
        .with::<crate::work::Bench>()
        .with::<counterstep_tasks::CreateZipFromFiles>()
}

/// Longer than a test takes: what waits for it by the machine's time does not come to its end.
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// How many of a kind are under way.
#[derive(Debug, Clone, Default)]
struct Count(Arc<AtomicUsize>);

/// One of them. It ends with its drop, as a wait does for which something else was sooner.
struct UnderWay(Count);

impl Count {
    fn begin(&self) -> UnderWay {
        self.0.fetch_add(1, Ordering::SeqCst);
        UnderWay(self.clone())
    }

    fn now(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A clock at which no time passes. What waits for some waits for good, and so no loop goes through
/// its round again.
#[derive(Debug, Clone, Default)]
pub(super) struct StillClock {
    waits: Count,
}

impl Clock for StillClock {
    fn monotonic(&self) -> Duration {
        NEVER
    }

    fn unix_millis(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let waits = self.waits.clone();
        Box::pin(async move {
            if duration.is_zero() {
                return;
            }
            let _under_way = waits.begin();
            std::future::pending().await
        })
    }
}

/// The processes of an installation.
pub(super) struct Roles {
    address: SocketAddr,
    http: reqwest::Client,
    clock: StillClock,
    turns: Count,
    /// Waits of their loops when they have nothing to do.
    idle_waits: usize,
    shutdown: CancelToken,
}

impl Drop for Roles {
    fn drop(&mut self) {
        self.shutdown.cancel(CancelReason::Shutdown);
    }
}

impl Roles {
    /// Starts an API and a worker, on ports with this clock.
    pub(super) async fn start(api: Ports, worker: Ports, clock: StillClock) -> Self {
        counterstep_node::install_provider();
        let registry = Arc::new(registry());
        let engine =
            |ports, name| Engine::new(ports, registry.clone(), EngineSettings::default(), name);
        let (api, worker) = (engine(api, "api"), engine(worker, "worker"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shutdown = CancelToken::new();
        let settings = ApiSettings {
            workers: 1,
            keep_alive: NEVER,
            wait_poll: NEVER,
            event_poll: NEVER,
            history_every: NEVER,
            ..ApiSettings::default()
        };
        let of_api = HostSettings {
            poll: NEVER,
            ..HostSettings::for_all(&registry, Host::Api, 4)
        };
        let of_worker = WorkerSettings {
            queues: Vec::new(),
            concurrency: 4,
            poll: NEVER,
        };
        let turns = Count::default();
        let begun = turns.clone();
        let spawn: host::Spawn = Arc::new(move |turn| {
            let under_way = begun.begin();
            tokio::spawn(async move {
                let _under_way = under_way;
                turn.await;
            });
        });
        tokio::spawn(host::serve(
            api.clone(),
            of_api,
            shutdown.clone(),
            spawn.clone(),
        ));
        tokio::spawn(counterstep_worker::serve(
            worker,
            of_worker,
            shutdown.clone(),
            spawn,
        ));
        tokio::spawn(counterstep_api::serve(
            api,
            settings,
            listener,
            shutdown.clone(),
        ));
        let mut roles = Self {
            address,
            http: reqwest::Client::new(),
            clock,
            turns,
            idle_waits: 0,
            shutdown,
        };
        roles.submit_json().await;
        roles.idle_waits = roles.steady_waits().await;
        roles
    }

    /// The waits without a turn, once they have not changed for a while.
    async fn steady_waits(&self) -> usize {
        let (mut last, mut looks) = (0, 0);
        let (last, looks) = (&mut last, &mut looks);
        eventually("loops that have started", || {
            let waits = self.clock.waits.now();
            let is_steady = waits == *last && self.turns.now() == 0;
            *looks = if is_steady { *looks + 1 } else { 0 };
            *last = waits;
            let steady = (*looks >= 100).then_some(waits);
            async move { steady }
        })
        .await
    }

    /// Waits until no turn is under way, and each loop waits.
    pub(super) async fn idle(&self) {
        eventually("processes with nothing to do", || async {
            let is_idle = self.turns.now() == 0 && self.clock.waits.now() == self.idle_waits;
            is_idle.then_some(())
        })
        .await;
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/api/tasks{path}", self.address)
    }

    /// Submits a task of three steps and waits for its end; its id.
    pub(super) async fn submit_json(&self) -> String {
        let url = self.url("/bench?wait=60s");
        self.completed(self.http.post(url).json(&work::request()))
            .await
    }

    /// The same for an archive of two small files.
    pub(super) async fn submit_zip(&self) -> String {
        let part = |text: &'static str| reqwest::multipart::Part::text(text).file_name("a.txt");
        let form = reqwest::multipart::Form::new()
            .part("files", part("first"))
            .part("files", part("second"));
        let url = self.url("/create-zip-from-files?wait=60s");
        self.completed(self.http.post(url).multipart(form)).await
    }

    /// Asks for a task.
    pub(super) async fn look(&self, id: &str) {
        self.completed(self.http.get(self.url(&format!("/{id}"))))
            .await;
    }

    async fn completed(&self, request: reqwest::RequestBuilder) -> String {
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        let body = answer.text().await.expect("a body");
        assert_eq!(status, 200, "{body}");
        let view: TaskView = serde_json::from_str(&body).expect("a task");
        assert_eq!(view.status, TaskStatus::Completed, "{body}");
        view.task_id.to_string()
    }
}
