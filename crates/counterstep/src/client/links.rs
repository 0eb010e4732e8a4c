//! Links to files of responses, which the API signs. Must not follow one.

use super::http::{ANSWER, HttpError, OverHttp, encode};
use super::{ClientError, Handle, Way};
use counterstep_contracts::TaskId;
use counterstep_contracts::link::{NewLinkRequest, ResultLink};
use counterstep_contracts::retry::format_duration;
use counterstep_steps::DistributedTask;
use std::time::Duration;

impl OverHttp {
    /// A link to a stored file of a task's response, whole: with the address that this client has of the API.
    pub(crate) async fn result_link(
        &self,
        task: TaskId,
        name: &str,
        valid_for: Option<String>,
    ) -> Result<ResultLink, HttpError> {
        let segments: Vec<_> = name.split('/').map(encode).collect();
        let path = segments.join("/");
        let url = format!("{}/api/tasks/{task}/result/{path}/link", self.base);
        let request = self.client.post(url).json(&NewLinkRequest { valid_for });
        let link: ResultLink = self.read(request.timeout(ANSWER)).await?;
        Ok(ResultLink {
            url: whole(&self.base, &link.url),
            ..link
        })
    }
}

/// An address of the API from its path. That begins with where the API is mounted, which the base holds too; what a
/// proxy takes away the base holds alone.
fn whole(base: &str, path: &str) -> String {
    let Ok(base) = reqwest::Url::parse(base) else {
        return path.to_owned();
    };
    // Without the password that a base may hold.
    let (origin, mount) = (
        base.origin().ascii_serialization(),
        base.path().trim_end_matches('/'),
    );
    if path.starts_with(&format!("{mount}/")) {
        format!("{origin}{path}")
    } else {
        format!("{origin}{mount}{path}")
    }
}

impl<T: DistributedTask> Handle<T> {
    /// A link to a stored file of the response, by the name of its field (`zip`) or the name of a list and an
    /// index (`files/0`). Its holder needs no credential for this long: whole seconds, at most 7 days. The link
    /// is whole, with the address that this client has of the API.
    ///
    /// # Errors
    /// [`ClientError::Refused`], where the task has not completed or has no such file, where the API makes no
    /// links, and for a client in the process of an engine: the API signs links.
    pub async fn link(&self, name: &str, valid_for: Duration) -> Result<ResultLink, ClientError> {
        match &self.client.0 {
            Way::InProcess(_) => Err(ClientError::refused(
                "links are signed by the API: use a client that talks to it over HTTP",
            )),
            Way::Http(http) => {
                let valid_for = Some(format_duration(valid_for));
                Ok(http.result_link(self.task, name, valid_for).await?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_whole_wherever_the_api_is_mounted() {
        for (base, path, expected) in [
            (
                "http://127.0.0.1:8080",
                "/api/links/x?a=b",
                "http://127.0.0.1:8080/api/links/x?a=b",
            ),
            (
                "https://me:pw@api.example",
                "/api/links/x",
                "https://api.example/api/links/x",
            ),
            (
                "https://api.example/work",
                "/work/api/links/x",
                "https://api.example/work/api/links/x",
            ),
            (
                "https://api.example/work",
                "/api/links/x",
                "https://api.example/work/api/links/x",
            ),
        ] {
            assert_eq!(whole(base, path), expected);
        }
    }
}
