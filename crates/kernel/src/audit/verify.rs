//! The check of a whole database, page by page: what is kept is one row of a task, and all rows only of a task whose
//! chain is not whole. Reads beside those who write.

use super::{Damage, Finding, Seal, Walk, diagnose};
use crate::ports::{AuditHead, SealedPage, SealedRow, Store, StoreError};
use counterstep_contracts::TaskId;
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

/// The ends of chains as they were at some time: of each task the place and the seal of its last row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied(BTreeMap<String, (i64, String)>);

impl Copied {
    /// From lines of task, place and seal, with spaces between them; lines that begin with `#` say nothing.
    ///
    /// # Errors
    /// The first line that is no such one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut ends = BTreeMap::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        {
            let mut words = line.split_whitespace();
            let read = (|| {
                let task: TaskId = words.next()?.parse().ok()?;
                let rev: i64 = words.next()?.parse().ok()?;
                let seal =
                    words.next().filter(|seal| seal.len() == 64 && seal.bytes().all(|b| b.is_ascii_hexdigit()))?;
                words.next().is_none().then(|| (task.to_string(), (rev, seal.to_ascii_lowercase())))
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
    pub fn line(head: &AuditHead) -> Option<String> {
        (!head.seal.is_empty()).then(|| format!("{} {} {}", head.task, head.rev, Seal(head.seal.clone())))
    }

    /// Looks at a row, where it is the one that was copied.
    fn look(&mut self, row: &SealedRow) -> Option<Finding> {
        if self.0.get(&row.task)?.0 != row.rev {
            return None;
        }
        let (rev, seal) = self.0.remove(&row.task)?;
        let stands = Seal(row.seal.clone()).to_string();
        (stands != seal).then(|| Finding {
            task: row.task.clone(),
            rev: Some(rev),
            damage: Damage::NotAsCopied,
            says: format!(
                "its seal is {}, and the copy says {seal}: this row, or one before it, was written anew",
                if stands.is_empty() { "gone" } else { &stands }
            ),
        })
    }

    fn left(self, scope: Option<&str>) -> impl Iterator<Item = Finding> {
        let scope = scope.map(str::to_owned);
        self.0.into_iter().filter(move |(task, _)| scope.as_ref().is_none_or(|scope| scope == task)).map(
            |(task, (rev, _))| Finding {
                task,
                rev: Some(rev),
                damage: Damage::NotAsCopied,
                says: "the copy knows of it, and it is not there".to_owned(),
            },
        )
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
    /// Findings.
    pub findings: u64,
}

/// Rows, or tasks, to a page. Of rows a few: each has the data that was handed in.
const PAGE: u32 = 100;

/// Checks every row, or those of one task, and hands over what is wrong as it is found, task by task.
///
/// # Errors
/// When the store does not answer.
pub fn verify<'a>(
    store: &'a dyn Store,
    scope: &'a Scope,
    found: &'a mut (dyn FnMut(Finding) + Send),
) -> BoxFuture<'a, Result<Verified, StoreError>> {
    Box::pin(async move {
        let task = scope.task.map(|task| task.to_string());
        let mut check = Check { store, verified: Verified::default(), found };
        let mut copied = scope.copied.clone();
        check.rows(task.as_deref(), &mut copied).await?;
        check.heads(task.as_deref()).await?;
        copied.left(task.as_deref()).for_each(|finding| check.report(finding));
        Ok(check.verified)
    })
}

struct Check<'a> {
    store: &'a dyn Store,
    verified: Verified,
    found: &'a mut (dyn FnMut(Finding) + Send),
}

impl Check<'_> {
    fn report(&mut self, finding: Finding) {
        self.verified.findings += 1;
        (self.found)(finding);
    }

    async fn rows(&mut self, scope: Option<&str>, copied: &mut Copied) -> Result<(), StoreError> {
        let (mut task, mut walk) = (String::new(), Walk::default());
        let mut pages = Pages::of(scope);
        while let Some(page) = pages.next(self.store).await? {
            for row in page {
                if row.task != task {
                    self.end(&task, &walk).await?;
                    (task, walk) = (row.task.clone(), Walk::default());
                }
                if let Some(finding) = copied.look(&row) {
                    self.report(finding);
                }
                walk.step(row);
            }
        }
        self.end(&task, &walk).await
    }

    async fn end(&mut self, task: &str, walk: &Walk) -> Result<(), StoreError> {
        self.verified.rows += walk.rows();
        self.verified.erased += walk.erased();
        if walk.is_whole() {
            return Ok(());
        }
        // Once more, and all of it: a page may have ended between two changes of the task, or before it was deleted.
        let (mut rows, mut again) = (Vec::new(), Walk::default());
        let mut pages = Pages::of(Some(task));
        while let Some(page) = pages.next(self.store).await? {
            for row in page {
                again.step(row.clone());
                rows.push(row);
            }
        }
        if again.is_whole() {
            return Ok(());
        }
        let head = rows.last().and_then(|row| row.head.clone());
        let mut findings = diagnose(task, head.as_ref(), &rows);
        if findings.is_empty() {
            let says = "no single cause explains how its rows stand to each other".to_owned();
            findings.push(Finding { task: task.to_owned(), rev: None, damage: Damage::Unexplained, says });
        }
        findings.into_iter().for_each(|finding| self.report(finding));
        Ok(())
    }

    /// Counts tasks, and finds those of whose journal nothing is left.
    async fn heads(&mut self, scope: Option<&str>) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let page = SealedPage { task: scope.map(str::to_owned), after: after.take(), limit: PAGE };
            let heads = self.store.heads(&page).await?;
            for head in &heads {
                self.verified.tasks += 1;
                if !head.has_rows {
                    diagnose(&head.task, Some(head), &[]).into_iter().for_each(|finding| self.report(finding));
                }
            }
            match heads.into_iter().last() {
                Some(last) => after = Some((last.task, 0)),
                None => return Ok(()),
            }
        }
    }
}

/// The rows of all tasks, or of one, page by page.
struct Pages<'a> {
    task: Option<&'a str>,
    after: Option<(String, i64)>,
}

impl<'a> Pages<'a> {
    const fn of(task: Option<&'a str>) -> Self {
        Self { task, after: None }
    }

    async fn next(&mut self, store: &dyn Store) -> Result<Option<Vec<SealedRow>>, StoreError> {
        let page = SealedPage { task: self.task.map(str::to_owned), after: self.after.take(), limit: PAGE };
        let rows = store.sealed(&page).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        self.after = Some((last.task.clone(), last.rev));
        Ok(Some(rows))
    }
}
