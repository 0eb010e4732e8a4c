//! What a URL has of a user and a password, and how it is shown without. Must not repeat one.

/// Whether a URL, or one of several with commas between them, holds a password.
pub(super) fn has_password(url: &str) -> bool {
    let in_login = |one: &str| login_of(one).0.is_some_and(|login| login.contains(':'));
    urls_of(url).any(in_login)
        || url
            .split(['?', '&'])
            .any(|parameter| parameter.starts_with("password="))
}

/// The URLs of a list with commas between them. A password may hold a comma, so only a scheme begins another one: servers
/// that leave it out stay with the one before.
pub(super) fn urls_of(urls: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(urls);
    std::iter::from_fn(move || {
        let list = rest.take()?;
        let begins = |at: &usize| {
            let next = list[at + 1..].split(',').next();
            next.is_some_and(|next| next.contains("://"))
        };
        let mut commas = list.match_indices(',').map(|(at, _)| at);
        match commas.find(begins) {
            Some(at) => {
                rest = Some(&list[at + 1..]);
                Some(&list[..at])
            }
            None => Some(list),
        }
    })
}

/// User and password of a URL, where it has them, and what is behind them. A password may hold an unescaped `/`, `?` or
/// `,`, as `openssl rand -base64` makes them and as drivers take them: so the login ends at the last `@`.
pub(super) fn login_of(url: &str) -> (Option<&str>, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    match rest.rsplit_once('@') {
        Some((login, behind)) => (Some(login), behind),
        None => (None, rest),
    }
}

/// Scheme and host, without user and password.
pub(super) fn without_login(url: &str) -> String {
    let (scheme, _) = url.split_once("://").unwrap_or_default();
    let (_, behind) = login_of(url);
    let host = behind.split(['/', '?']).next().unwrap_or_default();
    format!("{scheme}://{host}")
}

#[cfg(test)]
mod tests {
    use super::{has_password, without_login};

    #[test]
    fn a_password_is_found_whatever_it_is_made_of_and_nothing_of_it_is_shown() {
        for url in [
            "postgres://me:hunter2@db/y",
            "postgres://me:hunter2/x@db/y",
            "postgres://me:x/hunter2@db/y?sslmode=require",
            "postgres://me:hunter2?x@db/y",
            "postgres://me:x,hunter2@db/y",
            "postgres://me:hunter2@x@db/y",
            "nats://a:4222,nats://me:hunter2@db",
        ] {
            assert!(has_password(url), "{url}");
            let (scheme, _) = url.split_once("://").expect("a scheme");
            assert_eq!(without_login(url), format!("{scheme}://db"), "{url}");
        }
        for url in [
            "postgres://me@db:5432/y",
            "postgres://db:5432/y?sslmode=require",
            "nats://a:4222,nats://b:4222",
            "redis://a:6379,redis://me@b:6379",
        ] {
            assert!(!has_password(url), "{url}");
        }
        assert!(has_password("postgres://me@db/y?password=hunter2"));
    }
}
