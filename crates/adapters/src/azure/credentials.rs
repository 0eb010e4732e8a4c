//! The account's key or a shared access signature from a file. Must not repeat what it reads in an
//! error.

use crate::buckets::credentials;
use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::azure::{AzureAccessKey, AzureCredential, split_sas};
use std::path::PathBuf;
use std::sync::Arc;

/// Reads its file whenever a request is signed.
#[derive(Debug)]
pub(super) struct FileCredentials(pub(super) PathBuf);

#[async_trait]
impl CredentialProvider for FileCredentials {
    type Credential = AzureCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AzureCredential>> {
        let text = credentials::read("Azure", &self.0).await?;
        parse(&text)
            .map(Arc::new)
            .ok_or_else(|| object_store::Error::Generic {
                store: "Azure",
                source: format!(
                    "invalid credentials in {}; expected either `azure_storage_account_key = …` or \
                 `azure_storage_sas_token = …` in its [default] section",
                    self.0.display()
                )
                .into(),
            })
    }
}

/// `None` for both of them too: it would be chance which one counts.
fn parse(text: &str) -> Option<AzureCredential> {
    let mut found = Vec::new();
    for (name, value) in credentials::entries(text) {
        match name.as_str() {
            "azure_storage_account_key" => {
                found.push(
                    AzureAccessKey::try_new(value)
                        .ok()
                        .map(AzureCredential::AccessKey)?,
                );
            }
            "azure_storage_sas_token" => {
                found.push(split_sas(value).ok().map(AzureCredential::SASToken)?)
            }
            _ => {}
        }
    }
    let only = found.pop()?;
    found.is_empty().then_some(only)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_or_a_signature_counts_and_not_both() {
        let key = "# ours\n[other]\nazure_storage_account_key = eA==\n[default]\nAZURE_STORAGE_ACCOUNT_KEY = a2V5\n";
        assert_eq!(
            parse(key),
            Some(AzureCredential::AccessKey(
                AzureAccessKey::try_new("a2V5").unwrap()
            ))
        );
        let signed = vec![
            ("sv".to_owned(), "2025-01-05".to_owned()),
            ("sig".to_owned(), "a/b=".to_owned()),
        ];
        let token = "azure_storage_sas_token = ?sv=2025-01-05&sig=a%2Fb%3D";
        assert_eq!(parse(token), Some(AzureCredential::SASToken(signed)));
        assert_eq!(parse(&format!("{key}{token}")), None);
        assert_eq!(parse("azure_storage_account_key = no base64!"), None);
        assert_eq!(parse("aws_access_key_id = x"), None);
    }
}
