//! What a server cannot promise with its present settings, for `doctor`. Looks only; changes
//! nothing.

use super::Nats;
use super::streams::{Kind, Streams};
use crate::finding::Finding;
use crate::tls::is_this_machine;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{Config, RetentionPolicy, StorageType};
use futures::TryStreamExt;
use futures::future::BoxFuture;
use serde_json::Value;
use std::time::Duration;

/// The first version without known losses of acknowledged messages in the file store.
const SOUND: (u64, u64, u64) = (2, 10, 23);

impl Nats {
    /// Compares the server with what production wants. `monitor` is the URL of its monitoring port,
    /// where there is one: how often it syncs its files is said nowhere else.
    ///
    /// # Errors
    /// A text, when NATS or its monitoring port does not answer.
    pub fn examine<'a>(
        &'a self,
        monitor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<Finding>, String>> {
        Box::pin(async move {
            self.streams.link.check().map_err(|error| error.0)?;
            let server = self
                .server_info()
                .ok_or("NATS has not said who it is yet")?;
            let mut findings = Vec::new();
            findings.extend(version(&server.version));
            findings.extend(plaintext(&self.streams));
            let single = server.cluster.is_none();
            for kind in [Kind::Work, Kind::Events] {
                findings.extend(stream(&self.streams, kind, single).await?);
            }
            if let Some(url) = monitor {
                findings.extend(sync_interval(
                    &read(url, self.streams.options.timeout).await?,
                ));
            }
            Ok(findings)
        })
    }
}

fn version(found: &str) -> Option<Finding> {
    let mut numbers = found
        .split(['.', '-', '+'])
        .map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    ((next(), next(), next()) < SOUND).then(|| Finding {
        code: "nats_version",
        what: format!("the NATS server is version {found}"),
        why: "servers before 2.10.23 can lose messages that they had acknowledged, and forget what they have seen, when \
              they crash; tasks are then found by polling, seconds later",
        to_do: "update the server to 2.10.23 or newer".to_owned(),
    })
}

fn plaintext(streams: &Streams) -> Option<Finding> {
    let options = &streams.options;
    let open = options
        .urls
        .iter()
        .filter_map(|url| url.parse::<async_nats::ServerAddr>().ok());
    let open = open.filter(|at| {
        options.ca_file.is_none() && !at.tls_required() && !is_this_machine(at.host())
    });
    let hosts: Vec<_> = open.map(|at| at.host().to_owned()).collect();
    (!hosts.is_empty()).then(|| Finding {
        code: "nats_plaintext",
        what: format!("the connection to {} is not encrypted", hosts.join(", ")),
        why: "an eavesdropper on the network reads task ids, outputs of steps and passwords",
        to_do: "use tls:// or give a CA file, unless the network is trusted".to_owned(),
    })
}

async fn stream(streams: &Streams, kind: Kind, single: bool) -> Result<Vec<Finding>, String> {
    let wanted = streams.config(kind);
    let found = match streams.context.get_stream(&wanted.name).await {
        Ok(stream) => stream,
        Err(error) => match error.kind() {
            // It is made with the first message, and some installations never need events.
            GetStreamErrorKind::JetStream(error)
                if error.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                let has_one = single && wanted.num_replicas > 1 && kind == Kind::Work;
                let what = format!("the stream `{}` will have one copy", wanted.name);
                return Ok(Vec::from_iter(
                    has_one.then(|| one_copy(&wanted.name, what, single)),
                ));
            }
            _ => return Err(format!("looking at the stream `{}`: {error}", wanted.name)),
        },
    };
    let mut findings = compare(&found.cached_info().config, &wanted, kind, single);
    if kind == Kind::Work {
        let mut consumers = found.consumers();
        loop {
            match consumers.try_next().await {
                Ok(Some(info)) => findings.extend(limited(&info, &wanted.name)),
                Ok(None) => break,
                // The user of a service may not list them.
                Err(_) if may_not_list(streams) => break,
                Err(error) => return Err(format!("listing consumers: {error}")),
            }
        }
    }
    Ok(findings)
}

fn may_not_list(streams: &Streams) -> bool {
    let refused = streams.link.refusals.all();
    refused
        .iter()
        .any(|subject| subject.starts_with("$JS.API.CONSUMER.LIST."))
}

fn compare(found: &Config, wanted: &Config, kind: Kind, single: bool) -> Vec<Finding> {
    let name = &found.name;
    let mut findings = Vec::new();
    if found.num_replicas < 2 {
        findings.push(one_copy(
            name,
            format!("the stream `{name}` has one copy"),
            single,
        ));
    } else if found.num_replicas < wanted.num_replicas {
        findings.push(Finding {
            code: "nats_replicas",
            what: format!(
                "the stream `{name}` has {} copies; set are {}",
                found.num_replicas, wanted.num_replicas
            ),
            why: "the settings of a stream that is there are left alone",
            to_do: format!(
                "`nats stream edit {name} --replicas {}`",
                wanted.num_replicas
            ),
        });
    }
    if found.storage != StorageType::File {
        findings.push(Finding {
            code: "nats_storage",
            what: format!("the stream `{name}` is kept in memory"),
            why: "a restart of the server loses all messages",
            to_do: format!("delete the stream `{name}`; it is made again with files"),
        });
    }
    if found.retention != wanted.retention {
        let why = match kind {
            Kind::Work => {
                "without the work queue policy, messages that are done with stay in the stream, and a consumer that is made \
                 again delivers all of them once more"
            }
            Kind::Events => "events are to be kept for their time, even after they were read",
        };
        findings.push(Finding {
            code: "nats_retention",
            what: format!(
                "the stream `{name}` keeps messages by the policy {:?}",
                found.retention
            ),
            why,
            to_do: format!(
                "delete the stream `{name}`; it is made again with the policy {:?}",
                wanted.retention
            ),
        });
    }
    let limited = found.max_messages > 0 || found.max_bytes > 0 || !found.max_age.is_zero();
    if kind == Kind::Work && limited && found.retention == RetentionPolicy::WorkQueue {
        findings.push(Finding {
            code: "nats_limits",
            what: format!("the stream `{name}` drops messages by age, number or size"),
            why: "a dropped message delays its task until a host finds it by polling",
            to_do: format!("`nats stream edit {name} --max-age=-1 --max-msgs=-1 --max-bytes=-1`"),
        });
    }
    if found.duplicate_window < Duration::from_secs(30) {
        findings.push(Finding {
            code: "nats_duplicate_window",
            what: format!(
                "the stream `{name}` remembers messages for {:?} only",
                found.duplicate_window
            ),
            why: "what a relay publishes once more after a crash is then delivered twice",
            to_do: format!("`nats stream edit {name} --dupe-window 2m`"),
        });
    }
    findings
}

fn one_copy(stream: &str, what: String, single: bool) -> Finding {
    let to_do = if single {
        "run a cluster of three servers, and give the stream three replicas".to_owned()
    } else {
        format!("`nats stream edit {stream} --replicas 3`")
    };
    Finding {
        code: "nats_replicas",
        what,
        why: "a server that is down stops all messages, and its lost disk loses them; tasks go on by polling, events are gone",
        to_do,
    }
}

fn limited(info: &consumer::Info, stream: &str) -> Option<Finding> {
    (info.config.max_deliver > 0).then(|| Finding {
        code: "nats_max_deliver",
        what: format!(
            "the consumer `{}` gives a message up after {} deliveries",
            info.name, info.config.max_deliver
        ),
        why: "such a message stays in the stream, and no worker receives it",
        to_do: format!(
            "`nats consumer edit {stream} {} --max-deliver=-1`, or restart the workers",
            info.name
        ),
    })
}

/// From `/varz` of the monitoring port. Servers before 2.10 do not say it, and have no setting for
/// it.
fn sync_interval(varz: &Value) -> Option<Finding> {
    let config = &varz["jetstream"]["config"];
    if config["sync_always"].as_bool() == Some(true) {
        return None;
    }
    let nanos = config["sync_interval"].as_u64();
    let interval = nanos.map_or(Duration::from_secs(120), Duration::from_nanos);
    Some(Finding {
        code: "nats_sync_interval",
        what: match nanos {
            Some(_) => format!("the server syncs its files every {interval:?}"),
            None => {
                "the server does not say how often it syncs its files; then it is every two minutes"
                    .to_owned()
            }
        },
        why: "a power cut loses messages that the server had acknowledged; tasks are then found by polling, events are gone",
        to_do:
            "set `sync_interval: always` in the `jetstream` block of its settings (2.10 or newer)"
                .to_owned(),
    })
}

async fn read(monitor: &str, limit: Duration) -> Result<Value, String> {
    crate::tls::install_provider();
    let failed =
        |error: reqwest::Error| format!("the monitoring port of NATS does not answer: {error}");
    let client = reqwest::Client::builder()
        .timeout(limit)
        .build()
        .map_err(failed)?;
    let url = format!("{}/varz", monitor.trim_end_matches('/'));
    let answer = client
        .get(url)
        .send()
        .await
        .map_err(failed)?
        .error_for_status()
        .map_err(failed)?;
    answer.json().await.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn old_versions_are_found() {
        for old in ["2.9.10", "2.10.22", "2.10.22-RC.1", "1.4"] {
            assert_eq!(
                version(old).map(|it| it.code),
                Some("nats_version"),
                "{old}"
            );
        }
        for new in ["2.10.23", "2.10.27", "2.11.0", "3.0.0"] {
            assert_eq!(version(new), None, "{new}");
        }
    }

    #[test]
    fn only_always_is_often_enough() {
        let varz = |config: Value| json!({ "jetstream": { "config": config } });
        assert_eq!(
            sync_interval(&varz(
                json!({ "sync_interval": 120_000_000_000_u64, "sync_always": true })
            )),
            None
        );
        let found = sync_interval(&varz(json!({ "sync_interval": 120_000_000_000_u64 }))).unwrap();
        assert!(found.what.contains("120s"), "{}", found.what);
        assert!(sync_interval(&varz(json!({}))).is_some());
    }
}
