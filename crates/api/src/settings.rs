//! Settings of the API. Owns the limits and their defaults; enforces none of them.

use crate::auth::AuthSettings;
use crate::extra_routes::Beside;
use crate::origins::AllowedHosts;
use counterstep_contracts::installation::Installation;
use counterstep_kernel::EngineSettings;
use counterstep_kernel::access::result_links::LinkSecrets;
use counterstep_kernel::webhooks::Webhooks;
use std::net::TcpListener;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// Limits and waits of the HTTP interface. The defaults are meant for use; tests shorten the waits.
///
/// How long a request may take to arrive, uploads included, is `EngineSettings::upload_timeout`:
/// the files of a request are kept for no longer.
#[derive(Debug, Clone)]
pub struct ApiSettings {
    /// How callers are authenticated.
    pub auth: AuthSettings,
    /// By which names it may be addressed, besides localhost and IP addresses.
    pub allowed_hosts: AllowedHosts,
    /// The path below which a server of its own answers, as `/work`; empty: at the root. For a proxy
    /// that passes paths on as they are.
    pub path: String,
    /// The name and the colour by which the operator's page tells this installation from others.
    pub installation: Installation,
    /// What links to results are signed with; `None`: it makes and takes none.
    pub links: Option<LinkSecrets>,
    /// How webhooks are signed and sent; `None`: a submission that asks for one is refused.
    pub webhooks: Option<Webhooks>,
    /// What the program serves beside it.
    pub beside: Beside,
    /// Where a server of its own serves `/metrics` instead of here.
    pub metrics_listener: Option<Arc<TcpListener>>,
    /// Bytes of a JSON body, and of all the text fields of a form together. They are held in
    /// memory.
    pub max_json_bytes: usize,
    /// Bytes of one file of a form. Files are streamed.
    pub max_file_bytes: u64,
    /// Files of one form. No setting: `max_form_bytes` and `max_file_bytes` bound what is stored, and this the rows; who has more
    /// sends several requests.
    pub max_files: u32,
    /// Text fields of one form.
    pub max_fields: u32,
    /// Bytes of one text field.
    pub max_field_bytes: usize,
    /// Bytes of a whole form, its framing included.
    pub max_form_bytes: u64,
    /// Timeout for a request's headers.
    pub head_timeout: Duration,
    /// How long a connection without a request is kept open. Longer than proxies and clients keep an idle
    /// one: the side that closes first should be the one that sends, or a request could meet a connection
    /// that is just being closed, and get no answer.
    pub keep_alive: Duration,
    /// How long a client may send nothing while its body is awaited. No setting: who is silent in the middle of a body for as long
    /// is gone, proxies in front have a limit of their own, and `EngineSettings::upload_timeout` bounds the whole arrival.
    pub body_silence: Duration,
    /// After this `?wait` looks again at a task whose rest no process has announced, and then less
    /// and less often: another process may run it.
    pub wait_poll: Duration,
    /// Streams of events that may be open at a time; one more is refused. No setting: one takes 32 KiB at most, and an operator
    /// bounds a client by `streams_per_caller`.
    pub event_streams: usize,
    /// Of these, streams that one caller may have open: where callers are not authenticated, an address.
    pub streams_per_caller: usize,
    /// Forms of one caller that may arrive at a time.
    pub uploads_per_caller: usize,
    /// Requests that a caller may send in a second, where callers are authenticated; each process counts
    /// for itself.
    pub requests_per_second: Option<NonZeroU32>,
    /// A stream that has nothing to say sends a comment after this, so that proxies keep it open and a
    /// client that is gone is noticed.
    pub event_heartbeat: Duration,
    /// After this the revisions of all tasks that are followed are read again, in one query for a
    /// thousand: other processes may change them, and signals may be lost.
    pub event_poll: Duration,
    /// Maximum age of what `/metrics` shows: scrapes in between ask the database nothing.
    pub gauges_for: Duration,
    /// How often the process looks at the installation, so that it knows what the last hour was like.
    pub history_every: Duration,
    /// How long requests under way may continue on shutdown.
    pub drain: Duration,
    /// Threads that serve requests; at least 1.
    pub workers: usize,
}

impl ApiSettings {
    /// With the path as the routes take it: `work/` is `/work`.
    ///
    /// # Errors
    /// For a path that is none.
    pub(crate) fn normal(mut self) -> std::io::Result<Self> {
        let segments: Vec<_> = self.path.split('/').filter(|it| !it.is_empty()).collect();
        let fits = |sign: char| sign.is_ascii_alphanumeric() || "-._~/".contains(sign);
        if !self.path.chars().all(fits) {
            let why = format!(
                "invalid path `{}` of the API; expected letters, digits, `-`, `.`, `_`, `~` and `/`, as /work",
                self.path.escape_debug()
            );
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
        }
        self.path = segments.iter().map(|it| format!("/{it}")).collect();
        Ok(self)
    }
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            auth: AuthSettings::default(),
            allowed_hosts: AllowedHosts::default(),
            path: String::new(),
            installation: Installation::default(),
            links: None,
            webhooks: None,
            beside: Beside::default(),
            metrics_listener: None,
            max_json_bytes: 1 << 20,
            max_file_bytes: 8 << 30,
            max_files: 1000,
            max_fields: 256,
            max_field_bytes: 64 << 10,
            max_form_bytes: 64 << 30,
            head_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(75),
            body_silence: Duration::from_secs(30),
            wait_poll: Duration::from_millis(250),
            event_streams: 10_000,
            streams_per_caller: 100,
            uploads_per_caller: 100,
            requests_per_second: None,
            // Below the minute after which proxies close a connection that is silent.
            event_heartbeat: Duration::from_secs(15),
            event_poll: Duration::from_millis(500),
            gauges_for: Duration::from_secs(5),
            history_every: Duration::from_secs(10),
            drain: EngineSettings::default().drain,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}
