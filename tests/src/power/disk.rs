//! A disk, as recorded calls leave it: of each file what was synced and what was not, of each folder which names were. The
//! model is that of POSIX and no file system's: bytes are on the disk once their file was synced, a name once its folder was,
//! and until then each of them may be there or not. A rename is whole or not done. Must not know what is in a file.

use super::trace::Call;
use crate::sample::Chance;
use std::collections::{BTreeMap, HashMap};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// What a disk writes whole.
const SECTOR: u64 = 512;

/// The folder that was there before.
const TOP: usize = 0;

/// What of that which was not synced is on the disk when the power is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Nothing.
    Nothing,
    /// Some of it, in any order, and of the last bytes of a file some sectors.
    Some,
    /// All of it.
    All,
}

/// A file or a folder. An entry of a list of what is not synced has the line of the log where it was done.
#[derive(Debug)]
enum Node {
    File {
        mode: u32,
        synced: Vec<u8>,
        pending: Vec<(usize, Change)>,
        /// How long it is, also where that is not synced.
        length: u64,
    },
    Folder {
        mode: u32,
        /// Each with the line where it was given, or taken away.
        synced: BTreeMap<String, (usize, Option<usize>)>,
        now: BTreeMap<String, usize>,
    },
}

#[derive(Debug, Clone)]
enum Change {
    Bytes(u64, Vec<u8>),
    Length(u64),
}

impl Change {
    fn apply(&self, file: &mut Vec<u8>) {
        let size = |number: u64| usize::try_from(number).expect("a small file");
        match self {
            Self::Length(length) => file.resize(size(*length), 0),
            Self::Bytes(at, bytes) => {
                let (from, to) = (size(*at), size(*at) + bytes.len());
                file.resize(file.len().max(to), 0);
                file[from..to].copy_from_slice(bytes);
            }
        }
    }

    /// With the first of its sectors alone.
    fn torn(&self, chance: &mut Chance) -> Option<Self> {
        let Self::Bytes(at, bytes) = self else {
            return Some(self.clone());
        };
        let sectors = 1 + bytes.len() as u64 / SECTOR;
        let end = (at / SECTOR + chance.within(0, sectors)) * SECTOR;
        let kept = usize::try_from(end.checked_sub(*at)?).expect("a small write");
        let kept = bytes.get(..kept).filter(|kept| !kept.is_empty())?;
        Some(Self::Bytes(*at, kept.to_vec()))
    }
}

/// A name that a folder gives or takes away; a rename does both at once.
#[derive(Debug)]
struct Naming {
    line: usize,
    /// Folder, name, and what it names from then on.
    sets: Vec<(usize, String, Option<usize>)>,
}

#[derive(Debug)]
struct Open {
    node: usize,
    at: u64,
    appends: bool,
}

/// The disk below a folder.
#[derive(Debug)]
pub(super) struct Disk {
    top: PathBuf,
    nodes: Vec<Node>,
    unsynced: Vec<Naming>,
    open: HashMap<i64, Open>,
    /// Files of these names are never synced, whatever is asked for.
    never_synced: &'static [&'static str],
    /// Calls for folders in folders that other threads were still making when they began.
    early: Vec<Call>,
}

impl Disk {
    /// Empty, below a folder that is there.
    pub(super) fn new(top: &Path, never_synced: &'static [&'static str]) -> Self {
        Self {
            top: top.to_owned(),
            nodes: vec![folder(0o777)],
            unsynced: Vec::new(),
            open: HashMap::new(),
            never_synced,
            early: Vec::new(),
        }
    }

    /// Does what a call has done.
    ///
    /// # Panics
    /// When it did something to a file here that this does not know: an image would lack it.
    pub(super) fn apply(&mut self, call: &Call) {
        let folder = call.new_folder();
        let above = folder.as_deref().and_then(Path::parent);
        if above.is_some_and(|above| self.names(above).is_some() && self.find(above).is_none()) {
            self.early.push(call.clone());
            return;
        }
        self.do_call(call);
        if folder.is_some() {
            let early = std::mem::take(&mut self.early);
            early.iter().for_each(|call| self.apply(call));
        }
    }

    fn do_call(&mut self, call: &Call) {
        match call.name.as_str() {
            "openat" => self.open(call),
            "lseek" => {
                if let Some(open) = self.open_of(call) {
                    open.at = call.result.unsigned_abs();
                }
            }
            "write" => self.write(call, None),
            "pwrite64" => self.write(call, Some(call.number(3).unsigned_abs())),
            "ftruncate" => self.set_length(call, call.number(1).unsigned_abs(), false),
            "fallocate" => {
                let length = call.number(2) + call.number(3);
                self.set_length(call, length.unsigned_abs(), true);
            }
            "fsync" | "fdatasync" => self.sync(call),
            "rename" => self.rename(call, &call.path(0), &call.path(1)),
            "renameat" | "renameat2" => self.rename(call, &call.path(1), &call.path(3)),
            "link" => self.link(call, &call.path(0), &call.path(1)),
            "linkat" => self.link(call, &call.path(1), &call.path(3)),
            "unlink" | "rmdir" => self.unlink(call, &call.path(0)),
            "unlinkat" => self.unlink(call, &call.path(1)),
            "mkdir" => self.make_folder(call, &call.path(0), call.number(1)),
            "mkdirat" => self.make_folder(call, &call.path(1), call.number(2)),
            // Neither of them brings anything to the disk for certain, or they are of a socket.
            "sync_file_range" | "msync" | "sendto" | "sendmsg" => {}
            _ => {
                let arguments = (0..4).map(|at| call.argument(at).to_owned());
                let top = self.top.display().to_string();
                let is_here = arguments.filter(|it| it.contains("\\x")).any(|argument| {
                    let text = argument.replace("\\x", "");
                    let top: String = top.bytes().map(|byte| format!("{byte:02x}")).collect();
                    text.contains(&top)
                });
                assert!(!is_here, "a call that the disk does not know: {call:?}");
            }
        }
    }

    /// The names of a path below the top.
    fn names(&self, path: &Path) -> Option<Vec<String>> {
        let below = path.strip_prefix(&self.top).ok()?;
        let names = below.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_str().expect("UTF-8").to_owned()),
            _ => None,
        });
        Some(names.collect())
    }

    fn find(&self, path: &Path) -> Option<usize> {
        self.names(path)?.iter().try_fold(TOP, |node, name| {
            let Node::Folder { now, .. } = &self.nodes[node] else {
                return None;
            };
            now.get(name).copied()
        })
    }

    /// The folder of a path, and the name there; `None`: it is somewhere else.
    fn place(&self, path: &Path) -> Option<(usize, String)> {
        let name = self.names(path)?.pop()?;
        let folder = self.find(path.parent()?);
        let folder = folder.unwrap_or_else(|| panic!("no folder of {} is known", path.display()));
        Some((folder, name))
    }

    fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn name(&mut self, call: &Call, sets: Vec<(usize, String, Option<usize>)>) {
        for (folder, name, node) in &sets {
            if let Node::Folder { now, .. } = &mut self.nodes[*folder] {
                match node {
                    Some(node) => now.insert(name.clone(), *node),
                    None => now.remove(name),
                };
            }
        }
        let line = call.ended;
        self.unsynced.push(Naming { line, sets });
    }

    fn open(&mut self, call: &Call) {
        self.open.remove(&call.result);
        let (path, flags) = (call.path(1), call.argument(2));
        let node = match self.find(&path) {
            Some(node) => {
                if flags.contains("O_TRUNC") {
                    self.change(node, call.ended, Change::Length(0));
                }
                node
            }
            None => {
                let Some((folder, name)) = self.place(&path) else {
                    return;
                };
                let mode = u32::try_from(call.number(3)).expect("a mode");
                let node = self.add(Node::File {
                    mode,
                    synced: Vec::new(),
                    pending: Vec::new(),
                    length: 0,
                });
                self.name(call, vec![(folder, name, Some(node))]);
                node
            }
        };
        let appends = flags.contains("O_APPEND");
        let open = Open {
            node,
            at: 0,
            appends,
        };
        self.open.insert(call.result, open);
    }

    /// The open file that a call is about, if it is one here.
    fn open_of(&mut self, call: &Call) -> Option<&mut Open> {
        let of = call.descriptor(0);
        of.path.strip_prefix(&self.top).ok()?;
        // What was open before the program started is the log of its output.
        self.open.get_mut(&of.number)
    }

    fn length(&self, node: usize) -> u64 {
        match &self.nodes[node] {
            Node::File { length, .. } => *length,
            Node::Folder { .. } => 0,
        }
    }

    fn change(&mut self, node: usize, line: usize, change: Change) {
        if let Node::File {
            pending, length, ..
        } = &mut self.nodes[node]
        {
            *length = match &change {
                Change::Length(length) => *length,
                Change::Bytes(at, bytes) => (*length).max(at + bytes.len() as u64),
            };
            pending.push((line, change));
        }
    }

    fn write(&mut self, call: &Call, at: Option<u64>) {
        let Some(open) = self.open_of(call) else {
            return;
        };
        let (node, position, appends) = (open.node, open.at, open.appends);
        let written = call.result.unsigned_abs();
        let at = match at {
            Some(at) => at,
            None => {
                let at = if appends { self.length(node) } else { position };
                if let Some(open) = self.open_of(call) {
                    open.at = at + written;
                }
                at
            }
        };
        let mut bytes = call.bytes(1);
        bytes.truncate(usize::try_from(written).expect("a small write"));
        self.change(node, call.ended, Change::Bytes(at, bytes));
    }

    fn set_length(&mut self, call: &Call, to: u64, at_least: bool) {
        let Some(node) = self.open_of(call).map(|open| open.node) else {
            return;
        };
        let to = if at_least {
            to.max(self.length(node))
        } else {
            to
        };
        self.change(node, call.ended, Change::Length(to));
    }

    /// What had ended before this began is on the disk now.
    fn sync(&mut self, call: &Call) {
        let of = call.descriptor(0);
        let name = of.path.file_name().unwrap_or_default().to_string_lossy();
        if self.never_synced.contains(&name.as_ref()) {
            return;
        }
        let Some(node) = self.open_of(call).map(|open| open.node) else {
            return;
        };
        if let Node::File {
            synced, pending, ..
        } = &mut self.nodes[node]
        {
            let done = pending.partition_point(|(line, _)| *line < call.began);
            pending
                .drain(..done)
                .for_each(|(_, change)| change.apply(synced));
            return;
        }
        let is_due = |naming: &Naming| {
            naming.line < call.began && naming.sets.iter().any(|(folder, ..)| *folder == node)
        };
        let (due, left) = std::mem::take(&mut self.unsynced)
            .into_iter()
            .partition(is_due);
        self.unsynced = left;
        for Naming { line, sets } in due {
            for (folder, name, node) in sets {
                if let Node::Folder { synced, .. } = &mut self.nodes[folder] {
                    set(synced, name, line, node);
                }
            }
        }
    }

    fn rename(&mut self, call: &Call, from: &Path, to: &Path) {
        let (Some(node), Some(from), Some(to)) =
            (self.find(from), self.place(from), self.place(to))
        else {
            return;
        };
        self.name(call, vec![(from.0, from.1, None), (to.0, to.1, Some(node))]);
    }

    fn link(&mut self, call: &Call, from: &Path, to: &Path) {
        if let (Some(node), Some((folder, name))) = (self.find(from), self.place(to)) {
            self.name(call, vec![(folder, name, Some(node))]);
        }
    }

    fn unlink(&mut self, call: &Call, path: &Path) {
        if let Some((folder, name)) = self.place(path) {
            self.name(call, vec![(folder, name, None)]);
        }
    }

    fn make_folder(&mut self, call: &Call, path: &Path, mode: i64) {
        if let Some((parent, name)) = self.place(path) {
            let node = self.add(folder(u32::try_from(mode).expect("a mode")));
            self.name(call, vec![(parent, name, Some(node))]);
        }
    }

    /// Writes what is on the disk after a power cut into an empty folder.
    pub(super) fn write_image(&self, to: &Path, kept: Kept, chance: &mut Chance) {
        // Mostly little, mostly all, or half of it.
        let of_ten = [2, 5, 9][usize::try_from(chance.within(0, 3)).expect("a small number")];
        let is_kept = |chance: &mut Chance| match kept {
            Kept::Nothing => false,
            Kept::Some => chance.within(0, 10) < of_ten,
            Kept::All => true,
        };
        let mut folders: HashMap<usize, BTreeMap<String, (usize, Option<usize>)>> = HashMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            if let Node::Folder { synced, .. } = node {
                folders.insert(at, synced.clone());
            }
        }
        for Naming { line, sets } in &self.unsynced {
            if is_kept(chance) {
                for (folder, name, node) in sets {
                    let names = folders.get_mut(folder).expect("a folder");
                    set(names, name.clone(), *line, *node);
                }
            }
        }
        let mut open = vec![(TOP, to.to_owned())];
        while let Some((folder, path)) = open.pop() {
            for (name, (_, node)) in &folders[&folder] {
                // Memory that processes share, and of no use to the next one.
                let Some(node) = node.filter(|_| !name.ends_with("-shm")) else {
                    continue;
                };
                let path = path.join(name);
                match &self.nodes[node] {
                    Node::Folder { mode, .. } => {
                        let made = DirBuilder::new().mode(*mode).create(&path);
                        made.expect("a folder of the image");
                        open.push((node, path));
                    }
                    Node::File {
                        mode,
                        synced,
                        pending,
                        ..
                    } => {
                        let mut bytes = synced.clone();
                        let pending = pending.iter().filter(|_| is_kept(chance));
                        let mut pending: Vec<Change> =
                            pending.map(|(_, change)| change.clone()).collect();
                        if kept == Kept::Some
                            && chance.within(0, 2) == 0
                            && let Some(last) = pending.pop()
                        {
                            pending.extend(last.torn(chance));
                        }
                        pending.iter().for_each(|change| change.apply(&mut bytes));
                        let file = OpenOptions::new()
                            .write(true)
                            .create_new(true)
                            .mode(*mode)
                            .open(&path);
                        let written = file.and_then(|mut file| file.write_all(&bytes));
                        written.expect("a file of the image");
                    }
                }
            }
        }
    }
}

fn folder(mode: u32) -> Node {
    Node::Folder {
        mode,
        synced: BTreeMap::new(),
        now: BTreeMap::new(),
    }
}

/// Names a node, unless a later change of the name is there already.
fn set(
    names: &mut BTreeMap<String, (usize, Option<usize>)>,
    name: String,
    line: usize,
    node: Option<usize>,
) {
    let there = names.entry(name).or_insert((line, node));
    if there.0 <= line {
        *there = (line, node);
    }
}

#[cfg(test)]
mod tests {
    use super::{Disk, Kept};
    use crate::power::trace;
    use crate::sample::Chance;
    use std::collections::BTreeMap;
    use std::path::Path;

    /// Lines as `strace` writes them, from such with readable strings.
    fn disk(lines: &[&str], never_synced: &'static [&'static str]) -> Disk {
        let hex = |text: &str| -> String {
            let bytes = text.bytes().map(|byte| format!("\\x{byte:02x}"));
            bytes.collect()
        };
        let mut log = String::new();
        for line in lines {
            log.push_str("1 ");
            let (mut inside, mut text) = (None, String::new());
            for letter in line.chars() {
                match (inside, letter) {
                    (None, '"' | '<') => {
                        inside = Some(if letter == '"' { '"' } else { '>' });
                        log.push(letter);
                    }
                    (Some(end), letter) if letter == end => {
                        log.push_str(&hex(&std::mem::take(&mut text)));
                        log.push(letter);
                        inside = None;
                    }
                    (Some(_), letter) => text.push(letter),
                    (None, letter) => log.push(letter),
                }
            }
            log.push('\n');
        }
        let mut disk = Disk::new(Path::new("/t"), never_synced);
        trace::read(&log).iter().for_each(|call| disk.apply(call));
        disk
    }

    /// The files of an image with their bytes.
    fn image(disk: &Disk, kept: Kept, seed: u64) -> BTreeMap<String, String> {
        fn walk(folder: &Path, top: &Path, files: &mut BTreeMap<String, String>) {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    walk(&entry.path(), top, files);
                } else {
                    let path = entry.path();
                    let name = path.strip_prefix(top).unwrap().display().to_string();
                    files.insert(name, std::fs::read_to_string(path).unwrap());
                }
            }
        }
        let (folder, mut files) = (tempfile::tempdir().unwrap(), BTreeMap::new());
        disk.write_image(folder.path(), kept, &mut Chance::new(seed));
        walk(folder.path(), folder.path(), &mut files);
        files
    }

    fn files<const N: usize>(files: [(&str, &str); N]) -> BTreeMap<String, String> {
        let owned = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        owned.into()
    }

    const WRITTEN: [&str; 5] = [
        r#"mkdir("/t/a", 0777) = 0"#,
        r#"openat(AT_FDCWD</>, "/t/a/b", O_RDWR|O_CREAT, 0666) = 3</t/a/b>"#,
        r#"write(3</t/a/b>, "one", 3) = 3"#,
        r#"fsync(3</t/a/b>) = 0"#,
        r#"pwrite64(3</t/a/b>, "two", 3, 1) = 3"#,
    ];
    const OF_A: [&str; 2] = [
        r#"openat(AT_FDCWD</>, "/t/a", O_RDONLY) = 4</t/a>"#,
        r#"fsync(4</t/a>) = 0"#,
    ];
    const OF_TOP: [&str; 2] = [
        r#"openat(AT_FDCWD</>, "/t", O_RDONLY) = 5</t>"#,
        r#"fsync(5</t>) = 0"#,
    ];

    #[test]
    fn a_file_is_there_once_it_and_all_folders_above_it_were_synced() {
        let nothing = files([]);
        let lines = WRITTEN.to_vec();
        let whole = files([("a/b", "otwo")]);
        let without = disk(&lines, &[]);
        assert_eq!(image(&without, Kept::All, 1), whole);
        assert_eq!(image(&without, Kept::Nothing, 1), nothing);
        let lines = [&lines[..], &OF_A].concat();
        assert_eq!(image(&disk(&lines, &[]), Kept::Nothing, 1), nothing);
        let lines = [&lines[..], &OF_TOP].concat();
        let synced = files([("a/b", "one")]);
        assert_eq!(image(&disk(&lines, &[]), Kept::Nothing, 1), synced);
        // Its sync did nothing: it is there, and empty.
        let empty = files([("a/b", "")]);
        assert_eq!(image(&disk(&lines, &["b"]), Kept::Nothing, 1), empty);
    }

    #[test]
    fn a_rename_is_whole_or_not_done_and_older_names_do_not_come_back() {
        let renamed = [r#"rename("/t/a/b", "/t/c") = 0"#];
        let lines = [&WRITTEN[..], &OF_A, &OF_TOP, &renamed].concat();
        for seed in 0..20 {
            let found = image(&disk(&lines, &[]), Kept::Some, seed);
            assert_eq!(found.len(), 1, "{found:?}");
        }
        // The folder of the new name was synced; that of the old one later, which knows of it.
        let lines = [&WRITTEN[..], &renamed, &OF_TOP, &OF_A].concat();
        let there = files([("c", "one")]);
        assert_eq!(image(&disk(&lines, &[]), Kept::Nothing, 1), there);
    }

    #[test]
    fn what_was_not_synced_is_there_in_part_and_torn_at_a_sector() {
        let long = "x".repeat(2_000);
        let write = format!(r#"write(3</t/a/b>, "{long}", 2000) = 2000"#);
        let lines = [&WRITTEN[..4], &OF_A, &OF_TOP, &[write.as_str()]].concat();
        let disk = disk(&lines, &[]);
        let lengths: std::collections::BTreeSet<usize> = (0..300)
            .flat_map(|seed| image(&disk, Kept::Some, seed).into_values())
            .map(|text| text.len())
            .collect();
        // Behind the three bytes of before; or whole.
        assert_eq!(Vec::from_iter(lengths), [3, 512, 1024, 1536, 2003]);
    }
}
