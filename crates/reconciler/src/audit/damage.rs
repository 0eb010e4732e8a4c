//! What is wrong with the chain of one task that is not whole. Each row is bound to the one before
//! it, so the rows around a damaged one tell what has become of it: this reads their evidence.

use super::{Damage, Finding, Part};
use counterstep_kernel::audit::{
    EncryptedFrom, Ends, Facts, Read, data_is_whole, link, origin, read, seal,
};
use counterstep_kernel::ports::{ChainRow, ChainTip};

/// Maximum number of rows that do not follow for which it is tried whether they stand at each other's places.
const MOST_MOVED: usize = 16;

/// Everything that is wrong with the chain of one task, in the order of its rows; what the task's
/// own row says comes last. `rows`: its whole journal, in the order of the places, read in one
/// moment with `tip`, the task's row (`None`: there is none).
#[must_use]
pub fn diagnose(task: &str, tip: Option<&ChainTip>, rows: &[ChainRow]) -> Vec<Finding> {
    let mut look = Diagnosis {
        task,
        rows,
        found: Vec::new(),
    };
    match tip {
        None => {
            if let (Some(first), count) = (rows.first(), rows.len()) {
                look.add(
                    Some(first.rev),
                    Damage::NoTask,
                    format!("{count} rows, and no task for them"),
                );
            }
        }
        Some(tip) => {
            let mut standing = look.walk(tip);
            look.find_moved(&mut standing);
            look.judge(tip, &standing);
            look.data();
            let ends = look.sequence(&standing);
            look.end(tip, &standing, &ends);
        }
    }
    look.found
        .sort_by_key(|finding| (finding.rev.unwrap_or(i64::MAX), finding.damage));
    look.found
}

/// How a row stands to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowPosition {
    /// Its link is that of what it says over the row before it.
    Follows,
    /// The row before it is gone: its link cannot be compared.
    AfterGap,
    /// Its link is not.
    Odd,
    /// It follows another row, at another place; it was at this one.
    Moved(i64),
    /// It was not written as a part of the chain.
    Inserted,
}

struct Walked {
    standing: Vec<RowPosition>,
    /// The place in the row, minus the one it was written at, at the end.
    shift: i64,
}

struct Diagnosis<'a> {
    task: &'a str,
    rows: &'a [ChainRow],
    found: Vec<Finding>,
}

impl Diagnosis<'_> {
    fn add(&mut self, rev: Option<i64>, damage: Damage, says: String) {
        self.found.push(Finding {
            task: self.task.to_owned(),
            rev,
            damage,
            says,
        });
    }

    /// What a row that follows this one may be bound to: what stands in the row, and what should.
    fn tails(&self, at: usize) -> Vec<Vec<u8>> {
        let row = &self.rows[at];
        let before = at.checked_sub(1).map_or_else(
            || origin(&row.task).0,
            |before| self.rows[before].seal.clone(),
        );
        // The last one is as what it says and the row before it make it, whatever stands in its own
        // columns.
        vec![
            row.seal.clone(),
            seal(&row.link, row.at).0,
            seal(&link(&before, &row.facts()).0, row.at).0,
        ]
    }

    /// Whether the row at `at` was written as number `rev`, behind the row at `before` (`None`: as
    /// the first).
    fn follows(&self, at: usize, before: Option<usize>, rev: i64) -> bool {
        let row = &self.rows[at];
        let facts = Facts { rev, ..row.facts() };
        let fits = |tail: &Vec<u8>| link(tail, &facts).0 == row.link;
        match before {
            None => rev == 1 && fits(&origin(&row.task).0),
            Some(before) => self.tails(before).iter().any(fits),
        }
    }

    /// How each row stands to its neighbours. Finds gaps, and rows that were put in or taken out
    /// with all later ones renumbered.
    fn walk(&mut self, tip: &ChainTip) -> Walked {
        let mut standing: Vec<RowPosition> = Vec::with_capacity(self.rows.len());
        let mut shift = 0;
        let ends = self.ends_at(tip);
        let mut next = 1;
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            let before = at
                .checked_sub(1)
                .filter(|&before| self.rows[before].rev > 0);
            let gap = row.rev > next;
            // Behind the end of a chain nothing is missing.
            if gap && !(ends && next > tip.rev) {
                let (last, rev) = (row.rev - 1, row.rev);
                let which = if last == next {
                    format!("row {last} is")
                } else {
                    format!("rows {next} to {last} are")
                };
                self.add(
                    Some(next),
                    Damage::Missing,
                    format!("{which} not there; row {rev} is the next one"),
                );
            }
            let true_rev = row.rev - shift;
            let was_odd = standing.last() == Some(&RowPosition::Odd);
            let stands = if row.rev < 1 {
                RowPosition::Inserted
            } else if self.follows(at, before, true_rev) {
                RowPosition::Follows
            } else if gap {
                RowPosition::AfterGap
            } else if was_odd && self.was_inserted_before(at, true_rev) {
                shift += 1;
                standing[at - 1] = RowPosition::Inserted;
                RowPosition::Follows
            } else if was_odd && self.one_is_gone_before(at, true_rev) {
                shift -= 1;
                let rev = self.rows[at - 1].rev;
                let says = "it is not there, and all behind it carry numbers less by one than they were written under";
                self.add(Some(rev), Damage::Missing, says.to_owned());
                standing[at - 1] = RowPosition::AfterGap;
                RowPosition::Follows
            } else if was_odd && self.copied_from(at - 1).is_some() {
                // Another row was put over the one before it, link and seal and all.
                RowPosition::AfterGap
            } else {
                RowPosition::Odd
            };
            standing.push(stands);
            next = self.rows[at].rev.max(0) + 1;
        }
        Walked { standing, shift }
    }

    /// The place of the row that this one is a copy of.
    fn copied_from(&self, at: usize) -> Option<i64> {
        let own = &self.rows[at].link;
        let other =
            |(other, row): &(usize, &ChainRow)| *other != at && !own.is_empty() && row.link == *own;
        self.rows
            .iter()
            .enumerate()
            .find(other)
            .map(|(_, row)| row.rev)
    }

    /// The row before this one was put in, and this and all later ones renumbered: then this one
    /// follows the row before that, and so does the next one it.
    fn was_inserted_before(&self, at: usize, rev: i64) -> bool {
        let Some(put_in) = at.checked_sub(1) else {
            return false;
        };
        self.follows(at, put_in.checked_sub(1), rev - 1)
            // They might only have changed places.
            && !self.follows(put_in, Some(at), rev)
            && self.next_fits(at, rev - 1)
    }

    /// One row was taken out before the one before this one, and all later ones were renumbered.
    fn one_is_gone_before(&self, at: usize, rev: i64) -> bool {
        at > 0 && self.follows(at, Some(at - 1), rev + 1) && self.next_fits(at, rev + 1)
    }

    fn next_fits(&self, at: usize, rev: i64) -> bool {
        self.rows.len() <= at + 1 || self.follows(at + 1, Some(at), rev + 1)
    }

    /// Tries whether the odd ones stand at each other's places.
    fn find_moved(&self, walked: &mut Walked) {
        let odd: Vec<usize> = (0..self.rows.len())
            .filter(|&at| walked.standing[at] == RowPosition::Odd)
            .collect();
        if walked.shift != 0 || odd.len() > MOST_MOVED {
            return;
        }
        let mut before: Vec<Option<usize>> = odd
            .iter()
            .flat_map(|&at| [at.checked_sub(1), Some(at)])
            .collect();
        before.push(None);
        before.dedup();
        for &at in &odd {
            let own = self.rows[at].rev;
            let places = std::iter::once(own).chain(odd.iter().map(|&other| self.rows[other].rev));
            let other = |rev: &i64| {
                before
                    .iter()
                    .any(|&before| before != Some(at) && self.follows(at, before, *rev))
            };
            if let Some(rev) = places.into_iter().find(other) {
                // At its own place it stands behind one that has moved.
                walked.standing[at] = if rev == own {
                    RowPosition::Follows
                } else {
                    RowPosition::Moved(rev)
                };
            }
        }
    }

    /// What has become of each row that is not as it was written.
    fn judge(&mut self, tip: &ChainTip, walked: &Walked) {
        for at in 0..self.rows.len() {
            let rev = self.rows[at].rev;
            let behind = rev - walked.shift > tip.rev && tip.rev > 0 && self.ends_at(tip);
            match walked.standing[at] {
                RowPosition::Moved(was) => {
                    self.add(
                        Some(rev),
                        Damage::Inserted,
                        format!("it is the row that was written as number {was}"),
                    );
                }
                RowPosition::Follows if behind => {}
                RowPosition::Inserted | RowPosition::Odd | RowPosition::AfterGap if behind => {
                    let says = format!(
                        "the task's row ends at row {}, and nothing binds this one to it",
                        tip.rev
                    );
                    self.add(Some(rev), Damage::Inserted, says);
                }
                RowPosition::Inserted => {
                    let says = "the rows on both sides of it are bound to each other and not to it"
                        .to_owned();
                    self.add(Some(rev), Damage::Inserted, says);
                }
                RowPosition::Odd => self.judge_odd(at),
                RowPosition::Follows | RowPosition::AfterGap => self.judge_seal(at, tip),
            }
        }
    }

    /// Whether the row at which the task's row ends is there, with that seal.
    fn ends_at(&self, tip: &ChainTip) -> bool {
        self.rows
            .iter()
            .any(|row| row.rev == tip.rev && row.seal == tip.seal)
    }

    fn judge_odd(&mut self, at: usize) {
        let row = &self.rows[at];
        let rev = row.rev;
        if let Some(part) = unsealed(row) {
            let says = format!("it has no {}", part.as_str());
            return self.add(Some(rev), Damage::Changed(part), says);
        }
        if let Some(other) = self.copied_from(at) {
            let says =
                format!("what stands there has the link of row {other}, of which it is a copy");
            return self.add(Some(rev), Damage::Changed(Part::Text), says);
        }
        // The link that it should have, and whether its seal is one of that.
        let whole = at
            .checked_sub(1)
            .map_or_else(|| vec![origin(&row.task).0], |before| self.tails(before));
        if whole
            .iter()
            .any(|tail| seal(&link(tail, &row.facts()).0, row.at).0 == row.seal)
        {
            let says = "its seal is that of what it says, and its link is not".to_owned();
            return self.add(Some(rev), Damage::Changed(Part::Link), says);
        }
        let sealed = seal(&row.link, row.at).0 == row.seal;
        let goes_on =
            at + 1 < self.rows.len() && self.follows(at + 1, Some(at), self.rows[at + 1].rev);
        let (last, next) = (rev - 1, rev + 1);
        let says = match (sealed, goes_on) {
            (true, true) => format!(
                "what it says is not what its link binds to row {last}; its seal is that of its link, and row {next} is bound to it"
            ),
            (true, false) => {
                format!(
                    "what it says is not what its link binds to row {last}; its seal is that of its link"
                )
            }
            (false, _) => {
                format!(
                    "neither is its link that of what it says behind row {last}, nor its seal that of its link"
                )
            }
        };
        self.add(Some(rev), Damage::Changed(Part::Text), says);
    }

    /// Of a row that says what it said: whether its time and its seal are those that were written.
    fn judge_seal(&mut self, at: usize, tip: &ChainTip) {
        let row = &self.rows[at];
        let rev = row.rev;
        if let Some(part) = unsealed(row) {
            let says = format!("it has no {}", part.as_str());
            return self.add(Some(rev), Damage::Changed(part), says);
        }
        let made = seal(&row.link, row.at).0;
        if made == row.seal {
            return;
        }
        let next = self.rows.get(at + 1);
        let bound_to = |seal: &[u8]| match next {
            Some(next) => next.link == link(seal, &next.facts()).0,
            None => tip.seal == seal,
        };
        let who = next.map_or_else(
            || "the task's row".to_owned(),
            |next| format!("row {}", next.rev),
        );
        if bound_to(&made) {
            let says =
                format!("it is not the seal of its link and its time; {who} is bound to that one");
            self.add(Some(rev), Damage::Changed(Part::Seal), says);
        } else {
            let says = if bound_to(&row.seal) {
                format!("its seal is that of another time, and {who} is bound to it")
            } else {
                "its seal is that of another time".to_owned()
            };
            self.add(Some(rev), Damage::Changed(Part::Time), says);
        }
    }

    /// Whether what was handed in is what was handed in. It stands beside the chain, which binds
    /// its digest, and the key that it was encrypted with.
    fn data(&mut self) {
        let mut encrypted = EncryptedFrom::default();
        for row in self.rows {
            // Entries that cannot be read have no digest to compare with; that they changed is said
            // already.
            let Read::Named(named) = read(row) else {
                continue;
            };
            if !data_is_whole(row, &named) {
                let says = "its data has not the digest that stands in its entries".to_owned();
                self.add(Some(row.rev), Damage::Changed(Part::Data), says);
            }
            if let Some(says) = encrypted.plaintext(row, &named) {
                self.add(Some(row.rev), Damage::Changed(Part::Data), says);
            }
        }
    }

    /// Whether each row begins where the one before it ends, as far as both are what was written;
    /// and where the last ends.
    fn sequence(&mut self, walked: &Walked) -> Ends {
        let mut ends = Ends::default();
        for (row, standing) in self.rows.iter().zip(&walked.standing) {
            let Read::Named(named) = read(row) else {
                ends = Ends::Unknown;
                continue;
            };
            match standing {
                RowPosition::Follows => {
                    if !ends.are_before(&named)
                        && let (Ends::In(seq, status), Some((first, from))) = (&ends, &named.first)
                    {
                        let word = |status: &Option<String>| {
                            status.clone().unwrap_or_else(|| "nothing".to_owned())
                        };
                        let says = format!(
                            "it begins with event {first}, in {}; the rows before it end with event {seq}, in {}",
                            word(from),
                            word(status)
                        );
                        self.add(Some(row.rev), Damage::Illegal(Part::Order), says);
                    }
                    ends.take(&named);
                }
                // What it says is what was written: only the row before it is not there.
                RowPosition::AfterGap => {
                    ends = Ends::Unknown;
                    ends.take(&named);
                }
                RowPosition::Odd | RowPosition::Moved(_) | RowPosition::Inserted => {
                    ends = Ends::Unknown
                }
            }
        }
        ends
    }

    /// What the task's row says of the end.
    fn end(&mut self, tip: &ChainTip, walked: &Walked, ends: &Ends) {
        let (Some(last), Some(standing)) = (self.rows.last(), walked.standing.last()) else {
            // Whatever number it says: no task is without a row.
            let says = format!(
                "the task's row knows of {} rows, and there are none",
                tip.rev
            );
            self.add(Some(1), Damage::Missing, says);
            return;
        };
        let (last_rev, sealed_same) = (last.rev, tip.seal == last.seal);
        let sound = *standing == RowPosition::Follows;
        let true_end = last_rev - walked.shift;
        if tip.rev > last_rev.max(true_end) && (!sealed_same || tip.seal.is_empty()) {
            let says = format!(
                "the task's row knows of {} rows, and the last one there is {last_rev}",
                tip.rev
            );
            self.add(Some(last_rev + 1), Damage::Missing, says);
        } else if tip.rev != last_rev && tip.rev != true_end {
            // Rows behind the end have been named one by one; unless they are bound to what is
            // before them.
            if sound {
                let says = format!(
                    "it ends the journal at row {}, and the rows go on to {last_rev}, each bound to the one before it",
                    tip.rev
                );
                self.add(None, Damage::RowDiffers(Part::Head), says);
            }
        } else if !sealed_same {
            // Else the seal of the last row is the one that was changed, or all of it was.
            let made = seal(&last.link, last.at).0;
            if made == last.seal && (sound || *standing == RowPosition::AfterGap) {
                let says =
                    format!("the seal that it keeps is not that of row {last_rev}, its last");
                self.add(None, Damage::RowDiffers(Part::Head), says);
            }
        }
        let Ends::In(_, ends_in) = ends else { return };
        if sound && !ends.are(&tip.status) && (tip.rev == last_rev || tip.rev == true_end) {
            let ends_in = ends_in.as_deref().unwrap_or("no event");
            let says = format!(
                "it is {}, and its journal ends in {ends_in} at row {last_rev}",
                tip.status
            );
            self.add(None, Damage::RowDiffers(Part::State), says);
        }
    }
}

fn unsealed(row: &ChainRow) -> Option<Part> {
    match (row.link.is_empty(), row.seal.is_empty()) {
        (true, _) => Some(Part::Link),
        (false, true) => Some(Part::Seal),
        (false, false) => None,
    }
}
