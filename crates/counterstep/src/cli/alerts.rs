//! `counterstep alerts list | test | secrets`: what operators are told of by the webhook of the installation.

use super::output::{OutputArgs, print};
use super::remote::Remote;
use counterstep_contracts::alert::{AlertData, AlertView};
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::shown::{Cell, Table, View};
use counterstep_contracts::webhook::WebhookSecretsView;
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};

/// Flags of `alerts`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct AlertsArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    #[command(flatten)]
    out: OutputArgs,
    #[command(subcommand)]
    command: AlertsCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum AlertsCommand {
    /// List the alerts of the last week, the last changed first
    List,
    /// Send an alert to see whether it arrives
    Test,
    /// Print the secrets with which the receiver checks alerts
    Secrets,
}

pub(super) fn main(args: &AlertsArgs) -> Result<(), Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Exit::failed)?;
    runtime.block_on(async {
        let remote = Remote::of(&args.api.read()?)?;
        print(&run(&remote, args).await?)
    })
}

async fn run(remote: &Remote, args: &AlertsArgs) -> Result<String, Exit> {
    match &args.command {
        AlertsCommand::List => {
            let page: Page<AlertView> = remote.read_from("/api/alerts").await?;
            args.out.show(&page, |page| list(&page.items))
        }
        AlertsCommand::Test => {
            let view: AlertView = remote.post_to("/api/alerts/test", None::<&()>).await?;
            args.out.show(&view, |it| {
                View::Lines(vec![format!("{} {}", it.id, it.status.as_str()).into()])
            })
        }
        AlertsCommand::Secrets => {
            let found: WebhookSecretsView = remote.read_from("/api/alert-secrets").await?;
            args.out.show(&found, |it| {
                View::Lines(it.secrets.iter().map(|it| it.clone().into()).collect())
            })
        }
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
