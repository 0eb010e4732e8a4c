//! The log of a task, as its handle reads it.

use super::both;
use crate::prelude::*;
use counterstep_contracts::TaskStatus;

/// Logs as many lines as it is asked for.
pub(super) struct Chat;

#[distributed_task]
impl Chat {
    type Request = u32;
    type Response = ();

    #[step(1, host = "worker", no_undo = "it only logs")]
    async fn talk(ctx: &StepContext, lines: &u32) -> StepResult<()> {
        for line in 0..*lines {
            ctx.log(LogLevel::Info, line);
        }
        Ok(())
    }

    fn respond(_lines: &u32) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_reads_the_log_and_goes_on_behind_what_it_has_read() {
    both(|client| {
        Box::pin(async move {
            let chat = client.submit::<Chat>(&3).await.expect("accepted");
            assert_eq!(chat.wait().await.expect("it rests"), TaskStatus::Completed);
            let page = chat.log(None).await.expect("it is read");
            let said: Vec<&str> = page.lines.iter().map(|line| &*line.message).collect();
            assert_eq!((said, page.dropped), (vec!["0", "1", "2"], 0));
            let cursor = page.cursor.expect("a cursor");
            let rest = chat.log(Some(&cursor)).await.expect("it is read");
            assert_eq!((rest.lines.len(), rest.cursor), (0, Some(cursor)));
            assert!(chat.log(Some("made up")).await.is_err());
        })
    })
    .await;
}
