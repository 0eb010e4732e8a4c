//! The messages that go over NATS: work and its acknowledgements, events, hints. What a worker asks
//! its consumer for is no message of a task.

use super::golden::Counts;
use async_nats::Client;
use counterstep_testkit::many_tasks::eventually;
use futures::StreamExt;
use parking_lot::Mutex;
use std::sync::Arc;

/// Hears all messages of the installation.
pub(super) struct Messages {
    client: Client,
    heard: Arc<Mutex<Counts>>,
}

const MARK: &str = "signal.mark";
const ACK: &str = "acknowledgement";
/// How far a step says it is.
pub(super) const PROGRESS: &str = "signal.progress";

impl Messages {
    pub(super) async fn hear(url: &str) -> Self {
        let client = async_nats::connect(url).await.expect("a connection");
        let heard = Arc::<Mutex<Counts>>::default();
        for subjects in ["work.>", "events.>", "signal.>", "$JS.ACK.>"] {
            let mut messages = client.subscribe(subjects).await.expect("a subscription");
            let heard = heard.clone();
            tokio::spawn(async move {
                while let Some(message) = messages.next().await {
                    let mut heard = heard.lock();
                    *heard.entry(kind(&message.subject)).or_default() += 1;
                }
            });
        }
        client.flush().await.expect("the server has them");
        Self { client, heard }
    }

    fn counts(&self) -> Counts {
        self.heard.lock().clone()
    }

    /// What was heard since the last call, up to now.
    pub(super) async fn take(&self) -> Counts {
        eventually("an acknowledgement of each delivery", || async {
            let of = |counts: &Counts, what: &str| {
                let these = counts.iter().filter(|(kind, _)| kind.starts_with(what));
                these.map(|(_, count)| count).sum::<u64>()
            };
            let counts = self.counts();
            (of(&counts, "work.") == of(&counts, ACK)).then_some(())
        })
        .await;
        // What the server has forwarded before this has arrived with it.
        self.client.publish(MARK, "".into()).await.expect("a mark");
        eventually("the mark", || async {
            self.counts().contains_key(MARK).then_some(())
        })
        .await;
        let mut heard = self.heard.lock();
        let mut counts = std::mem::take(&mut *heard);
        counts.remove(MARK);
        counts
    }
}

/// Without what is another one for each task.
fn kind(subject: &str) -> String {
    let tokens: Vec<&str> = subject.split('.').collect();
    match tokens[..] {
        ["$JS", "ACK", ..] => ACK.to_owned(),
        ["signal", kind, _task] => format!("signal.{kind}"),
        _ => subject.to_owned(),
    }
}
