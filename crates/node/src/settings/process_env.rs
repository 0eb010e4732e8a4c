//! What a process finds before it reads its own flags: its arguments and its variables. Must not
//! read a value that it does not need.

use super::file::nearest;
use super::former;
use super::table::SETTINGS;
use super::{arguments, services};
use crate::exit::Exit;
use std::collections::BTreeSet;

/// Variables of tests and of builds, beside those of settings. Another one with our prefix is a
/// mistake that would otherwise go unnoticed.
const VARIABLES: &[&str] = &["COUNTERSTEP_COMMIT", "COUNTERSTEP_BLESS"];

/// Checks what a process finds before it reads its own flags: a secret among the arguments, which
/// the parser might repeat, and unknown variables, which a command that takes no settings would
/// ignore.
///
/// # Errors
/// [`Exit`] with the kind `Config`.
pub fn check_surroundings() -> Result<(), Exit> {
    arguments::refuse_secrets(
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()),
    )?;
    refuse_unknown(std::env::vars_os().map(|(name, value)| {
        (
            name.to_string_lossy().into_owned(),
            value.to_string_lossy().into_owned(),
        )
    }))
}

/// Every variable that is read, by this command or by another one.
fn known() -> BTreeSet<String> {
    let settings = SETTINGS.iter().filter_map(|setting| setting.variable());
    settings
        .chain(VARIABLES.iter().map(|name| (*name).to_owned()))
        .collect()
}

fn refuse_unknown(variables: impl Iterator<Item = (String, String)>) -> Result<(), Exit> {
    let known = known();
    for (name, value) in variables {
        let Some(key) = name.strip_prefix("COUNTERSTEP_") else {
            continue;
        };
        if !known.contains(&name) && !services::is_token(&name) && !is_service_link(key, &value) {
            if let Some(former) = former::find(&key.to_ascii_lowercase()) {
                return Err(Exit::config(former.as_variable()));
            }
            let keys = known
                .iter()
                .filter_map(|it| it.strip_prefix("COUNTERSTEP_"));
            if let Some(near) = nearest(key, keys) {
                return Err(Exit::config(format_args!(
                    "the variable `{name}` is no setting: did you mean `COUNTERSTEP_{near}`?"
                )));
            }
            let known: Vec<_> = known.into_iter().collect();
            return Err(Exit::config(format_args!(
                "the variable `{name}` is no setting: known are {}, and {}",
                known.join(", "),
                services::VARIABLES
            )));
        }
    }
    Ok(())
}

/// Whether a variable is one that the kubelet gives every pod for a Kubernetes Service, unless the
/// pod has `enableServiceLinks: false`. A Service whose name begins with `counterstep` is no
/// mistake of this program's user. See
/// <https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables>.
fn is_service_link(key: &str, value: &str) -> bool {
    // The Service may be called `counterstep` alone.
    let key = format!("_{key}");
    if key.ends_with("_SERVICE_HOST")
        || key.ends_with("_SERVICE_PORT")
        || key.contains("_SERVICE_PORT_")
    {
        return true;
    }
    // `{SERVICE}_PORT` is the one form that a setting could have, too; its value cannot be one of a
    // setting.
    let is_address = ["tcp://", "udp://", "sctp://"]
        .iter()
        .any(|protocol| value.starts_with(protocol));
    is_port_of_a_link(&key) || (key.ends_with("_PORT") && is_address)
}

/// `…_PORT_{number}_{protocol}`, and the same with `_PROTO`, `_PORT` or `_ADDR` behind it.
fn is_port_of_a_link(key: &str) -> bool {
    let of_a_part = ["_PROTO", "_PORT", "_ADDR"]
        .iter()
        .find_map(|part| key.strip_suffix(part))
        .unwrap_or(key);
    let Some((_, rest)) = of_a_part.rsplit_once("_PORT_") else {
        return false;
    };
    rest.split_once('_').is_some_and(|(number, protocol)| {
        !number.is_empty()
            && number.bytes().all(|digit| digit.is_ascii_digit())
            && ["TCP", "UDP", "SCTP"].contains(&protocol)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, value: &str) -> bool {
        refuse_unknown([(name.to_owned(), value.to_owned())].into_iter()).is_err()
    }

    #[test]
    fn unknown_variables_are_errors() {
        assert!(!refused("PATH", "/bin") && !refused("COUNTERSTEP_LEASE", "3s"));
        assert!(!refused("COUNTERSTEP_SERVICES_BANK_TOKEN", "x"));
        assert!(!refused("COUNTERSTEP_SERVICES_BANK_TOKEN_FILE", "x"));
        assert!(
            refused("COUNTERSTEP_SERVICES_TOKEN", "x")
                && refused("COUNTERSTEP_SERVICES_BANK_URL", "x")
        );
        for unknown in [
            "COUNTERSTEP_LEESE",
            "COUNTERSTEP_PORT",
            "COUNTERSTEP_LISTEN_PORT",
            "COUNTERSTEP_PORT_80",
        ] {
            assert!(refused(unknown, "8080"), "{unknown}");
        }
    }

    #[test]
    fn a_former_variable_is_refused_with_what_has_its_place() {
        for former in former::FORMER {
            let name = format!("COUNTERSTEP_{}", former.key.to_ascii_uppercase());
            let refused = refuse_unknown([(name, "secret".to_owned())].into_iter()).unwrap_err();
            assert_eq!(refused.message, former.as_variable());
        }
    }

    #[test]
    fn variables_that_kubernetes_sets_for_its_services_are_ignored() {
        for service in ["COUNTERSTEP", "COUNTERSTEP_API", "COUNTERSTEP_API_2"] {
            for (rest, value) in [
                ("SERVICE_HOST", "10.96.0.11"),
                ("SERVICE_PORT", "80"),
                ("SERVICE_PORT_HTTP", "80"),
                ("PORT", "tcp://10.96.0.11:80"),
                ("PORT_80_TCP", "tcp://10.96.0.11:80"),
                ("PORT_80_TCP_PROTO", "tcp"),
                ("PORT_80_TCP_PORT", "80"),
                ("PORT_80_TCP_ADDR", "10.96.0.11"),
                ("PORT_53_UDP", "udp://10.96.0.11:53"),
            ] {
                assert!(
                    !refused(&format!("{service}_{rest}"), value),
                    "{service}_{rest}"
                );
            }
        }
    }
}
