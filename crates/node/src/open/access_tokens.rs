//! What an API process needs to check access tokens: the rules, and the place of the issuer's keys. Must not
//! read a key.

use crate::exit::Exit;
use crate::settings::{JwtSettings, Layers};
use counterstep_kernel::access::access_tokens::AccessTokens;

/// Which access tokens the API of these settings accepts; `None`: no issuer is set.
///
/// # Errors
/// [`Exit`], naming the setting at fault.
pub fn access_tokens(given: &Layers) -> Result<Option<AccessTokens>, Exit> {
    given.jwt()?.map(opened).transpose()
}

#[cfg(feature = "servers")]
fn opened(settings: JwtSettings) -> Result<AccessTokens, Exit> {
    use counterstep_adapters::jwks::{InvalidSource, Jwks};
    let source = Jwks::open(&settings.keys, settings.ca_file);
    let source = source.map_err(|error| {
        let setting = match &error {
            InvalidSource::Url(_) => "jwt_keys",
            InvalidSource::Authorities(_) => "ca_file",
        };
        Exit::config(format_args!("setting `{setting}`: {error}"))
    })?;
    Ok(AccessTokens {
        rules: settings.rules,
        source: std::sync::Arc::new(source),
    })
}

#[cfg(not(feature = "servers"))]
fn opened(_: JwtSettings) -> Result<AccessTokens, Exit> {
    Err(Exit::config(
        "setting `jwt_keys`: this program was built without a client for the keys of access tokens: build it with \
         `--features servers`, or leave the setting out",
    ))
}
