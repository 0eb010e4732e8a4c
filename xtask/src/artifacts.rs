//! Which programs cargo has built: read from its messages, one JSON object a line. Builds nothing
//! by itself.

use std::path::PathBuf;

/// A program, and which one it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// The target's name: of an integration test, of a binary, of a library.
    pub(crate) name: String,
    /// Of the target: `test`, `lib`, `bin`, …
    pub(crate) kind: String,
    /// Whether it runs tests, and is not the thing itself.
    pub(crate) tests: bool,
    /// Where it is.
    pub(crate) path: PathBuf,
}

/// Those that cargo names when it is called with `--message-format json-render-diagnostics`.
pub(crate) fn read(messages: &str) -> Result<Vec<Program>, String> {
    let mut programs = Vec::new();
    for line in messages
        .lines()
        .filter(|line| line.starts_with(r#"{"reason":"compiler-artifact""#))
    {
        // Libraries are no programs: `null` stands there.
        let Some(path) = text(line, r#""executable":"#)? else {
            continue;
        };
        let odd = || format!("cargo names a program in a way that is not understood: {line}");
        let target = line.split_once(r#""target":"#).ok_or_else(odd)?.1;
        let name = text(target, r#""name":"#)?.ok_or_else(odd)?;
        let kind = text(target, r#""kind":["#)?.ok_or_else(odd)?;
        let (_, profile) = line.split_once(r#""profile":"#).ok_or_else(odd)?;
        let tests = match profile.split_once(r#""test":"#).ok_or_else(odd)?.1 {
            it if it.starts_with("true") => true,
            it if it.starts_with("false") => false,
            _ => return Err(odd()),
        };
        programs.push(Program {
            name,
            kind,
            tests,
            path: PathBuf::from(path),
        });
    }
    Ok(programs)
}

/// The text after a mark; `None` when something else than a text stands there.
fn text(json: &str, mark: &str) -> Result<Option<String>, String> {
    let Some((_, rest)) = json.split_once(mark) else {
        return Ok(None);
    };
    let Some((text, _)) = rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) else {
        return Ok(None);
    };
    // An escape may be a quote, so that the text goes on. Names and folders with one are not worth
    // a parser.
    if text.contains('\\') {
        Err(format!("`{text}` has an escaped character"))
    } else {
        Ok(Some(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    const MESSAGES: &str = concat!(
        r#"{"reason":"compiler-artifact","package_id":"p","target":{"kind":["test"],"crate_types":["bin"],"name":"system","test":true},"#,
        r#""profile":{"opt_level":"0","test":true},"features":[],"filenames":["/t/system-1"],"executable":"/t/system-1","fresh":true}"#,
        "\n",
        r#"{"reason":"compiler-artifact","package_id":"p","target":{"kind":["lib"],"crate_types":["lib"],"name":"kernel","test":true},"#,
        r#""profile":{"opt_level":"0","test":false},"features":[],"filenames":["/t/kernel.rlib"],"executable":null,"fresh":true}"#,
        "\n",
        r#"{"reason":"compiler-artifact","package_id":"p","target":{"kind":["bin"],"crate_types":["bin"],"name":"counterstep","test":true},"#,
        r#""profile":{"opt_level":"0","test":false},"features":[],"filenames":["/t/c"],"executable":"/t/c","fresh":true}"#,
        "\n",
        r#"{"reason":"build-finished","success":true}"#,
    );

    #[test]
    fn programs_are_named_and_libraries_are_not() {
        let found = read(MESSAGES).unwrap();
        let short: Vec<_> = found
            .iter()
            .map(|it| (it.name.as_str(), it.kind.as_str(), it.tests))
            .collect();
        assert_eq!(
            short,
            [("system", "test", true), ("counterstep", "bin", false)]
        );
        assert_eq!(found[1].path.to_str(), Some("/t/c"));
    }

    #[test]
    fn a_path_that_is_not_understood_is_an_error_and_not_left_out() {
        assert!(read(&MESSAGES.replace("/t/c\",\"fresh", "/t\\\\c\",\"fresh")).is_err());
    }
}
