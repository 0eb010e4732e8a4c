//! What an operator says about an S3 server. Checks nothing that a server must be asked for.

use crate::buckets::settings::{BucketSettings, Dialect, parsed};
use counterstep_kernel::ports::ObjectError;

const DIALECT: Dialect = Dialect {
    scheme: "s3",
    form: "s3://BUCKET/PREFIX?endpoint=…",
    secrets: "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    parameters: "region, path_style, bulk_delete",
};

/// How to reach the S3 server, and where in it the declared buckets lie. Without a file for the
/// keys these are in the usual variables (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
/// `AWS_SESSION_TOKEN`), else a web identity's, a container's or the instance's role. The
/// endpoint's default is `AWS_ENDPOINT_URL`, else AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Settings {
    /// What all kinds of servers need.
    pub common: BucketSettings,
    /// Default: `AWS_REGION`, then `AWS_DEFAULT_REGION`, then `us-east-1`.
    pub region: Option<String>,
    /// The bucket as the first segment of the path, and not as a part of the host name. Default:
    /// with an endpoint.
    pub path_style: Option<bool>,
    /// Deletes up to a thousand objects a request. Some servers do not know that request.
    pub bulk_delete: bool,
}

impl Default for S3Settings {
    fn default() -> Self {
        Self {
            common: BucketSettings::default(),
            region: None,
            path_style: None,
            bulk_delete: true,
        }
    }
}

impl S3Settings {
    /// Reads `s3://BUCKET/PREFIX?…`. `BUCKET/PREFIX` is the base; without it (`s3://?…`) only
    /// mapped buckets are known.
    ///
    /// Parameters: `endpoint`, `region`, `path_style`, `allow_http`, `ca_file`, `credentials_file`,
    /// `request_timeout_s`, `retry_for_s`, `part_mib`, `bulk_delete`, and `map.NAME=BUCKET/PREFIX`
    /// for each declared bucket that has a place of its own. Keys and secrets are no part of it: a
    /// URL is seen by too many.
    ///
    /// # Errors
    /// [`ObjectError::Refused`] with what is wrong and what was expected.
    pub fn from_url(text: &str) -> Result<Self, ObjectError> {
        let mut settings = Self::default();
        let common = BucketSettings::read(text, &DIALECT, |name, value| {
            match name {
                "region" => settings.region = Some(value.to_owned()),
                "path_style" => settings.path_style = Some(parsed(name, value, "true or false")?),
                "bulk_delete" => settings.bulk_delete = parsed(name, value, "true or false")?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(Self { common, ..settings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buckets::settings::Location;
    use std::time::Duration;

    #[test]
    fn a_url_says_where_and_how() {
        let url = "s3://objects/prod/one?endpoint=http://127.0.0.1:9000&region=eu-1&part_mib=5&retry_for_s=3\
                   &map.incoming-files=incoming&map.out=shared/out&bulk_delete=false&path_style=false";
        let settings = S3Settings::from_url(url).unwrap();
        let place = |bucket: &str, prefix: &str| Location {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        };
        assert_eq!(settings.common.base, Some(place("objects", "prod/one")));
        assert_eq!(
            settings.common.endpoint.as_deref(),
            Some("http://127.0.0.1:9000")
        );
        assert_eq!(
            (
                settings.path_style,
                settings.bulk_delete,
                settings.common.part_bytes
            ),
            (Some(false), false, 5 << 20)
        );
        assert_eq!(settings.common.retry_for, Duration::from_secs(3));
        assert_eq!(
            settings.common.buckets["incoming-files"],
            place("incoming", "")
        );
        assert_eq!(settings.common.buckets["out"], place("shared", "out"));
        assert_eq!(
            S3Settings::from_url("s3://?map.out=one")
                .unwrap()
                .common
                .base,
            None
        );
        assert_eq!(
            S3Settings::from_url("s3://one").unwrap(),
            S3Settings {
                common: BucketSettings {
                    base: Some(place("one", "")),
                    ..BucketSettings::default()
                },
                ..S3Settings::default()
            }
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
            assert!(
                !error.contains("key:secret") && !error.contains("=secret"),
                "{error}"
            );
        }
    }
}
