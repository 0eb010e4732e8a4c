//! Starting, stopping, and what is kept in between.

use counterstep_testkit::servers::{Nats, Postgres, Redis, S3, Servers, shared_postgres};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

fn ask_redis(redis: &Redis, command: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
    stream
        .write_all(format!("{command}\r\n").as_bytes())
        .unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// Asks JetStream's interface as a client would and returns the answer's JSON.
fn ask_nats(nats: &Nats, subject: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", nats.port())).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let length = body.len();
    let text = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB answers 1\r\nPUB $JS.API.{subject} answers {length}\r\n{body}\r\n"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines.find(|line| line.starts_with("MSG ")).unwrap();
    lines.next().unwrap()
}

#[test]
fn postgres_keeps_what_was_committed_and_frees_its_port() {
    let postgres = Postgres::start();
    let url = postgres.database();
    assert_ne!(url, postgres.database());
    postgres
        .run_sql(&url, "CREATE TABLE t (n int); INSERT INTO t VALUES (1)")
        .unwrap();
    postgres.restart();
    postgres
        .run_sql(&url, "SELECT 1 / count(*) FROM t")
        .unwrap();
    // Answered in the moment before: a server that answers before it has written would lose it.
    postgres.run_sql(&url, "INSERT INTO t VALUES (3)").unwrap();
    postgres.crash();
    assert_eq!(postgres.pid(), None);
    assert!(is_free(postgres.port()) && postgres.run_sql(&url, "SELECT 1").is_err());
    postgres.begin();
    postgres
        .run_sql(&url, "SELECT 1 / count(*) FROM t WHERE n = 3")
        .unwrap();
    let error = postgres
        .run_sql(&url, "SELECT 1 / count(*) FROM t WHERE n = 2")
        .unwrap_err();
    assert!(error.contains("division by zero"), "{error}");
    let port = postgres.port();
    drop(postgres);
    assert!(is_free(port));
}

#[test]
fn a_durable_postgres_waits_for_the_disk() {
    let postgres = Postgres::durable();
    let both_on = "SELECT 1 / count(*) FROM (SELECT) AS one
        WHERE current_setting('fsync') = 'on' AND current_setting('synchronous_commit') = 'on'";
    postgres.run_sql(&postgres.url(), both_on).unwrap();
    // And the one for tests does not.
    assert!(
        shared_postgres()
            .run_sql(&shared_postgres().url(), both_on)
            .is_err()
    );
}

#[tokio::test]
async fn a_database_can_be_made_inside_a_runtime() {
    let url = shared_postgres().database();
    shared_postgres().run_sql(&url, "SELECT 1").unwrap();
}

#[test]
fn nats_keeps_its_streams_through_a_restart_and_loses_them_with_its_store() {
    let nats = Nats::start();
    let made = ask_nats(
        &nats,
        "STREAM.CREATE.work",
        r#"{"name":"work","subjects":["w.>"],"storage":"file"}"#,
    );
    assert!(made.contains(r#""did_create":true"#), "{made}");
    nats.restart();
    assert!(ask_nats(&nats, "STREAM.INFO.work", "").contains(r#""name":"work""#));
    nats.crash();
    nats.begin();
    assert!(ask_nats(&nats, "STREAM.INFO.work", "").contains(r#""name":"work""#));
    nats.stop();
    assert!(is_free(nats.port()));
    nats.wipe_store();
    nats.begin();
    assert!(ask_nats(&nats, "STREAM.INFO.work", "").contains("stream not found"));
    let port: u16 = nats
        .monitor_url()
        .rsplit_once(':')
        .unwrap()
        .1
        .parse()
        .unwrap();
    drop(nats);
    assert!(is_free(port));
}

#[test]
fn redis_forgets_when_it_is_flushed_or_stopped() {
    let redis = Redis::start();
    assert_eq!(redis.keys(), 0);
    assert_eq!(ask_redis(&redis, "SET k v"), "+OK");
    assert_eq!(redis.keys(), 1);
    redis.flush();
    assert_eq!(ask_redis(&redis, "GET k"), "$-1");
    assert_eq!(ask_redis(&redis, "SET k v"), "+OK");
    redis.stop();
    assert!(is_free(redis.port()));
    redis.begin();
    assert_eq!(ask_redis(&redis, "GET k"), "$-1");
}

fn ask_s3(s3: &S3) -> String {
    let mut stream = TcpStream::connect(s3.endpoint().strip_prefix("http://").unwrap()).unwrap();
    stream
        .write_all(b"GET /files?list-type=2 HTTP/1.0\r\nHost: s3\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn s3_refuses_strangers_and_answers_503_for_as_long_as_asked() {
    let s3 = S3::start(&["files"]);
    assert!(s3.folder().join("files").is_dir());
    assert!(ask_s3(&s3).contains("403"), "{}", ask_s3(&s3));
    s3.answer_503_for(Duration::from_secs(3600));
    assert!(ask_s3(&s3).contains(" 503 "));
    assert_eq!(s3.refused(), 1);
    s3.answer_503_for(Duration::ZERO);
    assert!(ask_s3(&s3).contains("403"));
    let folder = s3.folder().to_owned();
    drop(s3);
    assert!(!folder.exists());
}

#[test]
fn one_of_each_starts_side_by_side() {
    let servers = Servers::start(&["files"]);
    servers
        .postgres
        .run_sql(&servers.postgres.url(), "SELECT 1")
        .unwrap();
    assert_eq!(ask_redis(&servers.redis, "PING"), "+PONG");
    assert!(ask_nats(&servers.nats, "INFO", "").contains("account_info_response"));
    assert!(servers.s3.endpoint().starts_with("http://127.0.0.1:"));
}
