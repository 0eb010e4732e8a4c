//! A collector that takes spans over HTTP (OTLP, protobuf), by the client that calls services for
//! steps: its rules for addresses, secrets and certificates count here too.

use crate::exit::Exit;
use crate::settings::TraceSettings;
use counterstep_adapters::http::{OpenError, ReqwestServices, ServiceSettings, Token};
use counterstep_kernel::ports::{HttpServices, Method, ServiceRequest};
use counterstep_steps::error::chain;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use prost::Message;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;

/// What the client calls it.
const COLLECTOR: &str = "collector";

/// Timeout of one request.
const LIMIT: Duration = Duration::from_secs(10);

const LONGEST_ANSWER: usize = 64 << 10;

/// Takes spans.
#[derive(Debug)]
pub(super) struct Collector {
    client: ReqwestServices,
    resource: ResourceAttributesWithSchema,
}

/// Spans that the collector has not taken.
#[derive(Debug)]
pub(super) struct NotTaken {
    /// For the log.
    pub(super) why: String,
    /// It may take them after this; `None`: never.
    pub(super) retry_after: Option<Duration>,
}

impl Collector {
    pub(super) fn open(settings: &TraceSettings, resource: &Resource) -> Result<Self, Exit> {
        let service = ServiceSettings {
            url: settings.endpoint.clone(),
            token: settings.token_file.clone().map(Token::File),
            header_files: settings.header_files.clone(),
            ca_file: settings.ca_file.clone(),
            allow_plaintext: settings.allow_plaintext,
        };
        let services = BTreeMap::from([(COLLECTOR.to_owned(), service)]);
        Ok(Self {
            client: ReqwestServices::open(&services).map_err(|error| refused(&error))?,
            resource: resource.into(),
        })
    }

    /// Spans as a request.
    pub(super) fn request(&self, spans: Vec<SpanData>) -> Vec<u8> {
        let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    /// Sends a request. Returns how many of its spans were refused permanently.
    pub(super) async fn send(&self, request: Vec<u8>) -> Result<u64, NotTaken> {
        let sent = self.client.call(ServiceRequest {
            service: COLLECTOR.to_owned(),
            method: Method::Post,
            path: "/v1/traces".to_owned(),
            headers: vec![("content-type", "application/x-protobuf".to_owned())],
            body: Some(request.into()),
            longest_answer: LONGEST_ANSWER,
        });
        let soon = Some(Duration::ZERO);
        let not_taken = |why, retry_after| Err(NotTaken { why, retry_after });
        let answer = match timeout(LIMIT, sent).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return not_taken(chain(&error), soon),
            Err(_) => return not_taken(format!("no answer within {LIMIT:?}"), soon),
        };
        match answer.status {
            200..300 => {
                // An empty body is a whole success, and so is one that is not understood.
                let read = ExportTraceServiceResponse::decode(answer.body).unwrap_or_default();
                let rejected = read.partial_success.map_or(0, |part| part.rejected_spans);
                Ok(u64::try_from(rejected).unwrap_or(0))
            }
            status @ (429 | 502 | 503 | 504) => not_taken(
                format!("status {status}"),
                Some(answer.retry_after.unwrap_or_default()),
            ),
            status => not_taken(format!("status {status}"), None),
        }
    }
}

/// The setting that has given what the client calls so.
fn ours(setting: &str) -> &'static str {
    match setting {
        "token_file" => "secret_files.collector",
        "ca_file" => "ca_file",
        _ => "otlp_header_files",
    }
}

fn refused(error: &OpenError) -> Exit {
    match error {
        OpenError::Url { why, .. } => Exit::config(format_args!("setting `otlp_endpoint`: {why}")),
        OpenError::Header { header, .. } => Exit::config(format_args!(
            "setting `otlp_header_files`: `{header}` is no header that a file can give"
        )),
        OpenError::File {
            setting,
            path,
            source,
            ..
        } => Exit::config(format_args!(
            "setting `{}`: the file `{}` cannot be read: {source}",
            ours(setting),
            path.display()
        )),
        OpenError::Short { setting, path, .. } => Exit::config(format_args!(
            "setting `{}`: the file `{}` holds less than 8 bytes, which is no secret",
            ours(setting),
            path.display()
        )),
        OpenError::Client { why, .. } => {
            Exit::config(format_args!("setting `otlp_endpoint`: {why}"))
        }
        OpenError::Name(_) | OpenError::ShortToken { .. } => Exit::config(chain(error)),
    }
}
