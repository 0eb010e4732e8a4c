//! Objects in S3-compatible buckets: what only such servers do. The rest is in `buckets`.

mod credentials;
mod requests;
mod settings;

pub use settings::S3Settings;

use crate::buckets::BucketObjects;
use crate::buckets::backends::Backends;
use crate::buckets::client::{Client, ObjectsFound, Uploads, has_code};
use crate::buckets::connection::Connection;
use crate::buckets::settings::{Credentials, Location, refused};
use crate::tls::install_provider;
use async_trait::async_trait;
use counterstep_kernel::ports::ObjectError;
use credentials::FileCredentials;
use object_store::ObjectStore;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector, ReqwestConnector};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The largest object that a server copies with one request.
const LARGEST_COPY: u64 = 5 << 30;

/// Makes the clients. Makes no connection: see [`BucketObjects::check`].
///
/// # Errors
/// Settings that cannot work, each with what to do about it.
pub fn open(settings: &S3Settings) -> Result<BucketObjects, ObjectError> {
    install_provider();
    Ok(BucketObjects::of(
        backends(settings)?,
        settings.common.part_bytes,
    ))
}

pub(crate) fn backends(settings: &S3Settings) -> Result<Backends, ObjectError> {
    let environment = AmazonS3Builder::from_env();
    let usual = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    let usual = usual
        .iter()
        .find_map(|key| environment.get_config_value(key));
    let connection = Connection::of(&settings.common, usual)?;
    Backends::open(&settings.common, |place| {
        Ok(Box::new(S3Client::open(
            settings,
            &connection,
            environment.clone(),
            place,
        )?))
    })
}

/// A client for one bucket.
#[derive(Debug)]
struct S3Client {
    bucket: String,
    store: AmazonS3,
    /// For the requests that `object_store` does not know.
    http: HttpClient,
    request_timeout: Duration,
    retry_for: Duration,
}

impl S3Client {
    fn open(
        settings: &S3Settings,
        connection: &Connection,
        builder: AmazonS3Builder,
        place: &Location,
    ) -> Result<Self, ObjectError> {
        let path_style = settings.path_style.unwrap_or(connection.endpoint.is_some());
        let mut builder = builder
            .with_bucket_name(&place.bucket)
            .with_virtual_hosted_style_request(!path_style)
            .with_client_options(connection.client.clone())
            .with_disable_bulk_delete(!settings.bulk_delete)
            .with_retry(connection.retry.clone());
        if let Some(region) = &settings.region {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = &connection.endpoint {
            let mut endpoint = endpoint.clone();
            if !path_style {
                let host = endpoint.host_str().unwrap_or_default();
                let host = format!("{}.{host}", place.bucket);
                endpoint
                    .set_host(Some(&host))
                    .map_err(|error| refused(format!("{host} is no host: {error}")))?;
            }
            builder = builder.with_config(
                AmazonS3ConfigKey::S3Endpoint,
                endpoint.as_str().trim_end_matches('/'),
            );
        }
        if let Credentials::File(file) = &settings.common.credentials {
            builder = builder.with_credentials(Arc::new(FileCredentials(file.clone())));
        }
        let wrong =
            |error: object_store::Error| refused(format!("bucket `{}`: {error}", place.bucket));
        Ok(Self {
            bucket: place.bucket.clone(),
            store: builder.build().map_err(wrong)?,
            http: ReqwestConnector::default()
                .connect(&connection.client)
                .map_err(wrong)?,
            request_timeout: settings.common.request_timeout,
            retry_for: settings.common.retry_for,
        })
    }
}

#[async_trait]
impl Client for S3Client {
    fn store(&self) -> &dyn ObjectStore {
        &self.store
    }

    fn parts(&self) -> &dyn MultipartStore {
        &self.store
    }

    fn uploads(&self) -> Option<&dyn Uploads> {
        Some(self)
    }

    async fn check(&self) -> Result<(), ObjectError> {
        requests::check(self).await
    }

    async fn objects(
        &self,
        folder: &Path,
        after: &str,
        limit: usize,
    ) -> Result<ObjectsFound, ObjectError> {
        requests::objects_page(self, folder, after, limit).await
    }

    fn is_no_bucket(&self, error: &object_store::Error) -> bool {
        has_code(error, "NoSuchBucket")
    }

    fn largest_copy(&self) -> Option<u64> {
        Some(LARGEST_COPY)
    }

    fn cursor(&self) -> &'static str {
        "o"
    }
}
