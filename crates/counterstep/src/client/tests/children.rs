//! The children of a task, as its handle lists them.

use super::{Invitation, Note, both};
use crate::prelude::*;
use counterstep_contracts::TaskStatus;
use counterstep_contracts::http::ChildSummary;
use counterstep_steps::ForEach;
use counterstep_testkit::many_tasks::eventually;
use serde::{Deserialize, Serialize};

/// More than a page has.
const GUESTS: u32 = 205;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Guests(Vec<Invitation>);

/// Writes a note for each guest.
pub(super) struct Party;

#[distributed_task]
impl Party {
    type Request = Guests;
    type Response = ();

    #[step(1, host = "worker")]
    fn notes(guests: &Guests) -> ForEach<Note> {
        ForEach::of(&guests.0).at_a_time(guests.0.len())
    }

    fn respond(_guests: &Guests) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_lists_all_children_in_their_order() {
    both(|client| {
        Box::pin(async move {
            let guest = |no| Invitation {
                name: format!("guest {no}"),
            };
            let guests = Guests((0..GUESTS).map(guest).collect());
            let party = client.submit::<Party>(&guests).await.expect("accepted");
            let all = eventually("the children", || async {
                let all = party.children().await.expect("they are listed");
                (!all.is_empty()).then_some(all)
            })
            .await;
            let places: Vec<u32> = all.iter().map(|child| child.place).collect();
            assert_eq!(places, (0..GUESTS).collect::<Vec<_>>());
            let ChildSummary {
                task_id,
                task_type,
                step,
                ..
            } = &all[7];
            assert_eq!((task_type.as_str(), step.as_str()), ("Note", "notes"));
            let note = client.handle::<Note>(*task_id);
            assert_eq!(note.wait().await.expect("it rests"), TaskStatus::Completed);
            let none = note.children().await.expect("they are listed");
            assert_eq!(none, []);
        })
    })
    .await;
}
