//! The three services as processes of their own, and a client that speaks HTTP with them.

use crate::failed::Failed;
use crate::load::Client;
use crate::work;
use counterstep_contracts::TaskStatus;
use counterstep_contracts::http::TaskView;
use counterstep_testkit::servers::{Nats, Redis};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The services; they end with this value.
pub(crate) struct Services {
    pub(crate) api: Service,
    pub(crate) worker: Service,
    pub(crate) reconciler: Service,
    address: SocketAddr,
}

/// One process.
pub(crate) struct Service(Child);

impl Service {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the three on a migrated database, and waits until the API is ready.
pub(crate) async fn start(database: &str, nats: &Nats, redis: &Redis) -> Result<Services, Failed> {
    let address = free_address()?;
    let start = |role: &str| -> Result<Service, Failed> {
        let program = std::env::current_exe().map_err(Failed::of)?;
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("COUNTERSTEP_") {
                command.env_remove(name);
            }
        }
        let data =
            std::env::temp_dir().join(format!("counterstep-bench-{}-{role}", std::process::id()));
        command
            .args(["--role", role, "--log", "error"])
            .env("COUNTERSTEP_DATABASE", database)
            .env("COUNTERSTEP_NATS", nats.url())
            .env("COUNTERSTEP_REDIS", redis.url())
            .env("COUNTERSTEP_DATA_DIR", data)
            .env("COUNTERSTEP_LISTEN", address.to_string())
            .stdin(Stdio::null());
        command
            .spawn()
            .map(Service)
            .map_err(|error| Failed(format!("the {role} cannot be started: {error}")))
    };
    let services = Services {
        api: start("api")?,
        worker: start("worker")?,
        reconciler: start("reconciler")?,
        address,
    };
    services.ready().await?;
    Ok(services)
}

fn free_address() -> Result<SocketAddr, Failed> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Failed::of)?;
    listener.local_addr().map_err(Failed::of)
}

impl Services {
    async fn ready(&self) -> Result<(), Failed> {
        let until = Instant::now() + Duration::from_secs(20);
        let url = format!("http://{}/readyz", self.address);
        let http = reqwest::Client::new();
        loop {
            let last = match http.get(&url).send().await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => format!(
                    "{}: {}",
                    answer.status(),
                    answer.text().await.unwrap_or_default()
                ),
                Err(error) => error.to_string(),
            };
            if Instant::now() >= until {
                return Err(Failed(format!("the API did not get ready: {last}")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// A client that submits over HTTP and waits for the outcome in the same request. `fails`:
    /// tasks that are to fail.
    /// `labels`: of each task; one is its own, the others are those of many.
    pub(crate) fn client(&self, fails: bool, labels: u8) -> Client {
        let submitted = Arc::new(AtomicU64::new(0));
        let http = reqwest::Client::new();
        let base = format!("http://{}/api/tasks", self.address);
        let (task, expected) = if fails {
            ("bench-fails", TaskStatus::Failed)
        } else {
            ("bench", TaskStatus::Completed)
        };
        Arc::new(move || {
            let (http, base) = (http.clone(), base.clone());
            let number = submitted.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                let failed = |error: reqwest::Error| Failed(error.to_string());
                let mut request = http
                    .post(format!("{base}/{task}?wait=60s"))
                    .json(&work::request());
                for label in 0..labels {
                    let value = if label == 0 { number } else { number % 100 };
                    request = request.header("counterstep-label", format!("label-{label}={value}"));
                }
                let answer = request.send().await.map_err(failed)?;
                let status = answer.status();
                if status != reqwest::StatusCode::OK {
                    let body = answer.text().await.unwrap_or_default();
                    return Err(Failed(format!(
                        "a submission was answered {status}: {body}"
                    )));
                }
                let view: TaskView = answer.json().await.map_err(failed)?;
                match view.status {
                    status if status == expected => Ok(()),
                    status => Err(Failed(format!("a task ended {status}"))),
                }
            })
        })
    }
}
