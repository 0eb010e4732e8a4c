//! The program `effects` on real servers: its processes, and what its steps noted outside of the
//! engine.

use crate::api::Api;
use crate::cluster::Cluster;
use crate::process::{Launch, Process};
use counterstep_contracts::TaskId;
use counterstep_contracts::http::Accepted;
use reqwest::Method;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The program on the servers of a cluster.
#[derive(Debug)]
pub struct Fleet {
    /// The servers.
    pub cluster: Cluster,
    program: PathBuf,
    processes: AtomicUsize,
}

impl Fleet {
    /// Starts the servers. `program`: the path of `effects`, which cargo tells the tests alone.
    #[must_use]
    pub fn start(program: &str, times: &[&str]) -> Self {
        Self {
            cluster: Cluster::start(times),
            program: PathBuf::from(program),
            processes: AtomicUsize::new(0),
        }
    }

    fn effects(&self) -> PathBuf {
        self.cluster.place.path().join("effects")
    }

    /// How a process of the program is started: with a data folder of its own, as on a machine of
    /// its own.
    ///
    /// # Panics
    /// When this process has no `PATH`.
    #[must_use]
    pub fn process(&self, arguments: &[&str]) -> Process {
        let number = self.processes.fetch_add(1, Ordering::Relaxed);
        let data = self.cluster.place.path().join(format!("data-{number}"));
        let data = ["--data-dir".to_owned(), data.display().to_string()];
        let arguments = arguments.iter().map(|&it| it.to_owned());
        let launch = Launch {
            program: self.program.clone(),
            arguments: arguments.chain(data).chain(self.cluster.flags()).collect(),
            variables: vec![
                ("PATH".to_owned(), std::env::var("PATH").expect("a path")),
                ("EFFECTS".to_owned(), self.effects().display().to_string()),
            ],
            user: None,
        };
        Process::launch(&self.cluster.place, &launch)
    }

    /// A worker, once it takes tasks.
    #[must_use]
    pub fn worker(&self, flags: &[&str]) -> Process {
        let mut worker = self.process(&[&["worker"], flags].concat());
        worker.says("that it has started", |said| {
            said.contains("worker started").then_some(())
        });
        worker
    }

    /// An API.
    #[must_use]
    pub fn api(&self) -> (Process, Api) {
        let mut api = self.process(&["api", "--listen", "127.0.0.1:0"]);
        let address = api.says("its address", |said| {
            crate::services::after(said, "address=", '\n')
        });
        (api, Api::at(&address))
    }

    /// How often each effect was finished, by its key.
    #[must_use]
    pub fn finished(&self) -> BTreeMap<String, u32> {
        let noted = std::fs::read_to_string(self.effects()).unwrap_or_default();
        let mut finished = BTreeMap::new();
        for line in noted.lines() {
            if let Some(key) = line.strip_suffix(" finished") {
                let key = key.split(' ').next().unwrap_or(key);
                *finished.entry(key.to_owned()).or_default() += 1;
            }
        }
        finished
    }

    /// Those that were finished more than once.
    #[must_use]
    pub fn repeated(&self) -> Vec<String> {
        let mut finished = self.finished();
        finished.retain(|_, times| *times > 1);
        finished.into_keys().collect()
    }
}

/// Submits a JSON request of a task type.
///
/// # Panics
/// When it is not accepted.
pub async fn submit(api: &Api, route: &str, request: &Value) -> TaskId {
    let path = format!("/api/tasks/{route}");
    let answer = api.request(Method::POST, &path).json(request).send().await;
    let answer = answer.expect("an answer");
    let status = answer.status();
    let body = answer.text().await.expect("a body");
    assert_eq!(status.as_u16(), 202, "{body}");
    let accepted: Accepted = serde_json::from_str(&body).expect("an accepted task");
    accepted.task_id
}
