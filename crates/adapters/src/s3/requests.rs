//! The requests that `object_store` does not know: open uploads, their parts, and a listing of one
//! key. It signs them and sends them; what is here is their parameters and their answers.

use super::S3Client;
use crate::buckets::client::{
    FoundObject, ObjectsFound, OpenUpload, Uploads, UploadsFound, clock, unavailable,
};
use crate::buckets::connection::retry_pause;
use async_trait::async_trait;
use counterstep_kernel::ports::ObjectError;
use counterstep_steps::times::read_rfc3339;
use futures::StreamExt;
use object_store::client::{HttpRequest, HttpRequestBody};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::signer::{Method, SignedUrlOptions, Signer};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// For how long a signature is good. S3 accepts other requests from clocks that differ by up to a
/// quarter of an hour; a shorter time here would refuse a host whose clock is behind by less than
/// that.
const SIGNED_FOR: Duration = Duration::from_secs(900);
/// Maximum bytes of the answer to a listing.
const MAX_ANSWER: usize = 16 << 20;

/// An open upload in a listing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OneUpload {
    key: String,
    upload_id: String,
    /// RFC 3339.
    #[serde(default)]
    initiated: Option<String>,
}

/// An object in a listing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OneObject {
    key: String,
    #[serde(default)]
    size: u64,
    /// RFC 3339.
    #[serde(default)]
    last_modified: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ObjectsPage {
    #[serde(default)]
    is_truncated: bool,
    #[serde(default)]
    contents: Vec<OneObject>,
}

/// An answer, and the server's clock in it.
#[derive(Debug)]
struct Dated<T> {
    page: T,
    /// As in HTTP; empty where the answer has none.
    date: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct UploadsPage {
    #[serde(default)]
    is_truncated: bool,
    next_key_marker: Option<String>,
    next_upload_id_marker: Option<String>,
    #[serde(default)]
    upload: Vec<OneUpload>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PartsPage {
    #[serde(default)]
    is_truncated: bool,
    next_part_number_marker: Option<String>,
    #[serde(default)]
    part: Vec<OnePart>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OnePart {
    #[serde(default)]
    size: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Refusal {
    code: String,
    message: Option<String>,
}

/// One page of the objects below a folder, behind a key. `object_store` has such a request too,
/// without the server's clock in its answer.
pub(super) async fn objects_page(
    client: &S3Client,
    folder: &Path,
    after: &str,
    limit: usize,
) -> Result<ObjectsFound, ObjectError> {
    let mut query = vec![
        ("list-type", "2".to_owned()),
        ("max-keys", limit.to_string()),
        ("prefix", format!("{folder}/")),
    ];
    query.extend((!after.is_empty()).then(|| ("start-after", after.to_owned())));
    let Dated { page, date } = ask(client, &Path::default(), query)
        .await
        .map_err(|error| error.object_error(client))?;
    let ObjectsPage {
        is_truncated,
        contents,
    } = page;
    let next = contents
        .last()
        .filter(|_| is_truncated)
        .map(|last| last.key.clone());
    let objects = contents.into_iter().map(
        |OneObject {
             key,
             size,
             last_modified,
         }| FoundObject {
            key,
            size_bytes: size,
            stored_at: read_rfc3339(&last_modified),
        },
    );
    Ok(ObjectsFound {
        objects: objects.collect(),
        now: clock(&date),
        next,
    })
}

#[async_trait]
impl Uploads for S3Client {
    // MinIO answers with those of exactly this key, so none; it drops uploads itself after a day.
    // `deploy/README.md` tells operators to have their server do the same.
    async fn page(
        &self,
        folder: &Path,
        after: Option<(String, String)>,
        limit: Option<usize>,
    ) -> Result<UploadsFound, ObjectError> {
        let mut query = vec![("uploads", String::new()), ("prefix", format!("{folder}/"))];
        query.extend(limit.map(|limit| ("max-uploads", limit.to_string())));
        if let Some((key, upload)) = after {
            query.push(("key-marker", key));
            query.extend((!upload.is_empty()).then_some(("upload-id-marker", upload)));
        }
        let Dated { page, date } = ask(self, &Path::default(), query)
            .await
            .map_err(|error| error.object_error(self))?;
        let UploadsPage {
            is_truncated,
            next_key_marker,
            next_upload_id_marker,
            upload,
        } = page;
        let next = next_key_marker
            .filter(|_| is_truncated)
            .map(|key| (key, next_upload_id_marker.unwrap_or_default()));
        let uploads = upload.into_iter().map(
            |OneUpload {
                 key,
                 upload_id,
                 initiated,
             }| OpenUpload {
                key,
                id: upload_id,
                begun_at: initiated.as_deref().and_then(read_rfc3339),
            },
        );
        Ok(UploadsFound {
            uploads: uploads.collect(),
            now: clock(&date),
            next,
        })
    }

    async fn size(&self, upload: &OpenUpload) -> Result<u64, ObjectError> {
        let path = parsed(self, upload)?;
        let (mut size_bytes, mut marker) = (0, None);
        loop {
            let mut query = vec![("uploadId", upload.id.clone())];
            query.extend(marker.map(|number| ("part-number-marker", number)));
            let page: PartsPage = match ask(self, &path, query).await {
                Ok(answer) => answer.page,
                Err(Failed::Refused { status: 404, .. }) => return Ok(0),
                Err(error) => return Err(error.object_error(self)),
            };
            size_bytes += page.part.iter().map(|part| part.size).sum::<u64>();
            match page.next_part_number_marker.filter(|_| page.is_truncated) {
                Some(next) => marker = Some(next),
                None => return Ok(size_bytes),
            }
        }
    }

    async fn abort(&self, upload: &OpenUpload) -> Result<bool, ObjectError> {
        let path = parsed(self, upload)?;
        match self.store.abort_multipart(&path, &upload.id).await {
            Ok(()) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(unavailable(&self.bucket, error)),
        }
    }
}

fn parsed(client: &S3Client, upload: &OpenUpload) -> Result<Path, ObjectError> {
    Path::parse(&upload.key).map_err(|error| unavailable(&client.bucket, error))
}

/// Lists one key of a bucket.
pub(super) async fn check(client: &S3Client) -> Result<(), ObjectError> {
    #[derive(Deserialize)]
    struct Page {}
    let query = vec![("list-type", "2".to_owned()), ("max-keys", "1".to_owned())];
    let Dated { page: Page {}, .. } = ask(client, &Path::default(), query)
        .await
        .map_err(|error| error.object_error(client))?;
    Ok(())
}

/// Why there is no answer.
enum Failed {
    /// The server said so.
    Refused { status: u16, why: String },
    /// Anything before that.
    Unanswered(String),
}

impl Failed {
    fn object_error(self, client: &S3Client) -> ObjectError {
        let bucket = &client.bucket;
        match self {
            Self::Refused { status: 404, why } if why.contains("NoSuchBucket") => {
                ObjectError::Unavailable(format!(
                    "there is no bucket `{bucket}`: make it, or map another one ({why})"
                ))
            }
            Self::Refused {
                status: 401 | 403,
                why,
            } => ObjectError::Unavailable(format!(
                "bucket `{bucket}`: the credentials are not accepted, or may not list it ({why})"
            )),
            Self::Refused { status, why } => {
                unavailable(bucket, format_args!("status {status}: {why}"))
            }
            Self::Unanswered(why) => unavailable(bucket, why),
        }
    }

    fn may_pass(&self) -> bool {
        match self {
            Self::Refused { status, .. } => *status >= 500 || matches!(*status, 408 | 429),
            Self::Unanswered(_) => true,
        }
    }
}

/// A signed GET, repeated while the server cannot answer it, and its answer.
async fn ask<T: DeserializeOwned>(
    client: &S3Client,
    path: &Path,
    query: Vec<(&'static str, String)>,
) -> Result<Dated<T>, Failed> {
    let options = SignedUrlOptions::new().with_query(query);
    let begun = tokio::time::Instant::now();
    let mut tried = 0;
    loop {
        let once = tokio::time::timeout(client.request_timeout, ask_once(client, path, &options));
        let late = || Failed::Unanswered(format!("no answer within {:?}", client.request_timeout));
        let failed = match once.await.unwrap_or_else(|_| Err(late())) {
            Ok((body, date)) => {
                let text = String::from_utf8_lossy(&body);
                return quick_xml::de::from_str(&text)
                    .map(|page| Dated { page, date })
                    .map_err(|error| {
                        Failed::Unanswered(format!("its answer cannot be read: {error}"))
                    });
            }
            Err(failed) => failed,
        };
        let pause = retry_pause(tried);
        if !failed.may_pass() || begun.elapsed() + pause > client.retry_for {
            return Err(failed);
        }
        tokio::time::sleep(pause).await;
        tried += 1;
    }
}

async fn ask_once(
    client: &S3Client,
    path: &Path,
    options: &SignedUrlOptions,
) -> Result<(Vec<u8>, String), Failed> {
    let unanswered = |error: &dyn std::fmt::Display| Failed::Unanswered(error.to_string());
    let url = client
        .store
        .signed_url_opts(Method::GET, path, SIGNED_FOR, options)
        .await;
    let url = url.map_err(|error| unanswered(&error))?;
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.uri_mut() = url
        .as_str()
        .parse()
        .map_err(|_| Failed::Unanswered("its URL is none".to_owned()))?;
    let answer = client
        .http
        .execute(request)
        .await
        .map_err(|error| unanswered(&error))?;
    let status = answer.status();
    let date = answer
        .headers()
        .get("date")
        .and_then(|date| date.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let mut chunks = answer.into_body().bytes_stream();
    let mut body = Vec::new();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.map_err(|error| unanswered(&error))?);
        if body.len() > MAX_ANSWER {
            return Err(Failed::Unanswered(format!(
                "its answer is longer than {MAX_ANSWER} bytes"
            )));
        }
    }
    if status.is_success() {
        return Ok((body, date));
    }
    let why = match quick_xml::de::from_str::<Refusal>(&String::from_utf8_lossy(&body)) {
        Ok(Refusal { code, message }) => format!("{code}: {}", message.unwrap_or_default()),
        Err(_) => status
            .canonical_reason()
            .unwrap_or("no reason given")
            .to_owned(),
    };
    Err(Failed::Refused {
        status: status.as_u16(),
        why,
    })
}
