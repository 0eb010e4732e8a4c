//! Where traces go, and how many there are. Must not connect to anything.

use super::kinds::Kind;
use super::layers::Layers;
use super::secrets::Secret;
use super::tls::TlsServer;
use crate::exit::Exit;
use clap::{Arg, value_parser};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Traces for a collector.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSettings {
    /// Its address.
    pub endpoint: String,
    /// Its token.
    pub token_file: Option<PathBuf>,
    /// Files with the values of other headers, by header.
    pub header_files: BTreeMap<String, PathBuf>,
    /// PEM file with the only authorities that its certificate may come from.
    pub ca_file: Option<PathBuf>,
    /// Whether it may be another machine without TLS.
    pub allow_plaintext: bool,
    /// The share of the traces that begin here.
    pub sample: f64,
}

impl Layers {
    /// Traces, where they are on.
    pub(super) fn traces(&self) -> Result<Option<TraceSettings>, Exit> {
        let sample = self.trace_sample()?;
        let header_files = self.otlp_header_files()?;
        let Some(endpoint) = self.otlp_endpoint()? else {
            return Ok(None);
        };
        Ok(Some(TraceSettings {
            ca_file: self.tls_of(TlsServer::Collector, &endpoint)?.ca_file,
            endpoint,
            token_file: self.secret_file(Secret::Collector)?,
            header_files,
            allow_plaintext: self.allow_plaintext()?,
            sample,
        }))
    }
}

/// A part of a whole, from 0 to 1.
pub struct Share;

impl Kind for Share {
    type Raw = f64;
    type Value = f64;
    const NAME: &'static str = "SHARE";

    fn arg(arg: Arg) -> Arg {
        arg.value_parser(value_parser!(f64))
    }

    fn check(key: &str, raw: f64) -> Result<f64, Exit> {
        if (0.0..=1.0).contains(&raw) {
            return Ok(raw);
        }
        Err(Exit::config(format_args!(
            "invalid setting `{key}`: {raw}; expected a number from 0 to 1, as 0.1"
        )))
    }

    fn shown(value: &f64) -> String {
        value.to_string()
    }
}
