//! A PostgreSQL with a synchronous standby that takes its place under load: what was answered with 2xx is there afterwards, and
//! every promise of a chaos run holds. `cargo xtask failover` runs each case; the control loses, else the others prove nothing.

use super::clients::Clients;
use super::faults::{Faults, FullUntil};
use super::fleet::{Fleet, TIMES_BEFORE_SETTINGS};
use super::history::Excepted;
use super::{Options, Report, Strikes, verdict};
use crate::cluster::Cluster;
use crate::process::Process;
use crate::rows::Rows;
use crate::wait::{LATER, SOON, until, until_now};
use counterstep_contracts::TaskId;
use counterstep_testkit::servers::{Postgres, Proxy};
use reqwest::Method;
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

/// The name under which a standby follows.
const STANDBY: &str = "s1";

/// How long the standby cannot be reached, and both servers take writes.
const APART: Duration = Duration::from_secs(20);

/// After this time no answer is on its way that was decided before a change of servers.
const ANSWERED: Duration = Duration::from_secs(3);

/// Processes accept submissions within this time after a promotion.
const RECONNECTS: Duration = Duration::from_secs(5);

/// What happens to the two servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// The primary is killed.
    Killed,
    /// The standby is promoted while the primary lives, and some processes still reach that one.
    BothLive,
    /// The standby cannot be reached for a time.
    Cut,
    /// The primary is killed, follows the new one, and takes its place again.
    Back,
    /// The primary is killed, and no commit has waited for the standby: the control.
    Asynchronous,
}

impl Case {
    /// All, the control last.
    pub const ALL: [Self; 5] = [
        Self::Killed,
        Self::BothLive,
        Self::Cut,
        Self::Back,
        Self::Asynchronous,
    ];

    /// As a command names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::BothLive => "both-live",
            Self::Cut => "cut",
            Self::Back => "back",
            Self::Asynchronous => "asynchronous",
        }
    }
}

/// What a case has shown.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Of the chaos run that it is part of. Of the control: without its anomalies, which are what it is for.
    pub report: Report,
    /// Submissions that were answered with 2xx.
    pub acknowledged: usize,
    /// Those of them whose task is gone.
    pub lost: usize,
    /// Time from each promotion until every API had accepted a submission.
    pub reconnected: Vec<Duration>,
}

impl Outcome {
    /// Whether an API accepted nothing for longer than promised after a promotion. On a machine that does other things, too, it may.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.reconnected.iter().any(|it| *it > RECONNECTS)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.report)?;
        write!(
            f,
            "{} submissions acknowledged, {} lost; accepting again after {:.1?}",
            self.acknowledged, self.lost, self.reconnected
        )
    }
}

/// Two servers and the load on them.
struct Stage {
    fleet: Fleet,
    clients: Clients,
    count: u64,
    /// The one that takes writes at first is the cluster's.
    second: Postgres,
    /// Between the second server and the first one that it follows.
    link: Proxy,
    /// Where half of the processes reach the database: both servers, the second one first; or an address that stays when that
    /// of the others moves.
    address: String,
    other: Option<Proxy>,
    outcome: Outcome,
}

/// Runs a case to its end, under the load of so many clients with a task each. Call it on the main thread, as a chaos run.
///
/// # Panics
/// When the servers do not start, or what a case needs does not come about.
pub async fn run(case: Case, clients: u64) -> Outcome {
    let mut stage = Stage::set(case, clients).await;
    stage.until_accepted(clients).await;
    match case {
        Case::Killed => {
            stage.first().kill();
            stage.moves_to_second().await;
            stage.assert_second_is_named().await;
        }
        Case::BothLive => stage.both_live().await,
        Case::Cut => stage.cut().await,
        Case::Back => stage.there_and_back().await,
        Case::Asynchronous => {
            stage.link.cut();
            // Accepted, and only the first has them.
            stage.until_accepted(clients).await;
            stage.first().kill();
            stage.moves_to_second().await;
        }
    }
    // The servers that took over do work.
    stage.until_accepted(clients).await;
    stage.verdict(case).await
}

impl Stage {
    async fn set(case: Case, count: u64) -> Self {
        let cluster = Cluster::with_primary(TIMES_BEFORE_SETTINGS);
        let first = &cluster.servers.postgres;
        let link = Proxy::to(first.port());
        let second = first.standby(STANDBY, link.port());
        if case != Case::Asynchronous {
            first.commits_wait_for(Some(STANDBY));
        }
        let proxy = Proxy::to(first.port());
        let floating = proxy.url(&cluster.database);
        let other = (case == Case::BothLive).then(|| Proxy::to(first.port()));
        let address = match &other {
            Some(other) => other.url(&cluster.database),
            None => {
                let (ours, both) = (
                    first.port(),
                    format!("{},127.0.0.1:{}", second.port(), first.port()),
                );
                cluster
                    .database
                    .replace(&format!(":{ours}/"), &format!(":{both}/"))
            }
        };
        let addresses = [floating, address.clone()];
        let fleet = Fleet::behind(cluster, proxy, &addresses, Strikes::All).await;
        let options = Options {
            seed: 1,
            length: Duration::ZERO,
            clients: count,
            disk: None,
            left_behind: left_behind(case),
            strikes: Strikes::All,
            samples: None,
        };
        let clients = Clients::start(&fleet, &options, &FullUntil::default());
        Self {
            fleet,
            clients,
            count,
            second,
            link,
            address,
            other,
            outcome: Outcome::default(),
        }
    }

    fn first(&self) -> &Postgres {
        &self.fleet.cluster.servers.postgres
    }

    /// Waits until so many more submissions are accepted.
    async fn until_accepted(&self, more: u64) {
        let sum = || self.clients.accepted().iter().sum::<u64>();
        let before = sum();
        until("further submissions", LATER, || async {
            (sum() >= before + more).then_some(())
        })
        .await;
    }

    /// Waits until each API has accepted one more. A submission is written by it, so it has a connection to a server that takes
    /// writes.
    async fn until_each_accepts(&mut self, since: Instant) {
        let before = self.clients.accepted();
        until("a submission at each API", LATER, || async {
            let now = self.clients.accepted();
            let mut each = now.iter().zip(&before);
            each.all(|(now, before)| now > before).then_some(())
        })
        .await;
        self.outcome.reconnected.push(since.elapsed());
    }

    async fn moves_to_second(&mut self) {
        self.second.promote();
        let promoted = Instant::now();
        self.fleet.proxy.redirect(self.second.port());
        self.until_each_accepts(promoted).await;
    }

    /// By the processes that know both servers, and by a command.
    async fn assert_second_is_named(&self) {
        let page = self.fleet.apis[1]
            .request(Method::GET, "/metrics")
            .send()
            .await;
        let page = page.expect("an answer").text().await.expect("a page");
        assert!(page.contains("counterstep_database_server 1\n"), "{page}");
        let logs = self.fleet.logs();
        let moved = "another server of `database` takes writes now";
        assert!(logs.contains(moved), "no process has logged: {moved}");
        let flags = ["doctor", "--database", &self.address];
        let mut doctor = Process::start(&self.fleet.cluster.place, &flags);
        doctor.ended();
        let note = "note: server 1 of the 2 in `database` takes writes\n";
        assert!(doctor.stdout().contains(note), "{}", doctor.stdout());
    }

    async fn both_live(&mut self) {
        self.second.promote();
        self.fleet.proxy.redirect(self.second.port());
        tokio::time::sleep(ANSWERED).await;
        let before = self.clients.accepted();
        tokio::time::sleep(APART).await;
        let now = self.clients.accepted();
        assert!(now[0] > before[0], "the new primary takes no submissions");
        if now[1] != before[1] {
            self.outcome.report.anomalies.push(format!(
                "{} submissions were accepted by the server that was left behind",
                now[1] - before[1]
            ));
        }
        until_commits_wait(self.first());
        self.first().kill();
        let other = self.other.as_ref().expect("it has an address of its own");
        other.redirect(self.second.port());
        self.until_each_accepts(Instant::now()).await;
    }

    async fn cut(&mut self) {
        self.link.cut();
        tokio::time::sleep(ANSWERED).await;
        let before = self.clients.accepted();
        tokio::time::sleep(APART).await;
        until_commits_wait(self.first());
        if self.clients.accepted() != before {
            let what = "submissions were accepted that the standby did not have";
            self.outcome.report.anomalies.push(what.to_owned());
        }
        self.link.heal();
        self.until_each_accepts(Instant::now()).await;
    }

    async fn there_and_back(&mut self) {
        self.first().kill();
        self.moves_to_second().await;
        // It reaches the new primary at its own address: it is to be promoted itself.
        self.first()
            .rewind(&self.second, STANDBY, self.second.port());
        self.second.commits_wait_for(Some(STANDBY));
        self.until_accepted(self.count).await;
        self.second.kill();
        self.first().promote();
        let promoted = Instant::now();
        self.fleet.proxy.redirect(self.first().port());
        self.until_each_accepts(promoted).await;
        self.second
            .rewind(self.first(), STANDBY, self.first().port());
        self.first().commits_wait_for(Some(STANDBY));
    }

    async fn verdict(self, case: Case) -> Outcome {
        let load = self.clients.stop().await;
        let mut outcome = self.outcome;
        let mut faults = Faults::new(Strikes::All, None);
        faults.struck.insert(case.name(), 1);
        faults.anomalies = std::mem::take(&mut outcome.report.anomalies);
        let rows = Rows::of_cluster(&self.fleet.cluster).await;
        let known: BTreeSet<TaskId> = rows
            .tasks()
            .await
            .iter()
            .map(|it| it.record.task.id)
            .collect();
        outcome.acknowledged = load.submitted.len();
        outcome.lost = load
            .submitted
            .iter()
            .filter(|it| !known.contains(&it.task))
            .count();
        if case == Case::Asynchronous {
            if outcome.lost == 0 {
                let why =
                    "nothing was lost without a synchronous standby: the other cases prove nothing";
                outcome.report.void.push(why.to_owned());
            }
            return outcome;
        }
        let excepted = Excepted {
            left_behind: left_behind(case),
            ..Excepted::default()
        };
        outcome.report = verdict::of(self.fleet, faults, load, (Strikes::All, excepted)).await;
        outcome
    }
}

/// The API process that still uses the old primary when the standby was promoted: the second one has the other address.
fn left_behind(case: Case) -> Option<usize> {
    (case == Case::BothLive).then_some(1)
}

/// Waits until commits of a server wait for its standby.
fn until_commits_wait(server: &Postgres) {
    let look = "DO $$ BEGIN
        IF NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep') THEN RAISE 'none'; END IF;
      END $$";
    until_now("a commit that waits for the standby", SOON, || {
        server.run_sql(&server.url(), look).ok()
    });
}
