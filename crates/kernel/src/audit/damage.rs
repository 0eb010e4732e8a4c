//! What is wrong with the chain of one task that is not whole. Each entry is bound to the one before it, so whoever stands
//! next to a damaged entry tells what has become of it: this reads their evidence.

use super::{Damage, Facts, Finding, link, origin, seal};
use crate::ports::{AuditHead, SealedEntry};

/// Of so many entries that do not follow, at most, it is tried whether they stand at each other's places.
const MOST_MOVED: usize = 16;

/// Everything that is wrong with the chain of one task, in the order of its entries; what its row says comes last.
/// `rows`: all its entries, in the order of their places, read in one moment with `head`, the task's row (`None`: there is
/// none).
#[must_use]
pub fn diagnose(task: &str, head: Option<&AuditHead>, rows: &[SealedEntry]) -> Vec<Finding> {
    let mut look = Look { task, rows, found: Vec::new() };
    match head {
        None => {
            if let (Some(first), count) = (rows.first(), rows.len()) {
                look.add(Some(first.seq), Damage::NoTask, format!("{count} entries, and no row of a task for them"));
            }
        }
        Some(head) => {
            let mut standing = look.walk(head);
            look.find_moved(&mut standing);
            look.judge(head, &standing);
            look.states(&standing);
            look.end(head, &standing);
        }
    }
    look.found.sort_by_key(|finding| (finding.seq.unwrap_or(i64::MAX), finding.damage));
    look.found
}

/// How an entry stands to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Its link is that of what it says over the entry before it.
    Follows,
    /// Written before there were links.
    Early,
    /// The entry before it is gone: nobody knows.
    AfterGap,
    /// Its link is not.
    Odd,
    /// It follows another entry, at another place; it was at this one.
    Moved(i64),
    /// Nobody wrote it.
    Inserted,
}

struct Walked {
    standing: Vec<Standing>,
    /// Number in the row, minus the one it was written under, at the end.
    shift: i64,
}

struct Look<'a> {
    task: &'a str,
    rows: &'a [SealedEntry],
    found: Vec<Finding>,
}

impl Look<'_> {
    fn add(&mut self, seq: Option<i64>, damage: Damage, says: String) {
        self.found.push(Finding { task: self.task.to_owned(), seq, damage, says });
    }

    /// What an entry that follows this one may be bound to: what stands in the row, and what should.
    fn tails(&self, at: usize) -> Vec<Vec<u8>> {
        let row = &self.rows[at];
        let mut tails: Vec<Vec<u8>> = row.seal.iter().chain(&row.link).cloned().collect();
        tails.extend(row.link.as_ref().map(|link| seal(link, row.at).0));
        // As what it says and the entry before it make it, whatever stands in its own columns.
        let before = match at.checked_sub(1) {
            None => vec![origin(&row.task, row.seq - 1).0],
            Some(before) => {
                let row = &self.rows[before];
                let mut tails: Vec<_> = row.seal.iter().chain(&row.link).cloned().collect();
                if tails.is_empty() {
                    tails.push(origin(&row.task, row.seq).0);
                }
                tails
            }
        };
        for before in before {
            let link = link(&before, &Facts::from(row)).0;
            tails.push(seal(&link, row.at).0);
            tails.push(link);
        }
        // As the first of a chain whose entries before it are of the time before there were links.
        tails.push(origin(&row.task, row.seq).0);
        tails
    }

    /// Whether the entry at `at` was written as number `seq`, behind the entry at `before` (`None`: as the first).
    fn follows(&self, at: usize, before: Option<usize>, seq: i64) -> bool {
        let Some(own) = &self.rows[at].link else { return false };
        let facts = Facts { seq, ..Facts::from(&self.rows[at]) };
        let fits = |tail: &Vec<u8>| link(tail, &facts).0 == *own;
        match before {
            None => fits(&origin(facts.task, seq - 1).0),
            Some(before) => {
                // The origin is a tail of unsealed rows only; a number under which it was written is part of it.
                self.tails(before).iter().any(fits)
            }
        }
    }

    /// Whether an entry was written as the first one with a link.
    fn is_first(&self, at: usize) -> bool {
        let row = &self.rows[at];
        row.link.as_ref() == Some(&link(&origin(&row.task, row.seq - 1).0, &Facts::from(row)).0)
    }

    fn is_early(&self, at: usize) -> bool {
        self.rows[at].link.is_none() && self.rows[at].seal.is_none()
    }

    /// How each entry stands to its neighbours. Finds gaps, and entries that were put in or taken out with all later ones
    /// renumbered.
    fn walk(&mut self, head: &AuditHead) -> Walked {
        let mut standing = Vec::with_capacity(self.rows.len());
        let mut shift = 0;
        let ends = self.ends_at(head);
        let mut next = 1;
        let mut linked = false;
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            let before = at.checked_sub(1).filter(|&before| self.rows[before].seq > 0);
            let gap = row.seq > next;
            // Behind the end of a chain nothing is missing.
            if gap && !(ends && next > head.seq) {
                let (last, seq) = (row.seq - 1, row.seq);
                let which =
                    if last == next { format!("entry {last} is") } else { format!("entries {next} to {last} are") };
                self.add(Some(next), Damage::Missing, format!("{which} not there; entry {seq} is the next one"));
            }
            let true_seq = row.seq - shift;
            let stands = if row.seq < 1 {
                Standing::Inserted
            } else if self.is_early(at) && !linked {
                Standing::Early
            } else if self.follows(at, before, true_seq) {
                // The first one with a link is bound to the start of a chain; else the one before it had a link, too.
                if let Some(before) = before.filter(|&before| standing[before] == Standing::Early)
                    && !self.is_first(at)
                {
                    standing[before] = Standing::Odd;
                }
                Standing::Follows
            } else if gap {
                Standing::AfterGap
            } else if standing.last() == Some(&Standing::Odd) && self.was_inserted_before(at, true_seq) {
                shift += 1;
                standing[at - 1] = Standing::Inserted;
                Standing::Follows
            } else if standing.last() == Some(&Standing::Odd) && self.one_is_gone_before(at, true_seq) {
                shift -= 1;
                let seq = self.rows[at - 1].seq;
                let says = "it is not there, and all behind it carry numbers less by one than they were written under";
                self.add(Some(seq), Damage::Missing, says.to_owned());
                standing[at - 1] = Standing::AfterGap;
                Standing::Follows
            } else if standing.last() == Some(&Standing::Odd) && self.copied_from(at - 1).is_some() {
                // Another entry was put over the one before it, link and seal and all.
                Standing::AfterGap
            } else {
                Standing::Odd
            };
            linked |= self.rows[at].link.is_some();
            standing.push(stands);
            next = self.rows[at].seq.max(0) + 1;
        }
        Walked { standing, shift }
    }

    /// The number of the entry that this one is a copy of.
    fn copied_from(&self, at: usize) -> Option<i64> {
        let own = self.rows[at].link.as_ref()?;
        let other = |(other, row): &(usize, &SealedEntry)| *other != at && row.link.as_ref() == Some(own);
        self.rows.iter().enumerate().find(other).map(|(_, row)| row.seq)
    }

    /// The entry before this one was put in, and this and all later ones renumbered: then this one follows the entry
    /// before that, and so does the next one it.
    fn was_inserted_before(&self, at: usize, seq: i64) -> bool {
        let Some(put_in) = at.checked_sub(1) else { return false };
        self.follows(at, put_in.checked_sub(1), seq - 1)
            // They might only have changed places.
            && !self.follows(put_in, Some(at), seq)
            && self.next_fits(at, seq - 1)
    }

    /// One entry was taken out before the one before this one, and all later ones were renumbered.
    fn one_is_gone_before(&self, at: usize, seq: i64) -> bool {
        at > 0 && self.follows(at, Some(at - 1), seq + 1) && self.next_fits(at, seq + 1)
    }

    fn next_fits(&self, at: usize, seq: i64) -> bool {
        self.rows.len() <= at + 1 || self.follows(at + 1, Some(at), seq + 1)
    }

    /// Tries whether the odd ones stand at each other's places.
    fn find_moved(&self, walked: &mut Walked) {
        let odd: Vec<usize> = (0..self.rows.len()).filter(|&at| walked.standing[at] == Standing::Odd).collect();
        if walked.shift != 0 || odd.len() > MOST_MOVED {
            return;
        }
        let mut before: Vec<Option<usize>> = odd.iter().flat_map(|&at| [at.checked_sub(1), Some(at)]).collect();
        before.push(None);
        before.dedup();
        for &at in &odd {
            let own = self.rows[at].seq;
            let places = std::iter::once(own).chain(odd.iter().map(|&other| self.rows[other].seq));
            let other = |seq: &i64| before.iter().any(|&before| before != Some(at) && self.follows(at, before, *seq));
            if let Some(seq) = places.into_iter().find(other) {
                // At its own place it stands behind one that has moved.
                walked.standing[at] = if seq == own { Standing::Follows } else { Standing::Moved(seq) };
            }
        }
    }

    /// What has become of each entry that is not as it was written.
    fn judge(&mut self, head: &AuditHead, walked: &Walked) {
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            let seq = row.seq;
            let behind = seq - walked.shift > head.seq && head.seq > 0 && self.ends_at(head);
            match walked.standing[at] {
                Standing::Early => {}
                Standing::Moved(was) => {
                    self.add(Some(seq), Damage::Moved, format!("it is the entry that was written as number {was}"));
                }
                Standing::Follows if behind => {}
                Standing::Inserted | Standing::Odd | Standing::AfterGap if behind => {
                    let says = format!("the task's row ends at entry {}, and nothing binds this one to it", head.seq);
                    self.add(Some(seq), Damage::Inserted, says);
                }
                Standing::Inserted => {
                    let says = "the entries on both sides of it are bound to each other and not to it".to_owned();
                    self.add(Some(seq), Damage::Inserted, says);
                }
                Standing::Odd => self.judge_odd(at),
                Standing::Follows | Standing::AfterGap => self.judge_seal(at, head),
            }
        }
    }

    /// Whether the entry at which the task's row ends is there, with that seal.
    fn ends_at(&self, head: &AuditHead) -> bool {
        self.rows.iter().any(|row| row.seq == head.seq && row.seal == head.seal)
    }

    fn judge_odd(&mut self, at: usize) {
        let row = &self.rows[at];
        let seq = row.seq;
        let next = (at + 1 < self.rows.len()).then(|| &self.rows[at + 1]);
        let (Some(_), Some(sealed)) = (&row.link, &row.seal) else {
            let what = if row.link.is_some() { "seal" } else { "link" };
            let says = format!("it has no {what}, and entries before it have theirs");
            return self.add(Some(seq), Damage::Unsealed, says);
        };
        if let Some(other) = self.copied_from(at) {
            let says = format!("what stands there has the link of entry {other}, of which it is a copy");
            return self.add(Some(seq), Damage::Changed, says);
        }
        // The link that it should have, and whether its seal is one of that.
        let whole = at.checked_sub(1).map_or_else(|| vec![origin(&row.task, seq - 1).0], |before| self.tails(before));
        let own = whole.iter().any(|tail| seal(&link(tail, &Facts::from(row)).0, row.at).0 == *sealed);
        if own {
            let says = "its seal is that of what it says, and its link is not".to_owned();
            return self.add(Some(seq), Damage::LinkChanged, says);
        }
        let sealed = row.link.as_ref().is_some_and(|link| seal(link, row.at).0 == *sealed);
        let goes_on = next.is_some_and(|next| self.follows(at + 1, Some(at), next.seq));
        let says = match (sealed, goes_on) {
            (true, true) => format!(
                "what it says is not what its link binds to entry {}; its seal is that of its link, and entry {} is bound to it",
                seq - 1,
                seq + 1
            ),
            (true, false) => {
                format!("what it says is not what its link binds to entry {}; its seal is that of its link", seq - 1)
            }
            (false, _) => format!(
                "neither is its link that of what it says behind entry {}, nor its seal that of its link",
                seq - 1
            ),
        };
        self.add(Some(seq), Damage::Changed, says);
    }

    /// Of an entry that says what it said: whether its time and its seal are those that were written.
    fn judge_seal(&mut self, at: usize, head: &AuditHead) {
        let row = &self.rows[at];
        let seq = row.seq;
        let (Some(own), Some(stands)) = (&row.link, &row.seal) else {
            let what = if row.link.is_some() { "seal" } else { "link" };
            return self.add(
                Some(seq),
                Damage::Unsealed,
                format!("it has no {what}, and entries around it have theirs"),
            );
        };
        let made = seal(own, row.at).0;
        if made == *stands {
            return;
        }
        let next = self.rows.get(at + 1);
        let bound_to = |seal: &[u8]| match next {
            Some(next) => next.link.as_ref().is_some_and(|own| *own == link(seal, &Facts::from(next)).0),
            None => head.seal.as_deref() == Some(seal),
        };
        let who = next.map_or_else(|| "the task's row".to_owned(), |next| format!("entry {}", next.seq));
        // Entries of one change have one time.
        let same =
            |other: Option<&SealedEntry>| other.filter(|other| other.change_id == row.change_id).map(|other| other.at);
        let beside = same(next).or_else(|| at.checked_sub(1).and_then(|before| same(self.rows.get(before))));
        if bound_to(&made) || (!bound_to(stands) && beside == Some(row.at)) {
            let says = format!("it is not the seal of its link and its time; {who} is bound to that one");
            self.add(Some(seq), Damage::SealChanged, says);
        } else {
            let says = if bound_to(stands) {
                format!("its seal is that of another time, and {who} is bound to it")
            } else {
                "its seal is that of another time".to_owned()
            };
            self.add(Some(seq), Damage::TimeChanged, says);
        }
    }

    /// Entries that were written as they stand, and do not go on from each other: no damage, but a fault of whoever
    /// wrote them.
    fn states(&mut self, walked: &Walked) {
        let sound = |standing| matches!(standing, Standing::Follows | Standing::Early);
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            let before = at.checked_sub(1).map(|before| (&self.rows[before], walked.standing[before]));
            let (was, before_sound) =
                before.map_or((None, row.seq == 1), |(row, standing)| (Some(row.to.as_str()), sound(standing)));
            if before_sound && sound(walked.standing[at]) && row.from.as_deref() != was {
                let says = format!(
                    "it begins in {}, and the entry before it ends in {}",
                    row.from.as_deref().unwrap_or("nothing"),
                    was.unwrap_or("nothing")
                );
                self.add(Some(row.seq), Damage::DoesNotFollow, says);
            }
        }
    }

    /// What the task's row says of the end.
    fn end(&mut self, head: &AuditHead, walked: &Walked) {
        let (Some(last), Some(standing)) = (self.rows.last(), walked.standing.last()) else {
            if head.seq > 0 {
                let says = format!("the task's row knows of {} entries, and there are none", head.seq);
                self.add(Some(1), Damage::CutOff, says);
            }
            return;
        };
        let (last_seq, sealed_same) = (last.seq, head.seal == last.seal);
        let sound = matches!(standing, Standing::Follows | Standing::Early);
        let true_end = last_seq - walked.shift;
        if head.seq > last_seq.max(true_end) && (!sealed_same || head.seal.is_none()) {
            let says = format!("the task's row knows of {} entries, and the last one there is {last_seq}", head.seq);
            self.add(Some(last_seq + 1), Damage::CutOff, says);
        } else if head.seq != last_seq && head.seq != true_end {
            // Entries behind the end have been named one by one; unless they are bound to what is before them.
            if sound {
                let says = format!(
                    "it ends the audit at entry {}, and the entries go on to {last_seq}, each bound to the one before it",
                    head.seq
                );
                self.add(None, Damage::HeadChanged, says);
            }
        } else if !sealed_same {
            let made = last.link.as_ref().map(|link| seal(link, last.at).0);
            if *standing == Standing::Early {
                let says = "it has no seal, and the task's row keeps one".to_owned();
                return self.add(Some(last_seq), Damage::Unsealed, says);
            }
            // Else the seal of the last entry is the one that was changed, or all of it was.
            if made == last.seal && (sound || *standing == Standing::AfterGap) {
                let says = format!("the seal that it keeps is not that of entry {last_seq}, its last");
                self.add(None, Damage::HeadChanged, says);
            }
        }
        if sound && head.status != last.to && (head.seq == last_seq || head.seq == true_end) {
            let says = format!("it is {}, and its last audit entry, {last_seq}, ends in {}", head.status, last.to);
            self.add(None, Damage::StatusDiffers, says);
        }
    }
}
