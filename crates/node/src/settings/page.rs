//! `docs/settings.md` is what the declarations say: rendered from them, and compared with the page
//! that is checked in.

use super::commands::{COMMANDS, takes};
use super::{Group, SETTINGS};
use std::fmt::Write as _;
use std::path::Path;

const HEAD: &str = "# Settings

After this page you can set any setting: its flag, variable, key, default, and the commands that take it.

Written by the test in `crates/node/src/settings/page.rs` from the declarations in
`crates/node/src/settings/table.rs`. Do not edit it: change a declaration, and then run
`COUNTERSTEP_BLESS=1 cargo test -p counterstep-node --lib page_of_settings`.

Each setting with its flag, its variable, its key in the file, and its default. A flag comes before its variable, the
variable before the file, the file before the default. Durations are a whole number above 0 and a unit: `500ms`, `30s`,
`10m`, `1h`, `7d`. Lists stand with commas in a flag or a variable, and are a list in the file. How settings work
together, and an example of a file, is in [settings-file.md](settings-file.md).

A command refuses the flags of groups that it does not take, and ignores their variables and keys, so that all commands
can share a file and variables.
";

fn render() -> String {
    let mut page = HEAD.to_owned();
    for group in Group::ALL {
        let taken = COMMANDS.iter().filter(|(_, uses)| takes(*uses, *group));
        let names: Vec<_> = taken.map(|(name, _)| format!("`{name}`")).collect();
        let _ = write!(
            page,
            "\n## {}\n\n{}\n\nFor {}.\n\n| flag | variable | key in the file | default | |\n|---|---|---|---|---|\n",
            group.heading(),
            group.about().trim(),
            names.join(", ")
        );
        for setting in SETTINGS.iter().filter(|setting| setting.group == *group) {
            let code = |text: String| format!("`{text}`");
            let columns = [
                setting.flag().map(|flag| code(format!("--{flag}"))),
                setting.variable().map(code),
                setting.file_key().map(str::to_owned).map(code),
                if setting.words.is_empty() {
                    setting.default().map(code)
                } else {
                    setting.default()
                },
            ];
            for column in columns {
                let _ = write!(page, "| {} ", column.unwrap_or_default());
            }
            let _ = writeln!(page, "| {} |", setting.help);
        }
    }
    page
}

/// Each is a question to the operator. A new one needs an operator who has to answer it.
const NAMES: usize = 77;

#[test]
fn a_person_can_set_no_more_names() {
    assert_eq!(SETTINGS.len(), NAMES, "fewer: lower the number");
}

#[test]
fn the_page_of_settings_is_what_the_declarations_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let rendered = render();
    if std::env::var_os("COUNTERSTEP_BLESS").is_some() {
        std::fs::write(&path, rendered).unwrap();
        return;
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == rendered,
        "docs/settings.md is not what the declarations say. If they are right, rewrite the page: \
         COUNTERSTEP_BLESS=1 cargo test -p counterstep-node --lib page_of_settings"
    );
}
