//! What the program answers, and that bash takes it.

use super::{Shell, answer, script};
use crate::cli::{ALL, command};
use counterstep_steps::Registry;

fn answered(words: &[&str]) -> Vec<String> {
    let words: Vec<String> = words.iter().map(|&it| it.to_owned()).collect();
    let text = answer(Shell::Bash, command(&Registry::new(), ALL), &words);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn commands_and_those_below_them_are_completed() {
    assert_eq!(answered(&["dead"]), ["dead-letters"]);
    assert!(answered(&["dead-letters", ""]).contains(&"redrive".to_owned()));
    assert_eq!(answered(&["queues", "pau"]), ["pause"]);
    let all = answered(&[""]);
    assert!(
        all.len() > 20 && all.contains(&"help".to_owned()),
        "{all:?}"
    );
    // Hidden: a shell alone types it.
    assert!(!all.contains(&"complete".to_owned()), "{all:?}");
}

#[test]
fn flags_are_those_of_the_command_and_of_all() {
    let flags = answered(&["tasks", "list", "--"]);
    for flag in ["--status", "--json", "--profile", "--url"] {
        assert!(flags.contains(&flag.to_owned()), "{flag}: {flags:?}");
    }
    assert!(!flags.contains(&"--database".to_owned()), "{flags:?}");
    assert_eq!(
        answered(&["tasks", "list", "--", "--"]),
        [""; 0],
        "no flag comes behind `--`"
    );
}

#[test]
fn a_value_is_completed_behind_its_flag_in_each_form() {
    for words in [
        &["tasks", "list", "--status", "comp"][..],
        // As bash splits `--status=comp`.
        &["tasks", "list", "--status", "=", "comp"],
        &["tasks", "--json", "list", "--status", "comp"],
    ] {
        let found = answered(words);
        assert!(
            found.contains(&"completed".to_owned()),
            "{words:?}: {found:?}"
        );
        assert!(
            found.iter().all(|it| it.starts_with("comp")),
            "{words:?}: {found:?}"
        );
    }
    let whole = answered(&["tasks", "list", "--status=completed"]);
    assert_eq!(whole, ["--status=completed"]);
    // Names of files are the shell's own business.
    assert_eq!(answered(&["keys", "list", "--config", ""]), [""; 0]);
    assert_eq!(answered(&["completions", "z"]), ["zsh"]);
}

#[test]
fn a_script_is_short_and_names_the_program_alone() {
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        let text = script(shell, "lamp-shop");
        assert!(text.len() < 2_000, "{text}");
        assert!(
            text.contains("lamp-shop") && text.contains("_lamp_shop"),
            "{text}"
        );
        assert!(
            !text.contains("PROGRAM") && !text.contains("FUNCTION"),
            "{text}"
        );
    }
}

#[test]
fn a_colon_of_a_word_does_not_end_it_in_zsh() {
    let below = clap::Command::new("a:b").about("It: this");
    let whole = clap::Command::new("program").subcommand(below);
    let text = answer(Shell::Zsh, whole, &["a".to_owned()]);
    assert_eq!(text, "a\\:b:It: this\n");
}
