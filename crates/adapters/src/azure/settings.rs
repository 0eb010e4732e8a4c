//! What an operator says about Azure Blob Storage. Checks nothing that a server must be asked for.

use crate::buckets::settings::{BucketSettings, Dialect, refused};
use counterstep_kernel::ports::ObjectError;

const DIALECT: Dialect = Dialect {
    scheme: "az",
    form: "az://CONTAINER/PREFIX?account=NAME",
    secrets: "AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
    parameters: "account",
};

/// How to reach the account, and where in it the declared buckets lie. Without a file for the keys
/// these are in the usual variables (`AZURE_STORAGE_ACCOUNT_KEY`, `AZURE_STORAGE_SAS_TOKEN`), else
/// a workload's or a machine's identity. The endpoint's default is `AZURE_STORAGE_ENDPOINT`, else
/// the account at `blob.core.windows.net`; an emulator's has the account in its path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AzureSettings {
    /// What all kinds of servers need; a bucket is a container here.
    pub common: BucketSettings,
    /// Name of the storage account. Default: `AZURE_STORAGE_ACCOUNT_NAME`.
    pub account: Option<String>,
}

impl AzureSettings {
    /// Reads `az://CONTAINER/PREFIX?…`. `CONTAINER/PREFIX` is the base; without it (`az://?…`) only
    /// mapped buckets are known.
    ///
    /// Parameters: `account`, `endpoint`, `allow_http`, `ca_file`, `credentials_file`,
    /// `request_timeout_s`, `retry_for_s`, `part_mib`, and `map.NAME=CONTAINER/PREFIX` for each
    /// declared bucket that has a place of its own.
    ///
    /// # Errors
    /// [`ObjectError::Refused`] with what is wrong and what was expected.
    pub fn from_url(text: &str) -> Result<Self, ObjectError> {
        let mut account = None;
        let common = BucketSettings::read(text, &DIALECT, |name, value| {
            let is_account = (3..=24).contains(&value.len())
                && value
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
            match name {
                "account" if is_account => account = Some(value.to_owned()),
                "account" => {
                    return Err(refused(
                        "invalid `account` of the object store; expected the name of a storage account: 3 to 24 of a-z 0-9"
                            .to_owned(),
                    ));
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        for place in common.base.iter().chain(common.buckets.values()) {
            if place.bucket.contains('.') || place.bucket.contains("--") {
                return Err(refused(format!(
                    "invalid container name `{}`; expected 3 to 63 of a-z 0-9 and single `-`",
                    place.bucket
                )));
            }
        }
        Ok(Self { common, account })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buckets::settings::Location;

    #[test]
    fn a_url_says_where_and_how() {
        let url = "az://objects/prod?account=files1&endpoint=http://127.0.0.1:10000/files1&map.out=results&part_mib=5";
        let settings = AzureSettings::from_url(url).unwrap();
        assert_eq!(settings.account.as_deref(), Some("files1"));
        assert_eq!(
            settings.common.base,
            Some(Location {
                bucket: "objects".to_owned(),
                prefix: "prod".to_owned()
            })
        );
        assert_eq!(
            settings.common.endpoint.as_deref(),
            Some("http://127.0.0.1:10000/files1")
        );
        assert_eq!(
            (settings.common.buckets.len(), settings.common.part_bytes),
            (1, 5 << 20)
        );
    }

    #[test]
    fn a_wrong_url_is_refused_with_what_is_expected_and_no_secret() {
        for (url, expected) in [
            ("azure://objects", "az://CONTAINER/PREFIX?account=NAME"),
            ("az://", "az://CONTAINER/PREFIX?account=NAME"),
            (
                "az://objects@files1.blob.core.windows.net/x",
                "az://CONTAINER/PREFIX?account=NAME",
            ),
            (
                "az://files1:secret@objects",
                "AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
            ),
            (
                "az://objects?account_key=secret",
                "knows no `account_key`; it knows account, endpoint",
            ),
            ("az://objects?sv=2025-01-05&sig=secret", "knows no `sv`"),
            ("az://objects?region=eu", "knows no `region`"),
            ("az://objects?account=Files_1", "3 to 24 of a-z 0-9"),
            ("az://my.objects?account=files1", "single `-`"),
            ("az://objects?map.out=my--results", "single `-`"),
            ("az://Objects", "no place"),
        ] {
            let error = AzureSettings::from_url(url).unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
            assert!(
                !error.contains("secret@") && !error.contains("=secret"),
                "{error}"
            );
        }
        let endpoint =
            "az://objects?account=files1&endpoint=https://files1.example.org/?sig=secret";
        let error = super::super::open(&AzureSettings::from_url(endpoint).unwrap())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("nothing secret") && !error.contains("=secret"),
            "{error}"
        );
        let plain = "az://objects?account=files1&endpoint=http://files1.example.org";
        let error = super::super::open(&AzureSettings::from_url(plain).unwrap())
            .unwrap_err()
            .to_string();
        assert!(error.contains("not encrypted"), "{error}");
    }
}
