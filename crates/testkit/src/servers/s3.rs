//! An S3 server in this process, over real HTTP and with checked signatures. Buckets are folders.

use super::bucket_files::{BucketFiles, upload_file};
use super::place::Folder;
use super::process::lock;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use parking_lot::Mutex;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3Result, s3_error};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

const ACCESS_KEY: &str = "counterstep-tests";
const SECRET_KEY: &str = "not-a-secret";

/// A private S3 server, loopback only.
#[derive(Debug)]
pub struct S3 {
    port: u16,
    outage: Arc<Outage>,
    begun: AtomicU64,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    folder: Folder,
}

impl S3 {
    /// Starts one with these buckets.
    ///
    /// # Panics
    /// When a bucket cannot be made.
    #[must_use]
    pub fn start(buckets: &[&str]) -> Self {
        let folder = Folder::make("s3");
        let outage = Arc::new(Outage::default());
        let files = BucketFiles::new(folder.path()).expect("a folder of our own can be served");
        let mut builder = S3ServiceBuilder::new(files);
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        builder.set_access(Gate(outage.clone()));
        let service = builder.build();

        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        listener
            .set_nonblocking(true)
            .expect("a listener that does not block");
        let port = listener.local_addr().expect("a bound address").port();
        let (stop, stopped) = oneshot::channel();
        // A runtime of its own, so that it outlives that of the test which starts it.
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build();
            let runtime = runtime.expect("a runtime");
            runtime.block_on(async move {
                tokio::select! {
                    () = serve(listener, service) => {}
                    _ = stopped => {}
                }
            });
            runtime.shutdown_timeout(Duration::from_secs(5));
        };
        let thread = std::thread::Builder::new()
            .name("s3 server".to_owned())
            .spawn(serve)
            .expect("a thread");
        let server = Self {
            port,
            outage,
            begun: AtomicU64::new(0),
            running: Some((stop, thread)),
            folder,
        };
        buckets.iter().for_each(|bucket| server.make_bucket(bucket));
        server
    }

    /// Makes a bucket; one that is there stays as it is.
    ///
    /// # Panics
    /// When its folder cannot be made.
    pub fn make_bucket(&self, name: &str) {
        let made = std::fs::create_dir_all(self.folder().join(name));
        made.unwrap_or_else(|error| panic!("the bucket `{name}` cannot be made: {error}"));
    }

    /// `http://127.0.0.1:PORT`; buckets are the first segment of the path.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Name of the one account.
    #[must_use]
    pub fn access_key(&self) -> &str {
        ACCESS_KEY
    }

    /// Secret of the one account.
    #[must_use]
    pub fn secret_key(&self) -> &str {
        SECRET_KEY
    }

    /// From now on, and for `duration`, every request is answered with 503.
    pub fn answer_503_for(&self, duration: Duration) {
        *lock(&self.outage.until) = Some(Instant::now() + duration);
    }

    /// How many requests were answered with 503: the evidence that an outage was felt.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.outage.refused.load(Ordering::Relaxed)
    }

    /// Leaves a multipart upload open, as a client does that dies before its first part. Returns
    /// the server's file of it: its time is when the upload began.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn begin_upload(&self, bucket: &str, key: &str) -> std::path::PathBuf {
        let id = format!(
            "00000000-0000-4000-8000-{:012x}",
            self.begun.fetch_add(1, Ordering::Relaxed)
        );
        let info = self.folder().join(format!(".upload-{id}.json"));
        std::fs::write(info, format!("\"{ACCESS_KEY}\"")).expect("a file of the server's");
        let file = self.folder().join(upload_file(bucket, key, &id));
        std::fs::write(&file, "{}").expect("a file of the server's");
        file
    }

    /// Where the buckets lie: one folder each, its objects as files below. Files beside them are
    /// the server's own.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

async fn serve(listener: std::net::TcpListener, service: S3Service) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener of this runtime");
    loop {
        // Too many open files, say: it passes, and a loop without a wait would keep it from
        // passing.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Small answers must not wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        let service = service.clone();
        tokio::spawn(async move {
            // A connection that breaks off is the client's business.
            let _ = Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

#[derive(Debug, Default)]
struct Outage {
    until: Mutex<Option<Instant>>,
    refused: AtomicU64,
}

/// Asked about every request before its body is read.
struct Gate(Arc<Outage>);

#[async_trait::async_trait]
impl S3Access for Gate {
    async fn check(&self, request: &mut S3AccessContext<'_>) -> S3Result<()> {
        if lock(&self.0.until).is_some_and(|until| Instant::now() < until) {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            return Err(s3_error!(
                ServiceUnavailable,
                "an outage that a test has asked for"
            ));
        }
        match request.credentials() {
            Some(_) => Ok(()),
            None => Err(s3_error!(AccessDenied, "a signature is required")),
        }
    }
}
