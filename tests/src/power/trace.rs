//! What a program has asked of the kernel, from the log of `strace -f -y -xx`: each call with where it began and where it
//! ended. Must not know what a call does.

use std::collections::HashMap;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The calls that change files or names, that bring either to the disk, and that send answers.
const CALLS: &str = "openat,creat,lseek,write,pwrite64,writev,pwritev,pwritev2,truncate,ftruncate,fallocate,copy_file_range,\
                     sendfile,splice,fsync,fdatasync,sync_file_range,msync,rename,renameat,renameat2,link,linkat,symlink,\
                     symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,sendto,sendmsg";

/// What `strace` is started with, before the program and its arguments.
pub(super) fn options(log: &Path) -> Vec<String> {
    // The program dies with the process that traces it: `strace` alone would let it go on.
    let setpriv = ["setpriv", "--pdeathsig", "KILL"];
    let mut options: Vec<String> = ["-f", "--seccomp-bpf", "-y", "-xx", "-s", "10000000", "-e"]
        .map(str::to_owned)
        .into();
    options.extend([format!("trace={CALLS}"), "-o".to_owned()]);
    options.extend([log.display().to_string(), "--".to_owned()]);
    options.extend(setpriv.map(str::to_owned));
    options
}

/// A call that succeeded.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// The line of the log where it began: what had ended by then was there when it began.
    pub(super) began: usize,
    /// The line where its result was there.
    pub(super) ended: usize,
    pub(super) name: String,
    arguments: Vec<String>,
    pub(super) result: i64,
}

/// An open file, as an argument names it.
#[derive(Debug)]
pub(super) struct Descriptor {
    pub(super) number: i64,
    pub(super) path: PathBuf,
}

/// The calls of a log in the order in which others saw what they did.
pub(super) fn read(log: &str) -> Vec<Call> {
    let mut begun: HashMap<&str, (usize, &str)> = HashMap::new();
    let mut calls = Vec::new();
    for (at, line) in log.lines().enumerate() {
        let Some((process, text)) = line.split_once(' ') else {
            continue;
        };
        let text = text.trim_start();
        if text.starts_with("+++") || text.starts_with("---") {
            continue;
        }
        if let Some(text) = text.strip_suffix("<unfinished ...>") {
            begun.insert(process, (at, text));
            continue;
        }
        let (began, whole) = match text.strip_prefix("<... ") {
            None => (at, text.to_owned()),
            Some(text) => {
                let (_, rest) = text.split_once(" resumed>").expect("the rest of a call");
                let Some((began, first)) = begun.remove(process) else {
                    continue;
                };
                (began, format!("{}{rest}", first.trim_end()))
            }
        };
        calls.extend(
            call(&whole)
                .filter(|call| call.result >= 0)
                .map(|call| Call {
                    began,
                    ended: at,
                    ..call
                }),
        );
    }
    calls.sort_by_key(Call::seen);
    calls
}

/// `name(arguments) = result`; `None`: there was no result.
fn call(text: &str) -> Option<Call> {
    let (call, result) = text.rsplit_once(" = ")?;
    let (name, arguments) = call.split_once('(')?;
    let result = result.split([' ', '<']).next()?;
    Some(Call {
        began: 0,
        ended: 0,
        name: name.to_owned(),
        arguments: split(arguments.trim_end().strip_suffix(')')?),
        result: result.parse().ok()?,
    })
}

/// Arguments, whose strings have no letters but those of `\x00`: no comma of theirs is in the way.
fn split(arguments: &str) -> Vec<String> {
    let (mut depth, mut from, mut found) = (0_i32, 0, Vec::new());
    for (at, letter) in arguments.bytes().enumerate() {
        match letter {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                found.push(arguments[from..at].trim().to_owned());
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(arguments[from..].trim().to_owned());
    found
}

impl Call {
    /// From where others may see what it did: other threads use a new folder before the call that makes it has ended.
    pub(super) fn seen(&self) -> usize {
        if self.name.starts_with("mkdir") {
            self.began
        } else {
            self.ended
        }
    }

    /// The folder that it makes.
    pub(super) fn new_folder(&self) -> Option<PathBuf> {
        match self.name.as_str() {
            "mkdir" => Some(self.path(0)),
            "mkdirat" => Some(self.path(1)),
            _ => None,
        }
    }

    /// An argument as it stands there; empty: there is none.
    pub(super) fn argument(&self, at: usize) -> &str {
        self.arguments.get(at).map_or("", String::as_str)
    }

    pub(super) fn number(&self, at: usize) -> i64 {
        let text = self.argument(at);
        let number = match text.strip_prefix('0') {
            Some(octal) if !octal.is_empty() => i64::from_str_radix(octal, 8),
            _ => text.parse(),
        };
        number.unwrap_or_else(|error| panic!("{error}: `{text}` in {self:?}"))
    }

    /// The bytes of all strings in an argument.
    pub(super) fn bytes(&self, at: usize) -> Vec<u8> {
        let argument = self.argument(at);
        assert!(!argument.contains("\"..."), "a string is cut off: {self:?}");
        let strings = argument.split('"').skip(1).step_by(2);
        strings.flat_map(unescaped).collect()
    }

    /// A path; beside a descriptor of a folder where one comes before it.
    pub(super) fn path(&self, at: usize) -> PathBuf {
        let path = PathBuf::from(std::ffi::OsString::from_vec(self.bytes(at)));
        match at.checked_sub(1).map(|before| self.argument(before)) {
            Some(before) if before.contains('<') => self.descriptor(at - 1).path.join(path),
            _ => path,
        }
    }

    pub(super) fn descriptor(&self, at: usize) -> Descriptor {
        let text = self.argument(at);
        let (number, rest) = text.split_once('<').unwrap_or((text, ">"));
        let (path, _) = rest.split_once('>').expect("the path of a descriptor");
        Descriptor {
            number: number.parse().unwrap_or(-1),
            path: PathBuf::from(std::ffi::OsString::from_vec(unescaped(path))),
        }
    }
}

/// The bytes of `\x00\x01`.
fn unescaped(text: &str) -> Vec<u8> {
    let bytes = text.split("\\x").skip(1);
    let byte = |hex: &str| u8::from_str_radix(hex, 16).expect("two hexadecimal digits");
    bytes.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::read;
    use std::path::Path;

    #[test]
    fn a_call_that_another_thread_interrupts_is_one_call() {
        let log = "\
7     pwrite64(3<\\x2f\\x61>, \"\\x68\\x0a\", 2, 4096 <unfinished ...>\n\
8     fsync(4<\\x2f\\x62>(deleted)) = 0\n\
7     <... pwrite64 resumed>)                 = 2\n\
8     openat(AT_FDCWD<\\x2f>, \"\\x61\\x2c\", O_RDWR|O_CREAT, 0600) = 5<\\x2f\\x61\\x2c>\n\
8     mkdir(\"\\x61\", 0777) = -1 EEXIST (File exists)\n\
8     writev(6<\\x73>, [{iov_base=\"\\x61\", iov_len=1}, {iov_base=\"\\x62\", iov_len=1}], 2) = 2\n\
8     +++ exited with 0 +++\n";
        let calls = read(log);
        let shown: Vec<_> = calls
            .iter()
            .map(|it| (it.name.as_str(), it.began, it.ended, it.result))
            .collect();
        assert_eq!(
            shown,
            [
                ("fsync", 1, 1, 0),
                ("pwrite64", 0, 2, 2),
                ("openat", 3, 3, 5),
                ("writev", 5, 5, 2)
            ]
        );
        assert_eq!(calls[0].descriptor(0).path, Path::new("/b"));
        assert_eq!(
            (calls[1].bytes(1), calls[1].number(3)),
            (b"h\n".to_vec(), 4096)
        );
        assert_eq!(calls[2].path(1), Path::new("/a,"));
        assert_eq!(calls[2].number(3), 0o600);
        assert_eq!(calls[3].bytes(1), b"ab");
    }
}
