//! Services that steps call: the file names them, and variables may bring their tokens. Must not
//! show a token.

use crate::exit::Exit;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// `[services.NAME]`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Where it is; no part of it is a secret.
    pub url: String,
    /// A token for `Authorization: Bearer`, of a variable alone: the file is no place for secrets.
    #[serde(skip)]
    pub token: Option<String>,
    /// File with such a token.
    pub token_file: Option<PathBuf>,
    /// Files with the values of other headers, by header.
    #[serde(default)]
    pub header_files: BTreeMap<String, PathBuf>,
    /// PEM file with the authorities that its certificate may come from.
    pub ca_file: Option<PathBuf>,
    /// Whether it may be another machine without TLS.
    #[serde(default)]
    pub allow_plaintext: bool,
}

/// Without the URL and the token: a URL may hold a password by mistake.
impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service")
            .field("token_file", &self.token_file)
            .finish_non_exhaustive()
    }
}

/// The form of the variables, as messages show it.
pub(super) const VARIABLES: &str = "COUNTERSTEP_SERVICES_NAME_TOKEN or …_TOKEN_FILE";
const PREFIX: &str = "COUNTERSTEP_SERVICES_";

/// Whether a variable is about the token of a service, whichever services the settings have.
pub(super) fn is_token(variable: &str) -> bool {
    let name = variable.strip_prefix(PREFIX);
    let name = name.and_then(|rest| {
        rest.strip_suffix("_TOKEN")
            .or_else(|| rest.strip_suffix("_TOKEN_FILE"))
    });
    name.is_some_and(|name| !name.is_empty())
}

/// The services of the file, with the tokens that variables bring: these come before the file's.
///
/// # Errors
/// [`Exit`] with the kind `Config` for a variable that belongs to no service, to two of them, or
/// beside its `_FILE`.
pub(super) fn with_tokens(
    mut services: BTreeMap<String, Service>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<BTreeMap<String, Service>, Exit> {
    let variables = variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let mut tokens: BTreeMap<String, OsString> =
        variables.filter(|(name, _)| is_token(name)).collect();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (name, service) in &mut services {
        let variable = format!(
            "{PREFIX}{}_TOKEN",
            name.to_ascii_uppercase().replace('-', "_")
        );
        let variable_of_file = format!("{variable}_FILE");
        let (token, file) = (tokens.remove(&variable), tokens.remove(&variable_of_file));
        if token.is_some() || file.is_some() {
            seen.insert(variable.clone(), name.clone());
        } else if let Some(other) = seen.get(&variable) {
            return Err(Exit::config(format_args!(
                "invalid variable `{variable}`: it belongs to the services `{other}` and `{name}`; expected names that \
                 differ in more than case, `-` and `_`"
            )));
        }
        match (token, file) {
            (None, None) => {}
            (None, Some(file)) => service.token_file = Some(PathBuf::from(file)),
            (Some(token), None) => {
                let token = token.into_string().map_err(|_| {
                    Exit::config(format_args!(
                        "invalid variable `{variable}`: no UTF-8; expected a token"
                    ))
                })?;
                (service.token, service.token_file) = (Some(token), None);
            }
            (Some(_), Some(_)) => {
                return Err(Exit::config(format_args!(
                    "variables `{variable}` and `{variable_of_file}`: both are there; expected one of them"
                )));
            }
        }
    }
    match tokens.into_keys().next() {
        None => Ok(services),
        Some(left) => {
            let known: Vec<_> = services.into_keys().collect();
            let known = if known.is_empty() {
                "it has none".to_owned()
            } else {
                known.join(", ")
            };
            Err(Exit::config(format_args!(
                "invalid variable `{left}`: no such service in the settings file ({known}); expected {VARIABLES}, with \
                 the service's name in capitals and `_` for `-`"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(file: &str, variables: &[(&str, &str)]) -> Result<BTreeMap<String, Service>, Exit> {
        let variables = variables
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        with_tokens(toml::from_str(file).unwrap(), variables)
    }

    #[test]
    fn a_variable_brings_a_services_token_before_the_file() {
        let file =
            "[bank]\nurl = \"http://b\"\ntoken_file = \"a\"\n[pay-pal]\nurl = \"http://p\"\n";
        let unchanged = resolved(file, &[("PATH", "/bin"), ("COUNTERSTEP_LEASE", "3s")]).unwrap();
        assert_eq!(
            (&unchanged["bank"].token, &unchanged["bank"].token_file),
            (&None, &Some("a".into()))
        );
        let set = [
            ("COUNTERSTEP_SERVICES_BANK_TOKEN", "hunter22"),
            ("COUNTERSTEP_SERVICES_PAY_PAL_TOKEN_FILE", "f"),
        ];
        let services = resolved(file, &set).unwrap();
        assert_eq!(
            (
                services["bank"].token.as_deref(),
                &services["bank"].token_file
            ),
            (Some("hunter22"), &None)
        );
        assert_eq!(
            (&services["pay-pal"].token, &services["pay-pal"].token_file),
            (&None, &Some("f".into()))
        );
        assert!(!format!("{services:?}").contains("hunter22"));
    }

    #[test]
    fn a_variable_for_no_service_or_for_two_is_refused() {
        let token = "COUNTERSTEP_SERVICES_PAY_PAL_TOKEN";
        let file = "[pay-pal]\nurl = \"http://p\"\n";
        for (file, variables, said) in [
            ("", vec![token], "it has none"),
            ("[bank]\nurl = \"http://b\"\n", vec![token], "(bank)"),
            (
                file,
                vec![token, "COUNTERSTEP_SERVICES_PAY_PAL_TOKEN_FILE"],
                "both are there",
            ),
            (
                "[pay-pal]\nurl = \"http://p\"\n[Pay_Pal]\nurl = \"http://q\"\n",
                vec![token],
                "`Pay_Pal` and `pay-pal`",
            ),
        ] {
            let variables: Vec<_> = variables
                .into_iter()
                .map(|name| (name, "hunter22"))
                .collect();
            let error = resolved(file, &variables).unwrap_err();
            assert!(
                error.message.contains(token) && error.message.contains(said),
                "{error}"
            );
            assert!(!error.message.contains("hunter22"), "{error}");
        }
    }
}
