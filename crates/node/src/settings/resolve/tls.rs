//! Certificates for TLS: one set for all servers, and another one for a server that the settings file names. Must not read a
//! certificate.

use crate::exit::Exit;
use crate::settings::layers::Layers;
use crate::settings::tls::{TlsFiles, TlsServer};
use counterstep_adapters::client_certificate::ClientCertificate;
use std::path::PathBuf;

/// What counts for one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    /// PEM file with the authorities that its certificate may come from.
    pub(crate) ca_file: Option<PathBuf>,
    /// What proves this program to it.
    pub(crate) certificate: Option<ClientCertificate>,
}

impl Layers {
    /// The certificates for a server at this URL. What is set for all servers is for those that are spoken to with TLS: NATS and
    /// Redis refuse a certificate without. A table of its own replaces all of it, also where it is empty.
    pub(crate) fn tls_of(&self, server: TlsServer, url: &str) -> Result<Tls, Exit> {
        if let Some(files) = self.tls()?.remove(&server) {
            let place = format!("tls.{server:?}.").to_ascii_lowercase();
            let tls = files.checked(&place)?;
            // It gets a token.
            let takes_none = matches!(server, TlsServer::Issuer | TlsServer::Collector);
            if takes_none && tls.certificate.is_some() {
                return Err(Exit::config(format_args!(
                    "setting `{place}cert_file`: no certificate is presented there; expected `ca_file` alone"
                )));
            }
            return Ok(tls);
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
            let name = format!("{server:?}").to_ascii_lowercase();
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
        let issuer = layers(
            "[tls.issuer]\ncert_file = \"c\"\nkey_file = \"k\"",
            SettingValues::default(),
        );
        let refused = issuer.tls_of(TlsServer::Issuer, ALL[3].1).unwrap_err();
        assert!(refused.message.contains("`ca_file` alone"), "{refused}");
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
            ("[tls.nats]\nca = \"c\"", "expected one of `ca_file`"),
        ] {
            let error = toml::from_str::<SettingValues>(text).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
        }
    }
}
