//! The commands of the program and their flags.

use super::*;
use clap::error::ErrorKind;
use counterstep_node::settings::SETTINGS;
use counterstep_node::settings::commands::{COMMANDS, takes};

fn whole() -> clap::Command {
    command(&Registry::new(), ALL)
}

fn uses(command: &str) -> u32 {
    let found = COMMANDS.iter().find(|(name, _)| *name == command);
    found.map_or(0, |(_, uses)| *uses)
}

fn refused(arguments: &[&str]) -> clap::Error {
    let all = [&["counterstep"], arguments].concat();
    whole().try_get_matches_from(all).expect_err("no error")
}

#[cfg(feature = "shipped")]
#[test]
fn a_program_without_the_type_of_the_demonstration_shows_none() {
    let help = whole().render_help().to_string();
    assert!(!help.contains("demo"), "{help}");
    let shipped = command(&counterstep_tasks::tasks(), ALL).render_help();
    assert!(shipped.to_string().contains("demo"), "{shipped}");
}

#[test]
fn each_command_has_the_flags_of_the_settings_that_it_takes_and_no_others() {
    let cli = whole();
    let names: Vec<_> = cli.get_subcommands().map(clap::Command::get_name).collect();
    assert!(COMMANDS.iter().all(|(name, _)| names.contains(name)));
    for command in cli.get_subcommands() {
        let name = command.get_name();
        let about = command.get_about().map(ToString::to_string);
        // The words of what all groups have: nothing says what this one is for.
        assert_ne!(about.as_deref(), Some("Flags of each group"), "{name}");
        for setting in SETTINGS {
            // `demo` has a `--log` of its own.
            let has_flag = command.get_arguments().any(|arg| {
                arg.get_id() == setting.key && arg.is_global_set() && !arg.is_hide_set()
            });
            let takes_it = takes(uses(name), setting.group) && setting.flag().is_some();
            assert_eq!(has_flag, takes_it, "{name}: {}", setting.key);
        }
    }
    whole().debug_assert();
}

#[test]
fn a_help_shows_the_settings_that_mean_something_to_its_command_and_no_others() {
    for arguments in [
        &["tasks"][..],
        &["tasks", "list"],
        &["tasks", "retry"],
        &["types", "list"],
        &["dead-letters", "redrive"],
        &["bulk", "list"],
        &["schedules", "set"],
        &["workers"],
        &["migrate"],
        &["audit", "verify"],
        &["fsck"],
        &["doctor"],
        &["describe"],
        &["worker"],
    ] {
        let help = refused(&[arguments, &["--help"]].concat());
        assert_eq!(help.kind(), ErrorKind::DisplayHelp, "{help}");
        let help = help.to_string();
        let shown: Vec<_> = help.split([' ', '\n', '[', '=']).collect();
        for setting in SETTINGS {
            let Some(flag) = setting.flag() else { continue };
            let is_shown = shown.contains(&format!("--{flag}").as_str());
            let takes_it = takes(uses(arguments[0]), setting.group);
            assert_eq!(is_shown, takes_it, "{arguments:?}: --{flag}\n{help}");
        }
    }
}

#[test]
fn a_flag_of_another_command_is_an_unknown_one() {
    for arguments in [
        &["tasks", "list", "--database", "sqlite://x"][..],
        &["tasks", "list", "--config", "x.toml"],
        &["workers", "--lease", "3s"],
        &["migrate", "--listen", "127.0.0.1:0"],
        &["fsck", "--listen", "127.0.0.1:0"],
        &["describe", "--data-dir", "x"],
        &["worker", "--every", "1s"],
        &["demo", "--data-dir", "x"],
        &["--data-dir", "x", "worker"],
    ] {
        let error = refused(arguments);
        assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{error}");
    }
}

#[test]
fn where_one_of_several_options_is_enough_all_of_them_are_named() {
    for (arguments, enough) in [
        (
            &["dead-letters", "redrive", "--note", "x"][..],
            &["--group", "--all", "--type", "--label", "--failure-text"][..],
        ),
        (&["tasks", "submit", "Order"], &["--request", "--file"]),
        (
            &["limits", "set", "bank", "--note", "x"],
            &["--at-once", "--rate"],
        ),
        (
            &["schedules", "set", "nightly", "--type", "Order"],
            &["--cron", "--run-at"],
        ),
    ] {
        let error = refused(arguments);
        assert_eq!(error.kind(), ErrorKind::MissingRequiredArgument, "{error}");
        let text = error.to_string();
        let missing = text.split("Usage:").next().unwrap_or_default();
        for flag in enough {
            assert!(missing.contains(flag), "{arguments:?}: {flag}\n{text}");
        }
    }
}

#[test]
fn commands_on_the_database_accept_the_flags_of_all_servers() {
    for command in [
        &["migrate"][..],
        &["check-deploy"],
        &["doctor"],
        &["audit", "verify"],
        &["fsck"],
        &["keys", "list"],
        &["payload-keys", "list"],
    ] {
        let unused = SETTINGS
            .iter()
            .filter(|setting| takes(uses("doctor"), setting.group) && setting.flag().is_some());
        let mut arguments = vec!["counterstep".to_owned()];
        arguments.extend(command.iter().map(|&word| word.to_owned()));
        for setting in unused.filter(|it| !takes(uses(command[0]), it.group)) {
            let flag = setting.flag().unwrap_or_default();
            arguments.push(format!("--{flag}=any"));
        }
        let parsed = whole().try_get_matches_from(&arguments);
        assert!(parsed.is_ok(), "{arguments:?}: {:?}", parsed.err());
    }
}

/// The words of the code in the first cell of each row of the page's table of commands.
fn table_of_the_page() -> Vec<Vec<Vec<&'static str>>> {
    let page = include_str!("../../../../docs/commands.md");
    let code = |row: &'static str| {
        let cell = row.split(" | ").next().unwrap_or_default();
        let spans = cell.split('`').skip(1).step_by(2);
        spans
            .map(|span| span.split_whitespace().collect())
            .collect()
    };
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(code).collect()
}

#[test]
fn the_page_of_commands_has_each_command_with_all_that_it_can_do() {
    let rows = table_of_the_page();
    let cli = whole();
    for command in cli.get_subcommands().filter(|it| !it.is_hide_set()) {
        let name = command.get_name();
        let mut shown = Vec::new();
        for row in &rows {
            // Behind `tasks list` the others of the row stand without `tasks`.
            let mut of = "";
            for words in row {
                let (first, second) = (words[0], words.get(1).copied().unwrap_or_default());
                // `audit ID` behind `tasks list` is no command of its own.
                let begins = cli.find_subcommand(first).is_some_and(|it| {
                    !it.has_subcommands() || it.find_subcommand(second).is_some()
                });
                of = if begins { first } else { of };
                if of == name {
                    shown.push(if begins { second } else { first });
                }
            }
        }
        assert!(!shown.is_empty(), "the table has no `{name}`");
        for sub in command.get_subcommands() {
            let sub = sub.get_name();
            assert!(shown.contains(&sub), "the table has no `{name} {sub}`");
        }
    }
}
