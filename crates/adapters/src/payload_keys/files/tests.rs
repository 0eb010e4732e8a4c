//! Tests of the keys in a folder.

use super::*;
use crate::payload_keys::EncryptedPayloads;
use counterstep_kernel::ports::PayloadCodec;
use std::os::unix::fs::PermissionsExt;

fn tenant(name: &str) -> Tenant {
    Tenant(name.to_owned())
}

fn keys(folder: &tempfile::TempDir) -> FileKeys {
    FileKeys::remembering(folder.path(), Duration::ZERO, KEPT)
}

#[test]
fn keys_are_added_in_front_and_deleted_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let (keys, acme) = (keys(&folder), tenant("acme"));
    assert_eq!(*keys.of(&acme).unwrap(), TenantKeys::default());
    let first = keys.add(&acme).unwrap();
    let file = folder.path().join("acme.keys");
    let mode = |file: &Path| std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    // Shared with a group: a rotation leaves that.
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    let second = keys.add(&acme).unwrap();
    assert_eq!(mode(&file), 0o640);
    keys.add(&tenant("other")).unwrap();
    let ids = |keys: &FileKeys| {
        let of = keys.of(&acme).unwrap();
        of.keys.iter().map(|key| key.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&keys), [second.clone(), first.clone()]);
    let listed = keys.list().unwrap();
    assert_eq!(listed[0], (acme.clone(), vec![second, first]));
    assert_eq!(listed.len(), 2);
    assert!(keys.delete(&acme).unwrap() && !keys.delete(&acme).unwrap());
    let erased = TenantKeys {
        erased: true,
        ..TenantKeys::default()
    };
    assert_eq!(*keys.of(&acme).unwrap(), erased);
    let third = keys.add(&acme).unwrap();
    assert_eq!(ids(&keys), [third]);
    assert!(keys.of(&acme).unwrap().erased);
}

#[test]
fn what_was_read_counts_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let (keys, acme) = (FileKeys::open(folder.path()).unwrap(), tenant("acme"));
    keys.add(&acme).unwrap();
    assert_eq!(keys.of(&acme).unwrap().keys.len(), 1);
    keys.add(&acme).unwrap();
    assert_eq!(keys.of(&acme).unwrap().keys.len(), 1);
    let fresh = FileKeys::remembering(folder.path(), Duration::ZERO, KEPT);
    assert_eq!(fresh.again(&acme).unwrap().keys.len(), 2);
}

#[test]
fn a_broken_file_is_named_without_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let keys = keys(&folder);
    let good = BASE64.encode([7; 32]);
    let file = folder.path().join("acme.keys");
    for (text, says) in [
        (format!("{good}\n\nhunter2\n"), "line 3"),
        (String::new(), "is empty"),
    ] {
        std::fs::write(&file, text).unwrap();
        let refused = keys.of(&tenant("acme")).unwrap_err();
        assert!(matches!(refused, PayloadError::Missing(_)), "{refused:?}");
        let said = refused.to_string();
        assert!(said.contains(says) && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_file_that_cannot_be_read_for_a_moment_costs_no_key_that_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let acme = tenant("acme");
    let known = keys(&folder);
    let at_once = FileKeys::remembering(folder.path(), Duration::ZERO, Duration::ZERO);
    let id = known.add(&acme).unwrap();
    for keys in [&known, &at_once] {
        assert_eq!(keys.of(&acme).unwrap().keys[0].id, id);
    }
    let file = folder.path().join("acme.keys");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, "").unwrap();
    assert_eq!(known.of(&acme).unwrap().keys[0].id, id);
    assert!(at_once.of(&acme).is_err(), "for a while only");
    assert!(keys(&folder).of(&acme).is_err(), "it has never been read");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(known.of(&acme).unwrap().keys[0].id, id);
    std::fs::write(&file, whole).unwrap();
    assert_eq!(known.of(&acme).unwrap().keys[0].id, id);
    known.delete(&acme).unwrap();
    assert_eq!(known.of(&acme).unwrap().keys, []);
}

#[test]
fn a_file_that_could_not_be_read_is_read_again_before_others_are() {
    let folder = tempfile::tempdir().unwrap();
    let (acme, file) = (tenant("acme"), folder.path().join("acme.keys"));
    let for_hours = FileKeys::remembering(folder.path(), Duration::from_secs(36_000), KEPT);
    std::fs::write(&file, "").unwrap();
    assert!(for_hours.of(&acme).is_err());
    std::fs::write(&file, BASE64.encode([7; 32])).unwrap();
    let is_read = || {
        std::thread::sleep(LEAST / 2);
        for_hours.of(&acme).is_ok()
    };
    assert!((0..100).any(|_| is_read()), "it is not read again");
    // What was read is remembered for as long as it is to be.
    std::fs::write(&file, "").unwrap();
    assert!(for_hours.of(&acme).is_ok());
}

#[test]
fn keys_that_are_to_be_deleted_encrypt_nothing_more_in_any_process() {
    let folder = tempfile::tempdir().unwrap();
    let (command, acme) = (keys(&folder), tenant("acme"));
    let process = EncryptedPayloads::new(keys(&folder));
    assert!(!command.close(&acme).unwrap(), "it has none");
    command.add(&acme).unwrap();
    let before = process.encrypt(&acme, "here", "x").unwrap();
    assert!(command.close(&acme).unwrap());
    for refused in [
        process.key(&acme).map(drop),
        process.encrypt(&acme, "here", "x").map(drop),
    ] {
        assert!(
            matches!(refused, Err(PayloadError::Missing(_))),
            "{refused:?}"
        );
    }
    assert_eq!(process.decrypt("here", &before).unwrap(), "x");
    command.reopen(&acme).unwrap();
    process.encrypt(&acme, "here", "x").unwrap();
    command.close(&acme).unwrap();
    command.add(&acme).unwrap();
    process.encrypt(&acme, "here", "x").unwrap();
    command.close(&acme).unwrap();
    assert!(command.delete(&acme).unwrap());
    let refused = process.encrypt(&acme, "here", "x");
    assert!(
        matches!(refused, Err(PayloadError::Erased(_))),
        "{refused:?}"
    );
    command.add(&acme).unwrap();
    process.encrypt(&acme, "here", "x").unwrap();
}

#[test]
fn two_commands_do_not_write_at_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".lock"), "").unwrap();
    let refused = keys(&folder).add(&tenant("acme"));
    assert!(
        matches!(refused, Err(FileError::Locked { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_tenant_never_leads_out_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["../acme", "a/b", "..", ""] {
        let refused = keys(&folder).add(&tenant(name));
        assert!(matches!(refused, Err(FileError::Tenant(_))), "{name}");
    }
}
