//! The program `effects` on real servers: its processes, and what its steps noted outside of the
//! engine.

use crate::api::Api;
use crate::cluster::Cluster;
use crate::process::{Launch, Process};
use crate::wait::{SOON, until};
use counterstep_contracts::TaskId;
use counterstep_contracts::http::Accepted;
use reqwest::Method;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
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

    /// A data folder that no process has, as on a machine of its own.
    #[must_use]
    pub fn machine(&self) -> PathBuf {
        let number = self.processes.fetch_add(1, Ordering::Relaxed);
        self.cluster.place.path().join(format!("data-{number}"))
    }

    /// How a process of the program is started: on a machine of its own.
    ///
    /// # Panics
    /// When this process has no `PATH`.
    #[must_use]
    pub fn process(&self, arguments: &[&str]) -> Process {
        self.process_on(&self.machine(), arguments)
    }

    /// The same on a machine that is there.
    ///
    /// # Panics
    /// When this process has no `PATH`.
    #[must_use]
    pub fn process_on(&self, machine: &Path, arguments: &[&str]) -> Process {
        let data = ["--data-dir".to_owned(), machine.display().to_string()];
        let arguments = arguments.iter().map(|&it| it.to_owned());
        // What the arguments say of a server holds.
        let given: Vec<_> = arguments.clone().collect();
        let mut flags = self.cluster.flags();
        if let Some(at) = flags.iter().position(|flag| flag == "--database")
            && given.contains(&flags[at])
        {
            flags.drain(at..at + 2);
        }
        let launch = Launch {
            program: self.program.clone(),
            arguments: arguments.chain(data).chain(flags).collect(),
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
        self.worker_on(&self.machine(), flags)
    }

    /// The same on a machine that is there.
    #[must_use]
    pub fn worker_on(&self, machine: &Path, flags: &[&str]) -> Process {
        let mut worker = self.process_on(machine, &[&["worker"], flags].concat());
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
        self.noted(" finished")
    }

    /// How often each has begun.
    #[must_use]
    pub fn begun(&self) -> BTreeMap<String, u32> {
        self.noted(" began")
    }

    fn noted(&self, what: &str) -> BTreeMap<String, u32> {
        let lines = std::fs::read_to_string(self.effects()).unwrap_or_default();
        let mut noted = BTreeMap::new();
        for line in lines.lines() {
            if let Some(key) = line.strip_suffix(what) {
                let key = key.split(' ').next().unwrap_or(key);
                *noted.entry(key.to_owned()).or_default() += 1;
            }
        }
        noted
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

/// What steps logged after this word, up to the next one.
#[must_use]
pub fn logged(log: &[String], word: &str) -> Vec<String> {
    let said = log
        .iter()
        .filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    let first = |said: &str| said.split(' ').next().map(str::to_owned);
    said.filter_map(first).collect()
}

/// Whether there is a process of this number.
#[must_use]
pub fn runs(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

/// Waits for the end of processes.
///
/// # Panics
/// When one goes on.
pub async fn until_gone(pids: &[String]) {
    assert!(!pids.is_empty());
    let gone = || async { pids.iter().all(|pid| !runs(pid)).then_some(()) };
    until(&format!("the end of {pids:?}"), SOON, gone).await;
}
