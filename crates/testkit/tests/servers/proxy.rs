//! The proxy in front of PostgreSQL: what it forwards, what it loses, and what it cuts.

use counterstep_testkit::servers::{Proxy, is_commit, shared_postgres};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

#[test]
fn a_lost_reply_belongs_to_a_statement_that_the_server_has_executed() {
    let postgres = shared_postgres();
    let direct = postgres.database();
    let proxy = Proxy::to(postgres.port());
    let url = proxy.url(&direct);
    postgres.run_sql(&url, "CREATE TABLE t (n int)").unwrap();
    proxy.lose_replies(1, |text| text.contains("INSERT"));
    postgres.run_sql(&url, "SELECT 1").unwrap();
    postgres
        .run_sql(&url, "INSERT INTO t VALUES (1)")
        .unwrap_err();
    postgres
        .run_sql(&direct, "SELECT 1 / count(*) FROM t")
        .unwrap();
    assert_eq!(proxy.lost(), 1);
    postgres.run_sql(&url, "INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(proxy.lost(), 1);
}

#[test]
fn a_network_that_is_cut_refuses_until_it_heals() {
    let postgres = shared_postgres();
    let proxy = Proxy::to(postgres.port());
    let url = proxy.url(&postgres.database());
    postgres.run_sql(&url, "SELECT 1").unwrap();
    proxy.cut();
    postgres.run_sql(&url, "SELECT 1").unwrap_err();
    proxy.heal();
    postgres.run_sql(&url, "SELECT 1").unwrap();
}

#[test]
fn a_silent_network_answers_when_it_heals() {
    let postgres = shared_postgres();
    let proxy = Proxy::to(postgres.port());
    let url = proxy.url(&postgres.database());
    proxy.silence();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| postgres.run_sql(&url, "SELECT 1"));
        assert!(!asked.is_finished());
        proxy.heal();
        // Either its connection was among those that are cut, or it starts only now.
        let _ = asked.join().expect("the client ends");
    });
    postgres.run_sql(&url, "SELECT 1").unwrap();
}

/// Without this a client's next statement waits until its own limit, as on no network but a silent
/// one.
#[test]
fn a_connection_that_the_server_closes_is_closed_for_its_client() {
    let server = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let proxy = Proxy::to(server.local_addr().expect("a bound address").port());
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).expect("the proxy accepts");
    client
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a limit");
    drop(server.accept().expect("the proxy's connection"));
    assert_eq!(client.read(&mut [0]).expect("an end before the limit"), 0);
}

#[test]
fn a_commit_is_known_by_its_text() {
    assert!(is_commit(
        "WITH t AS (UPDATE tasks SET rev = 1, change_id = $1) SELECT 1"
    ));
    assert!(is_commit("COMMIT"));
    assert!(!is_commit("SELECT change_id FROM tasks"));
    assert!(!is_commit("UPDATE tasks SET lease_expires_at = now()"));
}
