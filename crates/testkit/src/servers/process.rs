//! One server process: found, started on a free port, asked whether it is ready, stopped for
//! certain. Knows no server.

use super::place::Folder;
use parking_lot::{Mutex, MutexGuard};
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};

/// How long a server may take to answer, or to stop when asked to: a loaded machine is slow, and a test that
/// passes never waits that long.
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);
/// How often a start is tried: a port may be taken between our look and the server's.
const TRIES: u32 = 8;

/// A program of the machine.
///
/// # Panics
/// When it is not there: a test that needs a server must not pass without it.
pub(super) fn find(program: &str, package: &str) -> PathBuf {
    look_for(program).unwrap_or_else(|| {
        panic!(
            "`{program}` is not installed, and this test needs it: it is in Debian's package `{package}`. \
             `cargo xtask test` installs what is missing when it runs as root"
        )
    })
}

fn look_for(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/local/bin"].map(PathBuf::from));
    // Debian keeps the programs of PostgreSQL off the path, one folder a version. The newest comes
    // first.
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut versions: Vec<u32> = versions
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    folders.extend(
        versions
            .iter()
            .map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin"))),
    );
    folders
        .into_iter()
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// An account that is not root, for servers that refuse root.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// Whom to become; `None`: we are not root and stay who we are.
    pub(super) fn unless_we_are_somebody() -> Option<Self> {
        let ours = std::fs::metadata("/proc/self").map_or(0, |own| own.uid());
        if ours != 0 {
            return None;
        }
        let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let find = |wanted: &str| {
            accounts.lines().find_map(|line| {
                let fields: Vec<&str> = line.split(':').collect();
                match fields.as_slice() {
                    [name, _, uid, gid, ..] if *name == wanted => Some(Self {
                        uid: uid.parse().ok()?,
                        gid: gid.parse().ok()?,
                    }),
                    _ => None,
                }
            })
        };
        let found = find("postgres").or_else(|| find("nobody"));
        Some(found.expect("an account `postgres` or `nobody`: PostgreSQL refuses to run as root"))
    }

    pub(super) fn owns(self, path: &Path) {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
            .expect("root may give a file away");
    }
}

/// A command that gets `on_our_death` when this process ends.
pub(super) fn command(program: &Path, account: Option<Account>, on_our_death: &str) -> Command {
    let mut command = Command::new(find("setpriv", "util-linux"));
    command.args(["--pdeathsig", on_our_death]);
    if let Some(Account { uid, gid }) = account {
        command
            .arg("--reuid")
            .arg(uid.to_string())
            .arg("--regid")
            .arg(gid.to_string())
            .arg("--clear-groups");
    }
    command.arg("--").arg(program);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

type Errand = Box<dyn FnOnce() + Send>;

/// Starts a process from a thread that lives as long as ours does: the kernel's signal at the
/// parent's death follows the *thread* that started the child, and a test's thread ends with its
/// test.
pub(super) fn spawn(mut command: Command) -> std::io::Result<Child> {
    static KEEPER: LazyLock<Mutex<mpsc::Sender<Errand>>> = LazyLock::new(|| {
        let (give, take) = mpsc::channel::<Errand>();
        let keeper = std::thread::Builder::new().name("keeper of servers".to_owned());
        keeper
            .spawn(move || take.into_iter().for_each(|errand| errand()))
            .expect("a thread");
        Mutex::new(give)
    });
    let (give, take) = mpsc::channel();
    let errand: Errand = Box::new(move || drop(give.send(command.spawn())));
    lock(&KEEPER).send(errand).expect("the keeper never ends");
    take.recv().expect("the keeper answers")
}

/// A port of the loopback address on which no process listens now. Below those that the kernel
/// hands out by itself, so that no outgoing connection takes it while its server is stopped; and
/// none twice in this process.
pub(super) fn free_port() -> u16 {
    const FIRST: u16 = 15_000;
    const PORTS: u16 = 17_000;
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| {
        let chance = RandomState::new().hash_one(std::process::id());
        AtomicU16::new((chance % u64::from(PORTS)) as u16)
    });
    loop {
        let port = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % PORTS;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// How a server is asked to stop.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asked {
    /// `SIGTERM`.
    Term,
    /// `SIGINT`: PostgreSQL's fast shutdown.
    Int,
    /// `SIGQUIT`: PostgreSQL's immediate one.
    Quit,
}

/// A server process and its folder. The process is ended before the folder goes.
#[derive(Debug)]
pub(super) struct Process {
    name: &'static str,
    child: Mutex<Option<Child>>,
    /// What ends it once what it has in memory is no longer needed.
    pub(super) end: Option<Asked>,
    pub(super) folder: Folder,
}

impl Process {
    /// Starts a server for the first time: `begin` is tried with another process until it has one
    /// that is ready.
    pub(super) fn start<S>(
        name: &'static str,
        mut attempt: impl FnMut() -> Result<S, String>,
    ) -> S {
        let mut last = String::new();
        for _ in 0..TRIES {
            match attempt() {
                Ok(server) => return server,
                Err(error) => last = error,
            }
        }
        panic!("{name} does not start: {last}")
    }

    pub(super) fn new(name: &'static str, end: Option<Asked>) -> Self {
        Self {
            name,
            child: Mutex::new(None),
            end,
            folder: Folder::make(name),
        }
    }

    /// The file that takes what the process writes.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Starts it and waits until `ready`, which gets its process id, says so.
    pub(super) fn begin(
        &self,
        mut command: Command,
        ready: impl Fn(u32) -> bool,
    ) -> Result<(), String> {
        let mut child = lock(&self.child);
        if child.is_some() {
            return Err(format!("{} runs already", self.name));
        }
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.log());
        let log = log.map_err(|error| format!("its log cannot be opened: {error}"))?;
        let copy = log
            .try_clone()
            .map_err(|error| format!("its log cannot be opened twice: {error}"))?;
        command
            .current_dir(self.folder.path())
            .stdout(log)
            .stderr(copy);
        let mut begun =
            spawn(command).map_err(|error| format!("its program cannot be run: {error}"))?;
        let until = Instant::now() + LIMIT;
        let why = loop {
            match begun.try_wait() {
                Ok(Some(status)) => break format!("it ended with {status}"),
                Ok(None) if ready(begun.id()) => {
                    *child = Some(begun);
                    return Ok(());
                }
                Ok(None) if Instant::now() > until => {
                    break format!("it is not ready after {LIMIT:?}");
                }
                Ok(None) => std::thread::sleep(POLL),
                Err(error) => break format!("it cannot be asked: {error}"),
            }
        };
        kill(&mut begun);
        Err(format!("{why}; its last words: {}", self.last_words()))
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(8)..].join(" | ")
    }

    /// Asks it to stop and waits until it has.
    pub(super) fn stop(&self, asked: Asked) {
        if let Some(mut child) = lock(&self.child).take() {
            end(&mut child, asked);
        }
    }

    /// Ends it as a power cut would end the process: it gets no chance to write anything.
    pub(super) fn kill(&self) {
        if let Some(mut child) = lock(&self.child).take() {
            kill(&mut child);
        }
    }

    /// Sends a signal to it while it runs.
    pub(super) fn signal(&self, name: &str) {
        if let Some(child) = lock(&self.child).as_ref() {
            let sent = signal(child, name);
            assert!(sent, "{} gets no {name}", self.name);
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        lock(&self.child).as_ref().map(Child::id)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        match self.end {
            Some(asked) => self.stop(asked),
            None => self.kill(),
        }
    }
}

fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn end(child: &mut Child, asked: Asked) {
    let name = match asked {
        Asked::Term => "TERM",
        Asked::Int => "INT",
        Asked::Quit => "QUIT",
    };
    let sent = self::signal(child, name);
    let until = Instant::now() + LIMIT;
    while sent && Instant::now() < until {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(POLL),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    kill(child);
}

/// Sends a signal to a child that has not been waited for: no other process can have its id.
fn signal(child: &Child, name: &str) -> bool {
    // The shell has its own `kill`.
    let mut sent = Command::new("sh");
    sent.args(["-c", r#"kill -s "$0" "$1""#, name]);
    let sent = sent.arg(child.id().to_string()).status();
    sent.is_ok_and(|status| status.success())
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
