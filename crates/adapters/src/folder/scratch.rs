//! Scratch as files: `root/{task}/{step}/{sha256}` once sealed, `….draft` beside it before. Must
//! not outlive trust: nothing here is durable, and a caller that looks a file up must be ready not
//! to find it.

use super::walk::is_gone;
use crate::blocking_calls::BlockingCalls;
use crate::key_checks::is_segment;
use async_trait::async_trait;
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{ByteStream, Scratch, Sealed};
use counterstep_steps::digest::hex;
use counterstep_steps::scratch::{ScratchFile, ScratchPlace};
use futures::StreamExt;
use futures::stream;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How much of a file is held at a time.
const CHUNK: usize = 256 << 10;

/// How the name of a file ends that is not finished.
const DRAFT: &str = ".draft";

/// How long a measured size of all files is used before it is measured again.
const MEASURED_FOR: Duration = Duration::from_secs(1);

/// Scratch files in a folder of this host. Nothing is flushed to disk: after a power cut a file may have its length and other
/// bytes. One that neither this process nor one that it has started for a step has sealed is read once against its SHA-256, and
/// counts as gone where it differs; the engine makes it again.
#[derive(Debug, Clone)]
pub struct FolderScratch {
    root: PathBuf,
    /// Files whose content is known, by task.
    known: Arc<Mutex<HashMap<TaskId, HashSet<PathBuf>>>>,
    present: Arc<Mutex<Present>>,
    /// What all files took, and when that was measured.
    measured: Arc<Mutex<Option<(Instant, u64)>>>,
    blocking: BlockingCalls,
}

/// The tasks that may have a folder: nearly all have none, and to find that out at the end of each would take a thread of its own.
#[derive(Debug, Default)]
struct Present {
    /// Since the first listing, which shows what earlier processes have left.
    is_listed: bool,
    tasks: HashSet<TaskId>,
}

impl FolderScratch {
    /// Makes the folder where there is none.
    ///
    /// # Errors
    /// When the folder cannot be made or is none.
    pub fn open(root: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(root)?;
        Ok(Self {
            root: root.canonicalize()?,
            known: Arc::default(),
            present: Arc::default(),
            measured: Arc::default(),
            blocking: BlockingCalls::default(),
        })
    }

    /// Reads and writes where this says.
    #[must_use]
    pub fn blocking(self, blocking: BlockingCalls) -> Self {
        Self { blocking, ..self }
    }

    /// Where all files lie.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A task is about to have a folder here.
    pub(crate) fn will_hold(&self, task: TaskId) {
        self.present.lock().tasks.insert(task);
    }

    /// The files of a task whose content is known.
    pub(crate) fn known_of(&self, task: TaskId) -> Vec<PathBuf> {
        let known = self.known.lock();
        known.get(&task).into_iter().flatten().cloned().collect()
    }

    /// Takes over from another process which files of a task are what their names say: this one need not read them again.
    pub(crate) fn know(&self, task: TaskId, files: impl IntoIterator<Item = PathBuf>) {
        let mut files = files.into_iter().peekable();
        if files.peek().is_some() {
            self.known.lock().entry(task).or_default().extend(files);
        }
    }

    /// Takes over what a process has sealed that was started for this step, by its SHA-256: no file of another step.
    pub(crate) fn know_sealed(&self, task: TaskId, step: &str, sealed: &[String]) {
        if let Ok(folder) = self.folder(task, step) {
            let named = sealed.iter().filter(|name| is_segment(name));
            self.know(task, named.map(|name| folder.join(name)));
        }
    }

    /// What [`know_sealed`](Self::know_sealed) takes over.
    pub(crate) fn sealed_by(&self, task: TaskId, step: &str) -> Vec<String> {
        let Ok(folder) = self.folder(task, step) else {
            return Vec::new();
        };
        let known = self.known_of(task).into_iter();
        let of_step = known.filter(|path| path.parent() == Some(&folder));
        let name = |path: PathBuf| Some(path.file_name()?.to_str()?.to_owned());
        of_step.filter_map(name).collect()
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.blocking.run(work).await.map_err(io::Error::other)?
    }

    fn folder(&self, task: TaskId, step: &str) -> io::Result<PathBuf> {
        Ok(folder_of_task(&self.root, task).join(segment(step)?))
    }
}

/// Where all scratch files of a task lie: in a folder for each step.
pub(crate) fn folder_of_task(root: &Path, task: TaskId) -> PathBuf {
    root.join(task.to_string())
}

fn segment(name: &str) -> io::Result<&str> {
    if is_segment(name) {
        return Ok(name);
    }
    let text = format!("`{}` is no acceptable scratch name", name.escape_debug());
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

#[async_trait]
impl Scratch for FolderScratch {
    async fn create(&self, place: &ScratchPlace, name: &str) -> io::Result<PathBuf> {
        let folder = self.folder(place.task, &place.step)?;
        let name = segment(name)?.to_owned();
        let path = folder.join(format!("{name}{DRAFT}"));
        self.will_hold(place.task);
        self.run(move || {
            std::fs::create_dir_all(&folder)?;
            remove_older(&folder, &name);
            std::fs::File::create(&path)?;
            Ok(path)
        })
        .await
    }

    async fn seal(&self, place: &ScratchPlace, path: &Path) -> io::Result<Sealed> {
        let (folder, draft) = (self.folder(place.task, &place.step)?, path.to_owned());
        if draft.parent() != Some(&folder) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a draft of another step cannot be sealed here",
            ));
        }
        let (known, task) = (self.known.clone(), place.task);
        self.run(move || {
            let sealed = measure(&draft)?;
            let path = folder.join(&sealed.sha256);
            // Two drafts of one content end as one file: a rename replaces, and who reads the old
            // one reads on.
            std::fs::rename(&draft, &path)?;
            known.lock().entry(task).or_default().insert(path);
            Ok(sealed)
        })
        .await
    }

    async fn locate(&self, task: TaskId, file: &ScratchFile) -> io::Result<Option<PathBuf>> {
        let path = self.folder(task, &file.step)?.join(segment(&file.sha256)?);
        let (size_bytes, sha256, known) =
            (file.size_bytes, file.sha256.clone(), self.known.clone());
        self.run(move || match std::fs::metadata(&path) {
            Ok(found) if found.is_file() && found.len() == size_bytes => {
                let is_known = known.lock().get(&task).is_some_and(|it| it.contains(&path));
                if !is_known {
                    if measure(&path)?.sha256 != sha256 {
                        tracing::warn!(%task, "a scratch file has other bytes than were written, as after a power cut: it is made again");
                        return Ok(None);
                    }
                    known.lock().entry(task).or_default().insert(path.clone());
                }
                Ok(Some(path))
            }
            Ok(_) => Ok(None),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        })
        .await
    }

    async fn read(&self, path: &Path) -> io::Result<ByteStream> {
        let path = path.to_owned();
        let file = self.run(move || std::fs::File::open(path)).await?;
        let of = self.clone();
        Ok(stream::try_unfold((file, of), |(mut file, of)| async {
            let read = move || {
                let mut chunk = vec![0; CHUNK];
                let read = file.read(&mut chunk)?;
                chunk.truncate(read);
                Ok((chunk, file))
            };
            let (chunk, file) = of.run(read).await?;
            Ok((!chunk.is_empty()).then(|| (chunk.into(), (file, of))))
        })
        .boxed())
    }

    async fn used(&self, task: TaskId, step: &str) -> io::Result<u64> {
        let folder = self.folder(task, step)?;
        self.run(move || Ok(size_of(&folder))).await
    }

    async fn used_by_all(&self) -> io::Result<u64> {
        let (root, measured) = (self.root.clone(), self.measured.clone());
        self.run(move || {
            let mut measured = measured.lock();
            match *measured {
                Some((at, bytes)) if at.elapsed() < MEASURED_FOR => Ok(bytes),
                _ => {
                    let bytes = size_of(&root);
                    *measured = Some((Instant::now(), bytes));
                    Ok(bytes)
                }
            }
        })
        .await
    }

    async fn remove(&self, task: TaskId) -> io::Result<()> {
        let folder = folder_of_task(&self.root, task);
        self.known.lock().remove(&task);
        {
            // What another process makes there in the meantime is found by the next listing.
            let mut present = self.present.lock();
            if !present.tasks.remove(&task) && present.is_listed {
                return Ok(());
            }
        }
        self.run(move || match std::fs::remove_dir_all(folder) {
            Err(error) if !is_gone(&error) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        })
        .await
    }

    async fn tasks(&self) -> io::Result<Vec<TaskId>> {
        let (root, present) = (self.root.clone(), self.present.clone());
        self.run(move || {
            let mut tasks = Vec::new();
            for entry in std::fs::read_dir(root)? {
                // What is not named like a task was not put there by us, and is left alone.
                tasks.extend(
                    entry?
                        .file_name()
                        .to_str()
                        .and_then(|name| name.parse::<TaskId>().ok()),
                );
            }
            let mut present = present.lock();
            present.is_listed = true;
            present.tasks.extend(&tasks);
            Ok(tasks)
        })
        .await
    }
}

/// Removes drafts of earlier attempts of a step: a host that was lost has left them. `name` is that of a
/// new one, `e{epoch}.{attempt}-{number}`.
fn remove_older(folder: &Path, name: &str) {
    let Some((attempt, _)) = name.rsplit_once('-') else {
        return;
    };
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let file = entry.file_name();
        let draft = file.to_str().and_then(|file| file.strip_suffix(DRAFT));
        let of = draft.and_then(|draft| draft.rsplit_once('-'));
        if of.is_some_and(|(of, _)| numbers(of) < numbers(attempt)) {
            // What stays is removed with the folder of the task.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The numbers of `e{epoch}.{attempt}`; an attempt of a later host has the higher ones.
fn numbers(attempt: &str) -> Option<(u64, u64)> {
    let (epoch, attempt) = attempt.strip_prefix('e')?.split_once('.')?;
    Some((epoch.parse().ok()?, attempt.parse().ok()?))
}

/// What files below a folder take on the disk. Files come and go meanwhile.
fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_of(&entry.path()),
        Ok(found) => found.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}

/// Reads a file once.
fn measure(path: &Path) -> io::Result<Sealed> {
    let mut file = std::fs::File::open(path)?;
    let (mut digest, mut size_bytes) = (Sha256::new(), 0);
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok(Sealed {
                size_bytes,
                sha256: hex(&digest.finalize()),
            });
        }
        digest.update(&chunk[..read]);
        size_bytes += read as u64;
    }
}
