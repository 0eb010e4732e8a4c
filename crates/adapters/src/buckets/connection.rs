//! How requests reach a server: where it is, how long they may take, whom to trust. Must not
//! connect.

use super::settings::{BucketSettings, refused};
use counterstep_kernel::ports::ObjectError;
use object_store::signer::Url;
use object_store::{BackoffConfig, Certificate, ClientOptions, RetryConfig};
use std::time::Duration;

/// Longest wait between two tries of a request.
const LONGEST_BACKOFF: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What the clients of all buckets have in common.
#[derive(Debug)]
pub(crate) struct Connection {
    /// `None`: the provider's own.
    pub(crate) endpoint: Option<Url>,
    pub(crate) client: ClientOptions,
    pub(crate) retry: RetryConfig,
}

impl Connection {
    /// Of the settings; `usual` is the endpoint that the environment names.
    pub(crate) fn of(
        settings: &BucketSettings,
        usual: Option<String>,
    ) -> Result<Self, ObjectError> {
        let endpoint = settings
            .endpoint
            .clone()
            .or(usual)
            .filter(|text| !text.is_empty());
        let endpoint = endpoint.as_deref().map(parse_endpoint).transpose()?;
        let plain = endpoint.as_ref().is_some_and(|url| url.scheme() == "http");
        if let (true, false, Some(url)) = (plain, settings.allow_http, &endpoint)
            && !is_loopback(url)
        {
            return Err(refused(format!(
                "the object store's endpoint {url} is not encrypted: use https, or say allow_http=true if the way there \
                 is safe"
            )));
        }
        let mut client = ClientOptions::new()
            .with_allow_http(plain)
            .with_connect_timeout(CONNECT_TIMEOUT)
            // Not a limit of the whole answer: a large download may take as long as it moves.
            .with_timeout_disabled()
            .with_read_timeout(settings.request_timeout);
        if let Some(file) = &settings.ca_file {
            let pem = std::fs::read(file);
            let pem = pem
                .map_err(|error| refused(format!("{} cannot be read: {error}", file.display())))?;
            let authorities = Certificate::from_pem_bundle(&pem)
                .ok()
                .filter(|all| !all.is_empty());
            let authorities = authorities.ok_or_else(|| {
                refused(format!("{} has no certificate in PEM form", file.display()))
            })?;
            client = authorities
                .into_iter()
                .fold(client, ClientOptions::with_root_certificate);
        }
        let retry = RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: LONGEST_BACKOFF,
                base: 2.0,
            },
            // The time is the limit that counts.
            max_retries: 50,
            retry_timeout: settings.retry_for,
        };
        Ok(Self {
            endpoint,
            client,
            retry,
        })
    }
}

fn parse_endpoint(text: &str) -> Result<Url, ObjectError> {
    let url = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    // The text may hold a signature, so it is not repeated.
    let url = url.ok_or_else(|| {
        refused("the object store's endpoint is no endpoint: write it as https://HOST".into())
    })?;
    if url.username().is_empty() && url.password().is_none() && url.query().is_none() {
        return Ok(url);
    }
    Err(refused(
        "the object store's endpoint has a scheme, a host and a port, and nothing secret"
            .to_owned(),
    ))
}

fn is_loopback(url: &Url) -> bool {
    crate::tls::is_this_machine(url.host_str().unwrap_or_default())
}

/// How long to wait before the next try.
pub(crate) fn retry_pause(tried: u32) -> Duration {
    Duration::from_millis(100 << tried.min(4))
}
