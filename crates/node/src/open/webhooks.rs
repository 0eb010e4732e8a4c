//! What an API process needs to send webhooks: the secrets of a file, and a client. Must not send.

use crate::exit::Exit;
use crate::settings::{Database, Layers, Settings};
use counterstep_adapters::system::SystemRandom;
use counterstep_kernel::ports::Random;
use counterstep_kernel::webhooks::{WebhookSecrets, WebhookSender, Webhooks};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// How the API of these settings signs and sends webhooks; `None`: it sends none.
///
/// # Errors
/// [`Exit`], naming the setting at fault.
pub fn webhooks(given: &Layers, settings: &Settings) -> Result<Option<Webhooks>, Exit> {
    let file = match settings.webhook_secret_file.clone() {
        Some(file) => file,
        // Processes that share a file share its machine, and with it the data directory.
        None if matches!(settings.database, Database::Sqlite(_)) => {
            let Some(file) = made(&given.data_dir()?.join("webhook-secret"))? else {
                return Ok(None);
            };
            file
        }
        None => return Ok(None),
    };
    let text = std::fs::read_to_string(&file).map_err(|error| {
        Exit::config(format_args!(
            "setting `webhook_secret_file`: `{}` cannot be read: {error}",
            file.display()
        ))
    })?;
    let secrets = WebhookSecrets::parse(&text).map_err(|error| {
        Exit::config(format_args!(
            "setting `webhook_secret_file`: `{}`, {error}",
            file.display()
        ))
    })?;
    let sender = sender(settings)?;
    Ok(sender.map(|sender| Webhooks { sender, secrets }))
}

/// The file with the secret, made where it is not there; `None`: this program has no HTTP client.
fn made(file: &Path) -> Result<Option<std::path::PathBuf>, Exit> {
    if cfg!(not(feature = "http")) {
        return Ok(None);
    }
    let failed = |error| {
        Exit::config(format_args!(
            "the file `{}` cannot be made: {error}",
            file.display()
        ))
    };
    if let Some(folder) = file.parent() {
        // The settings are read before the process closes what it makes to other users.
        let mut made = DirBuilder::new();
        made.recursive(true).mode(0o700);
        made.create(folder).map_err(failed)?;
    }
    if file.exists() {
        return Ok(Some(file.to_owned()));
    }
    let line = WebhookSecrets::line([SystemRandom.bits(), SystemRandom.bits()]);
    // Whole under a name of its own first: another process may look for it.
    let whole = file.with_extension(format!("{:032x}", SystemRandom.bits()));
    let mut options = OpenOptions::new();
    let written = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&whole);
    written
        .and_then(|mut file| {
            file.write_all(line.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .map_err(failed)?;
    let linked = std::fs::hard_link(&whole, file);
    let removed = std::fs::remove_file(&whole);
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => removed.map_err(failed)?,
    }
    Ok(Some(file.to_owned()))
}

#[cfg(feature = "http")]
fn sender(settings: &Settings) -> Result<Option<Arc<dyn WebhookSender>>, Exit> {
    use counterstep_adapters::http::ReqwestWebhooks;
    crate::install_provider();
    let allowed = settings.engine.webhook_allow.clone();
    // Without TLS there is nowhere to send to, unless the operator allows a network.
    if cfg!(not(feature = "servers")) && allowed.is_empty() {
        return Ok(None);
    }
    match ReqwestWebhooks::open(allowed) {
        Ok(sender) => Ok(Some(Arc::new(sender))),
        Err(error) if settings.webhook_secret_file.is_some() => Err(Exit::config(error)),
        Err(error) => {
            tracing::warn!(error, "no webhooks are sent: their client cannot be made");
            Ok(None)
        }
    }
}

#[cfg(not(feature = "http"))]
fn sender(_: &Settings) -> Result<Option<Arc<dyn WebhookSender>>, Exit> {
    Err(Exit::config(
        "setting `webhook_secret_file`: this program was built without an HTTP client: build it with `--features \
         servers`, or leave the setting out",
    ))
}
