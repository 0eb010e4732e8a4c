//! Which access tokens the API accepts, with `--auth jwt`. Must not read a key.

use super::layers::Layers;
use super::tls::TlsServer;
use crate::exit::Exit;
use counterstep_kernel::access::access_tokens::TokenRules;
use std::path::PathBuf;

/// Access tokens of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSettings {
    /// What is checked besides the signature.
    pub rules: TokenRules,
    /// Where the keys are.
    pub keys: String,
    /// PEM file with the only authorities that the certificate there may come from.
    pub ca_file: Option<PathBuf>,
}

impl Layers {
    /// Access tokens, where an issuer is set.
    ///
    /// # Errors
    /// [`Exit`] with the kind `Config`, naming the setting.
    pub fn jwt(&self) -> Result<Option<JwtSettings>, Exit> {
        let filled = |text: Option<String>| text.filter(|it| !it.is_empty());
        let issuer = filled(self.jwt_issuer()?);
        let (audience, keys) = (filled(self.jwt_audience()?), filled(self.jwt_keys()?));
        let (issuer, audience, keys) = match (issuer, audience, keys) {
            (None, None, None) => return Ok(None),
            (Some(issuer), Some(audience), Some(keys)) => (issuer, audience, keys),
            (issuer, audience, _) => {
                let missing = match (issuer, audience) {
                    (None, _) => "jwt_issuer",
                    (_, None) => "jwt_audience",
                    _ => "jwt_keys",
                };
                return Err(Exit::config(format_args!(
                    "setting `{missing}`: it is missing; expected `jwt_issuer`, `jwt_audience` and `jwt_keys` together"
                )));
            }
        };
        let rules = TokenRules {
            tenant_claim: self.jwt_tenant_claim()?,
            subject_claim: self.jwt_subject_claim()?,
            role_claim: self.jwt_role_claim()?,
            roles: self.jwt_roles()?,
            ..TokenRules::new(issuer, audience)
        };
        Ok(Some(JwtSettings {
            rules,
            ca_file: self.tls_of(TlsServer::Issuer, &keys)?.ca_file,
            keys,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::access::Role;

    const FULL: &str = "jwt_issuer = \"https://issuer\"\njwt_audience = \"counterstep\"\njwt_keys = \"file:///keys\"\n";

    fn read(text: &str) -> Result<Option<JwtSettings>, Exit> {
        let file = toml::from_str(text).unwrap();
        Layers {
            file,
            ..Layers::default()
        }
        .jwt()
    }

    #[test]
    fn an_issuer_its_audience_and_its_keys_are_set_together() {
        assert_eq!(read("").unwrap(), None);
        let usual = read(FULL).unwrap().unwrap().rules;
        assert_eq!(usual, TokenRules::new("https://issuer", "counterstep"));
        for left_out in ["jwt_issuer", "jwt_audience", "jwt_keys"] {
            let text: String = FULL
                .lines()
                .filter(|line| !line.starts_with(left_out))
                .map(|line| format!("{line}\n"))
                .collect();
            let refused = read(&text).unwrap_err();
            let expected = format!("setting `{left_out}`: it is missing");
            assert!(refused.message.contains(&expected), "{refused}");
        }
    }

    #[test]
    fn roles_have_names_of_the_issuer() {
        let named = format!("{FULL}[jwt_roles]\nops = \"operate\"\n");
        let rules = read(&named).unwrap().unwrap().rules;
        assert_eq!(rules.roles["ops"], Role::Operate);
    }
}
