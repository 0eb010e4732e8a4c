//! The declarations of all settings of all processes. Must not check one value against another.

use super::auth_mode::AuthMode;
use super::backends::DatabaseUse;
use super::declare::{Mark, Setting, declare};
use super::groups::{Group, takes};
use super::installation::DisplayName;
use super::kinds::{Kind, Number, Prefix, Slots};
use super::layers::Layers;
use super::log_format::LogFormat;
use super::metrics_labels::MetricsLabels;
use super::secrets::Secret;
use super::services::Service;
use super::tls::{TlsFiles, TlsServer};
use super::traces::Share;
use crate::exit::Exit;
use clap::ArgMatches;
use counterstep_contracts::access::Role;
use counterstep_contracts::installation::BarColor;
use counterstep_contracts::{
    AutoDisableOverride, BreakerOverride, OrphanOverride, Retention, RetryOverride,
};
use counterstep_kernel::EngineSettings;
use serde::de::MapAccess;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

fn engine() -> EngineSettings {
    EngineSettings::default()
}

const UNBOUNDED: usize = usize::MAX;
const MIB: usize = 1 << 20;

declare! {
    File {
        config(NotInFile): PathBuf => "Read settings from this TOML file, whose keys are the long flags with `_` for `-`";
    }

    Process {
        data_dir: PathBuf = "counterstep-data".into() => "Set the data directory: scratch files, and all that has no other setting";
        allow_plaintext(Bare): bool = false => "Connect to servers of other machines without TLS";
        secrets_dir: PathBuf => "Read the secrets of this process from the files of this folder: `database`, `nats`, `redis`, `objects`, `collector`, `links`, `webhooks`, `seal`; one that is missing is a secret that it does not have";
        secret_files(OnlyInFile): BTreeMap<Secret, PathBuf> = BTreeMap::new() => "Set the files of single secrets, by these names, in place of those in the folder";
        ca_file(Rare): PathBuf ["the authorities of the machine"] => "Trust the authorities in this PEM file for the certificates of database, NATS, Redis, the issuer of tokens and the collector, where they are spoken to with TLS";
        cert_file(Rare): PathBuf => "Present the client certificate in this PEM file to database, NATS and Redis, where they are spoken to with TLS";
        key_file(Rare): PathBuf => "Use the key in this PEM file for the client certificate";
        tls(OnlyInFile): BTreeMap<TlsServer, TlsFiles> = BTreeMap::new() => "Set `ca_file`, `cert_file` and `key_file` of one server, in place of those of all: `database`, `nats`, `redis`; `issuer` and `collector` have a `ca_file` alone";
        accepted_findings(OnlyInFile): BTreeMap<String, String> = BTreeMap::new() => "Accept findings of `doctor`, each by its code and with the reason";
        log: String = "info".to_owned() => "Set what to log, as `info` or `warn,counterstep=debug`";
        log_format: LogFormat = LogFormat::Text => "Set the form of log lines: `text` or `json`";
    }

    Database {
        database(Url): String ["`counterstep.db` in the data directory"] => "Connect to this database: `sqlite://PATH` or `postgres://USER@HOST/NAME`; of several, `HOST,HOST`, the one that takes writes is used";
        database_connections: Number<1, UNBOUNDED> = DatabaseUse::default().connections => "Set the maximum of connections of this process to PostgreSQL; a fifth of them, at most four, serve lists and counts alone";
        payload_keys(Rare): PathBuf ["none: payloads are stored as they are"] => "Encrypt payloads in the database with the keys of their tenants, from this folder; see `counterstep payload-keys`";
        database_prepared_statements(Switch): bool = DatabaseUse::default().prepared_statements => "Prepare statements on each connection to PostgreSQL; `false` behind a pooler in transaction mode";
        accept(Rare, NotInFile): Vec<String> ["none"] => "Accept, for one start, after a look: `clock`, an SQLite file with a clock that was set forward by more than a day since its last write; `spool`, of a worker, the results that an older program has left, which get a seal";
    }

    Nats {
        nats(Url): String => "Connect to NATS, with PostgreSQL only: `nats://HOST:4222` or `tls://…`, several with commas between them";
        nats_monitor: String => "Ask for the state of NATS at this monitoring address, as `http://HOST:8222`; for `doctor`";
        nats_prefix: Prefix => "Set the prefix of every subject, stream and consumer, and of every key of Redis in place of `counterstep`: one for each installation on shared servers";
        nats_user(Rare): String => "Log in to NATS as this user, with the secret `nats` as the password";
        nats_create_streams(Switch): bool = true => "Create the streams where they are missing, and the consumers of all queues; `false` leaves both to other processes, as the reconciler";
        nats_replicas(Rare): Number<1, 5> = 1 => "Set the number of replicas of each stream, 1 to 5";
    }

    Redis {
        redis(Url): String => "Connect to Redis: `redis://HOST:6379` or `rediss://…`, several with commas between them";
    }

    Objects {
        objects(Url): String ["`objects` in the data directory"] => "Keep objects here: `file://PATH`, `s3://BUCKET/PREFIX?endpoint=URL` or `az://CONTAINER/PREFIX?account=NAME`";
    }

    Lease {
        lease: Duration = engine().lease => "Set how long a claim holds without a heartbeat, for task types that declare nothing else";
    }

    Tasks {
        step_timeout: Duration = engine().step_timeout => "Set the time limit of an attempt, for steps that declare none";
        upload_timeout: Duration = engine().upload_timeout => "Set the time limit of a request's arrival, uploads included";
        drain: Duration = engine().drain => "Set how long running steps and requests may go on at a shutdown";
        idempotency_ttl: Duration = engine().idempotency_ttl => "Set how long the answer to an idempotency key is kept";
        output_limit: Number<4096, UNBOUNDED> = engine().output_limit.0 => "Set the maximum bytes of an output, a response or a signal as JSON, 4096 or more; larger data belongs in objects";
        alert_webhook: String ["none"] => "Send alerts about dead letters, undos that gave up, disabled types and open breakers to this address; set it for all processes";
        events(Switch): bool = false => "Publish every change as an event on NATS, for one row more a change";
        without_protection(Rare): Vec<String> ["none"] => "Leave out these protections: `dumpable`, `no_new_privs`, `landlock`, `seccomp`, `subreaper`; the start logs what steps can do then";
    }

    Steps {
        scratch_quota: Number<{ MIB }, UNBOUNDED> ["none"] => "Set the bytes that the scratch files of all tasks may take on this host; beyond it, attempts that write some fail as transient";
        step_env: Vec<String> ["none"] => "Give the processes of steps (`isolate`) these variables of the environment too, by name";
        step_paths: Vec<String> ["none"] => "Let the processes of steps (`isolate`) read these files and folders too, and start what is in them, by absolute path";
        heavy: Slots ["the cores that it may use"] => "Set how many steps declared heavy run side by side in a process";
    }

    Api {
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8080)) => "Listen on this address and port";
        auth: AuthMode = AuthMode::None => "Authenticate callers: `keys` by API keys, `jwt` by access tokens of an issuer, `proxy` by the headers of a proxy; `none` on loopback only";
        auth_proxies: Vec<String> ["none"] => "Trust the headers of a proxy at these addresses or networks, with `--auth proxy`";
        jwt_issuer: String => "Accept access tokens with this `iss` alone, with `--auth jwt`";
        jwt_audience: String => "Accept access tokens for this `aud` alone";
        jwt_keys(Url): String => "Read the keys of the issuer (JWKS) from this address: `https://…`, `http://…` on this machine, or `file://PATH`";
        jwt_tenant_claim: String ["all are of the tenant `default`"] => "Take the tenant from this claim, by its name or by a JSON pointer; a token has to have it";
        jwt_subject_claim(Rare): String = "sub".to_owned() => "Take the subject from this claim";
        jwt_role_claim: String = "roles".to_owned() => "Take the role from this claim, as `/realm_access/roles`: the highest of the names there counts";
        jwt_roles(OnlyInFile): BTreeMap<String, Role> = BTreeMap::new() => "Set roles by the names that the issuer has for them; empty: `read`, `submit`, `operate`, `admin`";
        allowed_hosts: Vec<String> => "Answer under these names too, besides `localhost` and IP addresses; `*` for any";
        webhook_allow(Rare): Vec<String> ["none"] => "Let webhooks reach these private addresses or networks too, at any port and without TLS, and public ones at these ports (`:8443`) besides 443";
        streams_per_caller: Number<1, UNBOUNDED> = 100 => "Set the maximum of open streams of events, and of forms that arrive, per caller; where callers are not authenticated, per address";
        max_waiting: Number<1, 100_000_000> => "Refuse submissions of a type beyond about this many of its tasks that wait for a host, of each tenant; schedules and steps go on";
        requests_per_second: Number<1, 1_000_000> => "Refuse requests of a caller beyond this rate, with a burst of one second, where callers are authenticated; each process counts for itself";
        max_json_bytes: Number<1024, { 256 * MIB }> = MIB => "Refuse a JSON body, or a form whose text fields together are larger, in bytes; they are held in memory";
        max_form_bytes: Number<1024, UNBOUNDED> = 65_536 * MIB => "Refuse a form that is larger with all its files, in bytes";
        max_file_bytes: Number<1, UNBOUNDED> = 8_192 * MIB => "Refuse a form with a larger file, in bytes";
        ui_name: DisplayName ["none"] => "Show this name of the installation beside the brand and in the title of each page of `/ui`, at most 40 characters";
        ui_color: BarColor = BarColor::None => "Show a bar of this colour above each page of `/ui`, beside a name: `none`, `red`, `orange`, `green`, `blue`, `violet`";
    }

    Worker {
        queues: Vec<String> ["those of all task types"] => "Serve these queues only";
        task_types: Vec<String> ["all of the program"] => "Run tasks of these types only, each as `NAME` or, for one of its versions, `NAME@VERSION`";
        concurrency: Slots ["one for each 48 MiB of memory, from 4 to 256"] => "Set how many tasks run at a time";
    }

    Reconciler {
        every: Duration ["30s; in `dev` 5s"] => "Set the time between passes";
    }

    Metrics {
        metrics_listen: SocketAddr => "Serve `/metrics`, `/healthz` and `/readyz` on this address and port; the first not on that of the API any more";
        metrics_labels: MetricsLabels ["none"] => "Split tasks in metrics and durations by these labels, at most 4; at most 100 of their values are shown";
    }

    Traces {
        otlp_endpoint(Url): String ["none"] => "Export spans to the collector of OpenTelemetry at this address, as `http://127.0.0.1:4318`; they go to `/v1/traces` below it";
        otlp_header_files(OnlyInFile): BTreeMap<String, PathBuf> = BTreeMap::new() => "Send these headers to the collector, each with the value in a file";
        trace_sample: Share = 1.0 => "Record this share of the traces that begin here, from 0 to 1; a trace that goes on here follows the flag in its `traceparent`";
    }

    Policies {
        policies(OnlyInFile): BTreeMap<String, RetryOverride> = BTreeMap::new() => "Change retry policies, by name";
        breakers(OnlyInFile): BTreeMap<String, BreakerOverride> = BTreeMap::new() => "Change breakers, by the name of the dependency";
        auto_disable(OnlyInFile): BTreeMap<String, AutoDisableOverride> = BTreeMap::new() => "Change when task types are disabled, by type";
    }

    Services {
        services(OnlyInFile): BTreeMap<String, Service> = BTreeMap::new() => "Set the services that steps call, by name";
    }

    Upkeep {
        orphans(OnlyInFile): BTreeMap<String, OrphanOverride> = BTreeMap::new() => "Change how often orphans are listed and how long they are left alone, by task type or `*`";
        orphans_without_task(OnlyInFile): Duration ["never"] => "Treat objects of unknown tasks and attempts as orphans from this age on";
        retention(OnlyInFile): BTreeMap<String, Retention> = BTreeMap::new() => "Set how long tasks that have ended are kept, by task type or `*`";
    }

    Remote {
        profile(NotInFile): String => "Connect to the server of this profile; `counterstep profile` adds and lists them";
        url(Url, NotInFile): String = "http://127.0.0.1:8080".to_owned() => "Connect to the API at this address";
        token_file(NotInFile): PathBuf => "Send the API key or the access token in this file with each request";
    }
}

/// Whether a command has a flag for a setting.
fn has_flag(uses: u32, key: &str) -> bool {
    let mut taken = SETTINGS.iter().filter(|it| takes(uses, it.group));
    taken.any(|it| it.key == key && it.flag().is_some())
}
