//! Alerts of the installation: which were sent, one more to see whether it arrives, and the secrets that sign them.

use super::examples::{CHANGED, GROUP, TASK, webhook_secrets};
use super::shown::{Cell, Shown, Table, View};
use super::{About, Access, Chapter, Operation};
use crate::alert::{AlertData, AlertEvent, AlertView};
use crate::http::Page;
use crate::webhook::{DeliveryStatus, WebhookSecretsView};
use crate::{ProblemCode, Tenant};

/// List alerts.
#[derive(Debug)]
pub struct ListAlerts;
/// Send an alert to see whether it arrives.
#[derive(Debug)]
pub struct SendTestAlert;
/// Read the secrets that sign alerts.
#[derive(Debug)]
pub struct ListAlertSecrets;

impl Operation for ListAlerts {
    type Target = ();
    type Input = ();
    type Output = Page<AlertView>;
    const ABOUT: About = About::get("listAlerts", "/api/alerts", Access::Installation)
        .summary(
            Chapter::Process,
            "List alerts of the last week, the last changed first",
        )
        .answers(200, "All of them")
        .command(["alerts", "list"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(|it| list(&it.items)));

    fn example() -> ((), Page<AlertView>) {
        let data = AlertData {
            tenant: Some(Tenant::default()),
            task_type: Some("BookSeat".to_owned()),
            step: Some("charge".to_owned()),
            class: Some("permanent".to_owned()),
            text: Some("the card # was declined".to_owned()),
            group: Some(GROUP.to_owned()),
            count: Some(4812),
            example: Some(TASK),
            ..AlertData::default()
        };
        let alert = AlertView {
            id: "dead_lettered_5f0c1e7ab2d94c33_491952".to_owned(),
            event: AlertEvent::DeadLettered,
            data,
            status: DeliveryStatus::Delivered,
            attempts: 1,
            due_at: None,
            last: Some("204".to_owned()),
            updated_at: CHANGED.to_owned(),
        };
        ((), Page::whole(vec![alert]))
    }
}

impl Operation for SendTestAlert {
    type Target = ();
    type Input = ();
    type Output = AlertView;
    const ABOUT: About = About::post("sendTestAlert", "/api/alerts/test", Access::Installation)
        .summary(Chapter::Process, "Send an alert to see whether it arrives")
        .answers(202, "It is sent")
        .problems(&[ProblemCode::AlertsOff])
        .command(["alerts", "test"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(sent));

    fn example() -> ((), AlertView) {
        let data = AlertData {
            detail: Some("sent by operator:kim".to_owned()),
            ..AlertData::default()
        };
        let alert = AlertView {
            id: format!("test_{TASK}"),
            event: AlertEvent::Test,
            data,
            status: DeliveryStatus::Pending,
            attempts: 0,
            due_at: Some(CHANGED.to_owned()),
            last: None,
            updated_at: CHANGED.to_owned(),
        };
        ((), alert)
    }
}

impl Operation for ListAlertSecrets {
    type Target = ();
    type Input = ();
    type Output = WebhookSecretsView;
    const ABOUT: About = About::get(
        "listAlertSecrets",
        "/api/alert-secrets",
        Access::Installation,
    )
    .summary(Chapter::Process, "Read the secrets that sign alerts")
    .answers(200, "The newest first")
    .problems(&[ProblemCode::WebhooksOff])
    .no_store()
    .command(["alerts", "secrets"], &[]);
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(secrets));

    fn example() -> ((), WebhookSecretsView) {
        ((), webhook_secrets())
    }
}

fn list(alerts: &[AlertView]) -> View {
    let row = |alert: &AlertView| {
        vec![
            Cell::of(&alert.event),
            about(&alert.data).into(),
            alert.data.count.map_or(Cell::NONE, Cell::Number),
            alert.status.as_str().into(),
            Cell::number(alert.attempts),
            Cell::text(alert.last.as_deref()),
            Cell::Time(alert.updated_at.clone()),
        ]
    };
    let heads = [
        "event", "about", "tasks", "status", "sent", "last", "changed",
    ];
    View::Table(Table::of("alerts", &heads, alerts.iter().map(row)))
}

/// What an alert is about, in one line.
fn about(data: &AlertData) -> String {
    let words = [
        &data.task_type,
        &data.step,
        &data.text,
        &data.about,
        &data.detail,
    ];
    let words: Vec<_> = words.into_iter().flatten().map(String::as_str).collect();
    words.join(": ")
}

fn sent(alert: &AlertView) -> View {
    View::Lines(vec![
        format!("{} {}", alert.id, alert.status.as_str()).into(),
    ])
}

fn secrets(found: &WebhookSecretsView) -> View {
    View::Lines(found.secrets.iter().map(|it| it.as_str().into()).collect())
}
