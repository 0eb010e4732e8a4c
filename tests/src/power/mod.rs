//! Power cuts: what a program with the database file, a folder of objects and a spool asks of the kernel is recorded, and
//! replayed up to some moment onto a disk that keeps for certain only what was synced. Whatever is on it then is opened again.
//!
//! A moment is a place in the record, so that the same seed cuts the same record at the same places. Two records differ.

mod beside;
mod disk;
mod image;
mod trace;

use crate::api::Api;
use crate::chaos::text_of;
use crate::place::Place;
use crate::process::{Launch, Process};
use crate::sample::{Chance, Sample};
use crate::services::after;
pub use beside::keep_and_remove;
use counterstep_contracts::http::{Accepted, TaskView};
use counterstep_contracts::{TaskId, TaskStatus};
use disk::Disk;
pub use disk::Kept;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use image::Acknowledged;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use trace::Call;

/// The variable that names the data directory to what runs beside the tasks.
pub const DATA: &str = "BESIDE";

/// Clients at a time.
const CLIENTS: u64 = 6;
/// Largest file of an archive; a task has two.
const SIZE: u64 = 6_000;
/// Images that are opened at a time: they wait for leases most of the time.
const SIDE_BY_SIDE: usize = 8;

/// What a program did, and what it had acknowledged when.
#[derive(Debug)]
pub struct Record {
    top: PathBuf,
    calls: Vec<Call>,
    tasks: BTreeSet<TaskId>,
    answers: Vec<(usize, Said)>,
    secrets: BTreeMap<String, Vec<u8>>,
}

#[derive(Debug)]
enum Said {
    Accepted(TaskId),
    AtRest(TaskId, TaskStatus),
    Spooled(u64),
    Removed(u64),
    Stored(u64),
}

/// How a record is cut.
#[derive(Debug, Clone, Copy)]
pub struct Cuts {
    /// Of the moments and of what is left of what was not synced.
    pub seed: u64,
    /// How many.
    pub count: usize,
    /// Files of these names are never synced, as SQLite does with `synchronous = OFF`: a control, which has to lose something.
    pub never_synced: &'static [&'static str],
}

/// The files of the database.
pub const DATABASE: &[&str] = &[
    "counterstep.db",
    "counterstep.db-wal",
    "counterstep.db-journal",
];
/// The files of the spool.
pub const SPOOLED: &[&str] = &["0.db", "0.db-wal", "0.db-journal"];

/// What the cuts have shown.
#[derive(Debug, Default)]
pub struct Report {
    /// How many there were of each kind.
    pub cuts: [usize; 3],
    /// Acknowledged tasks, over all cuts.
    pub tasks: usize,
    /// Results of the spool, likewise.
    pub spooled: usize,
    /// Objects beside those of the tasks, likewise.
    pub stored: usize,
    /// What was lost, by cut.
    pub lost: Vec<String>,
}

impl Report {
    /// Adds what the cuts of another record have shown.
    pub fn merge(&mut self, other: Self) {
        for (mine, others) in self.cuts.iter_mut().zip(other.cuts) {
            *mine += others;
        }
        self.tasks += other.tasks;
        self.spooled += other.spooled;
        self.stored += other.stored;
        self.lost.extend(other.lost);
    }

    fn add(&mut self, checked: Result<(), String>) {
        self.lost.extend(checked.err());
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [nothing, some, all] = self.cuts;
        for lost in &self.lost {
            writeln!(f, "  LOST  {lost}")?;
        }
        write!(
            f,
            "{} cuts: {nothing} with what was synced, {some} with some of the rest, {all} with all; \
             {} acknowledged tasks, {} results of the spool and {} objects looked for; {} lost",
            nothing + some + all,
            self.tasks,
            self.spooled,
            self.stored,
            self.lost.len()
        )
    }
}

impl std::fmt::Display for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (calls, tasks) = (self.calls.len(), self.tasks.len());
        write!(f, "{calls} calls of {tasks} tasks")
    }
}

impl Record {
    /// Runs tasks in `program`, which is `counterstep` with a spool beside it, and records it. Call it on the main thread:
    /// processes end with the thread that starts them.
    ///
    /// # Panics
    /// When `strace` is not installed, or may not trace here.
    pub async fn of(program: &Path, tasks: u64) -> Self {
        let place = Place::new();
        let log = place.path().join("calls");
        let data = place.data().display().to_string();
        let dev = [
            program.to_str().expect("UTF-8"),
            "dev",
            "--listen",
            "127.0.0.1:0",
            "--data-dir",
            &data,
            "--lease",
            "2s",
            "--every",
            "1s",
        ];
        let mut arguments = trace::options(&log);
        arguments.extend(dev.map(str::to_owned));
        let launch = Launch {
            program: "strace".into(),
            arguments,
            variables: vec![
                ("PATH".to_owned(), std::env::var("PATH").expect("a path")),
                (DATA.to_owned(), data.clone()),
            ],
            user: None,
        };
        let mut process = Process::launch(&place, &launch);
        let address = process.says("where to submit", |said| {
            after(said, "submit to http://", '/')
        });
        let tasks = submit(&Api::at(&address), tasks).await;
        drop(process);
        let calls = std::fs::read(&log).expect("the log of strace");
        let calls = trace::read(&String::from_utf8_lossy(&calls));
        let record = Self {
            top: place.path().to_owned(),
            answers: calls.iter().flat_map(said).collect(),
            calls,
            tasks,
            secrets: image::secrets(&place.data()),
        };
        let accepted = record.answers.iter().filter_map(|(_, said)| match said {
            Said::Accepted(task) => Some(*task),
            _ => None,
        });
        let accepted: BTreeSet<_> = accepted.collect();
        assert!(
            record.tasks.is_subset(&accepted),
            "answers are not in the record"
        );
        record
    }

    /// Cuts it, and opens what is left each time.
    ///
    /// # Panics
    /// When an image cannot be made.
    pub async fn cut(&self, cuts: Cuts) -> Report {
        let mut chance = Chance::new(cuts.seed);
        let mut report = Report::default();
        let mut disk = Disk::new(&self.top, cuts.never_synced);
        let mut calls = self.calls.iter().peekable();
        let mut open = FuturesUnordered::new();
        for (number, moment) in self.moments(cuts, &mut chance).into_iter().enumerate() {
            while let Some(call) = calls.next_if(|call| call.seen() <= moment) {
                disk.apply(call);
            }
            // Of a control nothing is kept that was not synced: chance may keep all.
            let kind = if cuts.never_synced.is_empty() {
                number % 3
            } else {
                0
            };
            let kept = [Kept::Nothing, Kept::Some, Kept::All][kind];
            report.cuts[kind] += 1;
            let (place, of) = (Place::new(), self.acknowledged(moment));
            disk.write_image(place.path(), kept, &mut chance);
            report.tasks += of.tasks.len();
            report.spooled += of.spooled.len();
            report.stored += of.stored.len();
            open.push(async move {
                let checked = AssertUnwindSafe(image::check(&place, &of));
                let found = match checked.catch_unwind().await {
                    Ok(Ok(())) => return Ok(()),
                    Ok(Err(found)) => found,
                    Err(panic) => text_of(panic.as_ref()),
                };
                Err(format!(
                    "line {moment}, {kept:?} of what was not synced: {found}"
                ))
            });
            if open.len() >= SIDE_BY_SIDE
                && let Some(checked) = open.next().await
            {
                report.add(checked);
            }
        }
        while let Some(checked) = open.next().await {
            report.add(checked);
        }
        report
    }

    /// Moments in the order of the record: each third follows an answer, which makes a promise of what was done before. Those
    /// of a control all do, and there is a task and a result that can be lost: chance may cut before the first of them.
    fn moments(&self, cuts: Cuts, chance: &mut Chance) -> Vec<usize> {
        let within = |chance: &mut Chance, length: usize| {
            usize::try_from(chance.within(0, length as u64)).expect("a small number")
        };
        let control = !cuts.never_synced.is_empty();
        let can_lose = |line: &usize| {
            let of = self.acknowledged(*line);
            !of.tasks.is_empty() && !of.spooled.is_empty()
        };
        let answers = self.answers.iter().map(|(line, _)| *line);
        let answers: Vec<_> = answers.filter(|line| !control || can_lose(line)).collect();
        let mut moments: Vec<usize> = (0..cuts.count)
            .map(|number| match number % 3 {
                remainder if control || remainder == 0 => answers[within(chance, answers.len())],
                _ => self.calls[within(chance, self.calls.len())].ended,
            })
            .collect();
        moments.sort_unstable();
        moments
    }

    fn acknowledged(&self, moment: usize) -> Acknowledged {
        let mut of = Acknowledged {
            tasks: BTreeSet::new(),
            at_rest: BTreeMap::new(),
            spooled: BTreeSet::new(),
            stored: BTreeSet::new(),
            secrets: BTreeMap::new(),
        };
        for (_, said) in self.answers.iter().filter(|(line, _)| *line <= moment) {
            match said {
                Said::Accepted(task) => drop(of.tasks.insert(*task)),
                Said::AtRest(task, status) => drop(of.at_rest.insert(*task, *status)),
                Said::Spooled(number) => drop(of.spooled.insert(*number)),
                Said::Removed(number) => drop(of.spooled.remove(number)),
                Said::Stored(number) => drop(of.stored.insert(*number)),
            }
        }
        if !of.tasks.is_empty() {
            of.secrets.clone_from(&self.secrets);
        }
        of
    }
}

/// Archives of two small files from several clients at a time, until all have completed.
async fn submit(api: &Api, tasks: u64) -> BTreeSet<TaskId> {
    let clients = (0..CLIENTS).map(|client| async move {
        let mut sent = Vec::new();
        for seed in (client..tasks).step_by(CLIENTS as usize) {
            let task = api.submit(&Sample::pair(seed, SIZE)).await;
            assert_eq!(api.at_rest(task).await.status, TaskStatus::Completed);
            sent.push(task);
        }
        sent
    });
    let sent = futures::future::join_all(clients).await;
    sent.into_iter().flatten().collect()
}

/// What the program says to others with a call, from where this begins.
fn said(call: &Call) -> Option<(usize, Said)> {
    if !matches!(
        call.name.as_str(),
        "write" | "writev" | "sendto" | "sendmsg"
    ) {
        return None;
    }
    let text = String::from_utf8(call.bytes(1)).ok()?;
    let number = |mark: &str| text.strip_prefix(mark)?.trim_end().parse().ok();
    let said = if let Some(answer) = text.strip_prefix("HTTP/1.1 ") {
        let (head, body) = answer.split_once("\r\n\r\n")?;
        if head.starts_with("202 ") {
            Said::Accepted(serde_json::from_str::<Accepted>(body).ok()?.task_id)
        } else {
            let view = serde_json::from_str::<TaskView>(body).ok()?;
            view.status
                .is_at_rest()
                .then_some(Said::AtRest(view.task_id, view.status))?
        }
    } else if let Some(number) = number(beside::KEPT) {
        Said::Spooled(number)
    } else if let Some(number) = number(beside::STORED) {
        Said::Stored(number)
    } else {
        Said::Removed(number(beside::REMOVED)?)
    };
    Some((call.began, said))
}
