//! What `--help` prints of every command, held in a file: flags, their help and their defaults change in a diff. Must not
//! show what a variable is set to on the machine.

use super::command;
use clap::Command;
use clap::error::ErrorKind;
use counterstep_contracts::operation::ALL;
use std::collections::BTreeMap;
use std::path::Path;

#[test]
fn each_help_is_the_golden_one() {
    let whole = without_values(command(&counterstep_tasks::tasks(), ALL)).term_width(100);
    let mut helps = Helps {
        whole: &whole,
        text: String::new(),
        sections: BTreeMap::new(),
    };
    helps.add(&whole, &[whole.get_name()]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/help.txt");
    let cargo = "test --workspace --all-features --lib each_help_is_the_golden_one";
    counterstep_testkit::golden::compare(file, &helps.text, cargo);
}

fn without_values(command: Command) -> Command {
    let command = command.mut_args(|arg| arg.hide_env_values(true));
    command.mut_subcommands(without_values)
}

struct Helps<'a> {
    whole: &'a Command,
    text: String,
    /// Long sections that were shown, and with which command: settings are the same for many.
    sections: BTreeMap<String, String>,
}

impl Helps<'_> {
    /// Adds the help of a command, and of those below it.
    fn add(&mut self, command: &Command, words: &[&str]) {
        let parsed = self
            .whole
            .clone()
            .try_get_matches_from([words, &["--help"]].concat());
        let help = parsed.expect_err("a help ends the parsing");
        assert_eq!(help.kind(), ErrorKind::DisplayHelp, "{words:?}: {help}");
        let words_of_it = words.join(" ");
        self.text += &format!("$ {words_of_it} --help\n");
        for section in sections(&help.to_string()) {
            self.add_section(section, &words_of_it);
        }
        for sub in command.get_subcommands() {
            self.add(sub, &[words, &[sub.get_name()]].concat());
        }
    }

    fn add_section(&mut self, section: String, words: &str) {
        match self.sections.get(&section) {
            Some(shown) => {
                let heading = section.lines().next().unwrap_or_default();
                self.text += &format!("{heading} as of `{shown}`\n\n");
            }
            None => {
                self.text += &format!("{section}\n\n");
                if section.lines().count() > 3 {
                    self.sections.insert(section, words.to_owned());
                }
            }
        }
    }
}

/// A help, cut before each heading.
fn sections(help: &str) -> Vec<String> {
    let mut sections = vec![String::new()];
    for line in help.lines() {
        if line.ends_with(':') && !line.starts_with(' ') {
            sections.push(String::new());
        }
        let section = sections.last_mut().expect("one at least");
        *section += &format!("{}\n", line.trim_end());
    }
    let trimmed = sections.iter().map(|section| section.trim_end().to_owned());
    trimmed.collect()
}
