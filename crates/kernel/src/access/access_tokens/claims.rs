//! What a token has to claim, and what is made of it. Must not check a signature.

use super::{Algorithm, TokenFault, TokenHolder};
use counterstep_contracts::Tenant;
use counterstep_contracts::access::Role;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum characters of a subject.
const LONGEST_SUBJECT: usize = 100;

/// What is checked of a token besides its signature. A claim is named as it is, or by a JSON pointer where it
/// is inside another one, as `/realm_access/roles`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRules {
    /// The `iss` of every token.
    pub issuer: String,
    /// Is, or is among, the `aud` of every token.
    pub audience: String,
    /// What they may be signed with, each by a key that is for it: a key names its algorithm, or its kind allows it. No setting: of
    /// these three each has one kind of key, so a list by hand would add nothing. A program of its own may name others.
    pub algorithms: Vec<Algorithm>,
    /// The claim with the tenant; `None`: all are of the default tenant.
    pub tenant_claim: Option<String>,
    /// The claim with the subject.
    pub subject_claim: String,
    /// The claim with the roles: an array of names, or a text with blanks between them.
    pub role_claim: String,
    /// Roles by what the issuer calls them; empty: by their own names.
    pub roles: BTreeMap<String, Role>,
    /// Clocks of the issuer and of this process may differ by this.
    pub leeway: Duration,
}

impl TokenRules {
    /// For tokens of this issuer for this audience, with the usual names of claims.
    #[must_use]
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            audience: audience.into(),
            algorithms: Algorithm::ALL.to_vec(),
            tenant_claim: None,
            subject_claim: "sub".to_owned(),
            role_claim: "roles".to_owned(),
            roles: BTreeMap::new(),
            // Clocks that keep time by NTP differ by less. It prolongs each token, so it is not for more.
            leeway: Duration::from_secs(30),
        }
    }

    pub(super) fn allowed(&self, alg: &str) -> Result<Algorithm, TokenFault> {
        let mut allowed = self.algorithms.iter().copied();
        allowed
            .find(|it| it.as_str() == alg)
            .ok_or(TokenFault::AlgorithmNotAllowed)
    }

    /// Whom these claims name; `now`: in seconds since 1970.
    pub(super) fn holder(&self, claims: &Value, now: u64) -> Result<TokenHolder, TokenFault> {
        let text = |name: &str| claim(claims, name).and_then(Value::as_str);
        if text("iss") != Some(&self.issuer) {
            return Err(TokenFault::WrongIssuer);
        }
        if !texts(claims.get("aud")).any(|it| it == self.audience) {
            return Err(TokenFault::WrongAudience);
        }
        let expires_at = self.times(claims, now)?;
        let subject = text(&self.subject_claim).filter(|it| is_subject(it));
        let tenant = match &self.tenant_claim {
            None => Tenant::default(),
            Some(name) => text(name)
                .map(|it| Tenant(it.to_owned()))
                .filter(Tenant::is_valid)
                .ok_or(TokenFault::BadTenant)?,
        };
        Ok(TokenHolder {
            tenant,
            subject: subject.ok_or(TokenFault::BadSubject)?.to_owned(),
            role: self.role(claim(claims, &self.role_claim)),
            expires_at,
        })
    }

    /// When it expires, where it has not, and is valid already.
    fn times(&self, claims: &Value, now: u64) -> Result<u64, TokenFault> {
        let leeway = self.leeway.as_secs();
        let begins = [time(claims, "nbf")?, time(claims, "iat")?];
        let expires = time(claims, "exp")?.ok_or(TokenFault::MalformedTime)?;
        let expires_at = expires.saturating_add(leeway);
        if expires_at <= now {
            return Err(TokenFault::Expired);
        }
        if begins
            .iter()
            .flatten()
            .any(|it| *it > now.saturating_add(leeway))
        {
            return Err(TokenFault::NotYetValid);
        }
        Ok(expires_at)
    }

    /// The highest that is named. Names of other programs may stand among them.
    fn role(&self, given: Option<&Value>) -> Option<Role> {
        let named: Box<dyn Iterator<Item = &str>> = match given {
            Some(Value::String(text)) => Box::new(text.split_ascii_whitespace()),
            given => Box::new(texts(given)),
        };
        let role = |name: &str| match self.roles.is_empty() {
            true => name.parse().ok(),
            false => self.roles.get(name).copied(),
        };
        named.filter_map(role).max()
    }
}

/// A claim by its name, or by a JSON pointer.
fn claim<'a>(claims: &'a Value, name: &str) -> Option<&'a Value> {
    if name.starts_with('/') {
        claims.pointer(name)
    } else {
        claims.get(name)
    }
}

/// A text, or those of an array.
fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let all = match value {
        Some(Value::Array(all)) => all.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    all.iter().filter_map(Value::as_str)
}

/// Seconds since 1970; they may have a fraction.
fn time(claims: &Value, name: &str) -> Result<Option<u64>, TokenFault> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let seconds = value.as_f64().filter(|it| *it >= 0.0);
    // The conversion ends at the bounds of the type.
    let seconds = seconds.map(|it| it as u64);
    seconds.map(Some).ok_or(TokenFault::MalformedTime)
}

/// Whether a text may stand in audits as who called. Issuers have signs in their subjects that the names of
/// API keys have not, as `auth0|12` and `system:serviceaccount:shop:web`.
fn is_subject(text: &str) -> bool {
    (1..=LONGEST_SUBJECT).contains(&text.len()) && text.bytes().all(|sign| sign.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules() -> TokenRules {
        TokenRules::new("https://issuer", "counterstep")
    }

    fn claims(change: &Value) -> Value {
        let mut claims = json!({
            "iss": "https://issuer", "aud": "counterstep", "sub": "shop", "exp": 1000, "roles": ["submit"],
        });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }

    #[test]
    fn the_highest_role_that_is_known_counts() {
        let role = |rules: &TokenRules, change: Value| {
            rules.holder(&claims(&change), 0).map(|it| it.role).unwrap()
        };
        let own = rules();
        for (given, expected) in [
            (json!(["read", "operate", "submit"]), Some(Role::Operate)),
            (json!(["viewer", "read", 7, null]), Some(Role::Read)),
            (json!("openid submit read"), Some(Role::Submit)),
            (json!("Admin"), None),
            (json!([["admin"]]), None),
            (json!([]), None),
            (json!({"admin": true}), None),
            (json!(true), None),
            (Value::Null, None),
        ] {
            let found = role(&own, json!({ "roles": given }));
            assert_eq!(found, expected, "{given}");
        }
        let named = TokenRules {
            roles: BTreeMap::from([
                ("Shop Ops".to_owned(), Role::Operate),
                ("everyone".to_owned(), Role::Read),
            ]),
            role_claim: "/realm/groups".to_owned(),
            ..rules()
        };
        for (given, expected) in [
            (json!(["everyone", "Shop Ops"]), Some(Role::Operate)),
            // The names of this program count no longer.
            (json!(["admin"]), None),
            (json!("everyone"), Some(Role::Read)),
        ] {
            let change = json!({"realm": {"groups": given}, "roles": ["admin"]});
            assert_eq!(role(&named, change), expected, "{given}");
        }
    }

    #[test]
    fn the_tenant_is_the_default_one_unless_a_claim_is_set_which_then_is_required() {
        let named = TokenRules {
            tenant_claim: Some("https://example.org/tenant".to_owned()),
            ..rules()
        };
        let tenant = |rules: &TokenRules, change: Value| {
            let found = rules.holder(&claims(&change), 0);
            found.map(|it| it.tenant.0)
        };
        let own = json!({"https://example.org/tenant": "acme", "tenant": "other"});
        assert_eq!(tenant(&rules(), own.clone()), Ok("default".to_owned()));
        assert_eq!(tenant(&named, own), Ok("acme".to_owned()));
        for change in [
            json!({"tenant": "acme"}),
            json!({"https://example.org/tenant": ""}),
            json!({"https://example.org/tenant": "../x"}),
            json!({"https://example.org/tenant": ["acme"]}),
        ] {
            let found = tenant(&named, change.clone());
            assert_eq!(found, Err(TokenFault::BadTenant), "{change}");
        }
    }

    #[test]
    fn a_subject_is_one_visible_word_of_at_most_a_hundred_characters() {
        let found = |sub: Value| rules().holder(&claims(&json!({ "sub": sub })), 0);
        for sub in [
            "auth0|12",
            "system:serviceaccount:shop:web",
            &"x".repeat(100),
        ] {
            assert_eq!(found(json!(sub)).unwrap().subject, sub);
        }
        for sub in [
            json!(""),
            json!("a b"),
            json!("a\nb"),
            json!("\u{202e}x"),
            json!("x".repeat(101)),
            json!(7),
            Value::Null,
        ] {
            assert_eq!(found(sub.clone()), Err(TokenFault::BadSubject), "{sub}");
        }
    }

    #[test]
    fn times_are_numbers_and_count_with_the_leeway() {
        let found = |change: Value, now: u64| {
            let found = rules().holder(&claims(&change), now);
            found.map(|it| it.expires_at)
        };
        assert_eq!(found(json!({}), 1029), Ok(1030));
        assert_eq!(found(json!({}), 1030), Err(TokenFault::Expired));
        assert_eq!(found(json!({"exp": 1000.7}), 1029), Ok(1030));
        assert_eq!(found(json!({"nbf": 100}), 70), Ok(1030));
        assert_eq!(found(json!({"nbf": 100}), 69), Err(TokenFault::NotYetValid));
        assert_eq!(found(json!({"iat": 100}), 69), Err(TokenFault::NotYetValid));
        assert_eq!(found(json!({"exp": 1e300}), 69), Ok(u64::MAX));
        for (name, value) in [
            ("exp", json!("1000")),
            ("exp", Value::Null),
            ("exp", json!(-1)),
            ("exp", json!([1000])),
            ("nbf", json!("0")),
            ("iat", json!(true)),
        ] {
            let change = json!({name: value});
            assert_eq!(found(change, 0), Err(TokenFault::MalformedTime), "{name}");
        }
    }
}
