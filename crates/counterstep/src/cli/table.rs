//! Rows as text, and the only code that prints them: cut to the width of a terminal, or whole and separated by tabs. Must not
//! look at a terminal or a clock.

use super::times::{age, spaced};
use console::{measure_text_width, truncate_str};
use counterstep_contracts::operation::shown::{Cell, Table, View};
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;
use std::borrow::Cow;

/// Between two columns of a terminal.
const GAP: usize = 2;
/// A column of texts is not cut below this width.
const NARROWEST: usize = 6;
/// Room that a column of texts gets, where it needs as much, before spare columns are shown.
const ROOMY: usize = 24;
/// What is shown of the id of a task, where there is no room for more.
const END_OF_ID: usize = 8;

/// How the ids of tasks are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ids {
    Whole,
    Ends,
}

/// For whom rows are written.
#[derive(Debug, Clone)]
pub(super) struct Look {
    /// Columns of the terminal; `None`: a program reads it.
    pub(super) width: Option<usize>,
    /// Microseconds since 1970-01-01 UTC.
    pub(super) now: i64,
    /// The columns that are wanted, by their heads; none: all.
    pub(super) columns: Vec<String>,
}

impl Look {
    /// What is shown of an answer.
    ///
    /// # Errors
    /// Where it has not the columns that are wanted.
    pub(super) fn text(&self, view: &View) -> Result<String, Exit> {
        match view {
            View::Table(table) => self.page(table),
            View::Lines(_) if !self.columns.is_empty() => {
                Err(Exit::usage("--columns: what is shown is no table"))
            }
            View::Lines(lines) => {
                let lines = lines.iter().map(|line| self.whole(line) + "\n");
                Ok(lines.collect())
            }
        }
    }

    /// A list, or that there is nothing in it.
    fn page(&self, table: &Table) -> Result<String, Exit> {
        let mut shown = self.wanted(&table.heads)?;
        let mut text = match (table.rows.is_empty(), table.is_filtered) {
            (false, _) => {
                let left_out = self.make_room(table, &mut shown);
                let mut text = self.rows(table, &shown);
                if !left_out.is_empty() {
                    let left_out = left_out.join(", ");
                    text += &format!("left out at this width: {left_out} (--columns HEADS)\n");
                }
                text
            }
            (true, false) => format!("No {}\n", table.what),
            (true, true) => format!("No {} match\n", table.what),
        };
        if let Some(cursor) = &table.next {
            text += &format!("more: --cursor {cursor}\n");
        }
        let below = table.below.iter().map(|line| self.whole(line) + "\n");
        text.extend(below);
        Ok(text)
    }

    /// The rows of a table below its heads, with all columns for which there is room.
    pub(super) fn plain(&self, table: &Table) -> String {
        let mut all: Vec<_> = (0..table.heads.len()).collect();
        self.make_room(table, &mut all);
        self.rows(table, &all)
    }

    /// Takes spare columns away until the others have room. Gives their heads.
    fn make_room(&self, table: &Table, shown: &mut Vec<usize>) -> Vec<&'static str> {
        let mut left_out = Vec::new();
        // Columns that were asked for are all shown.
        let Some(width) = self.width.filter(|_| self.columns.is_empty()) else {
            return left_out;
        };
        for head in table.spare {
            let widths = widest(&self.texts(table, shown, Ids::Ends));
            let floors = floors(table, shown, &widths).into_iter();
            let least = widths.iter().zip(floors);
            let least: Vec<_> = least
                .map(|(&width, floor)| width.min(floor.max(ROOMY)))
                .collect();
            if over(&least, width) == 0 {
                break;
            }
            shown.retain(|&at| table.heads[at] != *head);
            left_out.push(*head);
        }
        left_out
    }

    /// The places of the columns that are wanted.
    fn wanted(&self, heads: &[&str]) -> Result<Vec<usize>, Exit> {
        if self.columns.is_empty() {
            return Ok((0..heads.len()).collect());
        }
        let places = self.columns.iter().map(|wanted| {
            let place = heads.iter().position(|head| flag_of(head) == *wanted);
            place.ok_or_else(|| {
                let all: Vec<_> = heads.iter().map(|head| flag_of(head)).collect();
                Exit::usage(format_args!(
                    "--columns: unknown column `{}`; expected some of {}",
                    one_line(wanted),
                    all.join(",")
                ))
            })
        });
        places.collect()
    }

    /// The heads and the cells.
    fn texts(&self, table: &Table, wanted: &[usize], ids: Ids) -> Vec<Vec<String>> {
        let heads = wanted.iter().map(|&at| table.heads[at].to_owned());
        let rows = table.rows.iter().map(|row| {
            let cells = wanted.iter().map(|&at| self.cell(&row[at], ids));
            cells.collect()
        });
        [heads.collect()].into_iter().chain(rows).collect()
    }

    fn rows(&self, table: &Table, wanted: &[usize]) -> String {
        let mut rows = self.texts(table, wanted, Ids::Whole);
        let Some(width) = self.width else {
            let lines = rows.iter().map(|row| row.join("\t") + "\n");
            return lines.collect();
        };
        // Commands take an ending. Where columns were asked for and have room, others can copy the whole.
        if self.columns.is_empty() || over(&widest(&rows), width) > 0 {
            rows = self.texts(table, wanted, Ids::Ends);
        }
        let column = |at: usize| table.rows.iter().map(move |row| &row[wanted[at]]);
        let mut widths = widest(&rows);
        let floors = floors(table, wanted, &widths);
        let is_number: Vec<_> = (0..wanted.len())
            .map(|at| {
                let mut cells = column(at).filter(|cell| **cell != Cell::NONE).peekable();
                cells.peek().is_some() && cells.all(|cell| matches!(cell, Cell::Number(_)))
            })
            .collect();
        fit(&mut widths, &floors, width);
        let lines = rows.iter().map(|row| {
            let cells = row.iter().zip(&widths).zip(&is_number);
            let cells = cells.map(|((cell, &width), &is_right)| padded(cell, width, is_right));
            let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
            cut(line.trim_end(), width).into_owned() + "\n"
        });
        lines.collect()
    }

    /// A cell of a table, on one line.
    fn cell(&self, cell: &Cell, ids: Ids) -> String {
        match cell {
            Cell::Task(id) if ids == Ids::Ends => one_line(end_of(id)),
            Cell::Time(time) if self.width.is_some() => one_line(&age(time, self.now)),
            Cell::Parts(parts) => parts.iter().map(|part| self.cell(part, ids)).collect(),
            cell => self.whole(cell),
        }
    }

    /// The same in a line of its own: an id that is shown alone is whole.
    fn whole(&self, cell: &Cell) -> String {
        match cell {
            Cell::Text(text) | Cell::Name(text) | Cell::Task(text) => one_line(text),
            Cell::Number(number) => number.to_string(),
            Cell::Time(time) if self.width.is_some() => one_line(&age(time, self.now)),
            Cell::Time(time) => one_line(time),
            Cell::Seconds(seconds) if self.width.is_some() => spaced(*seconds),
            Cell::Seconds(seconds) => seconds.to_string(),
            Cell::Parts(parts) => parts.iter().map(|part| self.whole(part)).collect(),
        }
    }
}

/// A head as `--columns` takes it.
fn flag_of(head: &str) -> String {
    head.replace(' ', "-")
}

fn end_of(id: &str) -> &str {
    let at = id.len().saturating_sub(END_OF_ID);
    id.get(at..).unwrap_or(id)
}

/// The widths of the columns of these rows.
fn widest(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| {
        let cells = rows.iter().map(|row| measure_text_width(&row[at]));
        cells.max().unwrap_or_default()
    };
    (0..columns).map(width).collect()
}

/// How much columns of these widths need beside what there is.
fn over(widths: &[usize], width: usize) -> usize {
    let gaps = GAP * widths.len().saturating_sub(1);
    (widths.iter().sum::<usize>() + gaps).saturating_sub(width)
}

/// Below these widths columns are not cut: texts at all, names not, and what follows a name in its cell up to that name.
fn floors(table: &Table, shown: &[usize], widths: &[usize]) -> Vec<usize> {
    let of_cell = |cell: &Cell| match cell {
        Cell::Text(_) => Some(NARROWEST),
        Cell::Parts(parts) => Some(match parts.first() {
            // With the sign that something is cut behind it.
            Some(Cell::Name(name)) => {
                measure_text_width(&one_line(name)) + usize::from(parts.len() > 1)
            }
            _ => NARROWEST,
        }),
        _ => None,
    };
    let columns = shown.iter().zip(widths);
    let floor = columns.map(|(&at, &width)| {
        let mut floors = table.rows.iter().map(|row| of_cell(&row[at]));
        let floor = floors.try_fold(NARROWEST, |most, floor| Some(most.max(floor?)));
        floor.unwrap_or(width)
    });
    floor.collect()
}

/// Takes from the widest columns of texts what is too much; the line is cut where that is not enough.
fn fit(widths: &mut [usize], floors: &[usize], width: usize) {
    for _ in 0..over(widths, width) {
        let wide = (0..widths.len()).filter(|&at| widths[at] > floors[at]);
        let Some(at) = wide.max_by_key(|&at| widths[at]) else {
            return;
        };
        widths[at] -= 1;
    }
}

fn cut(text: &str, width: usize) -> Cow<'_, str> {
    truncate_str(text, width, "…")
}

fn padded(text: &str, width: usize, is_right: bool) -> String {
    let text = cut(text, width);
    let blanks = " ".repeat(width.saturating_sub(measure_text_width(&text)));
    match is_right {
        true => blanks + &text,
        false => text.into_owned() + &blanks,
    }
}

#[cfg(test)]
#[path = "table/tests.rs"]
mod tests;
