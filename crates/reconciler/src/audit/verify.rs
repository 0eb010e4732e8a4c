//! The check of a whole database, row by row: what is kept is one row of a task, and all rows
//! only of a task whose chain is not whole. Reads beside those who write.

use super::finding::CHANGES;
use super::{Damage, Finding, Part, Walk, admin, diagnose};
use counterstep_contracts::TaskId;
use counterstep_kernel::audit::EntryHash;
use counterstep_kernel::journal::JournalWalk;
use counterstep_kernel::ports::{ChainRow, ChainTip, JournalPage, Lane, Store, StoreError};
use futures::future::BoxFuture;
use serde::Serialize;
use std::collections::BTreeMap;

/// What is to be checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// This task only.
    pub task: Option<TaskId>,
    /// What the ends of the chains were when they were copied to another place.
    pub copied: Copied,
}

/// The ends of chains as they were at some time: of each task the place and the seal of its last
/// row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied(BTreeMap<String, (i64, String)>);

impl Copied {
    /// From lines of task, place and seal, with spaces between them; lines that begin with `#` say
    /// nothing.
    ///
    /// # Errors
    /// The first line that is no such one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut ends = BTreeMap::new();
        for (at, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        {
            let mut words = line.split_whitespace();
            let read = (|| {
                let task = words.next()?;
                let task = match task.parse::<TaskId>() {
                    Ok(task) => task.to_string(),
                    Err(_) => (task == CHANGES).then(|| task.to_owned())?,
                };
                let rev: i64 = words.next()?.parse().ok()?;
                let seal = words.next().filter(|seal| {
                    seal.len() == 64 && seal.bytes().all(|b| b.is_ascii_hexdigit())
                })?;
                words
                    .next()
                    .is_none()
                    .then(|| (task, (rev, seal.to_ascii_lowercase())))
            })();
            let (task, end) = read.ok_or_else(|| {
                format!(
                    "line {}: `{line}` is not a task's id, a row's number and a seal of 64 hexadecimal digits",
                    at + 1
                )
            })?;
            ends.insert(task, end);
        }
        Ok(Self(ends))
    }

    /// The line of a chain's end; `None`: there is no seal to copy.
    #[must_use]
    pub fn line(tip: &ChainTip) -> Option<String> {
        (!tip.seal.is_empty())
            .then(|| format!("{} {} {}", tip.task, tip.rev, EntryHash(tip.seal.clone())))
    }

    /// Looks at a row, where it is the one that was copied.
    fn look(&mut self, row: &ChainRow) -> Option<Finding> {
        self.look_at(&row.task, row.rev, &EntryHash(row.seal.clone()).to_string())
    }

    /// The same of any chain.
    pub(super) fn look_at(&mut self, chain: &str, at: i64, stands: &str) -> Option<Finding> {
        if self.0.get(chain)?.0 != at {
            return None;
        }
        let (rev, seal) = self.0.remove(chain)?;
        (stands != seal).then(|| Finding {
            task: chain.to_owned(),
            rev: Some(rev),
            damage: Damage::NotAsCopied,
            says: format!(
                "its seal is {}, and the copy says {seal}: this row, or one before it, was written anew",
                if stands.is_empty() { "gone" } else { stands }
            ),
        })
    }

    fn left(self, scope: Option<&str>) -> impl Iterator<Item = Finding> {
        let scope = scope.map(str::to_owned);
        self.0
            .into_iter()
            .filter(move |(task, _)| scope.as_ref().is_none_or(|scope| scope == task))
            .map(|(task, (rev, _))| Finding {
                task,
                rev: Some(rev),
                damage: Damage::NotAsCopied,
                says: "the copy knows of it, and it is not there".to_owned(),
            })
    }
}

/// What was checked, and how it came out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Rows of tasks.
    pub tasks: u64,
    /// Rows of journals.
    pub rows: u64,
    /// Rows of which the data was erased: their digests stand.
    pub erased: u64,
    /// Entries of the audit of changes beside tasks.
    pub changes: u64,
    /// Findings.
    pub findings: u64,
}

/// Maximum number of tasks per page.
const PAGE: u32 = 100;

/// Checks every row, or those of one task, and hands over what is wrong as it is found, task by
/// task.
///
/// # Errors
/// When the store does not answer.
pub fn verify<'a>(
    store: &'a Store,
    scope: &'a Scope,
    found: &'a mut (dyn FnMut(Finding) + Send),
) -> BoxFuture<'a, Result<Verified, StoreError>> {
    Box::pin(async move {
        let mut check = Check::of(store, scope, found);
        while check.next().await?.is_some() {}
        check.finish().await
    })
}

/// A check on its way.
pub(crate) struct Check<'a> {
    store: &'a Store,
    found: &'a mut (dyn FnMut(Finding) + Send),
    scope: Option<String>,
    copied: Copied,
    rows: JournalWalk<'a>,
    /// The task whose rows are being read.
    task: String,
    walk: Walk,
    verified: Verified,
}

impl<'a> Check<'a> {
    pub(crate) fn of(
        store: &'a Store,
        scope: &Scope,
        found: &'a mut (dyn FnMut(Finding) + Send),
    ) -> Self {
        let task = scope.task.map(|task| task.to_string());
        Self {
            store,
            found,
            rows: JournalWalk::of(store, task.clone()),
            scope: task,
            copied: scope.copied.clone(),
            task: String::new(),
            walk: Walk::default(),
            verified: Verified::default(),
        }
    }

    pub(crate) fn report(&mut self, finding: Finding) {
        self.verified.findings += 1;
        (self.found)(finding);
    }

    /// Checks the next row, and returns it; `None`: there are no more.
    pub(crate) async fn next(&mut self) -> Result<Option<ChainRow>, StoreError> {
        let Some(row) = self.rows.next().await? else {
            return Ok(None);
        };
        if row.task != self.task {
            self.end().await?;
            self.task.clone_from(&row.task);
        }
        if let Some(finding) = self.copied.look(&row) {
            self.report(finding);
        }
        self.walk.step(&row);
        Ok(Some(row))
    }

    /// Checks the last task, tasks that have no rows, and what was copied and is not there.
    pub(crate) async fn finish(mut self) -> Result<Verified, StoreError> {
        self.end().await?;
        self.chain_tips().await?;
        if self.scope.is_none() {
            let mut found = Vec::new();
            self.verified.changes = admin::verify(self.store, &mut self.copied, &mut found).await?;
            found.into_iter().for_each(|finding| self.report(finding));
        }
        let scope = self.scope.take();
        std::mem::take(&mut self.copied)
            .left(scope.as_deref())
            .for_each(|finding| self.report(finding));
        Ok(self.verified)
    }

    /// Reports what is wrong with the task whose rows were read.
    async fn end(&mut self) -> Result<(), StoreError> {
        let walk = std::mem::take(&mut self.walk);
        let task = &*std::mem::take(&mut self.task);
        self.verified.rows += walk.rows();
        self.verified.erased += walk.erased();
        if walk.is_whole() {
            return Ok(());
        }
        // Once more, and all of it: a page may have ended between two changes of the task, or
        // before it was deleted.
        let (mut rows, mut again) = (Vec::new(), Walk::default());
        let mut once_more = JournalWalk::of(self.store, Some(task.to_owned()));
        while let Some(row) = once_more.next().await? {
            again.step(&row);
            rows.push(row);
        }
        if again.is_whole() {
            return Ok(());
        }
        let tip = rows.last().and_then(|row| row.tip.clone());
        let mut findings = diagnose(task, tip.as_ref(), &rows);
        if findings.is_empty() {
            let says = "no single cause explains how its rows stand to each other".to_owned();
            findings.push(Finding {
                task: task.to_owned(),
                rev: None,
                damage: Damage::Changed(Part::Chain),
                says,
            });
        }
        findings
            .into_iter()
            .for_each(|finding| self.report(finding));
        Ok(())
    }

    /// Counts tasks, and finds those whose journal has no rows left.
    async fn chain_tips(&mut self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let page = JournalPage {
                task: self.scope.clone(),
                after: after.take(),
                limit: PAGE,
                lane: Lane::People,
            };
            let tips = self.store.chain_tips(&page).await?;
            for tip in &tips {
                self.verified.tasks += 1;
                if !tip.has_rows {
                    diagnose(&tip.task, Some(tip), &[])
                        .into_iter()
                        .for_each(|finding| self.report(finding));
                }
            }
            match tips.into_iter().last() {
                Some(last) => after = Some((last.task, 0)),
                None => return Ok(()),
            }
        }
    }
}
