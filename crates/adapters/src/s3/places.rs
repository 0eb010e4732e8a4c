//! Where a declared bucket and a key lie in real buckets, and back. Talks to nobody.

use super::credentials::FileCredentials;
use super::settings::{Credentials, Place, S3Settings, refused};
use crate::keys;
use counterstep_kernel::ports::ObjectError;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector, ReqwestConnector};
use object_store::path::Path;
use object_store::signer::Url;
use object_store::{BackoffConfig, Certificate, ClientOptions, RetryConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait between two tries of a request.
const LONGEST_BACKOFF: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A folder of a real bucket, and the client for it.
#[derive(Debug)]
pub(super) struct Location {
    pub(super) place: Place,
    /// The declared bucket that lies here; `None`: all that have no place of their own.
    declared: Option<String>,
    pub(super) store: AmazonS3,
    /// For the requests that `object_store` does not know.
    pub(super) http: HttpClient,
    pub(super) request_timeout: Duration,
    pub(super) retry_for: Duration,
}

impl Location {
    /// Names it among the places: the declared bucket, or nothing for the base.
    pub(super) fn name(&self) -> &str {
        self.declared.as_deref().unwrap_or_default()
    }

    /// Where a folder of keys, or a key, lies.
    pub(super) fn path(&self, key: &str) -> Result<Path, ObjectError> {
        let path = if self.place.prefix.is_empty() { key.to_owned() } else { format!("{}/{key}", self.place.prefix) };
        Path::parse(path).map_err(|error| refused(error.to_string()))
    }

    /// The declared bucket and the key of what lies at a path; `None`: nothing of ours.
    pub(super) fn declared(&self, path: &str) -> Option<(String, String)> {
        let key = match self.place.prefix.as_str() {
            "" => path,
            prefix => path.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        let (bucket, key) = match &self.declared {
            Some(bucket) => (bucket.as_str(), key),
            None => key.rsplit_once('/').map(|(key, bucket)| (bucket, key))?,
        };
        (keys::bucket(bucket).is_ok() && keys::key(key).is_ok()).then(|| (bucket.to_owned(), key.to_owned()))
    }

    /// What went wrong, and with which bucket.
    pub(super) fn unavailable(&self, error: impl std::fmt::Display) -> ObjectError {
        ObjectError::Unavailable(format!("bucket `{}`: {error}", self.place.bucket))
    }
}

/// All places that the settings know.
#[derive(Debug)]
pub(super) struct Places {
    base: Option<Arc<Location>>,
    mapped: BTreeMap<String, Arc<Location>>,
}

impl Places {
    pub(super) fn open(settings: &S3Settings) -> Result<Self, ObjectError> {
        let environment = AmazonS3Builder::from_env();
        let server = Server::of(settings, &environment)?;
        let open =
            |declared: Option<&String>, place: &Place| server.open(environment.clone(), declared, place).map(Arc::new);
        let mut mapped = BTreeMap::new();
        for (declared, place) in &settings.buckets {
            keys::bucket(declared)?;
            mapped.insert(declared.clone(), open(Some(declared), place)?);
        }
        let base = settings.base.as_ref().map(|place| open(None, place)).transpose()?;
        let places = Self { base, mapped };
        places.lie_apart()?;
        Ok(places)
    }

    /// Two places that overlap would show each other's objects, and delete them.
    fn lie_apart(&self) -> Result<(), ObjectError> {
        let below = |folder: &'static str| self.all().map(move |one| (&one.place, one.path(folder)));
        let roots: Vec<_> = below("t/").chain(below("archive/")).collect();
        for (n, (one, root)) in roots.iter().enumerate() {
            for (other, other_root) in &roots[n + 1..] {
                let (Ok(root), Ok(other_root)) = (root, other_root) else { continue };
                if one.bucket == other.bucket && (root.prefix_matches(other_root) || other_root.prefix_matches(root)) {
                    return Err(refused(format!(
                        "two buckets of the settings lie in `{}` and overlap: give each a prefix of its own",
                        one.bucket
                    )));
                }
            }
        }
        Ok(())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Location>> {
        self.base.iter().chain(self.mapped.values())
    }

    /// Where something lies in the archive of a bucket; `name` is checked and begins with `archive/`.
    pub(super) fn archived(&self, bucket: &str, name: &str) -> Result<(&Arc<Location>, Path), ObjectError> {
        self.placed(keys::bucket(bucket)?, name)
    }

    /// Where an object lies.
    pub(super) fn locate(&self, bucket: &str, key: &str) -> Result<(&Arc<Location>, Path), ObjectError> {
        self.placed(keys::bucket(bucket)?, keys::key(key)?)
    }

    fn placed(&self, bucket: &str, key: &str) -> Result<(&Arc<Location>, Path), ObjectError> {
        if let Some(place) = self.mapped.get(bucket) {
            return Ok((place, place.path(key)?));
        }
        let Some(base) = &self.base else {
            let known: Vec<&str> = self.mapped.keys().map(String::as_str).collect();
            return Err(refused(format!(
                "the settings have no place for the bucket `{bucket}`, only for {}: add map.{bucket}=BUCKET/PREFIX to the \
                 object store's URL",
                known.join(", ")
            )));
        };
        // At the end, so that one listing of a task's folder shows what it has in all these buckets.
        Ok((base, base.path(&format!("{key}/{bucket}"))?))
    }
}

/// What all buckets have in common.
struct Server<'a> {
    settings: &'a S3Settings,
    endpoint: Option<Url>,
    path_style: bool,
    client: ClientOptions,
}

impl<'a> Server<'a> {
    fn of(settings: &'a S3Settings, environment: &AmazonS3Builder) -> Result<Self, ObjectError> {
        let usual = || {
            let keys = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
            keys.iter().find_map(|key| environment.get_config_value(key))
        };
        let endpoint = settings.endpoint.clone().or_else(usual).filter(|text| !text.is_empty());
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
            let pem = pem.map_err(|error| refused(format!("{} cannot be read: {error}", file.display())))?;
            let authorities = Certificate::from_pem_bundle(&pem).ok().filter(|all| !all.is_empty());
            let authorities =
                authorities.ok_or_else(|| refused(format!("{} has no certificate in PEM form", file.display())))?;
            client = authorities.into_iter().fold(client, ClientOptions::with_root_certificate);
        }
        let path_style = settings.path_style.unwrap_or(endpoint.is_some());
        Ok(Self { settings, endpoint, path_style, client })
    }

    fn open(
        &self,
        builder: AmazonS3Builder,
        declared: Option<&String>,
        place: &Place,
    ) -> Result<Location, ObjectError> {
        let settings = self.settings;
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
        let mut builder = builder
            .with_bucket_name(&place.bucket)
            .with_virtual_hosted_style_request(!self.path_style)
            .with_client_options(self.client.clone())
            .with_disable_bulk_delete(!settings.bulk_delete)
            .with_retry(retry);
        if let Some(region) = &settings.region {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = &self.endpoint {
            let mut endpoint = endpoint.clone();
            if !self.path_style {
                let host = endpoint.host_str().unwrap_or_default();
                let host = format!("{}.{host}", place.bucket);
                endpoint.set_host(Some(&host)).map_err(|error| refused(format!("{host} is no host: {error}")))?;
            }
            builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint.as_str().trim_end_matches('/'));
        }
        if let Credentials::File(file) = &settings.credentials {
            builder = builder.with_credentials(Arc::new(FileCredentials(file.clone())));
        }
        let wrong = |error: object_store::Error| refused(format!("bucket `{}`: {error}", place.bucket));
        Ok(Location {
            place: place.clone(),
            declared: declared.cloned(),
            store: builder.build().map_err(wrong)?,
            http: ReqwestConnector::default().connect(&self.client).map_err(wrong)?,
            request_timeout: settings.request_timeout,
            retry_for: settings.retry_for,
        })
    }
}

fn parse_endpoint(text: &str) -> Result<Url, ObjectError> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or_else(|| refused(format!("`{text}` is no endpoint: write it as https://HOST")))?;
    if url.username().is_empty() && url.password().is_none() && url.query().is_none() {
        return Ok(url);
    }
    Err(refused("the object store's endpoint has a scheme, a host and a port, and nothing secret".to_owned()))
}

fn is_loopback(url: &Url) -> bool {
    crate::tls::is_this_machine(url.host_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(url: &str) -> Result<Places, ObjectError> {
        crate::tls::install_provider();
        Places::open(&S3Settings::from_url(url)?)
    }

    #[test]
    fn a_declared_bucket_is_found_and_found_back() {
        let places =
            open("s3://objects/prod?endpoint=http://127.0.0.1:1&map.incoming=uploads&map.out=uploads/out").unwrap();
        for (bucket, real, path) in [
            ("incoming", "uploads", "t/d/1/s/e1.1/0"),
            ("out", "uploads", "out/t/d/1/s/e1.1/0"),
            ("other", "objects", "prod/t/d/1/s/e1.1/0/other"),
        ] {
            let (place, found) = places.locate(bucket, "t/d/1/s/e1.1/0").unwrap();
            assert_eq!((place.place.bucket.as_str(), found.as_ref()), (real, path));
            assert_eq!(place.declared(path), Some((bucket.to_owned(), "t/d/1/s/e1.1/0".to_owned())));
        }
        let base = places.base.as_ref().unwrap();
        for foreign in ["prod", "product/t/d/1/other", "prod/x/other", "prod/t/d/1/Other", "t/d/1/other"] {
            assert_eq!(base.declared(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        for (url, expected) in [
            ("s3://objects?endpoint=http://objects.example.org", "not encrypted"),
            ("s3://objects?endpoint=objects.example.org", "no endpoint"),
            ("s3://objects?endpoint=https://key:secret@example.org", "no secrets"),
            ("s3://objects?map.one=objects", "overlap"),
            ("s3://?map.one=objects/x&map.two=objects/x", "overlap"),
            ("s3://objects?map.one=objects/t/x", "overlap"),
            ("s3://objects?ca_file=/not/there.pem", "cannot be read"),
        ] {
            let error = open(url).unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
        }
        assert!(open("s3://objects?endpoint=http://objects.example.org&allow_http=true").is_ok());
        assert!(open("s3://objects?endpoint=http://[::1]:9000&map.one=objects/one").is_ok());
        let error = open("s3://?map.one=objects").unwrap().locate("two", "t/x").unwrap_err().to_string();
        assert!(error.contains("map.two=") && error.contains("only for one"), "{error}");
    }
}
