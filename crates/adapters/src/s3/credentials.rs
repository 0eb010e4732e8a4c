//! Keys of an S3 server from a file. Must not repeat what it reads in an error.

use crate::buckets::credentials;
use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use std::path::PathBuf;
use std::sync::Arc;

/// Reads its file whenever a request is signed.
#[derive(Debug)]
pub(super) struct FileCredentials(pub(super) PathBuf);

#[async_trait]
impl CredentialProvider for FileCredentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let text = credentials::read("S3", &self.0).await?;
        parse(&text).map(Arc::new).ok_or_else(|| object_store::Error::Generic {
            store: "S3",
            source: format!(
                "{} lacks `aws_access_key_id = …` and `aws_secret_access_key = …` in its [default] section",
                self.0.display()
            )
            .into(),
        })
    }
}

fn parse(text: &str) -> Option<AwsCredential> {
    let (mut key_id, mut secret_key, mut token) = (None, None, None);
    for (name, value) in credentials::entries(text) {
        let value = Some(value.to_owned());
        match name.as_str() {
            "aws_access_key_id" => key_id = value,
            "aws_secret_access_key" => secret_key = value,
            "aws_session_token" => token = value,
            _ => {}
        }
    }
    Some(AwsCredential {
        key_id: key_id?,
        secret_key: secret_key?,
        token,
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_default_section_counts() {
        let text = "# ours\n[other]\naws_access_key_id=x\naws_secret_access_key=y\n\n[default]\n\
                    aws_access_key_id = id\naws_secret_access_key = a=b\nregion = eu\n";
        let found = parse(text).unwrap();
        assert_eq!(
            (
                found.key_id.as_str(),
                found.secret_key.as_str(),
                found.token
            ),
            ("id", "a=b", None)
        );
        let bare =
            parse("aws_access_key_id=id\naws_secret_access_key=s\naws_session_token=t").unwrap();
        assert_eq!(bare.token.as_deref(), Some("t"));
        assert!(parse("aws_access_key_id=id\naws_secret_access_key=\n").is_none());
        assert!(parse("[other]\naws_access_key_id=id\naws_secret_access_key=s").is_none());
    }
}
