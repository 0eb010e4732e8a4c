//! The command that asks for an operation, as data: its words, and the flags that have the fields of what is sent. Must not write
//! a line.

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// The group of commands, and the command.
    pub words: [&'static str; 2],
    /// The flags that have the fields of the body, in order.
    pub flags: &'static [Flag],
    /// The flag that has the whole body.
    pub body: Option<&'static str>,
}

/// A field of a body, and the flag that has it.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// In the body.
    pub field: &'static str,
    /// On the command line.
    pub name: &'static str,
    pub(crate) takes: Takes,
}

/// What a flag holds of its field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Takes {
    Text,
    /// A text with `-` in place of `_`, as the command line has words of a list.
    Word,
    Json,
    /// `null` is left out.
    Number,
    /// As 50/1s; `null` is left out.
    Rate,
    /// Nothing: the flag stands for this text.
    Itself(&'static str),
    /// A flag for each field of a JSON merge patch.
    Fields,
}

pub(crate) const fn flag(field: &'static str, name: &'static str, takes: Takes) -> Flag {
    Flag { field, name, takes }
}

/// Why.
pub(crate) const NOTE: Flag = flag("note", "--note", Takes::Text);
/// What is to be different in a request.
pub(crate) const PATCH: Flag = flag("patch", "--set", Takes::Fields);
