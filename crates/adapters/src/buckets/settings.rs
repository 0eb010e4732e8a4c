//! What an operator says about the object store, whatever kind of server it is. Checks nothing that
//! a server must be asked for.

use counterstep_kernel::ports::ObjectError;
use counterstep_steps::keys::is_bucket_name;
use object_store::signer::Url;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The smallest part that S3 accepts; the last one of an upload may be smaller.
const MIN_PART: usize = 5 << 20;
const MIB: usize = 1 << 20;

/// A folder of a real bucket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The real bucket's name.
    pub bucket: String,
    /// What stands before each key, without slashes at its ends; may be empty.
    pub prefix: String,
}

impl Location {
    /// Reads `bucket` or `bucket/prefix`.
    ///
    /// # Errors
    /// When the bucket's name is none, or the prefix has an empty segment or one that is not
    /// `[A-Za-z0-9._-]`.
    pub fn parse(text: &str) -> Result<Self, ObjectError> {
        let (bucket, prefix) = text.split_once('/').unwrap_or((text, ""));
        let prefix = prefix.trim_end_matches('/');
        let fits = prefix.is_empty() || prefix.split('/').all(crate::key_checks::is_segment);
        if is_bucket_name(bucket) && fits {
            return Ok(Self {
                bucket: bucket.to_owned(),
                prefix: prefix.to_owned(),
            });
        }
        Err(refused(format!(
            "`{text}` is no place for objects: say it as `bucket` or `bucket/prefix`"
        )))
    }
}

/// Where the keys to the server come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// The variables that are usual for the server, else what the machine is given by its provider.
    #[default]
    Environment,
    /// A file in the form of `~/.aws/credentials`, read again whenever a request is signed, so that
    /// keys can be replaced while the process runs. Its `[default]` section counts, or lines before
    /// any section.
    File(PathBuf),
}

/// How to reach the object store, and where in it the declared buckets lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketSettings {
    /// Of another server than the provider's own, such as `https://objects.example.org`. Default:
    /// what the usual variables name, else the provider's.
    pub endpoint: Option<String>,
    /// Plain HTTP to a server that is not on this machine.
    pub allow_http: bool,
    /// PEM file of the authorities to trust besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Keys to the server.
    pub credentials: Credentials,
    /// Where objects lie whose declared bucket is not in `buckets`. The declared name then ends
    /// their keys. `None`: other buckets are refused.
    pub base: Option<Location>,
    /// Declared bucket to real one.
    pub buckets: BTreeMap<String, Location>,
    /// Limit of one request, and of a silence in a download. An upload's request carries
    /// `part_bytes` at most.
    pub request_timeout: Duration,
    /// How long a request is repeated that the server could not answer.
    pub retry_for: Duration,
    /// Bytes of a part of a larger upload, 5 MiB at least. Three of them are held in memory an
    /// upload, and an object has 10,000 parts at most.
    pub part_bytes: usize,
}

impl Default for BucketSettings {
    fn default() -> Self {
        Self {
            endpoint: None,
            allow_http: false,
            ca_file: None,
            credentials: Credentials::Environment,
            base: None,
            buckets: BTreeMap::new(),
            request_timeout: Duration::from_secs(30),
            retry_for: Duration::from_secs(10),
            part_bytes: 8 * MIB,
        }
    }
}

/// How the URL of a kind of server is written, for messages.
pub(crate) struct Dialect {
    pub(crate) scheme: &'static str,
    /// The whole URL.
    pub(crate) form: &'static str,
    /// Where its secrets go.
    pub(crate) secrets: &'static str,
    /// Parameters that only this kind has.
    pub(crate) parameters: &'static str,
}

impl BucketSettings {
    /// Reads a URL. Parameters that not all kinds of servers have go to `other`, which returns
    /// whether it knows them. Keys and secrets are no part of a URL: it is seen by too many.
    pub(crate) fn read(
        text: &str,
        dialect: &Dialect,
        mut other: impl FnMut(&str, &str) -> Result<bool, ObjectError>,
    ) -> Result<Self, ObjectError> {
        let Dialect {
            scheme,
            form,
            secrets,
            parameters,
        } = dialect;
        // The text itself may hold a secret, so it is not repeated.
        let wrong = || {
            refused(format!(
                "the object store's URL is none; write it as {form}"
            ))
        };
        let rest = text
            .strip_prefix(scheme)
            .and_then(|rest| rest.strip_prefix("://"))
            .ok_or_else(wrong)?;
        // A bucket may be missing, which a URL's host may not, and its name is no host name.
        let url = Url::parse(&format!("s3://host/{rest}")).map_err(|_| wrong())?;
        if url.fragment().is_some() || rest.contains('@') {
            return Err(refused(format!(
                "the object store's URL holds no secrets; write it as {form}, and put them into {secrets}, or name a file \
                 with credentials_file=…"
            )));
        }
        let mut settings = Self::default();
        // Not the URL's own path: it has resolved `..` by then, and what was left could be another
        // bucket.
        let base = rest.split('?').next().unwrap_or_default().trim_matches('/');
        if !base.is_empty() {
            settings.base = Some(Location::parse(base)?);
        }
        for (name, value) in url.query_pairs() {
            if !settings.set(&name, &value)? && !other(&name, &value)? {
                return Err(refused(format!(
                    "the object store's URL knows no `{name}`; it knows {parameters}, endpoint, allow_http, ca_file, \
                     credentials_file, request_timeout_s, retry_for_s, part_mib and map.NAME"
                )));
            }
        }
        if settings.base.is_none() && settings.buckets.is_empty() {
            return Err(refused(format!(
                "the object store's URL names no bucket; write it as {form}"
            )));
        }
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<bool, ObjectError> {
        match name {
            "endpoint" => self.endpoint = Some(value.to_owned()),
            "allow_http" => self.allow_http = parsed(name, value, "true or false")?,
            "ca_file" => self.ca_file = Some(PathBuf::from(value)),
            "credentials_file" => self.credentials = Credentials::File(PathBuf::from(value)),
            "request_timeout_s" => self.request_timeout = seconds(name, value)?,
            "retry_for_s" => self.retry_for = seconds(name, value)?,
            "part_mib" => {
                let mib: usize = parsed(name, value, "a whole number of mebibytes")?;
                if !(MIN_PART..=512 * MIB).contains(&mib.saturating_mul(MIB)) {
                    return Err(refused(format!(
                        "`part_mib={value}` of the object store: a part has 5 to 512 MiB"
                    )));
                }
                self.part_bytes = mib * MIB;
            }
            _ => match name.strip_prefix("map.") {
                Some(declared) if is_bucket_name(declared) => {
                    self.buckets
                        .insert(declared.to_owned(), Location::parse(value)?);
                }
                Some(_) | None => return Ok(false),
            },
        }
        Ok(true)
    }
}

pub(crate) fn parsed<T: std::str::FromStr>(
    name: &str,
    value: &str,
    expected: &str,
) -> Result<T, ObjectError> {
    value.parse().map_err(|_| {
        refused(format!(
            "`{name}={value}` of the object store: expected {expected}"
        ))
    })
}

fn seconds(name: &str, value: &str) -> Result<Duration, ObjectError> {
    match parsed(name, value, "whole seconds, 1 to 3600")? {
        seconds @ 1..=3600 => Ok(Duration::from_secs(seconds)),
        _ => Err(refused(format!(
            "`{name}={value}` of the object store: expected whole seconds, 1 to 3600"
        ))),
    }
}

pub(crate) fn refused(text: String) -> ObjectError {
    ObjectError::Refused(text)
}
