//! Messages that no host can read: which are kept, and removing one.

use super::examples::MADE;
use super::shown::{Cell, Shown, Table, View};
use super::{About, Access, Also, Chapter, Ids, Operation, Param, WHOLE_LIST, text, text_target};
use crate::ProblemCode;
use crate::dead_letter::{PoisonMessages, PoisonView};

/// The id of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoisonId(pub String);

text_target!(
    PoisonId,
    Param {
        name: "poison_id",
        about: "The id of the message",
        schema: text,
        example: "5f0c1e7ab2d94c335f0c1e7ab2d94c33",
        ids: Some(&Ids {
            of: "message",
            length: 32,
            signs: "-_",
            list: ListPoisonMessages::ABOUT.id,
            field: "id",
            shown: &["queue", "subject", "reason"],
            looks: WHOLE_LIST,
        }),
    }
);

/// List messages that no host can read.
#[derive(Debug)]
pub struct ListPoisonMessages;
/// Remove a message that no host can read.
#[derive(Debug)]
pub struct RemovePoisonMessage;

impl Operation for ListPoisonMessages {
    type Target = ();
    type Input = ();
    type Output = PoisonMessages;
    const ABOUT: About = About::get(
        "listPoisonMessages",
        "/api/poison-messages",
        Access::Installation,
    )
    .summary(
        Chapter::Process,
        "List messages that no host can read, the last kept first",
    )
    .answers(200, "The last 200")
    .command(["dead-letters", "poison"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(poison));

    fn example() -> ((), PoisonMessages) {
        let message = PoisonView {
            id: "5f0c1e7ab2d94c335f0c1e7ab2d94c33".to_owned(),
            queue: "file-processing".to_owned(),
            subject: "counterstep.work.file-processing.CreateZipFromFiles.v1".to_owned(),
            source: "counterstep-work/71".to_owned(),
            reason: "it is no JSON".to_owned(),
            payload: "not json".to_owned(),
            size_bytes: 8,
            at: MADE.to_owned(),
        };
        let items = vec![message];
        ((), PoisonMessages { items })
    }
}

impl Operation for RemovePoisonMessage {
    type Target = PoisonId;
    type Input = ();
    type Output = ();
    const ABOUT: About = About::delete(
        "removePoisonMessage",
        "/api/poison-messages/{id}",
        Access::Installation,
    )
    .summary(Chapter::Process, "Remove a message that no host can read")
    .answers(204, "It is gone")
    .problems(&[ProblemCode::NoSuchPoison])
    .command(["dead-letters", "remove-poison"], &[])
    .also(Also {
        words: ["dead-letters", "poison"],
        flag: "--remove",
        about: "Remove this one instead",
    });

    fn example() -> ((), ()) {
        ((), ())
    }
}

fn poison(found: &PoisonMessages) -> View {
    let row = |one: &PoisonView| {
        vec![
            Cell::name(&one.id),
            Cell::of(&one.queue),
            Cell::of(&one.subject),
            Cell::Number(one.size_bytes),
            Cell::Time(one.at.clone()),
            Cell::of(&one.reason),
        ]
    };
    let heads = ["message", "queue", "subject", "bytes", "kept", "why"];
    let rows = found.items.iter().map(row);
    View::Table(Table::of("poison messages", &heads, rows))
}
