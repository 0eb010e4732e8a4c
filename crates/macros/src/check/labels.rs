//! Checks the labels of a task: their names, and how many there are. What they are made of is left to
//! the compiler.

use crate::code::Code;
use crate::declaration::Declaration;
use crate::report::Report;

/// As `counterstep_contracts::labels` has them, which no macro can import.
const MOST: usize = 16;
const LONGEST_NAME: usize = 64;

pub(super) fn check(declaration: &Declaration, report: &mut Report) {
    let labels = &declaration.task.labels;
    for (at, label) in labels.iter().enumerate() {
        let problem = if !is_name(&label.name) {
            "it is no name of a label"
        } else if labels[..at].iter().any(|other| other.name == label.name) {
            "it stands here twice"
        } else if at >= MOST {
            "a task has at most 16 labels"
        } else {
            continue;
        };
        let message = format_args!(
            "this cannot be the label `{}`: {problem}; expected up to 16 names of 1 to 64 of a-z 0-9 _ . - with a letter \
             or digit first, each once; change it",
            label.name.escape_debug()
        );
        report.add(Code::BadLabel, &label.name_at, message);
    }
}

fn is_name(name: &str) -> bool {
    let is_sign = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().next().is_some_and(is_sign)
        && name.bytes().all(|b| is_sign(b) || b"_.-".contains(&b))
}
