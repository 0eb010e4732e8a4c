//! Certificates for TLS: one set for all servers, and another one for a server that the settings file names. Must not read a
//! certificate.

use super::kinds::Kind;
use super::layers::Layers;
use crate::exit::Exit;
use counterstep_adapters::client_certificate::ClientCertificate;
use serde::Deserialize;
use std::path::PathBuf;

/// The certificates of single servers, in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsOfServers {
    database: Option<TlsFiles>,
    nats: Option<TlsFiles>,
    redis: Option<TlsFiles>,
    issuer: Option<Authorities>,
    collector: Option<Authorities>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsFiles {
    ca_file: Option<PathBuf>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
}

/// Of a server that this program sends a token: it presents no certificate there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Authorities {
    ca_file: Option<PathBuf>,
}

/// What counts for one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tls {
    /// PEM file with the authorities that its certificate may come from.
    pub(super) ca_file: Option<PathBuf>,
    /// What proves this program to it.
    pub(super) certificate: Option<ClientCertificate>,
}

/// A server by its name in the file.
#[derive(Debug, Clone, Copy)]
pub(super) enum TlsServer {
    Database,
    Nats,
    Redis,
    Issuer,
    Collector,
}

impl TlsServer {
    fn name(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Nats => "nats",
            Self::Redis => "redis",
            Self::Issuer => "issuer",
            Self::Collector => "collector",
        }
    }

    fn own(self, of: TlsOfServers) -> Option<TlsFiles> {
        let authorities = |it: Authorities| TlsFiles {
            ca_file: it.ca_file,
            ..TlsFiles::default()
        };
        match self {
            Self::Database => of.database,
            Self::Nats => of.nats,
            Self::Redis => of.redis,
            Self::Issuer => of.issuer.map(authorities),
            Self::Collector => of.collector.map(authorities),
        }
    }

    /// Whether a URL, or one of several, asks for TLS.
    fn is_asked_by(self, url: &str) -> bool {
        match self {
            Self::Database => {
                url.contains("sslmode=require") || url.contains("sslmode=verify-full")
            }
            Self::Nats => url.contains("tls://"),
            Self::Redis => url.contains("rediss://"),
            Self::Issuer | Self::Collector => url.starts_with("https://"),
        }
    }
}

impl Layers {
    /// The certificates for a server at this URL. What is set for all servers is for those that are spoken to with TLS: NATS and
    /// Redis refuse a certificate without. A table of its own replaces all of it, also where it is empty.
    pub(super) fn tls_of(&self, server: TlsServer, url: &str) -> Result<Tls, Exit> {
        if let Some(files) = self.tls()?.and_then(|tls| server.own(tls)) {
            return files.checked(&format!("tls.{}.", server.name()));
        }
        if !server.is_asked_by(url) {
            return Ok(Tls::default());
        }
        let files = TlsFiles {
            ca_file: self.ca_file()?,
            cert_file: self.cert_file()?,
            key_file: self.key_file()?,
        };
        files.checked("")
    }
}

impl TlsFiles {
    fn checked(self, place: &str) -> Result<Tls, Exit> {
        let certificate = match (self.cert_file, self.key_file) {
            (None, None) => None,
            (Some(cert_file), Some(key_file)) => Some(ClientCertificate {
                cert_file,
                key_file,
            }),
            _ => {
                return Err(Exit::config(format_args!(
                    "settings `{place}cert_file` and `{place}key_file`: one is there without the other; expected both"
                )));
            }
        };
        Ok(Tls {
            ca_file: self.ca_file,
            certificate,
        })
    }
}

impl Kind for TlsOfServers {
    type Raw = Self;
    type Value = Self;
    const NAME: &'static str = "TABLE";

    fn check(_: &str, raw: Self) -> Result<Self, Exit> {
        Ok(raw)
    }

    fn shown(_: &Self) -> String {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SettingValues;

    const ALL: [(TlsServer, &str, &str); 5] = [
        (
            TlsServer::Database,
            "postgres://me@db/x?sslmode=verify-full",
            "postgres://me@localhost/x",
        ),
        (TlsServer::Nats, "tls://a:4222", "nats://a:4222"),
        (TlsServer::Redis, "rediss://a:6379", "redis://a:6379"),
        (
            TlsServer::Issuer,
            "https://issuer/keys",
            "file:///etc/keys.json",
        ),
        (
            TlsServer::Collector,
            "https://collector",
            "http://localhost:4318",
        ),
    ];

    fn layers(text: &str, first: SettingValues) -> Layers {
        Layers {
            first,
            file: toml::from_str(text).expect(text),
            ..Layers::default()
        }
    }

    #[test]
    fn one_set_is_for_all_servers_that_are_spoken_to_with_tls() {
        let given = layers(
            "ca_file = \"ca\"\ncert_file = \"c\"\nkey_file = \"k\"\n",
            SettingValues::default(),
        );
        let all = Tls {
            ca_file: Some("ca".into()),
            certificate: Some(ClientCertificate {
                cert_file: "c".into(),
                key_file: "k".into(),
            }),
        };
        for (server, encrypted, plain) in ALL {
            assert_eq!(given.tls_of(server, encrypted).unwrap(), all, "{server:?}");
            assert_eq!(given.tls_of(server, plain).unwrap(), Tls::default());
        }
    }

    #[test]
    fn a_table_of_a_server_comes_before_what_is_set_for_all_also_by_a_flag_and_when_it_is_empty() {
        let flag = || SettingValues {
            ca_file: Some("flag".into()),
            ..SettingValues::default()
        };
        for (server, encrypted, plain) in ALL {
            let name = server.name();
            let own = layers(&format!("[tls.{name}]\nca_file = \"own\"\n"), flag());
            for url in [encrypted, plain] {
                let tls = own.tls_of(server, url).unwrap();
                assert_eq!(tls.ca_file, Some("own".into()), "{name}");
            }
            let empty = layers(&format!("[tls.{name}]\n"), flag());
            assert_eq!(empty.tls_of(server, encrypted).unwrap(), Tls::default());
            let others = layers("ca_file = \"file\"\n", flag());
            let tls = others.tls_of(server, encrypted).unwrap();
            assert_eq!(tls.ca_file, Some("flag".into()), "{name}");
        }
    }

    #[test]
    fn a_certificate_comes_with_its_key_and_a_server_has_a_name() {
        for (text, place) in [
            ("cert_file = \"c\"", "`cert_file` and `key_file`"),
            (
                "[tls.database]\nkey_file = \"k\"",
                "`tls.database.cert_file`",
            ),
        ] {
            let given = layers(text, SettingValues::default());
            let refused = given.tls_of(TlsServer::Database, ALL[0].1).unwrap_err();
            assert!(refused.message.contains(place), "{refused}");
        }
        for (text, expected) in [
            ("[tls.db]", "expected one of `database`"),
            ("[tls.issuer]\ncert_file = \"c\"", "expected `ca_file`"),
            ("[tls.nats]\nca = \"c\"", "expected one of `ca_file`"),
        ] {
            let error = toml::from_str::<SettingValues>(text).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
        }
    }
}
