//! The check of the audit of changes beside tasks: whether its one chain is whole. Must not repair anything.

use super::finding::CHANGES as CHAIN;
use super::verify::Copied;
use super::{Damage, Finding, Part};
use counterstep_kernel::audit::ContentHash;
use counterstep_kernel::audit::admin_audit::{AdminEntry, page, tip};
use counterstep_kernel::ports::{Store, StoreError};

/// Maximum number of entries per page.
const PAGE: u32 = 500;

fn finding(no: Option<u64>, damage: Damage, says: String) -> Finding {
    Finding {
        task: CHAIN.to_owned(),
        rev: no.map(|no| i64::try_from(no).unwrap_or(i64::MAX)),
        damage,
        says,
    }
}

/// Walks along the chain. Returns how many entries there are.
pub(super) async fn verify(
    store: &Store,
    copied: &mut Copied,
    found: &mut Vec<Finding>,
) -> Result<u64, StoreError> {
    // First: entries that are written meanwhile lie behind it.
    let tip = tip(store).await?;
    let mut last: Option<AdminEntry> = None;
    let mut count = 0;
    loop {
        let after = last.as_ref().map_or(0, |last| last.no);
        let entries = page(store, after, PAGE).await?;
        if entries.is_empty() {
            break;
        }
        for entry in entries {
            count += 1;
            step(last.as_ref(), &entry, found);
            let at = i64::try_from(entry.no).unwrap_or(i64::MAX);
            found.extend(copied.look_at(CHAIN, at, &digits(&entry.link)));
            if entry.no == tip.no && Some(&entry.link) != tip.link.as_ref() {
                let says =
                    "the end of the chain says another link than this entry, its last".to_owned();
                found.push(finding(
                    Some(entry.no),
                    Damage::RowDiffers(Part::Head),
                    says,
                ));
            }
            last = Some(entry);
        }
    }
    let ends = last.map_or(0, |last| last.no);
    if ends < tip.no {
        let says = format!("it ends at entry {ends}, and {} were written", tip.no);
        found.push(finding(Some(ends + 1), Damage::Missing, says));
    }
    if tip.no == 0 && ends > 0 {
        let says = "there are entries, and nothing says where they end".to_owned();
        found.push(finding(None, Damage::RowDiffers(Part::Head), says));
    }
    Ok(count)
}

fn step(last: Option<&AdminEntry>, entry: &AdminEntry, found: &mut Vec<Finding>) {
    let expected = last.map_or(0, |last| last.no) + 1;
    if entry.no != expected {
        let says = format!(
            "entry {expected} is not there; the next one is {}",
            entry.no
        );
        found.push(finding(Some(expected), Damage::Missing, says));
    } else if entry.bound_to(last.map(|last| &last.link)) != entry.link {
        let says = "what it says is not what its link binds to the entry before it".to_owned();
        found.push(finding(Some(entry.no), Damage::Changed(Part::Text), says));
    }
}

/// Of a link what its hash is: ends of chains are copied as 64 digits.
fn digits(link: &ContentHash) -> String {
    let text = link.to_string();
    text.get(2..).unwrap_or_default().to_owned()
}

/// The line of the chain's end among the ends of chains; `None`: nothing was written yet.
///
/// # Errors
/// [`StoreError`].
pub async fn admin_head(store: &Store) -> Result<Option<String>, StoreError> {
    let tip = tip(store).await?;
    Ok(tip
        .link
        .map(|link| format!("{CHAIN} {} {}", tip.no, digits(&link))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(count: u64) -> Vec<AdminEntry> {
        let mut entries: Vec<AdminEntry> = Vec::new();
        for no in 1..=count {
            let mut entry = AdminEntry {
                no,
                actor: "kim".to_owned(),
                entries: format!("{{\"no\":{no}}}"),
                link: ContentHash(Vec::new()),
            };
            entry.link = entry.bound_to(entries.last().map(|last| &last.link));
            entries.push(entry);
        }
        entries
    }

    fn walked(entries: &[AdminEntry]) -> Vec<(Option<i64>, Damage)> {
        let mut found = Vec::new();
        let mut last = None;
        for entry in entries {
            step(last, entry, &mut found);
            last = Some(entry);
        }
        found.iter().map(|it| (it.rev, it.damage)).collect()
    }

    #[test]
    fn a_chain_is_whole_until_an_entry_is_changed_or_gone() {
        assert_eq!(walked(&chain(3)), []);
        let mut changed = chain(3);
        changed[1].actor = "lee".to_owned();
        assert_eq!(walked(&changed), [(Some(2), Damage::Changed(Part::Text))]);
        let mut gone = chain(3);
        gone.remove(1);
        assert_eq!(walked(&gone), [(Some(2), Damage::Missing)]);
        let mut first = chain(3);
        first.remove(0);
        assert_eq!(walked(&first), [(Some(1), Damage::Missing)]);
    }
}
