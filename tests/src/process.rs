//! A process of the program that goes on until it is told to stop. Owns the child: it never
//! outlives its test.

use crate::command::{exit_of, without_settings};
use crate::place::Place;
use crate::program::program;
use crate::wait::{SOON, until_now};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;

/// Lines of a log that are shown when a test fails.
const TAIL: usize = 40;

/// Where Debian's package `libfaketime` keeps the library that shifts a process's clock.
fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    folders
        .map(|folder| folder.path().join("faketime/libfaketime.so.1"))
        .find(|file| file.is_file())
}

/// Whether a process can be given a wrong clock on this machine.
#[must_use]
pub fn can_shift_clocks() -> bool {
    faketime().is_some()
}

/// The variables with which a process has a clock that is wrong by `seconds` seconds.
///
/// # Panics
/// When [`can_shift_clocks`] says no.
#[must_use]
pub fn wrong_clock(seconds: i64) -> Vec<(&'static str, PathBuf)> {
    vec![
        ("LD_PRELOAD", faketime().expect("the package `faketime`")),
        ("FAKETIME", PathBuf::from(format!("{seconds:+}"))),
        // Leases are measured by the monotonic clock, and that of a machine is never set.
        ("FAKETIME_DONT_FAKE_MONOTONIC", PathBuf::from("1")),
    ]
}

/// What a process can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: end in an orderly way.
    Terminate,
    /// SIGHUP: the terminal is closed.
    HangUp,
    /// SIGSTOP: stand still, whatever you are doing.
    Stop,
    /// SIGCONT: go on.
    Continue,
}

/// How a container or a unit starts a program: nothing of this process's environment goes with it.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Its path, or its name on the `PATH` of the variables.
    pub program: PathBuf,
    /// What follows.
    pub arguments: Vec<String>,
    /// All that it has.
    pub variables: Vec<(String, String)>,
    /// The number of the user and the group that it runs as; where this process may change neither,
    /// it runs as this process.
    pub user: Option<u32>,
}

impl Launch {
    /// The command, to be run to its end.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut options = Vec::new();
        if let Some(user) = self.user.filter(|_| is_root()) {
            options.extend([format!("--reuid={user}"), format!("--regid={user}")]);
            options.push("--clear-groups".to_owned());
        }
        let mut command = orphan_dies(&self.program, &options);
        command
            .env_clear()
            .envs(self.variables.iter().cloned())
            .args(&self.arguments);
        command
    }
}

/// Whether this process may start others as another user.
#[must_use]
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A running process. Dropped, it is killed; and where the test has failed, the end of its log is
/// shown.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    /// Starts `counterstep` with these arguments on the data of a place. Call it on the test's own
    /// thread: the child dies with the thread that started it.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(place: &Place, arguments: &[&str]) -> Self {
        Self::start_with(place, arguments, &[])
    }

    /// The same with these variables in its environment.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start_with(place: &Place, arguments: &[&str], variables: &[(&str, &Path)]) -> Self {
        let name = arguments.first().copied().unwrap_or("nothing");
        let mut command = orphan_dies(program(), &[]);
        command
            .envs(variables.iter().copied())
            .args(arguments)
            .arg("--data-dir")
            .arg(place.data());
        Self::spawn(place, name, command)
    }

    /// Starts a program as a container or a unit does.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn launch(place: &Place, launch: &Launch) -> Self {
        let name = launch.program.file_name().unwrap_or_default();
        Self::spawn(place, &name.to_string_lossy(), launch.command())
    }

    fn spawn(place: &Place, name: &str, mut command: Command) -> Self {
        let (stdout, stderr) = (place.log(&format!("{name}.stdout")), place.log(name));
        let file = |path: &Path| File::create(path).expect("a file for the output");
        command.current_dir(place.path());
        let child = command
            .stdout(file(&stdout))
            .stderr(file(&stderr))
            .spawn()
            .expect("the process starts");
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// Its id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it something.
    ///
    /// # Panics
    /// When it is not there any more.
    pub fn signal(&self, signal: Signal) {
        let name = match signal {
            Signal::Terminate => "-TERM",
            Signal::HangUp => "-HUP",
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
        };
        let told = Command::new("kill")
            .args([name, &self.pid().to_string()])
            .status()
            .expect("`kill` starts");
        assert!(told.success(), "kill {name}: {told}");
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: it gets no chance to say goodbye.
    ///
    /// # Panics
    /// When it had ended by itself before.
    pub fn kill(mut self) {
        let before = self.child.try_wait().expect("its state");
        assert!(
            before.is_none(),
            "it ended by itself: {before:?}\n{}",
            self.tail()
        );
        self.child
            .kill()
            .and_then(|()| self.child.wait())
            .expect("a child can be killed");
    }

    /// SIGTERM, and its orderly end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::Terminate);
        self.ended()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn ended(&mut self) -> ExitStatus {
        exit_of(&mut self.child, SOON).unwrap_or_else(|| panic!("it does not end\n{}", self.tail()))
    }

    /// What it wrote to its standard output.
    #[must_use]
    pub fn stdout(&self) -> String {
        text(&self.stdout)
    }

    /// What it logged.
    #[must_use]
    pub fn log(&self) -> String {
        text(&self.stderr)
    }

    /// Waits until it has said something, on either output: the first thing that `find` finds.
    ///
    /// # Panics
    /// When it does not say it, or ends first.
    pub fn says<T>(&mut self, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
        until_now(what, SOON, || {
            // Looked at before its words: what it says last is not missed.
            let ended = self.child.try_wait().expect("its state");
            let said = find(&self.stdout()).or_else(|| find(&self.log()));
            assert!(
                said.is_some() || ended.is_none(),
                "it ended before it said {what}: {ended:?}\n{}",
                self.tail()
            );
            said
        })
    }

    /// Where it serves metrics and probes, as its log says it in either format.
    ///
    /// # Panics
    /// When it does not say it, or ends first.
    pub fn metrics_address(&mut self) -> String {
        self.says("where it serves metrics", |said| {
            let line = said.lines().find(|it| it.contains("serving metrics"))?;
            let json = serde_json::from_str::<serde_json::Value>(line).ok();
            match json.as_ref().and_then(|json| json["address"].as_str()) {
                Some(address) => Some(address.to_owned()),
                None => Some(line.split_once("address=")?.1.trim().to_owned()),
            }
        })
    }

    /// The most memory that it ever had at a time, in bytes.
    ///
    /// # Panics
    /// When it is not there any more.
    #[must_use]
    pub fn peak_memory(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("its status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .expect("its peak");
        let kib: u64 = line
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .expect("a number of KiB");
        kib * 1024
    }

    /// The end of its log.
    #[must_use]
    pub fn tail(&self) -> String {
        // While it panics: the folder of the logs may be gone already.
        let log =
            String::from_utf8_lossy(&std::fs::read(&self.stderr).unwrap_or_default()).into_owned();
        let lines: Vec<_> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
        format!(
            "--- the end of {} ---\n{tail}\n---",
            self.stderr.file_name().unwrap_or_default().display()
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.tail());
        }
        // Also where it stands still; and it has no effect on one that has ended and been waited
        // for.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).expect("its output")).into_owned()
}

/// A command whose process is killed when the test that starts it is: a test that is killed drops
/// nothing. By `setpriv`, which becomes the program: the system call itself would need `unsafe`
/// here.
fn orphan_dies(program: &Path, options: &[String]) -> Command {
    static SETPRIV: OnceLock<bool> = OnceLock::new();
    let works = || {
        Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "true"])
            .status()
            .is_ok_and(|it| it.success())
    };
    if !*SETPRIV.get_or_init(works) {
        return without_settings(program);
    }
    let mut command = without_settings("setpriv");
    command
        .args(["--pdeathsig", "KILL"])
        .args(options)
        .arg(program);
    command
}
