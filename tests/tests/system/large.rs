//! Files larger than anybody would hold in memory: streamed in, zipped, and streamed out, by a
//! process whose memory does not grow with them. The test streams too.

use bytes::Bytes;
use counterstep_contracts::TaskStatus;
use counterstep_tests::api::{Api, ROUTE};
use counterstep_tests::place::Place;
use counterstep_tests::sample::Chance;
use counterstep_tests::services;
use futures::{StreamExt, stream};
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Method};
use sha2::{Digest, Sha256};
use std::io::{self, Read};
use std::time::Duration;
use tokio::sync::mpsc;

const MIB: u64 = 1 << 20;

/// The most that a process may have at a time, whatever the size of the files.
const MEMORY: u64 = 150 * MIB;

/// For each of: in, zipped, out.
const LIMIT: Duration = Duration::from_secs(900);

/// `count` pseudo-random mebibytes, made while they are read.
fn mebibytes(seed: u64, count: u64) -> impl Iterator<Item = Bytes> {
    let mut chance = Chance::new(seed);
    (0..count).map(move |_| chance.bytes(1 << 20))
}

fn digest(chunks: impl Iterator<Item = Bytes>) -> Vec<u8> {
    chunks
        .fold(Sha256::new(), |digest, chunk| digest.chain_update(chunk))
        .finalize()
        .to_vec()
}

/// What arrives, for a reader on a thread of its own.
struct Arriving {
    chunks: mpsc::Receiver<Bytes>,
    chunk: Bytes,
}

impl Read for Arriving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.chunks.blocking_recv() {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.chunk.len());
        buffer[..count].copy_from_slice(&self.chunk.split_to(count));
        Ok(count)
    }
}

/// Size and digest of the one file of an archive, read from its beginning to its end.
fn measure(archive: Arriving) -> (u64, Vec<u8>) {
    let mut archive = archive;
    let mut digest = Sha256::new();
    let mut size = 0;
    {
        let mut entry = zip::read::read_zipfile_from_stream(&mut archive)
            .expect("an archive")
            .expect("an entry");
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = entry.read(&mut buffer).expect("the entry arrives whole");
            if count == 0 {
                break;
            }
            digest.update(&buffer[..count]);
            size += count as u64;
        }
    }
    // The directory at the end: left unread, the download would be cut off.
    io::copy(&mut archive, &mut io::sink()).expect("the rest arrives");
    (size, digest.finalize().to_vec())
}

async fn upload(api: &Api, seed: u64, count: u64) -> counterstep_contracts::TaskId {
    let body = stream::iter(mebibytes(seed, count)).map(Ok::<_, io::Error>);
    let part =
        Part::stream_with_length(Body::wrap_stream(body), count * MIB).file_name("large.bin");
    let request = api
        .request(Method::POST, ROUTE)
        .multipart(Form::new().part("files", part));
    let answer = request.timeout(LIMIT).send().await.expect("an answer");
    let answer = answer.error_for_status().expect("it is accepted");
    answer
        .json::<counterstep_contracts::http::Accepted>()
        .await
        .expect("the answer")
        .task_id
}

async fn download(api: &Api, task: counterstep_contracts::TaskId) -> (u64, Vec<u8>) {
    let request = api.request(Method::GET, &format!("/api/tasks/{task}/result/zip"));
    let answer = request.timeout(LIMIT).send().await.expect("an answer");
    let mut body = answer
        .error_for_status()
        .expect("there is an archive")
        .bytes_stream();
    let (to, chunks) = mpsc::channel(16);
    let measured = tokio::task::spawn_blocking(|| {
        measure(Arriving {
            chunks,
            chunk: Bytes::new(),
        })
    });
    while let Some(chunk) = body.next().await {
        to.send(chunk.expect("the archive arrives whole"))
            .await
            .expect("the reader takes it");
    }
    drop(to);
    measured.await.expect("the archive can be read")
}

async fn through_dev(seed: u64, count: u64) {
    let place = Place::new();
    let dev = services::dev(&place, &["--log", "warn"]);
    let task = upload(&dev.api, seed, count).await;
    let view = dev.api.at_rest_within(task, LIMIT).await;
    assert_eq!(view.status, TaskStatus::Completed, "{view:#?}");
    let expected = tokio::task::spawn_blocking(move || digest(mebibytes(seed, count)));
    let (size, found) = download(&dev.api, task).await;
    assert_eq!(size, count * MIB);
    assert!(
        found == expected.await.expect("the digest"),
        "what came back is not what was sent"
    );
    let peak = dev.process.peak_memory();
    println!(
        "{count} MiB went through a process whose memory peaked at {:.1} MiB",
        peak as f64 / MIB as f64
    );
    assert!(peak < MEMORY, "its memory peaked at {peak} bytes");
    assert!(dev.process.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_64_mib_goes_through_a_process_that_never_holds_it() {
    through_dev(64, 64).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes 2 GiB; run by hand: cargo test -p counterstep-tests -- --ignored"]
async fn a_file_of_2_gib_goes_through_a_process_that_never_holds_it() {
    through_dev(2, 2048).await;
}
