//! Puts the encryption of payloads in front of a database. Must not make keys.

use crate::exit::Exit;
use crate::panics;
use crate::settings::Settings;
use counterstep_adapters::payload_keys::{EncryptedPayloads, FileKeys};
use counterstep_kernel::ports::{PayloadCodec, Store};
use std::sync::Arc;

/// The store as processes of these settings use it.
///
/// # Errors
/// [`Exit`], where the folder of the keys cannot be read.
pub(super) fn in_front(settings: &Settings, store: Store) -> Result<Store, Exit> {
    let codec = match &settings.payload_keys {
        None => None,
        Some(folder) => {
            let keys = FileKeys::open(folder)
                .map_err(|error| Exit::config(format_args!("setting `payload_keys`: {error}")))?;
            panics::hide_messages();
            Some(Arc::new(EncryptedPayloads::new(keys)) as Arc<dyn PayloadCodec>)
        }
    };
    Ok(store.with_codec(codec))
}
