//! What an operator says about the object store. Checks nothing that a server must be asked for.

use counterstep_kernel::keys::is_bucket_name;
use counterstep_kernel::ports::ObjectError;
use object_store::signer::Url;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The smallest part that S3 accepts; the last one of an upload may be smaller.
const MIN_PART: usize = 5 << 20;
const MIB: usize = 1 << 20;

/// A folder of a real bucket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The real bucket's name.
    pub bucket: String,
    /// What stands before each key, without slashes at its ends; may be empty.
    pub prefix: String,
}

impl Place {
    /// Reads `bucket` or `bucket/prefix`.
    ///
    /// # Errors
    /// When the bucket's name is none, or the prefix has an empty segment or one that is not `[A-Za-z0-9._-]`.
    pub fn parse(text: &str) -> Result<Self, ObjectError> {
        let (bucket, prefix) = text.split_once('/').unwrap_or((text, ""));
        let prefix = prefix.trim_end_matches('/');
        let fits = prefix.is_empty() || prefix.split('/').all(crate::keys::is_segment);
        if is_bucket_name(bucket) && fits {
            return Ok(Self { bucket: bucket.to_owned(), prefix: prefix.to_owned() });
        }
        Err(refused(format!("`{text}` is no place for objects: say it as `bucket` or `bucket/prefix`")))
    }
}

/// Where the keys to the server come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// The usual variables (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`), else a web identity, a
    /// container's or the instance's role.
    #[default]
    Environment,
    /// A file in the form of `~/.aws/credentials`, read again whenever a request is signed, so that keys can be
    /// replaced while the process runs. Its `[default]` section counts, or lines before any section.
    File(PathBuf),
}

/// How to reach the object store, and where in it the declared buckets lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Settings {
    /// Of another server than AWS's, such as `https://objects.example.org`. Default: `AWS_ENDPOINT_URL`, else AWS.
    pub endpoint: Option<String>,
    /// Default: `AWS_REGION`, then `AWS_DEFAULT_REGION`, then `us-east-1`.
    pub region: Option<String>,
    /// The bucket as the first segment of the path, and not as a part of the host name. Default: with an endpoint.
    pub path_style: Option<bool>,
    /// Plain HTTP to a server that is not on this machine.
    pub allow_http: bool,
    /// PEM file of the authorities to trust besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Keys to the server.
    pub credentials: Credentials,
    /// Where objects lie whose declared bucket is not in `buckets`. The declared name then ends their keys. `None`:
    /// other buckets are refused.
    pub base: Option<Place>,
    /// Declared bucket to real one.
    pub buckets: BTreeMap<String, Place>,
    /// Limit of one request, and of a silence in a download. An upload's request carries `part_bytes` at most.
    pub request_timeout: Duration,
    /// How long a request is repeated that the server could not answer.
    pub retry_for: Duration,
    /// Bytes of a part of a larger upload, 5 MiB at least. Three of them are held in memory an upload, and an object
    /// has 10,000 parts at most.
    pub part_bytes: usize,
    /// Deletes up to a thousand objects a request. Some servers do not know that request.
    pub bulk_delete: bool,
}

impl Default for S3Settings {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            path_style: None,
            allow_http: false,
            ca_file: None,
            credentials: Credentials::Environment,
            base: None,
            buckets: BTreeMap::new(),
            request_timeout: Duration::from_secs(30),
            retry_for: Duration::from_secs(10),
            part_bytes: 8 * MIB,
            bulk_delete: true,
        }
    }
}

impl S3Settings {
    /// Reads `s3://BUCKET/PREFIX?…`. `BUCKET/PREFIX` is the base; without it (`s3://?…`) only mapped buckets are known.
    ///
    /// Parameters: `endpoint`, `region`, `path_style`, `allow_http`, `ca_file`, `credentials_file`,
    /// `request_timeout_s`, `retry_for_s`, `part_mib`, `bulk_delete`, and `map.NAME=BUCKET/PREFIX` for each declared
    /// bucket that has a place of its own. Keys and secrets are no part of it: a URL is seen by too many.
    ///
    /// # Errors
    /// [`ObjectError::Refused`] with what is wrong and what was expected.
    pub fn from_url(text: &str) -> Result<Self, ObjectError> {
        // The text itself may hold a secret, so it is not repeated.
        let wrong = || refused("the object store's URL is none; write it as s3://BUCKET/PREFIX?endpoint=…".to_owned());
        let rest = text.strip_prefix("s3://").ok_or_else(wrong)?;
        // A bucket may be missing, which a URL's host may not, and its name is no host name.
        let url = Url::parse(&format!("s3://host/{rest}")).map_err(|_| wrong())?;
        if url.fragment().is_some() || rest.contains('@') {
            return Err(refused(
                "the object store's URL holds no secrets; put them into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                 name a file with credentials_file=…"
                    .to_owned(),
            ));
        }
        let mut settings = Self::default();
        // Not the URL's own path: it has resolved `..` by then, and what was left could be another bucket.
        let base = rest.split('?').next().unwrap_or_default().trim_matches('/');
        if !base.is_empty() {
            settings.base = Some(Place::parse(base)?);
        }
        for (name, value) in url.query_pairs() {
            settings.set(&name, &value)?;
        }
        if settings.base.is_none() && settings.buckets.is_empty() {
            return Err(refused("the object store's URL names no bucket; write it as s3://BUCKET/PREFIX".to_owned()));
        }
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), ObjectError> {
        match name {
            "endpoint" => self.endpoint = Some(value.to_owned()),
            "region" => self.region = Some(value.to_owned()),
            "path_style" => self.path_style = Some(parsed(name, value, "true or false")?),
            "allow_http" => self.allow_http = parsed(name, value, "true or false")?,
            "ca_file" => self.ca_file = Some(PathBuf::from(value)),
            "credentials_file" => self.credentials = Credentials::File(PathBuf::from(value)),
            "request_timeout_s" => self.request_timeout = seconds(name, value)?,
            "retry_for_s" => self.retry_for = seconds(name, value)?,
            "part_mib" => {
                let mib: usize = parsed(name, value, "a whole number of mebibytes")?;
                if !(MIN_PART..=512 * MIB).contains(&mib.saturating_mul(MIB)) {
                    return Err(refused(format!("`part_mib={value}` of the object store: a part has 5 to 512 MiB")));
                }
                self.part_bytes = mib * MIB;
            }
            "bulk_delete" => self.bulk_delete = parsed(name, value, "true or false")?,
            _ => match name.strip_prefix("map.") {
                Some(declared) if is_bucket_name(declared) => {
                    self.buckets.insert(declared.to_owned(), Place::parse(value)?);
                }
                _ => {
                    return Err(refused(format!(
                        "the object store's URL knows no `{name}`; it knows endpoint, region, path_style, allow_http, \
                         ca_file, credentials_file, request_timeout_s, retry_for_s, part_mib, bulk_delete and map.NAME"
                    )));
                }
            },
        }
        Ok(())
    }
}

fn parsed<T: std::str::FromStr>(name: &str, value: &str, expected: &str) -> Result<T, ObjectError> {
    value.parse().map_err(|_| refused(format!("`{name}={value}` of the object store: expected {expected}")))
}

fn seconds(name: &str, value: &str) -> Result<Duration, ObjectError> {
    match parsed(name, value, "whole seconds, 1 to 3600")? {
        seconds @ 1..=3600 => Ok(Duration::from_secs(seconds)),
        _ => Err(refused(format!("`{name}={value}` of the object store: expected whole seconds, 1 to 3600"))),
    }
}

pub(super) fn refused(text: String) -> ObjectError {
    ObjectError::Refused(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_and_how() {
        let url = "s3://objects/prod/one?endpoint=http://127.0.0.1:9000&region=eu-1&part_mib=5&retry_for_s=3\
                   &map.incoming-files=incoming&map.out=shared/out&bulk_delete=false&path_style=false";
        let settings = S3Settings::from_url(url).unwrap();
        let place = |bucket: &str, prefix: &str| Place { bucket: bucket.to_owned(), prefix: prefix.to_owned() };
        assert_eq!(settings.base, Some(place("objects", "prod/one")));
        assert_eq!(settings.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!((settings.path_style, settings.bulk_delete, settings.part_bytes), (Some(false), false, 5 << 20));
        assert_eq!(settings.retry_for, Duration::from_secs(3));
        assert_eq!(settings.buckets["incoming-files"], place("incoming", ""));
        assert_eq!(settings.buckets["out"], place("shared", "out"));
        assert_eq!(S3Settings::from_url("s3://?map.out=one").unwrap().base, None);
        assert_eq!(
            S3Settings::from_url("s3://one").unwrap(),
            S3Settings { base: Some(place("one", "")), ..S3Settings::default() }
        );
    }

    #[test]
    fn a_wrong_url_says_what_is_wrong_and_repeats_no_secret() {
        for (url, expected) in [
            ("http://objects", "s3://BUCKET"),
            ("s3://", "names no bucket"),
            ("s3://?region=x", "names no bucket"),
            ("s3://key:secret@objects", "no secrets"),
            ("s3://objects?secret_key=secret", "knows no `secret_key`"),
            ("s3://objects/../secret?", "no place"),
            ("s3://Objects", "no place"),
            ("s3://objects?part_mib=4", "5 to 512"),
            ("s3://objects?retry_for_s=0", "1 to 3600"),
            ("s3://objects?allow_http=yes", "true or false"),
            ("s3://objects?map.Out=x", "knows no `map.Out`"),
            ("s3://objects?map.out=x//y", "no place"),
        ] {
            let error = S3Settings::from_url(url).unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
            assert!(!error.contains("key:secret") && !error.contains("=secret"), "{error}");
        }
    }
}
