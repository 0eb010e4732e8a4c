//! What an API process needs to send webhooks: the secrets of a file, and a client. Must not send.

use super::secret_file::SecretFile;
use crate::exit::Exit;
use crate::settings::{Layers, Settings};
use counterstep_kernel::webhooks::{WebhookSecrets, WebhookSender, WebhookUrl, Webhooks};
use std::sync::Arc;

/// How the API of these settings signs and sends webhooks; `None`: it sends none.
///
/// # Errors
/// [`Exit`], naming the setting at fault.
pub fn webhooks(given: &Layers, settings: &Settings) -> Result<Option<Webhooks>, Exit> {
    let place = SecretFile {
        setting: "secret_files.webhooks",
        given: settings.webhook_secret_file.as_deref(),
        // Without an HTTP client none is needed.
        made_as: cfg!(feature = "http").then_some("webhook-secret"),
    };
    let alerts = alerts(settings)?;
    let Some((file, text)) = place.read(given, settings, WebhookSecrets::line)? else {
        return match alerts {
            None => Ok(None),
            Some(_) => Err(Exit::config(
                "setting `alert_webhook`: alerts are signed: give the API the secret `webhooks` too",
            )),
        };
    };
    let secrets = WebhookSecrets::parse(&text).map_err(|error| {
        Exit::config(format_args!(
            "setting `secret_files.webhooks`: `{}`, {error}",
            file.display()
        ))
    })?;
    let sender = sender(settings)?;
    if sender.is_none() && alerts.is_some() {
        return Err(Exit::config(
            "setting `alert_webhook`: this program can send none: build it with `--features servers`, or set \
             `webhook_allow`",
        ));
    }
    Ok(sender.map(|sender| Webhooks {
        sender,
        secrets,
        alerts,
    }))
}

/// Where alerts go.
fn alerts(settings: &Settings) -> Result<Option<WebhookUrl>, Exit> {
    let Some(url) = &settings.alert_webhook else {
        return Ok(None);
    };
    let read = WebhookUrl::parse(url, &settings.engine.webhook_allow);
    read.map(Some)
        .map_err(|error| Exit::config(format_args!("setting `alert_webhook`: {error}")))
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
        "setting `secret_files.webhooks`: this program was built without an HTTP client: build it with `--features \
         servers`, or leave the setting out",
    ))
}
