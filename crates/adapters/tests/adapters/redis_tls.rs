//! A Redis that speaks TLS only: the certificate counts, and nothing is sent to a server that
//! cannot prove itself.

use counterstep_adapters::client_certificate::ClientCertificate;
use counterstep_adapters::redis::{OpenError, RedisOptions, findings, open};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

struct TlsServer {
    process: Child,
    port: u16,
    folder: TempDir,
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn openssl(folder: &Path, words: &str) {
    let made = Command::new("openssl")
        .current_dir(folder)
        .args(words.split(' '))
        .output();
    let made =
        made.expect("this test needs the program `openssl`: install the package of that name");
    assert!(
        made.status.success(),
        "openssl {words}: {}",
        String::from_utf8_lossy(&made.stderr)
    );
}

/// `ca.pem`, `other.pem` of another authority, and `server.pem` with `server.key` and `client.pem`
/// with `client.key`, both for localhost.
pub(crate) fn certificates(at: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        at,
        &format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"),
    );
    openssl(
        at,
        &format!("req -x509 {key} -keyout other.key -out other.pem -subj /CN=authority -days 2"),
    );
    std::fs::write(at.join("names"), "subjectAltName=DNS:localhost").unwrap();
    for who in ["server", "client"] {
        openssl(
            at,
            &format!("req {key} -keyout {who}.key -out {who}.csr -subj /CN={who}"),
        );
        let sign = "-CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names";
        openssl(
            at,
            &format!("x509 -req -in {who}.csr {sign} -out {who}.pem"),
        );
    }
}

/// One that wants certificates of its clients, or does not.
async fn start(auth_clients: &str) -> TlsServer {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    certificates(at);

    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let settings = format!(
        "--pdeathsig KILL redis-server --port 0 --tls-port {port} --bind 127.0.0.1 --save --tls-auth-clients {auth_clients} \
         --tls-cert-file server.pem --tls-key-file server.key --tls-ca-cert-file ca.pem --requirepass secret"
    );
    // `--save` takes an empty value.
    let words = settings
        .split_ascii_whitespace()
        .flat_map(|word| match word {
            "--save" => vec![word, ""],
            word => vec![word],
        });
    let process = Command::new("setpriv")
        .current_dir(at)
        .args(words)
        .stdout(Stdio::null())
        .spawn();
    let server = TlsServer {
        process: process.expect("redis-server is installed"),
        port,
        folder,
    };
    crate::suite::eventually("a server that listens", || async {
        TcpStream::connect(("127.0.0.1", port)).ok()
    })
    .await;
    server
}

#[tokio::test]
async fn a_server_with_tls_is_used_if_and_only_if_its_certificate_is_vouched_for() {
    let server = start("no").await;
    let at = |host: &str, ca: &str| RedisOptions {
        ca_file: Some(server.folder.path().join(ca)),
        limit: Duration::from_secs(5),
        ..RedisOptions::at(&format!("rediss://:secret@{host}:{}", server.port))
    };
    let redis = open(at("localhost", "ca.pem")).await.unwrap();
    crate::redis::answers(&redis).await.unwrap();
    assert_eq!(findings(&at("localhost", "ca.pem")).await.unwrap(), []);
    for (host, ca) in [("localhost", "other.pem"), ("127.0.0.1", "ca.pem")] {
        let unheard = open(at(host, ca)).await.unwrap();
        let refused = crate::redis::answers(&unheard)
            .await
            .expect_err("not vouched for");
        assert!(
            refused.contains("certificate") && !refused.contains("secret"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_gets_ours() {
    let server = start("yes").await;
    let file = |name: &str| server.folder.path().join(name);
    let ours = ClientCertificate {
        cert_file: file("client.pem"),
        key_file: file("client.key"),
    };
    let without = RedisOptions {
        ca_file: Some(file("ca.pem")),
        limit: Duration::from_secs(5),
        ..RedisOptions::at(&format!("rediss://:secret@localhost:{}", server.port))
    };
    let with = RedisOptions {
        certificate: Some(ours.clone()),
        ..without.clone()
    };
    crate::redis::answers(&open(with.clone()).await.unwrap())
        .await
        .unwrap();
    crate::redis::answers(&open(without).await.unwrap())
        .await
        .expect_err("it wants a certificate");

    let missing = ClientCertificate {
        key_file: file("none"),
        ..ours
    };
    let unusable = RedisOptions {
        certificate: Some(missing),
        ..with.clone()
    };
    assert!(matches!(open(unusable).await, Err(OpenError::File { .. })));
    let plain = RedisOptions {
        urls: vec!["redis://localhost:1".to_owned()],
        ..with
    };
    assert!(matches!(
        open(plain).await,
        Err(OpenError::CertificateWithoutTls { .. })
    ));
}
