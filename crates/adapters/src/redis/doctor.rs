//! What is wrong with a Redis server, told from what it says of itself. `INFO` is enough, and is
//! allowed where `CONFIG` is not.

use super::locks::connection;
use super::reconnecting::CONNECT_LIMIT;
use crate::finding::Finding;
use ::redis::{Client, ConnectionAddr, cmd};
use futures::future::join_all;
use std::collections::HashMap;
use tokio::time::timeout;

/// The oldest version that the tests run against.
const TESTED: (u32, u32) = (7, 0);

/// Asks each server.
pub(super) async fn look(servers: &[Client]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if servers.len() > 1 && servers.len().is_multiple_of(2) {
        findings.push(Finding {
            code: "redis_even_servers",
            what: format!("{} Redis servers grant locks", servers.len()),
            why: "an even number takes no more losses than one server less, and two halves may block each other",
            to_do: "give one server, or three or five that do not replicate each other".to_owned(),
        });
    }
    let looks = servers.iter().map(|server| async move {
        let name = server.get_connection_info().addr().to_string();
        let mut found = in_the_clear(&name, server.get_connection_info().addr());
        match timeout(CONNECT_LIMIT, info(server)).await.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            Ok(info) => found.extend(judge(&name, &info)),
            Err(why) => found.push(Finding {
                code: "redis_unreachable",
                what: format!("the Redis server {name} does not answer: {why}"),
                why: "tasks run without it, with more vain claims and more questions to the database",
                to_do: "check that it runs, its address, user and password, and the network between".to_owned(),
            }),
        }
        found
    });
    findings.extend(join_all(looks).await.into_iter().flatten());
    findings
}

async fn info(server: &Client) -> Result<String, String> {
    let mut connection = connection(server)?;
    cmd("INFO")
        .query_async(&mut connection)
        .await
        .map_err(|error| error.to_string())
}

fn in_the_clear(name: &str, addr: &ConnectionAddr) -> Vec<Finding> {
    match addr {
        ConnectionAddr::Tcp(host, _) if !crate::tls::is_this_machine(host) => vec![Finding {
            code: "redis_plaintext",
            what: format!("the connection to the Redis server {name} has no TLS"),
            why: "an eavesdropper on the network learns its password, and can hold any lock",
            to_do: "use a rediss:// URL".to_owned(),
        }],
        _ => Vec::new(),
    }
}

/// What the answer to `INFO` gives away.
fn judge(name: &str, info: &str) -> Vec<Finding> {
    let facts: HashMap<&str, &str> = info
        .lines()
        .filter_map(|line| line.trim_end().split_once(':'))
        .collect();
    let fact = |key: &str| facts.get(key).copied().unwrap_or_default();
    let mut found = Vec::new();

    let policy = fact("maxmemory_policy");
    if !matches!(fact("maxmemory"), "" | "0") && !matches!(policy, "" | "noeviction") {
        found.push(Finding {
            code: "redis_may_evict",
            what: format!("the Redis server {name} has a memory limit and the policy `{policy}`"),
            why: "when it is full it drops locks that are held and keys that were seen: hosts then claim without success",
            to_do: "set maxmemory-policy to noeviction, or use a server of its own".to_owned(),
        });
    }
    let version = fact("redis_version");
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let (major, minor) = (parts.next().flatten(), parts.next().flatten());
    if major.zip(minor).is_none_or(|version| version < TESTED) {
        found.push(Finding {
            code: "redis_version",
            what: format!("the Redis server {name} is of version `{version}`"),
            why: "only 7.0 and newer are tested",
            to_do: "update it".to_owned(),
        });
    }
    if fact("role") == "slave" {
        found.push(Finding {
            code: "redis_replica",
            what: format!("the Redis server {name} is a replica"),
            why: "it takes no writes, so it grants no lock and remembers nothing",
            to_do: "give the address of its primary".to_owned(),
        });
    }
    if fact("redis_mode") == "cluster" {
        found.push(Finding {
            code: "redis_cluster",
            what: format!("the Redis server {name} is a node of a cluster"),
            why: "it answers for its share of the keys only, and the others fail",
            to_do: "give a server that is no cluster; locks and hints are small".to_owned(),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::judge;

    fn codes(info: &str) -> Vec<&'static str> {
        judge("here:6379", info)
            .into_iter()
            .map(|finding| finding.code)
            .collect()
    }

    #[test]
    fn a_server_as_it_should_be_gives_no_finding() {
        let info = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nmaxmemory:100\r\n\
                    maxmemory_policy:noeviction\r\nrole:master\r\n";
        assert_eq!(codes(info), [""; 0]);
        assert_eq!(
            codes("redis_version:10.1\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n"),
            [""; 0]
        );
    }

    #[test]
    fn each_wrong_setting_has_its_finding() {
        let info = "redis_version:6.2.7\r\nredis_mode:cluster\r\nmaxmemory:100\r\nmaxmemory_policy:volatile-ttl\r\n\
                    role:slave\r\n";
        assert_eq!(
            codes(info),
            [
                "redis_may_evict",
                "redis_version",
                "redis_replica",
                "redis_cluster"
            ]
        );
        assert_eq!(codes("nonsense"), ["redis_version"]);
    }
}
