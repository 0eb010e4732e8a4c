//! Which errors of a disk are transient. Must not decide what follows from that.

use std::error::Error;
use std::io::{self, ErrorKind};

/// What SQLite says where another process holds the file, or the disk refuses a write: diesel hands on the message only.
const OF_SQLITE: [&str; 4] = [
    "is locked",
    "is busy",
    "database or disk is full",
    "disk I/O error",
];

/// Whether what cannot be opened may be opened a moment later: the disk is full, too many files are open, or another process
/// holds it. Not where it is missing, no folder, or another user's.
#[must_use]
pub fn is_transient(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let is_over_soon = match error.downcast_ref::<io::Error>() {
            Some(error) => is_transient_io(error),
            None => {
                let text = error.to_string();
                OF_SQLITE.iter().any(|known| text.contains(known))
            }
        };
        if is_over_soon {
            return true;
        }
        cause = error.source();
    }
    false
}

fn is_transient_io(error: &io::Error) -> bool {
    // Too many open files, of this process or of all; an error of the device.
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const EIO: i32 = 5;
    matches!(
        error.kind(),
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::ResourceBusy
            | ErrorKind::StaleNetworkFileHandle
            | ErrorKind::TimedOut
            | ErrorKind::Interrupted
            | ErrorKind::OutOfMemory
            | ErrorKind::WouldBlock
    ) || matches!(error.raw_os_error(), Some(ENFILE | EMFILE | EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_transient_and_a_path_that_is_no_folder_is_not() {
        let of = |errno| is_transient(&io::Error::from_raw_os_error(errno));
        // EIO, EMFILE, ENOSPC, EDQUOT; ENOENT, EACCES, ENOTDIR, EROFS.
        assert_eq!([5, 24, 28, 122].map(of), [true; 4]);
        assert_eq!([2, 13, 20, 30].map(of), [false; 4]);
    }
}
