//! Rows of a table have as many cells as its head: a bar without a backslash begins a cell, in code too,
//! and cells beyond the head are not shown. Must not look into fences.

use super::{Found, Violation, markdown};
use crate::tree;

pub(super) fn check(files: &[String]) -> Found {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.ends_with(".md")) {
        let text = tree::text(file)?;
        let rows = uneven(&text).into_iter();
        found.extend(rows.map(|(line, cells, head)| {
            let what = format!(
                "a row of {cells} cells below a head of {head}: write `\\|` for a bar within a cell"
            );
            Violation::new(file, line, what)
        }));
    }
    Ok(found)
}

/// Lines of tables with their number of cells, and that of the head from which it differs.
fn uneven(text: &str) -> Vec<(usize, usize, usize)> {
    let (mut found, mut head) = (Vec::new(), None::<(usize, usize)>);
    for (at, line) in markdown::outside(text) {
        if !line.starts_with('|') {
            head = None;
            continue;
        }
        let cells = cells(line);
        // A line that does not follow the one before begins another table.
        let of = match head {
            Some((before, of)) if before + 1 == at => of,
            _ => cells,
        };
        if cells != of {
            found.push((at, cells, of));
        }
        head = Some((at, of));
    }
    found
}

fn cells(row: &str) -> usize {
    let bars = row.trim_end().replace("\\|", "").matches('|').count();
    bars.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::uneven;

    #[test]
    fn a_row_with_a_bar_in_code_is_found_and_an_escaped_one_is_not() {
        let page = "| a | b |\n|---|---|\n| `x\\|y` | c |\n| `|w| ..` | c |\ntext | more\n";
        assert_eq!(uneven(page), [(4, 4, 2)]);
    }

    #[test]
    fn each_table_has_a_head_of_its_own_and_fences_have_none() {
        let page = "| a |\n|---|\n\n| a | b |\n|---|---|\n```sh\n| x\n```\n| c |\n";
        assert_eq!(uneven(page), []);
    }
}
