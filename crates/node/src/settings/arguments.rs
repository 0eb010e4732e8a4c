//! Passwords among the command's arguments, where every user of the machine can read them. Must not
//! repeat one.

use super::logins::{login_of, urls_of};
use crate::exit::Exit;

/// Parameters of URLs that hold a secret, by a part of their names.
const SECRET_PARAMETERS: [&str; 9] = [
    "password",
    "passwd",
    "pwd",
    "secret",
    "token",
    "account_key",
    "access_key",
    "sas",
    "sig",
];

/// Refuses URLs with a password among the arguments: as `scheme://user:password@…`, as a parameter,
/// and in each URL of a list.
pub(super) fn refuse_secrets(arguments: impl Iterator<Item = String>) -> Result<(), Exit> {
    for argument in arguments.skip(1) {
        // The first part ends before its scheme; a list of servers may leave the scheme out from
        // the second URL on.
        let mut rest = argument.as_str();
        while let Some((before, after)) = rest.split_once("://") {
            let is_path = ["sqlite", "file"]
                .iter()
                .any(|scheme| before.ends_with(scheme));
            let is_nats = before.ends_with("nats") || before.ends_with("tls");
            if !is_path && has_secret(after, is_nats) {
                return Err(Exit::config(
                    "a password stands in the command line, where every user of this machine can read it: put the URL \
                     into a COUNTERSTEP_* variable or into the settings file",
                ));
            }
            rest = after;
        }
    }
    Ok(())
}

/// A URL, or several, without the scheme of the first. For NATS a user without a password is a token.
fn has_secret(urls: &str, user_is_token: bool) -> bool {
    let has_login = |url: &str| {
        let (login, _) = login_of(url);
        login.is_some_and(|login| login.contains(':') || user_is_token)
    };
    let named = |parameter: &str| {
        let name = parameter
            .split('=')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        // `map.NAME` names a bucket of the program's own.
        !name.starts_with("map.") && SECRET_PARAMETERS.iter().any(|secret| name.contains(secret))
    };
    urls_of(urls).any(|url| has_login(url) || url.split(['?', '&', ';']).skip(1).any(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> impl Iterator<Item = String> {
        text.split(' ')
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .into_iter()
    }

    #[test]
    fn passwords_in_arguments_are_refused() {
        for secret in [
            "x --database postgres://me:hunter2@db/x",
            "x --database=postgres://me:hunter2@db/x",
            "x --database postgres://me:hun/ter2@db/x",
            "x --database postgres://me:hun?ter2@db/x",
            "x --database postgres://me:hun,ter2@db/x",
            "x --database postgres://me@db/x?password=hunter2",
            "x --database postgres://me@db/x?sslmode=require&sslpassword=hunter2",
            "x --redis redis://a:6379,redis://:hunter2@b:6379",
            "x --nats nats://a:4222,me:hunter2@b:4222",
            "x --nats nats://hunter2@a:4222",
            "x --objects s3://bucket?endpoint=http://me:hunter2@localhost",
            "x --objects s3://bucket?secret_access_key=hunter2",
            "x --objects az://container?account=files&account_key=hunter2",
            "x --objects az://container?account=files&sas_token=hunter2",
            "x --objects az://container?endpoint=https://files.example.org/?sv=2025-01-05&sig=hunter2",
        ] {
            let refused = refuse_secrets(words(secret)).expect_err(secret);
            assert!(!refused.message.contains("hunter2"), "{refused}");
        }
        for fine in [
            "x --database postgres://me@db/x?sslmode=require",
            "x --database sqlite:///tmp/a:b@c.db",
            "x --listen [::1]:80",
            "x --nats nats://a:4222,nats://b:4222",
            "x --objects s3://store?map.design-files=designs",
            "x --objects s3://bucket/prefix?endpoint=http://localhost:9000&region=eu",
            "x --objects az://container/prefix?account=files&credentials_file=/run/secrets/azure",
            "x tasks --url http://localhost:8080 list",
        ] {
            assert!(refuse_secrets(words(fine)).is_ok(), "{fine}");
        }
    }
}
