//! Links to files of responses, as a handle asks for them.

use super::Note;
use crate::client::http::OverHttp;
use crate::client::{Client, ClientError, Options};
use crate::prelude::*;
use counterstep_api::ApiSettings;
use counterstep_contracts::{ProblemCode, TaskStatus};
use counterstep_kernel::access::result_links::LinkSecrets;
use counterstep_steps::CancelToken;
use counterstep_testkit::Harness;
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::net::TcpListener;
use std::time::Duration;

#[derive(Debug, Serialize, Deserialize)]
struct Letter {
    content: UploadedFile,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    letter: StoredFile,
}

/// Keeps a file.
struct Keep;

#[distributed_task]
impl Keep {
    type Request = Letter;
    type Response = Kept;

    #[step(1, host = "api")]
    fn upload(letter: &Letter) -> UploadOne {
        UploadOne::to("kept", &letter.content)
    }

    fn respond(upload: &StoredFile) -> Kept {
        Kept {
            letter: upload.clone(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_gives_a_link_that_needs_no_credential() {
    let mut site = Harness::embedded(Registry::new().with::<Keep>().with::<Note>())
        .start()
        .await;
    site.serve(4);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("an address"));
    let settings = ApiSettings {
        links: Some(LinkSecrets::parse(&LinkSecrets::line([1, 2])).expect("a secret")),
        ..ApiSettings::default()
    };
    let serving =
        counterstep_api::serve(site.engine.clone(), settings, listener, CancelToken::new());
    let serving = tokio::spawn(serving);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("letter.txt");
    std::fs::write(&path, "dear all").expect("a file");
    let http = OverHttp::new(&base, None).expect("a client");
    let files = [("content".to_owned(), path)];
    let (how, fields) = (Options::default(), Map::new());
    let sent = http.submit_form("keep", &how, &fields, &files).await;
    let task = sent.expect("accepted").task_id;
    let client = Client::at(&base).expect("a client");
    let kept = client.handle::<Keep>(task);
    let rest = kept.wait().await.expect("it rests");
    assert_eq!(rest, TaskStatus::Completed);
    let hour = Duration::from_secs(3600);
    let link = kept.link("letter", hour).await.expect("a link");
    let file = reqwest::get(&link.url).await.expect("an answer");
    assert_eq!(file.text().await.expect("a body"), "dear all");
    // What has no size before it is read.
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("it runs").success());
    let writing = {
        let pipe = pipe.clone();
        std::thread::spawn(move || std::fs::write(pipe, "through a pipe").expect("a reader"))
    };
    for (path, part) in [
        (pipe, "through a pipe"),
        ("/proc/self/status".into(), "Name:"),
    ] {
        let files = [("content".to_owned(), path)];
        let sent = http.submit_form("keep", &how, &fields, &files).await;
        let kept = client.handle::<Keep>(sent.expect("accepted").task_id);
        assert_eq!(kept.wait().await.expect("it rests"), TaskStatus::Completed);
        let link = kept.link("letter", hour).await.expect("a link");
        let file = reqwest::get(&link.url).await.expect("an answer");
        let text = file.text().await.expect("a body");
        assert!(text.contains(part), "{text:?}");
    }
    writing.join().expect("it has written");
    let refused = kept.link("other", hour).await;
    assert!(
        matches!(&refused, Err(ClientError::Refused(why)) if why.code == Some(ProblemCode::NoSuchResult)),
        "{refused:?}"
    );
    let here = Client::of(&site.engine).handle::<Keep>(task);
    let refused = here.link("letter", hour).await;
    assert!(
        matches!(&refused, Err(ClientError::Refused(why)) if why.detail.contains("over HTTP")),
        "{refused:?}"
    );
    serving.abort();
}
