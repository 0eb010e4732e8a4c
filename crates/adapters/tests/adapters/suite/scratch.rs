//! Local files: named by their content, and allowed to be gone.

use super::changes::new_task;
use bytes::Bytes;
use counterstep_adapters::folder::FolderScratch;
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{Ports, Scratch, Sealed};
use counterstep_steps::scratch::{ScratchFile, ScratchPlace};
use futures::TryStreamExt;
use serde_json::json;
use std::io::ErrorKind;

fn place(task: TaskId) -> ScratchPlace {
    ScratchPlace {
        task,
        step: "zip".to_owned(),
    }
}

fn file(task: TaskId, step: &str, sealed: &Sealed) -> ScratchFile {
    let fields = json!({"name": "a.zip", "size_bytes": sealed.size_bytes, "sha256": sealed.sha256, "task": task, "step": step});
    serde_json::from_value(json!({ "$scratch": fields })).unwrap()
}

async fn sealed(scratch: &dyn Scratch, task: TaskId, name: &str, content: &[u8]) -> Sealed {
    let path = scratch.create(&place(task), name).await.unwrap();
    assert_eq!(tokio::fs::metadata(&path).await.unwrap().len(), 0);
    tokio::fs::write(&path, content).await.unwrap();
    let sealed = scratch.seal(&place(task), &path).await.unwrap();
    assert!(!path.exists());
    sealed
}

/// Whole blocks of the disk: no more than this for each file.
const BLOCKS: u64 = 64 << 10;

pub(crate) async fn what_files_take_is_measured_by_step_and_for_all(ports: &Ports) {
    let (scratch, task) = (&*ports.scratch, new_task());
    assert_eq!(scratch.used(task, "zip").await.unwrap(), 0);
    let content = vec![7; 3 << 20];
    sealed(scratch, task, "e1.1-0", &content).await;
    let draft = scratch.create(&place(task), "e1.1-1").await.unwrap();
    tokio::fs::write(&draft, &content).await.unwrap();
    let both = 2 * content.len() as u64;
    let used = scratch.used(task, "zip").await.unwrap();
    assert!((both..both + 2 * BLOCKS).contains(&used), "{used}");
    assert_eq!(scratch.used(task, "other").await.unwrap(), 0);
    assert_eq!(scratch.used(new_task(), "zip").await.unwrap(), 0);
    let all = scratch.used_by_all().await.unwrap();
    assert!(all >= used, "{all}");
}

pub(crate) async fn a_new_attempt_removes_what_an_earlier_one_had_not_finished(ports: &Ports) {
    let (scratch, task) = (&*ports.scratch, new_task());
    let finished = sealed(scratch, task, "e1.1-0", b"kept").await;
    let older = scratch.create(&place(task), "e1.1-1").await.unwrap();
    let first = scratch.create(&place(task), "e2.2-0").await.unwrap();
    let second = scratch.create(&place(task), "e2.2-1").await.unwrap();
    assert!(!older.exists() && first.exists() && second.exists());
    let found = scratch
        .locate(task, &file(task, "zip", &finished))
        .await
        .unwrap();
    assert!(found.is_some());
}

pub(crate) async fn a_sealed_file_is_located_and_read(ports: &Ports) {
    let (scratch, task) = (&*ports.scratch, new_task());
    let content: Vec<u8> = (0..1_000_003_u32).map(|n| n as u8).collect();
    let large = sealed(scratch, task, "e1.1-0", &content).await;
    let empty = sealed(scratch, task, "e1.1-1", b"").await;
    assert_eq!(
        empty.sha256,
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
    assert_eq!((large.size_bytes, empty.size_bytes), (1_000_003, 0));
    // The same content again is the same file.
    assert_eq!(sealed(scratch, task, "e1.2-0", &content).await, large);

    let path = scratch
        .locate(task, &file(task, "zip", &large))
        .await
        .unwrap()
        .expect("the file");
    let chunks: Vec<Bytes> = scratch
        .read(&path)
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert!(chunks.concat() == content && chunks.iter().all(|chunk| chunk.len() <= 1 << 20));
    let path = scratch
        .locate(task, &file(task, "zip", &empty))
        .await
        .unwrap()
        .expect("the empty file");
    assert_eq!(
        scratch
            .read(&path)
            .await
            .unwrap()
            .try_collect::<Vec<Bytes>>()
            .await
            .unwrap(),
        Vec::<Bytes>::new()
    );
    assert_eq!(
        scratch
            .locate(new_task(), &file(task, "zip", &large))
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        scratch
            .locate(task, &file(task, "other", &large))
            .await
            .unwrap(),
        None
    );
}

pub(crate) async fn a_file_of_another_size_counts_as_gone(ports: &Ports) {
    let (scratch, task) = (&*ports.scratch, new_task());
    let sealed = sealed(scratch, task, "e1.1-0", b"whole").await;
    let path = scratch
        .locate(task, &file(task, "zip", &sealed))
        .await
        .unwrap()
        .unwrap();
    tokio::fs::write(&path, b"cut").await.unwrap();
    assert_eq!(
        scratch
            .locate(task, &file(task, "zip", &sealed))
            .await
            .unwrap(),
        None
    );
}

pub(crate) async fn removed_scratch_is_gone_and_removing_nothing_is_success(ports: &Ports) {
    let (scratch, task, other) = (&*ports.scratch, new_task(), new_task());
    let one = sealed(scratch, task, "e1.1-0", b"one").await;
    let two = sealed(scratch, other, "e1.1-0", b"two").await;
    scratch.remove(task).await.unwrap();
    scratch.remove(task).await.unwrap();
    assert_eq!(
        scratch
            .locate(task, &file(task, "zip", &one))
            .await
            .unwrap(),
        None
    );
    assert!(
        scratch
            .locate(other, &file(other, "zip", &two))
            .await
            .unwrap()
            .is_some()
    );
}

pub(crate) async fn tasks_with_scratch_are_known(ports: &Ports) {
    let (scratch, task, other) = (&*ports.scratch, new_task(), new_task());
    assert_eq!(scratch.tasks().await.unwrap(), []);
    // A draft is scratch too.
    scratch.create(&place(task), "e1.1-0").await.unwrap();
    sealed(scratch, other, "e1.1-0", b"two").await;
    let mut tasks = scratch.tasks().await.unwrap();
    tasks.sort_unstable();
    assert_eq!(tasks, [task, other]);
    scratch.remove(task).await.unwrap();
    assert_eq!(scratch.tasks().await.unwrap(), [other]);
}

pub(crate) async fn names_that_could_lead_elsewhere_are_refused(ports: &Ports) {
    let (scratch, task) = (&*ports.scratch, new_task());
    for bad in ["..", ".", "", "a/b", "a b", "a\\b", "ä"] {
        let step = ScratchPlace {
            task,
            step: bad.to_owned(),
        };
        assert_eq!(
            scratch.create(&step, "x").await.unwrap_err().kind(),
            ErrorKind::InvalidInput,
            "{bad:?}"
        );
        assert_eq!(
            scratch.create(&place(task), bad).await.unwrap_err().kind(),
            ErrorKind::InvalidInput,
            "{bad:?}"
        );
    }
    // A draft is sealed where it was made.
    let path = scratch.create(&place(task), "e1.1-0").await.unwrap();
    assert!(scratch.seal(&place(new_task()), &path).await.is_err());
    assert!(path.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_other_bytes_counts_as_gone_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (before, task) = (FolderScratch::open(folder.path()).unwrap(), new_task());
    let (kept, lost) = (
        sealed(&before, task, "e1.1-0", b"what was written").await,
        sealed(&before, task, "e1.1-1", b"what was not synced").await,
    );
    let found = before.locate(task, &file(task, "zip", &lost)).await;
    let path = found.unwrap().expect("it is there");
    // As after a power cut: the length is there, the bytes are not.
    tokio::fs::write(&path, [0; 19]).await.unwrap();
    let after = FolderScratch::open(folder.path()).unwrap();
    let found = async |sealed| {
        after
            .locate(task, &file(task, "zip", sealed))
            .await
            .unwrap()
    };
    assert!(found(&kept).await.is_some());
    assert_eq!(found(&lost).await, None);
    // It is made again.
    let again = sealed(&after, task, "e1.2-0", b"what was not synced").await;
    assert_eq!(again.sha256, lost.sha256);
    assert_eq!(found(&lost).await, Some(path));
}

#[tokio::test]
async fn the_folder_of_a_task_that_has_none_is_looked_for_only_before_the_first_listing() {
    let folder = tempfile::tempdir().unwrap();
    let open = || FolderScratch::open(folder.path()).unwrap();
    let (ours, other, task) = (open(), open(), new_task());
    let left_over = async |by: &FolderScratch| sealed(by, task, "e1.1-0", b"one").await;
    // Nothing is known of what earlier processes have left.
    left_over(&other).await;
    ours.remove(task).await.unwrap();
    assert_eq!(ours.tasks().await.unwrap(), []);
    // What another process makes from then on is found by the next listing, as a sweep does it.
    left_over(&other).await;
    ours.remove(task).await.unwrap();
    assert_eq!(ours.tasks().await.unwrap(), [task]);
    ours.remove(task).await.unwrap();
    assert_eq!(ours.tasks().await.unwrap(), []);
    // Its own is removed at once.
    left_over(&ours).await;
    ours.remove(task).await.unwrap();
    assert_eq!(other.tasks().await.unwrap(), []);
}
