//! The command that asks for an operation, as data: its words, and the flags that have the fields of what is sent. Must not write
//! a line.

use super::route::Ids;
use super::shown::ShownFn;
use crate::gate::GateKind;

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// The group of commands, and the command.
    pub words: [&'static str; 2],
    /// The flags that have the fields of what is sent: of a body in order, of a query those that have words of their own.
    pub flags: &'static [Flag],
    /// The flag that has the whole body.
    pub body: Option<&'static str>,
    /// What people have to know beside the summary of the operation; may be empty.
    pub more: &'static str,
    /// Another command with which it can be asked for.
    pub also: Option<Also>,
    /// Whether the group without a further command asks for it, too.
    pub is_of_group: bool,
    /// What it does to which kind of gate: it is asked for as `gates set KIND` or `gates reset KIND`, too.
    pub gate: Option<(GateMove, GateKind)>,
    /// What `--follow` does: without it, and without `--limit`, the command prints all that there is behind the cursor.
    pub follows: Option<&'static str>,
    /// Fields of what is sent, with their values where no flag gives another. Where there is one, the command has no field but
    /// those of its flags, and `actor`.
    pub given: &'static [(&'static str, &'static str)],
    /// The list of the answer that it prints alone.
    pub part: Option<&'static str>,
}

impl Command {
    pub(super) const fn of(words: [&'static str; 2], flags: &'static [Flag]) -> Self {
        Self {
            words,
            flags,
            body: None,
            more: "",
            also: None,
            is_of_group: false,
            gate: None,
            follows: None,
            given: &[],
            part: None,
        }
    }
}

/// A command of its own that asks for an operation with some of what is sent given.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// What it does, in a line.
    pub summary: &'static str,
    /// The command.
    pub command: Command,
    /// The answer as people see it, where that is not as of the operation.
    pub shown: Option<ShownFn>,
}

impl Preset {
    pub(super) const fn of(
        words: [&'static str; 2],
        summary: &'static str,
        given: &'static [(&'static str, &'static str)],
        flags: &'static [Flag],
    ) -> Self {
        let command = Command::of(words, flags);
        Self {
            summary,
            command: Command { given, ..command },
            shown: None,
        }
    }

    /// It prints this list of the answer alone.
    pub(super) const fn shows(self, part: &'static str, shown: ShownFn) -> Self {
        let part = Some(part);
        Self {
            command: Command {
                part,
                ..self.command
            },
            shown: Some(shown),
            ..self
        }
    }
}

/// What a command does to a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateMove {
    /// A person holds tasks back.
    Set,
    /// What was set holds no more.
    Reset,
}

impl GateMove {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Set, Self::Reset];

    /// The group of commands of gates.
    pub const GROUP: &'static str = "gates";

    /// The command in that group.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Reset => "reset",
        }
    }

    /// What it does, in a line.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Set => "Hold tasks back: name what, then give what its own command takes",
            Self::Reset => {
                "Let tasks go on: name what was set, paused, disabled or opened after failures"
            }
        }
    }
}

/// A flag of another command that asks for an operation in place of that command's: it has the last part of what the address
/// names.
#[derive(Debug, Clone, Copy)]
pub struct Also {
    /// The group of the other command, and that command.
    pub words: [&'static str; 2],
    /// Its flag.
    pub flag: &'static str,
    /// What the flag does.
    pub about: &'static str,
}

/// A field of what is sent, and the flag that has it.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// In what is sent; `a.b` is the field `b` of the object `a`.
    pub field: &'static str,
    /// On the command line.
    pub name: &'static str,
    /// What it holds of the field; that of a query is as its schema says.
    pub takes: Takes,
    /// What it is, where that is not what the field is; else empty.
    pub about: &'static str,
    /// Whether this one is needed, or another of which this holds.
    pub is_one_of: bool,
    /// Whether the command needs it where the operation does not.
    pub is_needed: bool,
}

/// What a flag holds of its field.
#[derive(Debug, Clone, Copy)]
pub enum Takes {
    /// A text.
    Text,
    /// A text with `-` in place of `_`, as the command line has words of a list.
    Word,
    /// JSON.
    Json,
    /// JSON in a file, or on standard input.
    File,
    /// JSON, or a file with it.
    JsonOrFile,
    /// `null` is left out.
    Number,
    /// As 50/1s; `null` is left out.
    Rate,
    /// Nothing: the flag stands for this text.
    Itself(&'static str),
    /// A flag for each field of a JSON merge patch.
    Fields,
    /// What its schema says, with words and times as lists are asked for.
    Filter,
    /// Labels, each as NAME=VALUE.
    Labels,
    /// One of these ids, or a part of it.
    Id(&'static Ids),
    /// Nothing: the flag stands for an object without a field, and goes with no other of which one is needed.
    Empty,
}

pub(crate) const fn flag(field: &'static str, name: &'static str, takes: Takes) -> Flag {
    Flag {
        field,
        name,
        takes,
        about: "",
        is_one_of: false,
        is_needed: false,
    }
}

impl Flag {
    /// What it is, where the description of its field is about JSON.
    pub(crate) const fn is(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// This one is needed, or another of which the same is said.
    pub(crate) const fn one_of(self) -> Self {
        Self {
            is_one_of: true,
            ..self
        }
    }

    /// The command does not go without it.
    pub(crate) const fn needed(self) -> Self {
        Self {
            is_needed: true,
            ..self
        }
    }

    /// Of a field of this name.
    pub(crate) const fn at(self, field: &'static str) -> Self {
        Self { field, ..self }
    }
}

/// Why.
pub(crate) const NOTE: Flag = flag("note", "--note", Takes::Text);
/// Labels of tasks in a query.
pub(crate) const LABEL: Flag = flag("label", "--label", Takes::Labels)
    .is("With this label only, as order=4711; may be repeated, and then all must be there");
/// Times between which tasks were submitted.
pub(crate) const SINCE: Flag =
    flag("since", "--since", Takes::Filter).is("Submitted since: a duration (2h) or a time");
/// The other one.
pub(crate) const UNTIL: Flag = flag("until", "--until", Takes::Filter)
    .is("Submitted before this time, or longer ago than this");
/// The step from which a task runs again.
pub(crate) const FROM: Flag = flag("from", "--from", Takes::Text)
    .is("From this step, with what the steps before it gave; without it from the start");
/// Another request.
pub(crate) const REQUEST: Flag = flag("request", "--request", Takes::File)
    .is("File with another request as JSON, or - for standard input; it must have the same files");
/// What is to be different in a request.
pub(crate) const PATCH: Flag = flag("patch", "--set", Takes::Fields).is(
    "Give a field of the request another value, as amount=12 or address.city=Bonn; what is no JSON is a text, and null removes the field. \
     May be repeated");
