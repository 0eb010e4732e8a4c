//! Whether the chain of one task is whole: a walk along its entries that remembers one of them. Says yes or no; what is
//! wrong with a chain that is not whole is for [`diagnose`](super::diagnose()), which looks at all of it.

use super::{Facts, link, origin, seal};
use crate::ports::{AuditHead, SealedEntry};
use crate::record::DbTime;

/// What the next entry is compared with.
#[derive(Debug, Clone)]
struct Last {
    seq: i64,
    to: String,
    at: DbTime,
    change_id: String,
    link: Option<Vec<u8>>,
    seal: Option<Vec<u8>>,
}

/// A walk along the entries of one task, in the order of their places.
#[derive(Debug, Clone)]
pub struct Walk {
    whole: bool,
    entries: u64,
    unsealed: u64,
    head: Option<AuditHead>,
    last: Option<Last>,
}

impl Default for Walk {
    fn default() -> Self {
        Self { whole: true, entries: 0, unsealed: 0, head: None, last: None }
    }
}

impl Walk {
    /// Takes the next entry.
    pub fn step(&mut self, entry: SealedEntry) {
        self.entries += 1;
        self.whole &= follows(self.last.as_ref(), &entry);
        if entry.link.is_none() && entry.seal.is_none() {
            self.unsealed += 1;
        }
        let SealedEntry { seq, to, at, change_id, link, seal, head, .. } = entry;
        self.last = Some(Last { seq, to, at, change_id, link, seal });
        self.head = head;
    }

    /// Entries so far.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// How many of them have neither link nor seal.
    #[must_use]
    pub const fn unsealed(&self) -> u64 {
        self.unsealed
    }

    /// Whether all is as it was written, now that there are no more.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let (Some(head), Some(last)) = (&self.head, &self.last) else { return self.last.is_none() };
        self.whole && head.seq == last.seq && head.status == last.to && head.seal == last.seal
    }
}

fn follows(before: Option<&Last>, entry: &SealedEntry) -> bool {
    let (seq, to) = before.map_or((0, None), |last| (last.seq, Some(last.to.as_str())));
    if entry.seq != seq + 1 || entry.from.as_deref() != to {
        return false;
    }
    let linked = before.and_then(|last| Some((last, last.link.as_ref()?, last.seal.as_ref()?)));
    match (&entry.link, &entry.seal, linked) {
        // Written before there were links, as all those before it.
        (None, None, None) => before.is_none_or(|last| last.link.is_none() && last.seal.is_none()),
        (Some(own), Some(sealed), linked) => {
            let before = match linked {
                None => origin(&entry.task, seq).0,
                Some((last, link, _)) if last.change_id == entry.change_id => {
                    // One change, one time.
                    if last.at != entry.at {
                        return false;
                    }
                    link.clone()
                }
                Some((_, _, seal)) => seal.clone(),
            };
            *own == link(&before, &Facts::from(entry)).0 && *sealed == seal(own, entry.at).0
        }
        (None, _, _) | (_, None, _) => false,
    }
}
