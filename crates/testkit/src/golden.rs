//! Texts that a person reads in a diff: each is compared with a file of the repository. Must not know what a text is of.

use std::path::Path;

/// Compares a text with a file, or rewrites the file where `COUNTERSTEP_BLESS` is set. `cargo` is the command that
/// rewrites it, behind the word `cargo`.
///
/// # Panics
/// When they differ, with the first line that does; or when the file cannot be rewritten.
#[track_caller]
pub fn compare(file: impl AsRef<Path>, text: &str, cargo: &str) {
    let file = file.as_ref();
    if std::env::var_os("COUNTERSTEP_BLESS").is_some() {
        let folder = file.parent().expect("a file lies in a folder");
        std::fs::create_dir_all(folder).expect("the folder of golden files");
        std::fs::write(file, text).expect("the golden file is rewritten");
        return;
    }
    let golden = std::fs::read_to_string(file).unwrap_or_default();
    if let Some(difference) = difference(&golden, text) {
        panic!(
            "{} is not what the code says, {difference}\nWhere that is meant, rewrite the file and give the reason in \
             the commit: COUNTERSTEP_BLESS=1 cargo {cargo}",
            file.display()
        );
    }
}

/// The first line that is another one.
fn difference(golden: &str, text: &str) -> Option<String> {
    if golden == text {
        return None;
    }
    let [mut old, mut new] = [golden, text].map(|it| it.split('\n'));
    for number in 1.. {
        let (old, new) = (old.next(), new.next());
        if old != new {
            let [old, new] = [old, new].map(|it| it.unwrap_or("(the end)"));
            return Some(format!("from line {number} on:\n- {old}\n+ {new}"));
        }
    }
    None
}

#[test]
fn a_difference_is_shown_by_its_first_line() {
    assert_eq!(difference("a\nb\n", "a\nb\n"), None);
    for (golden, text, shown) in [
        ("a\nb\n", "a\nc\n", "from line 2 on:\n- b\n+ c"),
        ("a\n", "a", "from line 2 on:\n- \n+ (the end)"),
        ("", "a\n", "from line 1 on:\n- \n+ a"),
    ] {
        assert_eq!(difference(golden, text).as_deref(), Some(shown));
    }
}
