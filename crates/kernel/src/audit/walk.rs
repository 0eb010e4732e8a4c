//! Whether the chain of one task is whole: a walk along the rows of its journal that remembers one
//! of them. Says yes or no; what is wrong with a chain that is not whole is for the reconciler's
//! `diagnose`, which looks at all of it.

use super::{link, origin, seal};
use crate::journal::{FORM, Named, is_digest_of, named, plaintext_in};
use crate::ports::{ChainRow, ChainTip};
use counterstep_contracts::TaskStatus;

/// A walk along the rows of one task, in the order of their places.
#[derive(Debug, Clone)]
pub struct Walk {
    whole: bool,
    rows: u64,
    erased: u64,
    ends: Ends,
    encrypted: EncryptedFrom,
    tip: Option<ChainTip>,
    last: Option<(i64, Vec<u8>)>,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            whole: true,
            rows: 0,
            erased: 0,
            ends: Ends::default(),
            encrypted: EncryptedFrom::default(),
            tip: None,
            last: None,
        }
    }
}

impl Walk {
    /// Takes the next row.
    pub fn step(&mut self, row: &ChainRow) {
        self.rows += 1;
        self.whole &= follows(self.last.as_ref(), row);
        match read(row) {
            Read::Named(named) => {
                self.whole &= data_is_whole(row, &named) && self.ends.are_before(&named);
                self.whole &= self.encrypted.plaintext(row, &named).is_none();
                self.erased += u64::from(row.data.is_none() && named.data.is_some());
                self.ends.take(&named);
            }
            Read::Newer => self.ends = Ends::Unknown,
            Read::Unreadable => self.whole = false,
        }
        self.last = Some((row.rev, row.seal.clone()));
        self.tip.clone_from(&row.tip);
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
        let (Some(tip), Some((rev, seal))) = (&self.tip, &self.last) else {
            return self.last.is_none();
        };
        self.whole && tip.rev == *rev && tip.seal == *seal && self.ends.are(&tip.status)
    }
}

/// What can be read of a row's entries.
pub enum Read {
    /// All that a check needs.
    Named(Named),
    /// Nothing, by this program: a newer one wrote it. Its link and its seal can be checked all the
    /// same.
    Newer,
    /// Nothing can be read of it.
    Unreadable,
}

/// What can be read of a row.
#[must_use]
pub fn read(row: &ChainRow) -> Read {
    if row.form > FORM.into() {
        return Read::Newer;
    }
    named(&row.entries).map_or(Read::Unreadable, Read::Named)
}

/// Where the rows so far leave the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ends {
    /// In this state, after the event of this number. No state: there was no event.
    In(i64, Option<String>),
    /// A row that may say it is gone, damaged, or of a newer program.
    Unknown,
}

impl Default for Ends {
    fn default() -> Self {
        Self::In(0, None)
    }
}

impl Ends {
    /// Whether a row begins here.
    #[must_use]
    pub fn are_before(&self, row: &Named) -> bool {
        match (self, &row.first) {
            (Self::In(seq, status), Some((first, from))) => {
                *first == seq.saturating_add(1) && from == status
            }
            (Self::Unknown, _) | (_, None) => true,
        }
    }

    /// Goes on behind a row.
    pub fn take(&mut self, row: &Named) {
        *self = match (&*self, &row.first) {
            (_, Some((first, from))) => {
                // A task's first event leads to the state in which every task begins, which is not
                // written.
                let begins = || {
                    from.clone()
                        .unwrap_or_else(|| TaskStatus::Submitted.as_str().to_owned())
                };
                Self::In(
                    row.last.unwrap_or(*first),
                    Some(row.status.clone().unwrap_or_else(begins)),
                )
            }
            (Self::In(seq, status), None) => {
                Self::In(*seq, row.status.clone().or_else(|| status.clone()))
            }
            (Self::Unknown, None) => Self::Unknown,
        };
    }

    /// Whether this is where the task is, as far as is known.
    #[must_use]
    pub fn are(&self, status: &str) -> bool {
        match self {
            Self::In(_, ends) => {
                ends.as_deref().unwrap_or(TaskStatus::Submitted.as_str()) == status
            }
            Self::Unknown => true,
        }
    }
}

/// Whether what was handed in is what its digest says. Erased data is no damage.
#[must_use]
pub fn data_is_whole(row: &ChainRow, named: &Named) -> bool {
    row.data.is_none() || is_digest_of(named.data.as_deref(), row.data.as_deref())
}

/// The payload key of a task, row by row: from the first row on that names one, what is handed in is encrypted.
#[derive(Debug, Clone, Default)]
pub struct EncryptedFrom(Option<String>);

impl EncryptedFrom {
    /// Takes the next row. Returns the first payload in it that is not encrypted and has to be, as text.
    pub fn plaintext(&mut self, row: &ChainRow, named: &Named) -> Option<String> {
        if named.key.is_some() {
            self.0.clone_from(&named.key);
        }
        plaintext_in(row.data.as_deref()?, self.0.as_deref()?)
    }
}

fn follows(before: Option<&(i64, Vec<u8>)>, row: &ChainRow) -> bool {
    let (rev, tip) = match before {
        None => (0, origin(&row.task).0),
        Some((rev, seal)) => (*rev, seal.clone()),
    };
    row.rev == rev + 1
        && row.link == link(&tip, &row.facts()).0
        && row.seal == seal(&row.link, row.at).0
}
