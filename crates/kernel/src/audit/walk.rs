//! Whether the chain of one task is whole: a walk along the rows of its journal that remembers one of them. Says yes or no;
//! what is wrong with a chain that is not whole is for [`diagnose`](super::diagnose()), which looks at all of it.

use super::{link, origin, seal};
use crate::context::hex;
use crate::journal::{Named, named};
use crate::ports::{AuditHead, SealedRow};
use counterstep_contracts::TaskStatus;
use sha2::{Digest, Sha256};

/// A walk along the rows of one task, in the order of their places.
#[derive(Debug, Clone)]
pub struct Walk {
    whole: bool,
    rows: u64,
    erased: u64,
    status: String,
    head: Option<AuditHead>,
    last: Option<(i64, Vec<u8>)>,
}

impl Default for Walk {
    fn default() -> Self {
        let status = TaskStatus::Submitted.as_str().to_owned();
        Self { whole: true, rows: 0, erased: 0, status, head: None, last: None }
    }
}

impl Walk {
    /// Takes the next row.
    pub fn step(&mut self, row: SealedRow) {
        self.rows += 1;
        let named = named(&row.entries).unwrap_or_else(|| {
            self.whole = false;
            Named::default()
        });
        self.whole &= follows(self.last.as_ref(), &row) && data_is_whole(&row, &named);
        if row.data.is_none() && named.data.is_some() {
            self.erased += 1;
        }
        self.status = named.status.unwrap_or_else(|| std::mem::take(&mut self.status));
        self.last = Some((row.rev, row.seal));
        self.head = row.head;
    }

    /// Rows so far.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// How many of them have lost what was handed in: its digest stands, and the data does not.
    #[must_use]
    pub const fn erased(&self) -> u64 {
        self.erased
    }

    /// Whether all is as it was written, now that there are no more.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let (Some(head), Some((rev, seal))) = (&self.head, &self.last) else { return self.last.is_none() };
        self.whole && head.rev == *rev && head.seal == *seal && head.status == self.status
    }
}

/// Whether what was handed in is what its digest says. Erased data is no damage.
pub(super) fn data_is_whole(row: &SealedRow, named: &Named) -> bool {
    match (&row.data, &named.data) {
        (None, _) => true,
        (Some(data), Some(digest)) => hex(&Sha256::digest(data)) == *digest,
        (Some(_), None) => false,
    }
}

fn follows(before: Option<&(i64, Vec<u8>)>, row: &SealedRow) -> bool {
    let (rev, tip) = match before {
        None => (0, origin(&row.task).0),
        Some((rev, seal)) => (*rev, seal.clone()),
    };
    row.rev == rev + 1 && row.link == link(&tip, &row.facts()).0 && row.seal == seal(&row.link, row.at).0
}
