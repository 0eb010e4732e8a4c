//! What an API process signs links to results with: the secrets of a file. Must not sign.

use super::secret_file::SecretFile;
use crate::exit::Exit;
use crate::settings::{Layers, Settings};
use counterstep_kernel::access::result_links::LinkSecrets;

/// What the API of these settings signs links with; `None`: it makes none.
///
/// # Errors
/// [`Exit`], naming the setting at fault.
pub fn links(given: &Layers, settings: &Settings) -> Result<Option<LinkSecrets>, Exit> {
    let place = SecretFile {
        setting: "secret_files.links",
        given: settings.link_secret_file.as_deref(),
        made_as: Some("link-secret"),
    };
    let Some((file, text)) = place.read(given, settings, LinkSecrets::line)? else {
        return Ok(None);
    };
    LinkSecrets::parse(&text).map(Some).map_err(|error| {
        Exit::config(format_args!(
            "setting `secret_files.links`: `{}`, {error}",
            file.display()
        ))
    })
}
