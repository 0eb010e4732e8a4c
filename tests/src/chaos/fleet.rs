//! The processes of a chaos run and the servers behind them. Owns how a process is started again
//! after a fault; must not decide when one strikes.

use super::soak::{self, Pids};
use super::strikes::Strikes;
use crate::api::Api;
use crate::cluster::Cluster;
use crate::process::{Process, Signal, can_shift_clocks, wrong_clock};
use crate::rows::Rows;
use crate::sample::Chance;
use crate::services::{after, free_port};
use counterstep_testkit::servers::Proxy;
use counterstep_testkit::services::Services;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Length of a lease: a process that is paused for longer loses its tasks.
pub(super) const LEASE: Duration = Duration::from_secs(3);

const TIMES: &[&str] = &[
    "--lease",
    "3s",
    "--step-timeout",
    "20s",
    "--upload-timeout",
    "10s",
    "--test-time",
    "cancel_grace=500ms",
    "--drain",
    "2s",
    "--config",
    "settings.toml",
];

/// How often is looked for a moment when a fault would meet something.
pub(super) const LOOKS: u32 = 40;

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Api(u16),
    Worker,
    Reconciler,
}

impl Role {
    pub(super) fn is_worker(self) -> bool {
        self == Self::Worker
    }

    pub(super) fn is_api(self) -> bool {
        matches!(self, Self::Api(_))
    }

    pub(super) fn is_reconciler(self) -> bool {
        self == Self::Reconciler
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Api(_) => "api",
            Self::Worker => "worker",
            Self::Reconciler => "reconciler",
        }
    }
}

/// A running process; `None` only while it is replaced.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) role: Role,
    /// Among those of its role, from 1.
    number: usize,
    /// Where it reaches the database.
    address: String,
    pub(super) process: Option<Process>,
}

/// Two APIs, three workers, two reconcilers, their servers, and the HTTP services of the orders.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) cluster: Cluster,
    pub(super) proxy: Proxy,
    pub(super) services: Services,
    pub(super) members: Vec<Member>,
    pub(super) apis: Vec<Api>,
    pub(super) pids: Pids,
    strikes: Strikes,
}

impl Fleet {
    pub(super) async fn start(strikes: Strikes) -> Self {
        let mut cluster = Cluster::start(TIMES_BEFORE_SETTINGS);
        if let Strikes::NatsCluster(_) = strikes {
            cluster = cluster.with_nats_cluster();
        }
        let proxy = Proxy::to(cluster.servers.postgres.port());
        let address = proxy.url(&cluster.database);
        Self::behind(cluster, proxy, &[address], strikes).await
    }

    /// On a cluster whose database is reached at these addresses, by the members of a role in turn.
    pub(super) async fn behind(
        mut cluster: Cluster,
        proxy: Proxy,
        addresses: &[String],
        strikes: Strikes,
    ) -> Self {
        let services = Services::start().await;
        let service = |name: &str| {
            format!(
                "[services.{name}]\nurl = {:?}\ntoken_file = {:?}\n",
                services.url(name),
                services.token_file()
            )
        };
        let of_soak = (strikes == Strikes::Soak).then(soak::settings);
        let of_services = ["inventory", "bank", "shipping"].map(service).concat();
        let settings = of_soak.unwrap_or_default() + &of_services;
        std::fs::write(cluster.place.path().join("settings.toml"), settings)
            .expect("the settings are written");
        cluster.database = proxy.url(&cluster.database);
        cluster.set_flags(TIMES);
        let roles = [
            Role::Api(free_port()),
            Role::Worker,
            Role::Worker,
            Role::Worker,
            Role::Reconciler,
            Role::Reconciler,
        ];
        let mut fleet = Self {
            cluster,
            proxy,
            services,
            members: Vec::new(),
            apis: Vec::new(),
            pids: Pids::default(),
            strikes,
        };
        for role in roles {
            fleet.add(role, addresses);
        }
        // Its port is looked for once the first one listens.
        fleet.add(Role::Api(free_port()), addresses);
        fleet
    }

    fn add(&mut self, role: Role, addresses: &[String]) {
        let kind = std::mem::discriminant(&role);
        let members = self.members.iter();
        let alike = members.filter(|it| std::mem::discriminant(&it.role) == kind);
        let alike = alike.count();
        let address = addresses[alike % addresses.len()].clone();
        let process = Some(self.begin((role, alike + 1), &address, 0));
        if let Role::Api(port) = role {
            self.apis.push(Api::at(&format!("127.0.0.1:{port}")));
        }
        self.members.push(Member {
            role,
            number: alike + 1,
            address,
            process,
        });
    }

    fn begin(&self, (role, number): (Role, usize), address: &str, skew: i64) -> Process {
        let variables = if skew == 0 {
            Vec::new()
        } else {
            wrong_clock(skew)
        };
        let variables: Vec<(&str, &Path)> = variables
            .iter()
            .map(|(name, value)| (*name, value.as_path()))
            .collect();
        let (command, said) = match role {
            Role::Api(port) => (
                vec![
                    "api".to_owned(),
                    "--listen".to_owned(),
                    format!("127.0.0.1:{port}"),
                ],
                "address=",
            ),
            Role::Worker => (vec!["worker".to_owned()], "worker started worker="),
            Role::Reconciler => (
                vec![
                    "reconciler".to_owned(),
                    "--every".to_owned(),
                    "1s".to_owned(),
                ],
                "reconciler started",
            ),
        };
        let flags = [command, self.cluster.flags_at(address)].concat();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let mut process = Process::start_with(&self.cluster.place, &flags, &variables);
        process.says("that it has started", |log| {
            log.contains(said).then_some(())
        });
        let name = format!("{} {number}", role.name());
        self.pids.lock().insert(name, process.id());
        process
    }

    /// Starts a member again, with a clock that is wrong by `skew` seconds.
    pub(super) fn begin_again(&mut self, at: usize, skew: i64) {
        let Member {
            role,
            number,
            address,
            ..
        } = &self.members[at];
        let process = self.begin((*role, *number), address, skew);
        self.members[at].process = Some(process);
    }

    /// Takes a member's process away from it.
    pub(super) fn take(&mut self, at: usize) -> Process {
        self.members[at]
            .process
            .take()
            .expect("a member has a process between faults")
    }

    /// One of the members of a role.
    pub(super) fn pick(&self, of: fn(Role) -> bool, chance: &mut Chance) -> usize {
        self.pick_of(|member| of(member.role), chance)
    }

    /// One of those whose process may end.
    pub(super) fn pick_to_end(&self, of: fn(Role) -> bool, chance: &mut Chance) -> usize {
        let may_end = |it: &Member| it.number > 1 || self.strikes != Strikes::Soak;
        self.pick_of(|member| of(member.role) && may_end(member), chance)
    }

    fn pick_of(&self, fits: impl Fn(&Member) -> bool, chance: &mut Chance) -> usize {
        let members = 0..self.members.len();
        let fitting: Vec<usize> = members.filter(|at| fits(&self.members[*at])).collect();
        fitting[usize::try_from(chance.within(0, fitting.len() as u64)).expect("a small number")]
    }

    pub(super) fn signal(&self, at: usize, signal: Signal) {
        self.members[at]
            .process
            .as_ref()
            .expect("a member has a process between faults")
            .signal(signal);
    }

    /// Pauses a worker at a moment when it has a task, where there is one soon. Returns whether it
    /// has.
    pub(super) async fn stand_still(&mut self, at: usize) -> bool {
        let process = self.members[at]
            .process
            .as_mut()
            .expect("a member has a process between faults");
        let id = process.says("its id", |log| after(log, "worker started worker=", ' '));
        let rows = Rows::of_cluster(&self.cluster).await;
        for _ in 0..LOOKS {
            self.signal(at, Signal::Stop);
            if !rows.leased_to(&id).await.is_empty() {
                return true;
            }
            self.signal(at, Signal::Continue);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.signal(at, Signal::Stop);
        false
    }

    /// Whether the log of a member begins with a time that is not this machine's.
    pub(super) fn has_wrong_clock(&self, at: usize) -> bool {
        let log = self.members[at]
            .process
            .as_ref()
            .map(Process::log)
            .unwrap_or_default();
        let first = log
            .split_whitespace()
            .next()
            .and_then(|word| word.parse::<jiff::Timestamp>().ok());
        first.is_some_and(|at| at.duration_until(jiff::Timestamp::now()).abs().as_secs() > 20)
    }

    fn log_files(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.cluster.place.path()).expect("the folder of the logs");
        let paths = files.flatten().map(|entry| entry.path());
        paths
            .filter(|path| {
                path.extension().is_some_and(|it| it == "log")
                    && !path.to_string_lossy().ends_with(".stdout.log")
            })
            .collect()
    }

    /// Whether clocks can be wrong on this machine.
    pub(super) fn can_shift_clocks() -> bool {
        can_shift_clocks()
    }

    /// What all processes have logged, also those that are gone.
    pub(super) fn logs(&self) -> String {
        let logs = self.log_files().into_iter();
        logs.map(|log| {
            String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned()
        })
        .collect()
    }
}

/// The schema is made before there are settings.
pub(super) const TIMES_BEFORE_SETTINGS: &[&str] = &[];
