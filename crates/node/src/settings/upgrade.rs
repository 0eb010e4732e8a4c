//! The rewriting of a settings file that has former names. Must leave every other byte of it as it is: comments are what people
//! have written down of their installation.

use super::file::read_text;
use super::former::{Former, Now, find};
use super::table::SettingValues;
use super::unusable::unusable;
use crate::exit::Exit;
use counterstep_adapters::system::SystemRandom;
use counterstep_kernel::ports::Random;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeString, DeTable};

/// Rewrites a settings file without former names. Gives what was changed, a line each.
///
/// # Errors
/// [`Exit`] with the kind `Config`: the file cannot be read, is not usable also without former names, or cannot be written.
/// Then it is as it was.
pub fn upgrade(path: &Path) -> Result<Vec<String>, Exit> {
    let text = read_text(path)?;
    let (upgraded, changes) =
        rewritten(&text, "").map_err(|error| unusable(path, &text, &error))?;
    // With the lines of the file, so that an error names the line in which a person finds it.
    let (checked, _) = rewritten(&text, "\n").map_err(|error| unusable(path, &text, &error))?;
    toml::from_str::<SettingValues>(&checked).map_err(|error| unusable(path, &checked, &error))?;
    if !changes.is_empty() {
        replace(path, &upgraded).map_err(|error| {
            Exit::config(format_args!(
                "the settings file `{}` cannot be written: {error}",
                path.display()
            ))
        })?;
    }
    Ok(changes)
}

/// A part of the text, and what has its place.
struct Edit {
    at: Range<usize>,
    to: String,
}

/// `gone`: what stands in place of a line that is removed.
fn rewritten(text: &str, gone: &str) -> Result<(String, Vec<String>), toml::de::Error> {
    let table = DeTable::parse(text)?;
    let (mut edits, mut changes) = (Vec::new(), Vec::new());
    for (key, value) in table.get_ref() {
        let Some(former) = find(key.get_ref()) else {
            continue;
        };
        let mut edit = edit(text, former, key, value.span());
        if edit.to.is_empty() && text[..edit.at.end].ends_with('\n') {
            edit.to = gone.to_owned();
        }
        edits.push(edit);
        changes.push(former.change());
    }
    edits.sort_by_key(|edit| edit.at.start);
    let mut upgraded = text.to_owned();
    for Edit { at, to } in edits.into_iter().rev() {
        upgraded.replace_range(at, &to);
    }
    Ok((upgraded, changes))
}

fn edit(text: &str, former: &Former, key: &Spanned<DeString<'_>>, value: Range<usize>) -> Edit {
    match former.now {
        Now::Fixed(_) | Now::Flag(_) => Edit {
            at: key.span().start..end_of(text, value.end),
            to: String::new(),
        },
        // Dotted, and so in its place, below the comment that is about it.
        Now::Key(now) => Edit {
            at: key.span(),
            to: now.to_owned(),
        },
    }
}

/// Where a line ends with its break, or where its comment begins.
fn end_of(text: &str, value_end: usize) -> usize {
    let rest = &text[value_end..];
    let line = rest.find('\n').map_or(rest, |end| &rest[..=end]);
    value_end + line.find('#').unwrap_or(line.len())
}

/// Whole under another name first, and then in one move: a process may start meanwhile. Owner and mode stay; of a new file it is
/// its user's alone.
pub(super) fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    // What a link names is the file, not the link.
    let path = match path.canonicalize() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => path.to_owned(),
        found => found?,
    };
    let before = path.metadata().ok();
    let whole = path.with_extension(format!("{:032x}", SystemRandom.bits()));
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&whole)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            if let Some(before) = before {
                chown(&whole, Some(before.uid()), Some(before.gid()))?;
                file.set_permissions(std::fs::Permissions::from_mode(before.mode()))?;
            }
            std::fs::rename(&whole, &path)
        });
    written.inspect_err(|_| drop(std::fs::remove_file(&whole)))
}

#[cfg(test)]
mod tests {
    use super::super::former::FORMER;
    use super::*;

    fn upgraded(text: &str) -> (String, Vec<String>) {
        rewritten(text, "").expect("TOML")
    }

    #[test]
    fn a_fixed_value_goes_with_its_line_and_its_comment_stays() {
        let text = "# Ours.\nlease = \"9s\" # why\n  cancel_grace = \"2s\"\nspool_max_bytes = 1_000 # small disk\n\
                    every = \"7s\"\nlost_after = \"1m\"";
        let (text, changes) = upgraded(text);
        assert_eq!(
            text,
            "# Ours.\nlease = \"9s\" # why\n  # small disk\nevery = \"7s\"\n"
        );
        assert_eq!(changes.len(), 3, "{changes:?}");
        assert!(
            changes
                .iter()
                .any(|it| it.contains("`lost_after`") && it.contains("45s")),
            "{changes:?}"
        );
        assert_eq!(upgraded(&text), (text.clone(), Vec::new()));
    }

    #[test]
    fn what_is_a_key_of_a_table_stays_in_its_place_and_a_table_that_is_there_is_not_changed() {
        let text = "# Of our own.\n\"database_ca_file\" = '/etc/ca.pem' # 2027\nlease = \"9s\"\n[jwt_roles]\nx = \"read\"\n";
        let (text, changes) = upgraded(text);
        assert_eq!(
            text,
            "# Of our own.\ntls.database.ca_file = '/etc/ca.pem' # 2027\nlease = \"9s\"\n[jwt_roles]\nx = \"read\"\n"
        );
        assert_eq!(
            changes,
            ["renamed `database_ca_file` to `tls.database.ca_file`"]
        );
        toml::from_str::<SettingValues>(&text).unwrap();

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.toml");
        let both = "nats_ca_file = \"a\"\n[tls.nats]\nca_file = \"b\"\n";
        std::fs::write(&path, both).unwrap();
        let refused = upgrade(&path).unwrap_err();
        assert!(refused.message.contains("line 2"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), both);
    }

    #[test]
    fn the_file_keeps_its_mode_and_is_left_alone_where_it_is_not_usable() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (
            folder.path().join("s.toml"),
            folder.path().join("link.toml"),
        );
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let write = |text: &str| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        };
        write("lease = \"9s\"\nhung_after = \"2m\"\n");
        assert_eq!(upgrade(&link).unwrap().len(), 1);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "lease = \"9s\"\n");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o640);
        assert!(link.is_symlink());

        let wrong = "hung_after = \"2m\"\nleese = \"9s\"\n";
        write(wrong);
        let refused = upgrade(&path).unwrap_err();
        assert!(refused.message.contains("`leese`"), "{refused}");
        assert!(refused.message.contains("line 2"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), wrong);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_with_all_former_names_is_one_of_today() {
        let line = |former: &Former| format!("{} = \"x\"\n", former.key);
        let (mut all, mut taken) = (String::new(), Vec::new());
        for former in FORMER {
            let (text, changes) = upgraded(&line(former));
            assert_eq!(changes.len(), 1, "{text}");
            toml::from_str::<SettingValues>(&text).expect(&text);
            // A file had one of the logins for NATS, and the database's URL or its password.
            if text.is_empty() || !taken.contains(&text) {
                taken.push(text);
                all.push_str(&line(former));
            }
        }
        let (text, changes) = upgraded(&all);
        assert!(changes.len() > 25, "{changes:?}");
        toml::from_str::<SettingValues>(&text).expect(&text);
    }
}
