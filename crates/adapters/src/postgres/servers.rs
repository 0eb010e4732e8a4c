//! The servers that one URL names, of which one takes writes, and which of them is in use. Must not open a connection.

use counterstep_kernel::ports::ServerInUse;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, TargetSessionAttrs};

/// How long a server may take to accept a connection before the next one is tried beside it.
const STAGGER: Duration = Duration::from_millis(250);

/// Cheap to clone; clones agree on what is in use.
#[derive(Clone)]
pub(super) struct Servers {
    each: Arc<[Config]>,
    in_use: Arc<watch::Sender<Option<usize>>>,
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Servers").field(&self.in_use()).finish()
    }
}

impl Servers {
    /// Those of a configuration. Of several, only one that takes writes is used, and one whose machine no longer acknowledges
    /// what is sent is given up after `limit`.
    pub(super) fn of(config: Config, limit: Duration) -> Self {
        let count = config.get_hosts().len().max(config.get_hostaddrs().len());
        let each = match count {
            0 | 1 => vec![config],
            some => (0..some).map(|at| one(&config, at, limit)).collect(),
        };
        Self {
            each: each.into(),
            in_use: Arc::new(watch::Sender::new(None)),
        }
    }

    /// How to connect to each, after which delay: first to the one that was used last.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = (Duration, usize, &Config)> {
        let last = self.in_use.borrow().unwrap_or_default();
        let others = (0..self.each.len()).filter(move |at| *at != last);
        let turns = std::iter::once(last).chain(others);
        turns
            .zip(0_u32..)
            .map(|(at, turn)| (STAGGER * turn, at, &self.each[at]))
    }

    /// Why there is no connection to any of them: what each has come to, as it was tried.
    pub(super) fn not_opened(&self, mut errors: Vec<(usize, String)>) -> NotOpened {
        errors.sort_unstable();
        let named = |(at, why): (usize, String)| (named(&self.each[at]), why);
        NotOpened(errors.into_iter().map(named).collect())
    }

    /// The same where all come to one thing.
    pub(super) fn none_opened(&self, why: &str) -> NotOpened {
        let each = (0..self.each.len()).map(|at| (at, why.to_owned()));
        self.not_opened(each.collect())
    }

    /// This one has accepted a connection.
    pub(super) fn uses(&self, at: usize) {
        let (position, of) = (at + 1, self.each.len());
        let before = self.in_use.send_replace(Some(at));
        match before {
            _ if of == 1 || before == Some(at) => {}
            None => tracing::info!(position, of, "the server of `database` that takes writes"),
            Some(_) => tracing::warn!(
                position,
                of,
                "another server of `database` takes writes now; connections to the one before are closed"
            ),
        }
    }

    /// Waits until another one is in use.
    pub(super) async fn left(&self, at: usize) {
        let mut in_use = self.in_use.subscribe();
        // An error: the last who could use another one is gone.
        let _ = in_use.wait_for(|now| *now != Some(at)).await;
    }

    /// `None`: none has accepted a connection yet.
    pub(super) fn in_use(&self) -> Option<ServerInUse> {
        let at = (*self.in_use.borrow())?;
        Some(ServerInUse {
            position: at + 1,
            of: self.each.len(),
        })
    }
}

/// No server was reached that takes writes: each that was tried, and why it is not that.
#[derive(Debug)]
pub(super) struct NotOpened(pub(super) Vec<(String, String)>);

impl std::error::Error for NotOpened {}

impl std::fmt::Display for NotOpened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let [(_, why)] = &self.0[..] {
            return f.write_str(why);
        }
        let each = self
            .0
            .iter()
            .map(|(server, why)| format!("{server}: {why}"));
        f.write_str(&each.collect::<Vec<_>>().join("; "))
    }
}

/// Where a server is.
fn named(of: &Config) -> String {
    let host = match (of.get_hosts().first(), of.get_hostaddrs().first()) {
        (Some(Host::Tcp(name)), _) => name.clone(),
        #[cfg(unix)]
        (Some(Host::Unix(path)), _) => path.display().to_string(),
        (None, Some(address)) => address.to_string(),
        (None, None) => String::new(),
    };
    let port = of.get_ports().first().copied().unwrap_or(5432);
    format!("host {host}, port {port}")
}

/// The configuration of one of several servers.
fn one(all: &Config, at: usize, limit: Duration) -> Config {
    let mut one = Config::new();
    if let Some(host) = all.get_hosts().get(at) {
        match host {
            Host::Tcp(name) => one.host(name),
            #[cfg(unix)]
            Host::Unix(path) => one.host_path(path),
        };
    }
    if let Some(address) = all.get_hostaddrs().get(at) {
        one.hostaddr(*address);
    }
    let ports = all.get_ports();
    if let Some(port) = ports.get(at).or(ports.first()) {
        one.port(*port);
    }
    if let Some(user) = all.get_user() {
        one.user(user);
    }
    if let Some(password) = all.get_password() {
        one.password(password);
    }
    if let Some(name) = all.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = all.get_options() {
        one.options(options);
    }
    if let Some(name) = all.get_application_name() {
        one.application_name(name);
    }
    if let Some(timeout) = all.get_connect_timeout() {
        one.connect_timeout(*timeout);
    }
    if let Some(interval) = all.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = all.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.keepalives(all.get_keepalives())
        .keepalives_idle(all.get_keepalives_idle())
        .tcp_user_timeout(limit)
        .ssl_mode(all.get_ssl_mode())
        .ssl_negotiation(all.get_ssl_negotiation())
        .channel_binding(all.get_channel_binding())
        .target_session_attrs(TargetSessionAttrs::ReadWrite);
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(url: &str) -> Servers {
        Servers::of(url.parse().unwrap(), Duration::from_secs(5))
    }

    #[test]
    fn each_of_several_is_the_whole_with_one_host() {
        let several =
            servers("postgres://me:secret@one:1,two:2/name?options=-c%20x%3D1&keepalives_idle=7");
        let [one, two] = &*several.each else {
            panic!("two servers")
        };
        assert_eq!((one.get_ports(), two.get_ports()), (&[1][..], &[2][..]));
        let alone = |host: &str| -> Config {
            let url = format!(
                "postgres://me:secret@{host}/name?options=-c%20x%3D1&keepalives_idle=7&target_session_attrs=read-write&tcp_user_timeout=5"
            );
            url.parse().unwrap()
        };
        assert_eq!((one, two), (&alone("one:1"), &alone("two:2")));
    }

    #[test]
    fn the_one_that_was_used_last_is_tried_first() {
        let several = servers("postgres://me@one,two,three/name");
        let turns = |of: &Servers| -> Vec<usize> { of.in_turn().map(|(_, at, _)| at).collect() };
        assert_eq!((turns(&several), several.in_use()), (vec![0, 1, 2], None));
        several.uses(1);
        assert_eq!(turns(&several), [1, 0, 2]);
        let found = several.clone().in_use().map(|it| (it.position, it.of));
        assert_eq!(found, Some((2, 3)));
    }
}
