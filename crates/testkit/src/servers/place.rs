//! Where the servers keep their files: one temporary folder for the whole process, removed when the
//! process has ended, however it ends.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Waits for the end of its input, which is the end of the process that holds the other end of the
/// pipe, and then removes the folder. A server may still write its last words, so it tries for a
/// while. Signals meant for the whole group of processes (an interrupt from the keyboard) must not
/// end it before its work is done.
const SWEEPER: &str = r#"trap '' INT TERM HUP QUIT
cat >/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf "$1" 2>/dev/null
    [ -e "$1" ] || exit 0
    sleep 0.3
done"#;

struct Place {
    top: PathBuf,
    /// Holds the pipe open.
    _sweeper: Child,
}

fn top() -> &'static Path {
    static PLACE: OnceLock<Place> = OnceLock::new();
    let place = PLACE.get_or_init(|| {
        let top = tempfile::Builder::new()
            .prefix("counterstep-servers-")
            .tempdir();
        let top = top
            .expect("a folder for the servers in the temporary folder")
            .keep();
        // The servers that refuse to run as root run as another account, which must get through.
        open_to_all(&top);
        let mut sweeper = Command::new("sh");
        sweeper.args(["-c", SWEEPER, "sh"]).arg(&top);
        sweeper
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let sweeper = sweeper
            .spawn()
            .expect("`sh` starts, to remove the folder of the servers at the end");
        Place {
            top,
            _sweeper: sweeper,
        }
    });
    &place.top
}

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
        .expect("rights on a folder of our own");
}

/// A folder of a server, removed with the value.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn make(name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let path = top().join(format!("{name}-{}", MADE.fetch_add(1, Ordering::Relaxed)));
        std::fs::create_dir(&path)
            .unwrap_or_else(|error| panic!("{} cannot be made: {error}", path.display()));
        open_to_all(&path);
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now, the sweeper removes at the end.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
