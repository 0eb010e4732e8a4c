//! The operations of S3 on files: those of `s3s-fs`, and in its place a listing of open multipart
//! uploads, which it lacks, and a listing of objects that reads no more than the asked-for folder
//! and stands deletes beside it.

use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of keys of one answer, as S3 has it.
const PAGE: i32 = 1000;

pub(super) struct BucketFiles {
    files: FileSystem,
    root: PathBuf,
}

impl BucketFiles {
    pub(super) fn new(root: &Path) -> io::Result<Self> {
        let files =
            FileSystem::new(root).map_err(|error| io::Error::other(format!("{error:?}")))?;
        Ok(Self {
            files,
            root: root.canonicalize()?,
        })
    }

    /// A bucket's folder.
    fn bucket(&self, bucket: &str) -> S3Result<PathBuf> {
        let folder = self.root.join(bucket);
        if folder.is_dir() {
            Ok(folder)
        } else {
            Err(s3_error!(NoSuchBucket))
        }
    }

    /// Open uploads of a bucket as key, id and beginning, sorted as S3 sorts them.
    fn uploads(&self, bucket: &str, prefix: &str) -> io::Result<Vec<(String, String, Timestamp)>> {
        let mut uploads = Vec::new();
        // `s3s-fs` keeps a file for each:
        // `.bucket-{bucket}.object-{key}.upload-{id}.metadata.json`, names in base64.
        let start = format!(".bucket-{}.object-", base64_url(bucket.as_bytes()));
        for entry in std::fs::read_dir(&self.root)? {
            let entry = entry?;
            let name = entry.file_name();
            let inner = name
                .to_str()
                .and_then(|name| name.strip_prefix(&start)?.strip_suffix(".metadata.json"));
            let Some((key, id)) = inner.and_then(|inner| inner.split_once(".upload-")) else {
                continue;
            };
            let Some(key) = from_base64_url(key).and_then(|key| String::from_utf8(key).ok()) else {
                continue;
            };
            match entry.metadata().and_then(|found| found.modified()) {
                Ok(begun) if key.starts_with(prefix) => {
                    uploads.push((key, id.to_owned(), begun.into()))
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                // Completed or aborted since, or not asked for.
                Ok(_) | Err(_) => {}
            }
        }
        uploads.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        Ok(uploads)
    }
}

/// A page of the objects below `prefix` and behind `after` as key, size and last change, sorted by key.
/// Folders that lie wholly before `after` are not opened, so that a page costs no more the further it is from
/// the beginning.
fn objects(
    bucket: &Path,
    prefix: &str,
    after: &str,
    most: usize,
) -> io::Result<Vec<(String, u64, Timestamp)>> {
    let mut found = Vec::new();
    let folder = prefix
        .rsplit_once('/')
        .map_or(String::new(), |(folder, _)| format!("{folder}/"));
    walk(
        bucket,
        &folder,
        &|key| key.starts_with(prefix),
        after,
        most,
        &mut found,
    )?;
    Ok(found)
}

type Entry = (String, u64, Timestamp);

fn walk(
    bucket: &Path,
    folder: &str,
    wanted: &dyn Fn(&str) -> bool,
    after: &str,
    most: usize,
    found: &mut Vec<Entry>,
) -> io::Result<()> {
    let mut names = Vec::new();
    let entries = match std::fs::read_dir(bucket.join(folder)) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let slash = match entry.file_type() {
            Ok(kind) if kind.is_dir() => "/",
            Ok(_) => "",
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        let Some(name) = entry
            .file_name()
            .to_str()
            .map(|name| format!("{folder}{name}{slash}"))
        else {
            continue;
        };
        if name.as_str() > after || (!slash.is_empty() && after.starts_with(&name)) {
            names.push(name);
        }
    }
    names.sort_unstable();
    for name in names {
        if found.len() >= most {
            return Ok(());
        }
        if name.ends_with('/') {
            walk(bucket, &name, wanted, after, most, found)?;
        } else if wanted(&name) {
            match std::fs::metadata(bucket.join(&name))
                .and_then(|file| Ok((file.len(), file.modified()?)))
            {
                Ok((size, changed)) => found.push((name, size, changed.into())),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn broken(error: io::Error) -> s3s::S3Error {
    s3_error!(error, InternalError)
}

/// Makes each operation call the one of `s3s-fs`. That one would make a bucket that is missing, or
/// say that only the object is: so operations in a bucket look for it first.
macro_rules! as_files_do {
    (
        $($operation:ident: $input:ty => $output:ty),+;
        in a bucket: $($inside:ident: $inside_input:ty => $inside_output:ty),+ $(,)?
    ) => {
        #[async_trait::async_trait]
        impl S3 for BucketFiles {
            $(async fn $operation(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                self.files.$operation(request).await
            })+

            $(async fn $inside(&self, request: S3Request<$inside_input>) -> S3Result<S3Response<$inside_output>> {
                self.bucket(&request.input.bucket)?;
                self.files.$inside(request).await
            })+

            async fn list_objects_v2(
                &self,
                request: S3Request<ListObjectsV2Input>,
            ) -> S3Result<S3Response<ListObjectsV2Output>> {
                if request.input.delimiter.is_some() {
                    return self.files.list_objects_v2(request).await;
                }
                self.list(request.input).map(S3Response::new)
            }

            async fn list_multipart_uploads(
                &self,
                request: S3Request<ListMultipartUploadsInput>,
            ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
                self.list_uploads(request.input).map(S3Response::new)
            }
        }
    };
}

as_files_do! {
    create_bucket: CreateBucketInput => CreateBucketOutput,
    list_buckets: ListBucketsInput => ListBucketsOutput;
    in a bucket:
    abort_multipart_upload: AbortMultipartUploadInput => AbortMultipartUploadOutput,
    complete_multipart_upload: CompleteMultipartUploadInput => CompleteMultipartUploadOutput,
    copy_object: CopyObjectInput => CopyObjectOutput,
    create_multipart_upload: CreateMultipartUploadInput => CreateMultipartUploadOutput,
    delete_bucket: DeleteBucketInput => DeleteBucketOutput,
    delete_object: DeleteObjectInput => DeleteObjectOutput,
    delete_objects: DeleteObjectsInput => DeleteObjectsOutput,
    get_bucket_location: GetBucketLocationInput => GetBucketLocationOutput,
    get_object: GetObjectInput => GetObjectOutput,
    head_bucket: HeadBucketInput => HeadBucketOutput,
    head_object: HeadObjectInput => HeadObjectOutput,
    list_objects: ListObjectsInput => ListObjectsOutput,
    list_parts: ListPartsInput => ListPartsOutput,
    put_object: PutObjectInput => PutObjectOutput,
    upload_part: UploadPartInput => UploadPartOutput,
    upload_part_copy: UploadPartCopyInput => UploadPartCopyOutput,
}

impl BucketFiles {
    // Reading a small folder blocks this runtime's thread for less than handing it over would take.
    fn list(&self, input: ListObjectsV2Input) -> S3Result<ListObjectsV2Output> {
        let bucket = self.bucket(&input.bucket)?;
        let after = input
            .continuation_token
            .as_deref()
            .max(input.start_after.as_deref())
            .unwrap_or("");
        let most = input.max_keys.unwrap_or(PAGE).clamp(0, PAGE);
        let prefix = input.prefix.as_deref().unwrap_or("");
        let mut found = objects(&bucket, prefix, after, most as usize + 1).map_err(broken)?;
        let more = found.len() > most as usize;
        found.truncate(most as usize);
        Ok(ListObjectsV2Output {
            key_count: Some(found.len() as i32),
            max_keys: Some(most),
            is_truncated: Some(more),
            next_continuation_token: found.last().filter(|_| more).map(|(key, ..)| key.clone()),
            contents: Some(
                found
                    .into_iter()
                    .map(|(key, size, changed)| Object {
                        key: Some(key),
                        size: Some(size as i64),
                        last_modified: Some(changed),
                        ..Default::default()
                    })
                    .collect(),
            ),
            continuation_token: input.continuation_token,
            name: Some(input.bucket),
            prefix: input.prefix,
            start_after: input.start_after,
            ..Default::default()
        })
    }

    fn list_uploads(
        &self,
        input: ListMultipartUploadsInput,
    ) -> S3Result<ListMultipartUploadsOutput> {
        self.bucket(&input.bucket)?;
        let mut found = self
            .uploads(&input.bucket, input.prefix.as_deref().unwrap_or(""))
            .map_err(broken)?;
        if let Some(marker) = &input.key_marker {
            // With an id, the page goes on within the key; without one, behind it.
            found.retain(|(key, id, _)| match &input.upload_id_marker {
                Some(upload) => (key, id) > (marker, upload),
                None => key > marker,
            });
        }
        let most = input.max_uploads.unwrap_or(PAGE).clamp(0, PAGE);
        let more = found.len() > most as usize;
        found.truncate(most as usize);
        let last = found.last().filter(|_| more).cloned();
        Ok(ListMultipartUploadsOutput {
            bucket: Some(input.bucket),
            prefix: input.prefix,
            key_marker: input.key_marker,
            upload_id_marker: input.upload_id_marker,
            max_uploads: Some(most),
            is_truncated: Some(more),
            next_key_marker: last.as_ref().map(|(key, ..)| key.clone()),
            next_upload_id_marker: last.map(|(_, id, _)| id),
            uploads: Some(
                found
                    .into_iter()
                    .map(|(key, id, begun)| MultipartUpload {
                        key: Some(key),
                        upload_id: Some(id),
                        initiated: Some(begun),
                        ..Default::default()
                    })
                    .collect(),
            ),
            ..Default::default()
        })
    }
}

/// The file that `s3s-fs` keeps of an open upload.
pub(super) fn upload_file(bucket: &str, key: &str, id: &str) -> String {
    let (bucket, key) = (base64_url(bucket.as_bytes()), base64_url(key.as_bytes()));
    format!(".bucket-{bucket}.object-{key}.upload-{id}.metadata.json")
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64 with the letters of URLs and without padding.
fn base64_url(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let three = chunk.iter().enumerate().fold(0_u32, |sum, (n, byte)| {
            sum | u32::from(*byte) << (16 - 8 * n)
        });
        (0..=chunk.len())
            .for_each(|n| text.push(char::from(LETTERS[(three >> (18 - 6 * n) & 63) as usize])));
    }
    text
}

fn from_base64_url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for chunk in text.as_bytes().chunks(4) {
        let mut three = 0_u32;
        for (n, letter) in chunk.iter().enumerate() {
            three |= (LETTERS.iter().position(|known| known == letter)? as u32) << (18 - 6 * n);
        }
        (1..chunk.len()).for_each(|n| bytes.push((three >> (24 - 8 * n)) as u8));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_uploads_are_read_back() {
        for name in [
            "",
            "f",
            "fo",
            "foo",
            "t/default/0193/zip/e1.1/0",
            "~~~???>>>",
        ] {
            assert_eq!(
                from_base64_url(&base64_url(name.as_bytes())).as_deref(),
                Some(name.as_bytes())
            );
        }
        assert_eq!(base64_url(b"foobar?>"), "Zm9vYmFyPz4");
        assert_eq!(from_base64_url("a.b"), None);
    }
}
