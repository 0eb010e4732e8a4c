//! Webhooks of a task: how they stand, one of them once more, and the secrets that sign those of a tenant.

use super::examples::{CHANGED, webhook_secrets};
use super::shown::{Cell, Shown, Table, View};
use super::{
    About, Access, Also, BadTarget, Chapter, Ids, Operation, Param, TASK_ID, Target, WHOLE_LIST,
    text,
};
use crate::access::Role;
use crate::http::Page;
use crate::webhook::{DeliveryStatus, DeliveryView, WebhookSecretsView};
use crate::{ProblemCode, TaskId};

/// A webhook of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookOfTask {
    /// The task.
    pub task: TaskId,
    /// The id of the webhook.
    pub webhook: String,
}

impl Target for WebhookOfTask {
    const PARAMS: &'static [Param] = &[
        TASK_ID,
        Param {
            name: "webhook",
            about: "The id of the webhook",
            schema: text,
            example: "01930d2c-6c4b-7d5e-8f00-0123456789ab_7",
            ids: Some(&Ids {
                of: "webhook",
                length: 38,
                signs: "-_",
                list: ListWebhooks::ABOUT.id,
                field: "id",
                shown: &["event", "status"],
                looks: WHOLE_LIST,
            }),
        },
    ];

    fn parse(segments: &[&str]) -> Result<Self, BadTarget> {
        let (task, webhook) = segments.split_at(1);
        Ok(Self {
            task: TaskId::parse(task)?,
            webhook: webhook.concat(),
        })
    }

    fn segments(&self) -> Vec<String> {
        vec![self.task.to_string(), self.webhook.clone()]
    }
}

/// Show how the webhooks of a task stand.
#[derive(Debug)]
pub struct ListWebhooks;
/// Send a webhook of a task again.
#[derive(Debug)]
pub struct SendWebhook;
/// Show the secrets that sign the webhooks of the caller's tenant.
#[derive(Debug)]
pub struct GetWebhookSecrets;

impl Operation for ListWebhooks {
    type Target = TaskId;
    type Input = ();
    type Output = Page<DeliveryView>;
    const ABOUT: About = About::get(
        "listWebhooks",
        "/api/tasks/{id}/webhooks",
        Access::Role(Role::Read),
    )
    .summary(Chapter::Tasks, "Show how the webhooks of a task stand")
    .answers(200, "All of them")
    .problems(&[ProblemCode::MalformedParameter, ProblemCode::NoSuchTask])
    .command(["tasks", "webhooks"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(webhooks));

    fn example() -> ((), Page<DeliveryView>) {
        ((), Page::whole(vec![webhook()]))
    }
}

impl Operation for SendWebhook {
    type Target = WebhookOfTask;
    type Input = ();
    type Output = DeliveryView;
    const ABOUT: About = About::post(
        "sendWebhook",
        "/api/tasks/{id}/webhooks/{webhook}/send",
        Access::Role(Role::Operate),
    )
    .summary(Chapter::Deciding, "Send a webhook of a task again")
    .answers(202, "It is sent again")
    .problems(&[
        ProblemCode::MalformedParameter,
        ProblemCode::NoSuchTask,
        ProblemCode::NoSuchWebhook,
        ProblemCode::WebhooksOff,
    ])
    .command(["tasks", "send-webhook"], &[])
    .also(Also {
        words: ["tasks", "webhooks"],
        flag: "--send",
        about: "Send the webhook of this id again",
    });
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(sent));

    fn example() -> ((), DeliveryView) {
        ((), webhook())
    }
}

impl Operation for GetWebhookSecrets {
    type Target = ();
    type Input = ();
    type Output = WebhookSecretsView;
    const ABOUT: About = About::get(
        "getWebhookSecrets",
        "/api/webhook-secrets",
        Access::Role(Role::Operate),
    )
    .summary(
        Chapter::Deciding,
        "Show the secrets that sign the webhooks of the caller's tenant",
    )
    .answers(200, "Each webhook is signed with all of them")
    .problems(&[ProblemCode::WebhooksOff])
    .no_store();

    fn example() -> ((), WebhookSecretsView) {
        ((), webhook_secrets())
    }
}

fn webhook() -> DeliveryView {
    DeliveryView {
        id: "01930d2c-6c4b-7d5e-8f00-0123456789ab_7".to_owned(),
        event: "task.completed".to_owned(),
        url: "https://shop.example/hooks/tasks".to_owned(),
        status: DeliveryStatus::Pending,
        attempts: 1,
        due_at: Some(CHANGED.to_owned()),
        last: Some("503".to_owned()),
        updated_at: CHANGED.to_owned(),
    }
}

fn webhooks(page: &Page<DeliveryView>) -> View {
    let row = |one: &DeliveryView| {
        vec![
            Cell::name(&one.id),
            Cell::of(&one.event),
            one.status.as_str().into(),
            Cell::number(one.attempts),
            Cell::text(one.last.as_deref()),
            Cell::time(one.due_at.as_deref()),
            Cell::of(&one.url),
        ]
    };
    let heads = ["webhook", "event", "status", "sent", "last", "next", "to"];
    let table = Table::of("webhooks", &heads, page.items.iter().map(row));
    View::Table(table.page(false, page.next_cursor.as_deref()))
}

fn sent(it: &DeliveryView) -> View {
    View::Lines(vec![format!("{} is sent to {}", it.id, it.url).into()])
}
