//! Objects in containers of Azure Blob Storage: what only Azure does. The rest is in `buckets`.
//!
//! Azure shows no upload before it is complete, and cannot abort one: it removes what it has
//! received of it a week later.

mod credentials;
mod dated;
mod settings;

pub use settings::AzureSettings;

use crate::buckets::BucketObjects;
use crate::buckets::backends::Backends;
use crate::buckets::client::{
    Client, FoundObject, ObjectsFound, Uploads, clock, has_code, unavailable,
};
use crate::buckets::connection::Connection;
use crate::buckets::settings::{Credentials, Location, refused};
use crate::tls::install_provider;
use async_trait::async_trait;
use counterstep_kernel::ports::ObjectError;
use counterstep_steps::error::chain;
use credentials::FileCredentials;
use dated::{DatedConnector, ServerDate};
use object_store::ObjectStore;
use object_store::azure::{AzureConfigKey, MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use std::sync::Arc;

/// Makes the clients. Makes no connection: see [`BucketObjects::check`].
///
/// # Errors
/// Settings that cannot work, each with what to do about it.
pub fn open(settings: &AzureSettings) -> Result<BucketObjects, ObjectError> {
    install_provider();
    let environment = MicrosoftAzureBuilder::from_env();
    let account = settings
        .account
        .clone()
        .or_else(|| environment.get_config_value(&AzureConfigKey::AccountName));
    let account = account.filter(|name| !name.is_empty()).ok_or_else(|| {
        refused("the object store's URL names no account; expected account=NAME, or AZURE_STORAGE_ACCOUNT_NAME".into())
    })?;
    let connection = Connection::of(
        &settings.common,
        environment.get_config_value(&AzureConfigKey::Endpoint),
    )?;
    // The emulator's own setting would put another endpoint in the place of the one that has been
    // checked.
    let builder = environment.with_account(account).with_use_emulator(false);
    let backends = Backends::open(&settings.common, |place| {
        Ok(Box::new(AzureClient::open(
            settings,
            &connection,
            builder.clone(),
            place,
        )?))
    })?;
    Ok(BucketObjects::of(backends, settings.common.part_bytes))
}

/// A client for one container.
#[derive(Debug)]
struct AzureClient {
    container: String,
    store: MicrosoftAzure,
}

impl AzureClient {
    fn open(
        settings: &AzureSettings,
        connection: &Connection,
        builder: MicrosoftAzureBuilder,
        place: &Location,
    ) -> Result<Self, ObjectError> {
        let mut builder = builder
            .with_container_name(&place.bucket)
            .with_client_options(connection.client.clone())
            .with_http_connector(DatedConnector)
            .with_retry(connection.retry.clone());
        if let Some(endpoint) = &connection.endpoint {
            builder = builder.with_endpoint(endpoint.as_str().trim_end_matches('/').to_owned());
        }
        if let Credentials::File(file) = &settings.common.credentials {
            builder = builder.with_credentials(Arc::new(FileCredentials(file.clone())));
        }
        let store = builder
            .build()
            .map_err(|error| refused(format!("bucket `{}`: {error}", place.bucket)))?;
        Ok(Self {
            container: place.bucket.clone(),
            store,
        })
    }

    async fn list(
        &self,
        prefix: Option<&str>,
        after: &str,
        limit: usize,
    ) -> Result<PaginatedListResult, object_store::Error> {
        let page_token = (!after.is_empty()).then(|| after.to_owned());
        let options = PaginatedListOptions {
            max_keys: Some(limit),
            page_token,
            ..PaginatedListOptions::default()
        };
        self.store.list_paginated(prefix, options).await
    }

    fn object_error(&self, error: &object_store::Error) -> ObjectError {
        let (container, why) = (&self.container, chain(error));
        if self.is_no_bucket(error) {
            return ObjectError::Unavailable(format!(
                "there is no bucket `{container}`: make the container, or map another one ({why})"
            ));
        }
        if ["status code: 401", "status code: 403"]
            .iter()
            .any(|status| has_code(error, status))
        {
            return ObjectError::Unavailable(format!(
                "bucket `{container}`: the credentials are not accepted, or may not list it ({why})"
            ));
        }
        unavailable(container, why)
    }
}

#[async_trait]
impl Client for AzureClient {
    fn store(&self) -> &dyn ObjectStore {
        &self.store
    }

    fn parts(&self) -> &dyn MultipartStore {
        &self.store
    }

    fn uploads(&self) -> Option<&dyn Uploads> {
        None
    }

    async fn check(&self) -> Result<(), ObjectError> {
        self.list(None, "", 1)
            .await
            .map(drop)
            .map_err(|error| self.object_error(&error))
    }

    async fn objects(
        &self,
        folder: &Path,
        after: &str,
        limit: usize,
    ) -> Result<ObjectsFound, ObjectError> {
        let page = self
            .list(Some(&format!("{folder}/")), after, limit)
            .await
            .map_err(|error| self.object_error(&error))?;
        let objects = page.result.objects.into_iter().map(|object| FoundObject {
            key: object.location.into(),
            size_bytes: object.size,
            stored_at: Some(object.last_modified.timestamp_micros()),
        });
        let date = page
            .result
            .extensions
            .get::<ServerDate>()
            .map_or("", |ServerDate(date)| date);
        Ok(ObjectsFound {
            objects: objects.collect(),
            now: clock(date),
            next: page.page_token,
        })
    }

    fn is_no_bucket(&self, error: &object_store::Error) -> bool {
        has_code(error, "ContainerNotFound")
    }

    fn largest_copy(&self) -> Option<u64> {
        // Azure may answer that a copy is pending, and a source that is deleted meanwhile is lost
        // with it.
        None
    }

    fn cursor(&self) -> &'static str {
        "m"
    }
}
