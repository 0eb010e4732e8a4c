//! What is written down of an operation beside its types: a value that constants are built of. Must not know a type.

use super::{Access, Also, Chapter, Command, Flag, GateMove, Link, Preset, Verb};
use crate::ProblemCode;
use crate::gate::GateKind;
use serde_json::Value;

/// What is written down of an operation.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Its id in the OpenAPI document.
    pub id: &'static str,
    /// The method of its route.
    pub verb: Verb,
    /// The address of its route, with `{name}` for what varies.
    pub path: &'static str,
    /// Who may ask for it.
    pub access: Access,
    /// The chapter of the document.
    pub chapter: Chapter,
    /// What it does, in a line.
    pub summary: &'static str,
    /// The status of its answer.
    pub status: u16,
    /// What is so, once it is answered.
    pub answers: &'static str,
    /// Refusals, beside those that the method, the access and the body bring along.
    pub problems: &'static [ProblemCode],
    /// As what its caller acts: stands in audits before the caller's name.
    pub acts_as: &'static str,
    /// Whether no cache may keep its answer.
    pub no_store: bool,
    /// Where its answer leads.
    pub links: &'static [Link],
    /// The command that asks for it, where moves or pages show one.
    pub command: Option<Command>,
    /// Other commands that ask for it, with some of what is sent given.
    pub presets: &'static [Preset],
    /// What shows before it what it would do or change.
    pub preview: Option<Preview>,
}

/// What shows before an operation what it would do or change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preview {
    /// This address, of what its own names.
    At(&'static str),
    /// The operation itself, with this field set: it changes nothing then.
    Flag(&'static str),
}

impl About {
    const fn of(verb: Verb, id: &'static str, path: &'static str, access: Access) -> Self {
        Self {
            id,
            verb,
            path,
            access,
            chapter: Chapter::Process,
            summary: "",
            status: 0,
            answers: "",
            problems: &[],
            acts_as: "operator",
            no_store: false,
            links: &[],
            command: None,
            presets: &[],
            preview: None,
        }
    }

    /// One that reads.
    #[must_use]
    pub const fn get(id: &'static str, path: &'static str, access: Access) -> Self {
        Self::of(Verb::Get, id, path, access)
    }

    /// One that changes something.
    #[must_use]
    pub const fn post(id: &'static str, path: &'static str, access: Access) -> Self {
        Self::of(Verb::Post, id, path, access)
    }

    /// One that sets what its address names.
    #[must_use]
    pub const fn put(id: &'static str, path: &'static str, access: Access) -> Self {
        Self::of(Verb::Put, id, path, access)
    }

    /// One that deletes what its address names.
    #[must_use]
    pub const fn delete(id: &'static str, path: &'static str, access: Access) -> Self {
        Self::of(Verb::Delete, id, path, access)
    }

    /// What it does, in a line, and the chapter of the document.
    #[must_use]
    pub const fn summary(self, chapter: Chapter, summary: &'static str) -> Self {
        Self {
            chapter,
            summary,
            ..self
        }
    }

    /// The status of its answer, and what is so then.
    #[must_use]
    pub const fn answers(self, status: u16, answers: &'static str) -> Self {
        Self {
            status,
            answers,
            ..self
        }
    }

    /// Refusals, beside those that the method, the access and the body bring along.
    #[must_use]
    pub const fn problems(self, problems: &'static [ProblemCode]) -> Self {
        Self { problems, ..self }
    }

    /// Its caller acts as a client, and not as an operator of the installation.
    #[must_use]
    pub const fn as_client(self) -> Self {
        Self {
            acts_as: "client",
            ..self
        }
    }

    /// No cache may keep its answer.
    #[must_use]
    pub const fn no_store(self) -> Self {
        Self {
            no_store: true,
            ..self
        }
    }

    /// Where its answer leads.
    #[must_use]
    pub const fn links(self, links: &'static [Link]) -> Self {
        Self { links, ..self }
    }

    /// The address, of what its own names, that shows before it what it would do or change. What it answers must be the
    /// same until something changes: a decision holds for what was shown.
    #[must_use]
    pub const fn preview(self, path: &'static str) -> Self {
        Self {
            preview: Some(Preview::At(path)),
            ..self
        }
    }

    /// With this field set it changes nothing, and shows what it would do.
    #[must_use]
    pub const fn preview_by(self, field: &'static str) -> Self {
        Self {
            preview: Some(Preview::Flag(field)),
            ..self
        }
    }

    /// The group of commands, the command that asks for it, and the flags that have its fields.
    #[must_use]
    pub const fn command(self, words: [&'static str; 2], flags: &'static [Flag]) -> Self {
        self.with(Command::of(words, flags))
    }

    /// The same, where this flag has the whole body.
    #[must_use]
    pub const fn command_with_body(self, words: [&'static str; 2], flag: &'static str) -> Self {
        let (body, command) = (Some(flag), Command::of(words, &[]));
        self.with(Command { body, ..command })
    }

    /// Other commands that ask for it, with some of what is sent given.
    #[must_use]
    pub(super) const fn presets(self, presets: &'static [Preset]) -> Self {
        Self { presets, ..self }
    }

    /// What people have to know of its command beside the summary.
    #[must_use]
    pub const fn more(self, more: &'static str) -> Self {
        let command = self.its_command();
        self.with(Command { more, ..command })
    }

    /// The flag of another command with which it can be asked for, too.
    #[must_use]
    pub const fn also(self, also: Also) -> Self {
        let (also, command) = (Some(also), self.its_command());
        self.with(Command { also, ..command })
    }

    /// The group without a further command asks for it, too.
    #[must_use]
    pub const fn of_group(self) -> Self {
        let command = self.its_command();
        self.with(Command {
            is_of_group: true,
            ..command
        })
    }

    /// It is asked for as `gates set KIND` or `gates reset KIND`, too.
    #[must_use]
    pub const fn of_gate(self, does: GateMove, kind: GateKind) -> Self {
        let (gate, command) = (Some((does, kind)), self.its_command());
        self.with(Command { gate, ..command })
    }

    /// Its command prints all that there is, and with `--follow` what comes, as long as this says.
    #[must_use]
    pub const fn follows(self, about: &'static str) -> Self {
        let (follows, command) = (Some(about), self.its_command());
        self.with(Command { follows, ..command })
    }

    const fn its_command(&self) -> Command {
        match self.command {
            Some(command) => command,
            None => panic!("what is said of a command stands behind it"),
        }
    }

    const fn with(self, command: Command) -> Self {
        Self {
            command: Some(command),
            ..self
        }
    }

    /// Whether it changes something, and so must come to its end where its caller goes away.
    #[must_use]
    pub const fn changes(&self) -> bool {
        !matches!(self.verb, Verb::Get)
    }

    /// Whether it changes something with this input: a preview does not, and ends with its caller.
    #[must_use]
    pub fn changes_with(&self, input: &Value) -> bool {
        let is_shown = |flag| input.get(flag) == Some(&Value::Bool(true));
        self.changes() && !matches!(self.preview, Some(Preview::Flag(flag)) if is_shown(flag))
    }

    /// An impossible declaration is an error of the compiler.
    pub(super) const fn check(&self, params: usize, takes: bool, answers_body: bool) {
        assert!(
            !self.summary.is_empty() && !self.answers.is_empty(),
            "an operation needs a summary and an answer"
        );
        assert!(
            braces(self.path) == params,
            "the target of an operation has the parameters of its path"
        );
        assert!(
            !takes || !matches!(self.verb, Verb::Delete),
            "POST and PUT take an input in their bodies, GET in its query, DELETE none"
        );
        assert!(
            is_success(self.status),
            "an operation is answered with a status of success"
        );
        assert!(
            answers_body == (self.status != 204),
            "an output without a field is answered as 204, and no other is"
        );
    }
}

pub(super) const fn is_success(status: u16) -> bool {
    matches!(status, 200..=299)
}

const fn braces(path: &str) -> usize {
    let (bytes, mut at, mut found) = (path.as_bytes(), 0, 0);
    while at < bytes.len() {
        if bytes[at] == b'{' {
            found += 1;
        }
        at += 1;
    }
    found
}
