//! The servers as flags and variables, and the same as a layer of the settings file. Must not
//! decide which layer counts: that is in `places`.

use std::path::PathBuf;

/// Where the servers are and how this program proves itself to them. The file has the same keys.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Servers")]
pub struct ServerArgs {
    /// Database: sqlite://PATH or postgres://USER@HOST/NAME [default: a file in the data folder]
    #[arg(
        long,
        env = "COUNTERSTEP_DATABASE",
        global = true,
        hide_env_values = true
    )]
    pub database: Option<String>,
    /// File with the URL of the database, where that holds a password
    #[arg(
        long,
        env = "COUNTERSTEP_DATABASE_FILE",
        global = true,
        hide_short_help = true
    )]
    pub database_file: Option<PathBuf>,
    /// File with the password of the database's user
    #[arg(
        long,
        env = "COUNTERSTEP_DATABASE_PASSWORD_FILE",
        global = true,
        hide_short_help = true
    )]
    pub database_password_file: Option<PathBuf>,
    /// PEM file with the authorities that the database's certificate may come from
    #[arg(
        long,
        env = "COUNTERSTEP_DATABASE_CA_FILE",
        global = true,
        hide_short_help = true
    )]
    pub database_ca_file: Option<PathBuf>,
    /// PEM file with the client certificate for the database
    #[arg(
        long,
        env = "COUNTERSTEP_DATABASE_CERT_FILE",
        global = true,
        hide_short_help = true
    )]
    pub database_cert_file: Option<PathBuf>,
    /// PEM file with the key of that certificate
    #[arg(
        long,
        env = "COUNTERSTEP_DATABASE_KEY_FILE",
        global = true,
        hide_short_help = true
    )]
    pub database_key_file: Option<PathBuf>,
    /// Messages, with PostgreSQL: nats://HOST:4222, or several with commas between them
    #[arg(long, env = "COUNTERSTEP_NATS", global = true, hide_env_values = true)]
    pub nats: Option<String>,
    /// Monitoring address of NATS, as http://HOST:8222, for `doctor`
    #[arg(long, env = "COUNTERSTEP_NATS_MONITOR", global = true)]
    pub nats_monitor: Option<String>,
    /// Starts every subject, stream and consumer: one for each installation on a NATS server
    /// [default: none]
    #[arg(long, env = "COUNTERSTEP_NATS_PREFIX", global = true)]
    pub nats_prefix: Option<String>,
    /// File with the credentials for NATS (`.creds`)
    #[arg(
        long,
        env = "COUNTERSTEP_NATS_CREDENTIALS_FILE",
        global = true,
        hide_short_help = true
    )]
    pub nats_credentials_file: Option<PathBuf>,
    /// User of NATS, with a file for the password
    #[arg(
        long,
        env = "COUNTERSTEP_NATS_USER",
        global = true,
        hide_short_help = true
    )]
    pub nats_user: Option<String>,
    /// File with the password of the NATS user
    #[arg(
        long,
        env = "COUNTERSTEP_NATS_PASSWORD_FILE",
        global = true,
        hide_short_help = true
    )]
    pub nats_password_file: Option<PathBuf>,
    /// File with a token for NATS
    #[arg(
        long,
        env = "COUNTERSTEP_NATS_TOKEN_FILE",
        global = true,
        hide_short_help = true
    )]
    pub nats_token_file: Option<PathBuf>,
    /// File with the seed of an nkey for NATS
    #[arg(
        long,
        env = "COUNTERSTEP_NATS_NKEY_FILE",
        global = true,
        hide_short_help = true
    )]
    pub nats_nkey_file: Option<PathBuf>,
    /// PEM file with the authorities that the certificate of NATS may come from
    #[arg(
        long,
        env = "COUNTERSTEP_NATS_CA_FILE",
        global = true,
        hide_short_help = true
    )]
    pub nats_ca_file: Option<PathBuf>,
    /// PEM file with the client certificate for NATS
    #[arg(
        long,
        env = "COUNTERSTEP_NATS_CERT_FILE",
        global = true,
        hide_short_help = true
    )]
    pub nats_cert_file: Option<PathBuf>,
    /// PEM file with the key of that certificate
    #[arg(
        long,
        env = "COUNTERSTEP_NATS_KEY_FILE",
        global = true,
        hide_short_help = true
    )]
    pub nats_key_file: Option<PathBuf>,
    /// A message that is not settled in this time is delivered again [default: the lease, 15s at
    /// least]
    #[arg(
        long,
        env = "COUNTERSTEP_NATS_ACK_WAIT",
        global = true,
        hide_short_help = true
    )]
    pub nats_ack_wait: Option<String>,
    /// Copies of each stream that this program makes, 1 to 5 [default: 1]
    #[arg(
        long,
        env = "COUNTERSTEP_NATS_REPLICAS",
        global = true,
        hide_short_help = true
    )]
    pub nats_replicas: Option<usize>,
    /// Largest message that is read, in bytes; a larger one is poison [default: 262144]
    #[arg(
        long,
        env = "COUNTERSTEP_NATS_MAX_MESSAGE_BYTES",
        global = true,
        hide_short_help = true
    )]
    pub nats_max_message_bytes: Option<usize>,
    /// How long events are kept in the stream that this program makes [default: 7d]
    #[arg(
        long,
        env = "COUNTERSTEP_EVENTS_MAX_AGE",
        global = true,
        hide_short_help = true
    )]
    pub events_max_age: Option<String>,
    /// Locks and fast checks, where there is one: redis://HOST:6379, or several with commas between
    /// them
    #[arg(long, env = "COUNTERSTEP_REDIS", global = true, hide_env_values = true)]
    pub redis: Option<String>,
    /// File with the URL of Redis, where that holds a password
    #[arg(
        long,
        env = "COUNTERSTEP_REDIS_FILE",
        global = true,
        hide_short_help = true
    )]
    pub redis_file: Option<PathBuf>,
    /// Starts every key: one for each installation on a Redis server [default: counterstep]
    #[arg(long, env = "COUNTERSTEP_REDIS_PREFIX", global = true)]
    pub redis_prefix: Option<String>,
    /// File with the password of Redis
    #[arg(
        long,
        env = "COUNTERSTEP_REDIS_PASSWORD_FILE",
        global = true,
        hide_short_help = true
    )]
    pub redis_password_file: Option<PathBuf>,
    /// PEM file with the authorities that the certificate of Redis may come from
    #[arg(
        long,
        env = "COUNTERSTEP_REDIS_CA_FILE",
        global = true,
        hide_short_help = true
    )]
    pub redis_ca_file: Option<PathBuf>,
    /// PEM file with the client certificate for Redis
    #[arg(
        long,
        env = "COUNTERSTEP_REDIS_CERT_FILE",
        global = true,
        hide_short_help = true
    )]
    pub redis_cert_file: Option<PathBuf>,
    /// PEM file with the key of that certificate
    #[arg(
        long,
        env = "COUNTERSTEP_REDIS_KEY_FILE",
        global = true,
        hide_short_help = true
    )]
    pub redis_key_file: Option<PathBuf>,
    /// Object store: file://PATH, s3://BUCKET?endpoint=URL, az://CONTAINER?account=NAME [default: a
    /// folder in the data folder]
    #[arg(long, env = "COUNTERSTEP_OBJECTS", global = true)]
    pub objects: Option<String>,
    /// File with the keys of the object store, in the form of ~/.aws/credentials
    #[arg(
        long,
        env = "COUNTERSTEP_OBJECTS_CREDENTIALS_FILE",
        global = true,
        hide_short_help = true
    )]
    pub objects_credentials_file: Option<PathBuf>,
}
