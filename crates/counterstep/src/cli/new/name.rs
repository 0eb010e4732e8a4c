//! The name of a program: that of its crate, image, Kubernetes objects, bucket, and Unix account, so
//! it keeps to what all of them take.

use std::fmt;

/// Minimum characters of the name of a bucket.
const SHORTEST: usize = 3;
/// Maximum characters of the name of a Unix account.
const LONGEST: usize = 31;

/// What cargo takes for a dependency of the new crate, or for a word of the language.
const TAKEN: &[&str] = &[
    "counterstep",
    "counterstep-testkit",
    "serde",
    "tokio",
    "std",
    "core",
    "alloc",
    "test",
    "proc-macro",
    "abstract",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "crate",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "for",
    "gen",
    "impl",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "struct",
    "super",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
    "build",
    "deps",
    "examples",
    "incremental",
    // Accounts that a system has.
    "root",
    "daemon",
    "bin",
    "sys",
    "sync",
    "mail",
    "backup",
    "postgres",
    "redis",
    "nats",
    "www-data",
];

/// A name that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProgramName(String);

impl ProgramName {
    /// # Errors
    /// What is wrong with it, and what is expected.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        let invalid = |why: &str| {
            Err(format!(
                "invalid name `{}`: {why}; expected {SHORTEST} to {LONGEST} of a-z 0-9 -, with a letter first and a \
                 letter or digit last, as in `my-app`",
                name.escape_debug()
            ))
        };
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if let Some(other) = name
            .chars()
            .find(|&c| c != '-' && !u8::try_from(c).is_ok_and(is_plain))
        {
            return invalid(&format!("it has the character `{}`", other.escape_debug()));
        }
        if name.len() < SHORTEST || name.len() > LONGEST {
            return invalid(&format!("it has {} characters", name.len()));
        }
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
            return invalid("it does not begin with a letter");
        }
        if name.ends_with('-') || name.contains("--") {
            return invalid("a `-` stands between two other characters");
        }
        if TAKEN.contains(&name) {
            return invalid("cargo or the language has a meaning for it");
        }
        Ok(Self(name.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// As Rust code names the crate.
    pub(super) fn identifier(&self) -> String {
        self.0.replace('-', "_")
    }
}

impl fmt::Display for ProgramName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
