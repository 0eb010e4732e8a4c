//! `completions` and `complete`: a shell asks the program what may come next, so its script names no command and never ages. Reads
//! names of profiles; must not talk to a server.

#[cfg(test)]
mod tests;

use clap::builder::PossibleValue;
use clap::{Arg, Command, ValueEnum};
use counterstep_node::settings::{profiles_file, read_profiles};

/// The shells that have a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Shell {
    Bash,
    Fish,
    Zsh,
}

/// What may come next, and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    word: String,
    meaning: String,
}

/// The script of a shell for a program.
pub(super) fn script(shell: Shell, program: &str) -> String {
    let template = match shell {
        Shell::Bash => include_str!("bash.sh"),
        Shell::Fish => include_str!("fish.fish"),
        Shell::Zsh => include_str!("zsh.zsh"),
    };
    let function = program.replace(|sign: char| !sign.is_ascii_alphanumeric(), "_");
    template
        .replace("FUNCTION", &function)
        .replace("PROGRAM", program)
}

/// What a shell reads: a line for each candidate, in its own form.
pub(super) fn answer(shell: Shell, whole: Command, words: &[String]) -> String {
    let found = candidates(whole, words);
    let line = |it: &Candidate| match shell {
        Shell::Bash => it.word.clone(),
        Shell::Fish => format!("{}\t{}", it.word, it.meaning),
        // A colon ends the word.
        Shell::Zsh => format!("{}:{}", it.word.replace(':', "\\:"), it.meaning),
    };
    found.iter().map(|it| line(it) + "\n").collect()
}

/// What may stand in place of the last word, behind the others. None where the shell completes names of files.
fn candidates(mut whole: Command, words: &[String]) -> Vec<Candidate> {
    // Flags of all commands come to each.
    whole.build();
    let (current, before) = words
        .split_last()
        .map_or(("", words), |(last, rest)| (last.as_str(), rest));
    let mut place = Place {
        command: &whole,
        open: None,
        positionals: 0,
        only_positionals: false,
    };
    for word in before {
        place.pass(word);
    }
    // Bash makes three words of `--flag=value`.
    let current = if current == "=" { "" } else { current };
    let found = match (place.open, current.split_once('=')) {
        (Some(arg), _) => values(arg),
        (None, Some((flag, _))) if flag.starts_with("--") => {
            let of_flag = place.flag(flag).map(values).unwrap_or_default();
            let whole = |it: Candidate| Candidate {
                word: format!("{flag}={}", it.word),
                ..it
            };
            of_flag.into_iter().map(whole).collect()
        }
        _ if current.starts_with('-') && !place.only_positionals => place.flags(),
        _ => place.words(),
    };
    found
        .into_iter()
        .filter(|it| it.word.starts_with(current))
        .collect()
}

/// How far the words lead.
struct Place<'a> {
    command: &'a Command,
    /// A flag that waits for its value.
    open: Option<&'a Arg>,
    positionals: usize,
    /// Behind `--`.
    only_positionals: bool,
}

impl<'a> Place<'a> {
    fn pass(&mut self, word: &str) {
        if let Some(arg) = self.open.take() {
            self.open = (word == "=").then_some(arg);
        } else if self.only_positionals || !word.starts_with('-') || word == "-" {
            match self.command.find_subcommand(word) {
                Some(below) if self.positionals == 0 && !self.only_positionals => {
                    self.command = below
                }
                _ => self.positionals += 1,
            }
        } else if word == "--" {
            self.only_positionals = true;
        } else if !word.contains('=') {
            self.open = self.flag(word).filter(|it| takes_value(it));
        }
    }

    /// `--NAME`, or the last of `-abc`.
    fn flag(&self, word: &str) -> Option<&'a Arg> {
        let long = word.strip_prefix("--");
        let short = word.chars().last().filter(|_| long.is_none());
        self.command.get_arguments().find(|it| match (long, short) {
            (Some(long), _) => it.get_long() == Some(long),
            (None, short) => short.is_some() && it.get_short() == short,
        })
    }

    fn flags(&self) -> Vec<Candidate> {
        let shown = self.command.get_arguments().filter(|it| !it.is_hide_set());
        let of = |it: &Arg| Some(candidate(&format!("--{}", it.get_long()?), it.get_help()));
        shown.filter_map(of).collect()
    }

    /// Commands, or values of the next argument without a flag.
    fn words(&self) -> Vec<Candidate> {
        let positional = self.command.get_positionals().nth(self.positionals);
        let mut found = positional.map(values).unwrap_or_default();
        if self.positionals == 0 && !self.only_positionals {
            let shown = self
                .command
                .get_subcommands()
                .filter(|it| !it.is_hide_set());
            found.extend(shown.map(|it| candidate(it.get_name(), it.get_about())));
        }
        found
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// What an argument takes, where that is a list.
fn values(arg: &Arg) -> Vec<Candidate> {
    if arg.get_long() == Some("profile") {
        return profiles();
    }
    let shown = arg
        .get_possible_values()
        .into_iter()
        .filter(|it| !it.is_hide_set());
    shown
        .map(|it: PossibleValue| candidate(it.get_name(), it.get_help()))
        .collect()
}

/// A file that cannot be read completes nothing: a shell has no place for an error.
fn profiles() -> Vec<Candidate> {
    let known = profiles_file().and_then(|file| read_profiles(&file));
    let known = known.unwrap_or_default().into_iter();
    known
        .map(|(word, profile)| Candidate {
            word,
            meaning: profile.url,
        })
        .collect()
}

/// With the first line of its help.
fn candidate(word: &str, help: Option<&clap::builder::StyledStr>) -> Candidate {
    let help = help.map(ToString::to_string).unwrap_or_default();
    Candidate {
        word: word.to_owned(),
        meaning: help.lines().next().unwrap_or_default().to_owned(),
    }
}
