//! A program of the tests' own, as processes on the servers of a cluster.

use crate::api::Api;
use crate::cluster::Cluster;
use crate::process::{Launch, Process};
use std::path::PathBuf;

/// A program, and the cluster that its processes share.
#[derive(Debug)]
pub struct OwnProgram {
    /// The servers.
    pub cluster: Cluster,
    program: PathBuf,
    variables: Vec<(String, String)>,
}

impl OwnProgram {
    /// The program of this file, with a variable of its own. Its processes have these settings.
    ///
    /// # Panics
    /// When the servers do not start.
    #[must_use]
    pub fn start(program: &str, times: &'static [&'static str]) -> Self {
        let path = std::env::var("PATH").expect("a path");
        Self {
            cluster: Cluster::start(times),
            program: PathBuf::from(program),
            variables: vec![("PATH".to_owned(), path)],
        }
    }

    /// With a variable in the environment of each process.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// How to start it.
    pub fn launch<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Launch {
        Launch {
            program: self.program.clone(),
            arguments: arguments.into_iter().map(str::to_owned).collect(),
            variables: self.variables.clone(),
            user: None,
        }
    }

    /// A process of it.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn process(&self, arguments: &[&str]) -> Process {
        let data = self.cluster.place.data();
        let data = ["--data-dir", data.to_str().expect("UTF-8")];
        let flags = self.cluster.flags();
        let flags = flags.iter().map(String::as_str);
        let all = arguments.iter().chain(&data).copied().chain(flags);
        Process::launch(&self.cluster.place, &self.launch(all))
    }

    /// A worker that has started.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn worker(&self) -> Process {
        self.worker_with(&["--concurrency", "16"])
    }

    /// The same, with these settings.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn worker_with(&self, settings: &[&str]) -> Process {
        self.started(&[&["worker"], settings].concat(), "worker started")
    }

    /// A reconciler that has started, with a pass every second.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn reconciler(&self) -> Process {
        self.started(&["reconciler", "--every", "1s"], "reconciler started")
    }

    fn started(&self, arguments: &[&str], line: &'static str) -> Process {
        let mut process = self.process(arguments);
        process.says("that it has started", |said| {
            said.contains(line).then_some(())
        });
        process
    }

    /// An API, and a client of it.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn api(&self) -> (Process, Api) {
        self.api_with(&[])
    }

    /// An API with these flags.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn api_with(&self, flags: &[&str]) -> (Process, Api) {
        let arguments = [&["api", "--listen", "127.0.0.1:0"], flags].concat();
        let mut api = self.process(&arguments);
        let address = api.says("its address", |said| {
            let (_, after) = said.split_once("address=")?;
            Some(after.split_once('\n')?.0.trim().to_owned())
        });
        (api, Api::at(&address))
    }

    /// Each journal folds to its row, and no event is illegal.
    ///
    /// # Panics
    /// Where one does not.
    pub fn assert_sound(&self) {
        let launch = self.launch(["fsck", "--database", &self.cluster.database]);
        let status = Process::launch(&self.cluster.place, &launch).ended();
        assert!(status.success(), "fsck: {status}");
    }
}
