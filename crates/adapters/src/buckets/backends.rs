//! Where a declared bucket and a key lie in real buckets, and back. Must not connect.

use super::client::{Client, unavailable};
use super::settings::{BucketSettings, Location, refused};
use crate::key_checks;
use counterstep_kernel::ports::ObjectError;
use object_store::path::Path;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A folder of a real bucket, and the client for it.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) location: Location,
    /// The declared bucket that lies here; `None`: all that have no backend of their own.
    declared: Option<String>,
    pub(super) client: Box<dyn Client>,
}

impl Backend {
    /// Names it among the backends: the declared bucket, or nothing for the base.
    pub(super) fn name(&self) -> &str {
        self.declared.as_deref().unwrap_or_default()
    }

    /// Where a folder of keys, or a key, lies.
    pub(super) fn path(&self, key: &str) -> Result<Path, ObjectError> {
        let path = if self.location.prefix.is_empty() {
            key.to_owned()
        } else {
            format!("{}/{key}", self.location.prefix)
        };
        Path::parse(path).map_err(|error| refused(error.to_string()))
    }

    /// The declared bucket and the key of what lies at a path; `None`: nothing of ours.
    pub(super) fn declared(&self, path: &str) -> Option<(String, String)> {
        let key = match self.location.prefix.as_str() {
            "" => path,
            prefix => path.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        let (bucket, key) = match &self.declared {
            Some(bucket) => (bucket.as_str(), key),
            None => key.rsplit_once('/').map(|(key, bucket)| (bucket, key))?,
        };
        (key_checks::bucket(bucket).is_ok() && key_checks::key(key).is_ok())
            .then(|| (bucket.to_owned(), key.to_owned()))
    }

    /// What went wrong, and with which bucket.
    pub(super) fn unavailable(&self, error: impl std::fmt::Display) -> ObjectError {
        unavailable(&self.location.bucket, error)
    }
}

/// All backends that the settings know.
#[derive(Debug)]
pub(crate) struct Backends {
    base: Option<Arc<Backend>>,
    mapped: BTreeMap<String, Arc<Backend>>,
}

impl Backends {
    /// Makes the client of each with `client`.
    pub(crate) fn open(
        settings: &BucketSettings,
        client: impl Fn(&Location) -> Result<Box<dyn Client>, ObjectError>,
    ) -> Result<Self, ObjectError> {
        let open = |declared: Option<&String>, place: &Location| {
            let client = client(place)?;
            Ok(Arc::new(Backend {
                location: place.clone(),
                declared: declared.cloned(),
                client,
            }))
        };
        let mut mapped = BTreeMap::new();
        for (declared, place) in &settings.buckets {
            key_checks::bucket(declared)?;
            mapped.insert(declared.clone(), open(Some(declared), place)?);
        }
        let base = settings
            .base
            .as_ref()
            .map(|place| open(None, place))
            .transpose()?;
        let backends = Self { base, mapped };
        backends.lie_apart()?;
        Ok(backends)
    }

    /// Two backends that overlap would show each other's objects, and delete them.
    fn lie_apart(&self) -> Result<(), ObjectError> {
        let below =
            |folder: &'static str| self.all().map(move |one| (&one.location, one.path(folder)));
        let roots: Vec<_> = below("t/").chain(below("archive/")).collect();
        for (n, (one, root)) in roots.iter().enumerate() {
            for (other, other_root) in &roots[n + 1..] {
                let (Ok(root), Ok(other_root)) = (root, other_root) else {
                    continue;
                };
                if one.bucket == other.bucket
                    && (root.prefix_matches(other_root) || other_root.prefix_matches(root))
                {
                    return Err(refused(format!(
                        "two buckets of the settings lie in `{}` and overlap: give each a prefix of its own",
                        one.bucket
                    )));
                }
            }
        }
        Ok(())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Backend>> {
        self.base.iter().chain(self.mapped.values())
    }

    /// Where something lies in the archive of a bucket; `name` is checked and begins with
    /// `archive/`.
    pub(super) fn archived(
        &self,
        bucket: &str,
        name: &str,
    ) -> Result<(&Arc<Backend>, Path), ObjectError> {
        self.backend_of(key_checks::bucket(bucket)?, name)
    }

    /// Where an object lies.
    pub(super) fn locate(
        &self,
        bucket: &str,
        key: &str,
    ) -> Result<(&Arc<Backend>, Path), ObjectError> {
        self.backend_of(key_checks::bucket(bucket)?, key_checks::key(key)?)
    }

    fn backend_of(&self, bucket: &str, key: &str) -> Result<(&Arc<Backend>, Path), ObjectError> {
        if let Some(backend) = self.mapped.get(bucket) {
            return Ok((backend, backend.path(key)?));
        }
        let Some(base) = &self.base else {
            let known: Vec<&str> = self.mapped.keys().map(String::as_str).collect();
            return Err(refused(format!(
                "the settings have no place for the bucket `{bucket}`, only for {}: add map.{bucket}=BUCKET/PREFIX to the \
                 object store's URL",
                known.join(", ")
            )));
        };
        // At the end, so that one listing of a task's folder shows what it has in all these
        // buckets.
        Ok((base, base.path(&format!("{key}/{bucket}"))?))
    }
}

#[cfg(test)]
#[cfg(feature = "s3")]
mod tests {
    use super::*;

    fn open(url: &str) -> Result<Backends, ObjectError> {
        crate::tls::install_provider();
        crate::s3::backends(&crate::s3::S3Settings::from_url(url)?)
    }

    #[test]
    fn a_declared_bucket_is_found_and_found_back() {
        let backends =
            open("s3://objects/prod?endpoint=http://127.0.0.1:1&map.incoming=uploads&map.out=uploads/out").unwrap();
        for (bucket, real, path) in [
            ("incoming", "uploads", "t/d/1/s/e1.1/0"),
            ("out", "uploads", "out/t/d/1/s/e1.1/0"),
            ("other", "objects", "prod/t/d/1/s/e1.1/0/other"),
        ] {
            let (backend, found) = backends.locate(bucket, "t/d/1/s/e1.1/0").unwrap();
            assert_eq!(
                (backend.location.bucket.as_str(), found.as_ref()),
                (real, path)
            );
            assert_eq!(
                backend.declared(path),
                Some((bucket.to_owned(), "t/d/1/s/e1.1/0".to_owned()))
            );
        }
        let base = backends.base.as_ref().unwrap();
        for unknown in [
            "prod",
            "product/t/d/1/other",
            "prod/x/other",
            "prod/t/d/1/Other",
            "t/d/1/other",
        ] {
            assert_eq!(base.declared(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        for (url, expected) in [
            (
                "s3://objects?endpoint=http://objects.example.org",
                "not encrypted",
            ),
            ("s3://objects?endpoint=objects.example.org", "no endpoint"),
            (
                "s3://objects?endpoint=https://key:secret@example.org",
                "no secrets",
            ),
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
        let error = open("s3://?map.one=objects")
            .unwrap()
            .locate("two", "t/x")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("map.two=") && error.contains("only for one"),
            "{error}"
        );
    }
}
