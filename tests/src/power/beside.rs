//! What runs beside the tasks for as long as the process lives: a spool that takes results and gives them back, and pairs of
//! objects that are stored at the same time in a folder that is new for both. What is kept is said on standard output once it
//! is, and before it is removed.

use counterstep_adapters::folder::FolderObjects;
use counterstep_adapters::spool::{FileSpool, Sealing};
use counterstep_contracts::{Attempt, Direction, Epoch, StepNo, TaskId};
use counterstep_kernel::SealSecrets;
use counterstep_kernel::ports::{Objects, Spool, SpoolEntry, SpoolKey};
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

pub(super) const KEPT: &str = "spool keeps ";
pub(super) const REMOVED: &str = "spool removes ";
pub(super) const STORED: &str = "objects keep ";

const BUCKET: &str = "beside";
/// Of the objects, below the data directory: no sweep looks there.
const OBJECTS: &str = "beside-objects";
/// Of the spool.
const SPOOL: &str = "spool";

/// Results that are there at a time.
const HELD: u64 = 3;
const PAUSE: Duration = Duration::from_millis(50);
const MOST_BYTES: u64 = 1 << 20;

fn open(folder: &Path) -> FileSpool {
    let secrets = SealSecrets::parse(&SealSecrets::line([1, 2])).expect("a secret");
    let sealing = Sealing {
        secrets,
        accepts_unsealed: false,
    };
    FileSpool::open(folder, MOST_BYTES, sealing, &|_| true).expect("the spool opens")
}

fn entry(number: u64) -> SpoolEntry {
    SpoolEntry {
        key: SpoolKey {
            task: format!("00000000-0000-7000-8000-{number:012x}")
                .parse::<TaskId>()
                .expect("an id"),
            step: StepNo(2),
            direction: Direction::Forward,
            attempt: Attempt(1),
        },
        epoch: Epoch(1),
        worker: "worker:0a".to_owned(),
        task_type: "Drive/1/9b".to_owned(),
        kept_at: number,
        body: format!(
            "{{\"of\":{:?}}}",
            "x".repeat(100 + 300 * (number % 5) as usize)
        ),
    }
}

/// Keeps and removes until the process ends, in a data directory.
///
/// # Panics
/// When the spool or the objects refuse.
pub async fn keep_and_remove(data: &Path) {
    let spool = open(&data.join(SPOOL));
    let objects = FolderObjects::open(&data.join(OBJECTS)).expect("the folder opens");
    for number in 0.. {
        spool.put(&entry(number)).await.expect("it is kept");
        println!("{KEPT}{number}");
        if let Some(old) = number.checked_sub(HELD) {
            println!("{REMOVED}{old}");
            spool.remove(&entry(old).key).await.expect("it is removed");
        }
        let pair = [2 * number, 2 * number + 1].map(|object| store(&objects, object));
        futures::future::join_all(pair).await;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn store(objects: &FolderObjects, number: u64) {
    let text = stream::iter([Ok(text(number).into())]).boxed();
    let stored = objects.put(BUCKET, &key(number), text).await;
    stored.expect("it is stored");
    println!("{STORED}{number}");
}

/// Two each have their folders in common.
fn key(number: u64) -> String {
    let pair = number / 2;
    format!("t/tenant-{}/task-{pair}/step/e1.1/{}", pair % 7, number % 2)
}

fn text(number: u64) -> String {
    format!("object {number}")
}

/// Whether these objects are there.
///
/// # Errors
/// One that is not, or is another.
pub(super) async fn stores(data: &Path, numbers: &BTreeSet<u64>) -> Result<(), String> {
    let objects = FolderObjects::open(&data.join(OBJECTS)).map_err(|it| it.to_string())?;
    for number in numbers {
        let found = match objects.get(BUCKET, &key(*number)).await {
            Ok(found) => found.try_collect::<Vec<_>>().await,
            Err(error) => return Err(format!("object {number} beside the tasks: {error}")),
        };
        let found = found.map_err(|error| error.to_string())?.concat();
        if found != text(*number).into_bytes() {
            return Err(format!("object {number} beside the tasks is {found:?}"));
        }
    }
    Ok(())
}

/// Whether a spool has these results; of others it may have some.
///
/// # Errors
/// What is not there, or not as it was put.
pub(super) async fn holds(data: &Path, numbers: &BTreeSet<u64>) -> Result<(), String> {
    let spool = open(&data.join(SPOOL));
    let keys = spool.keys().await.map_err(|error| error.to_string())?;
    for number in numbers {
        let wanted = entry(*number);
        let found = spool.get(&wanted.key).await.map_err(|it| it.to_string())?;
        if found.as_ref() != Some(&wanted) || !keys.contains(&wanted.key) {
            return Err(format!("result {number} of the spool: {found:?}"));
        }
    }
    Ok(())
}
