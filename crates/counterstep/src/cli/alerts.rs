//! `counterstep alerts list | test | secrets`: what operators are told of by the webhook of the installation.

use super::output::{json, print};
use super::remote::Remote;
use super::table;
use super::times::shown;
use counterstep_contracts::alert::{AlertData, AlertView};
use counterstep_contracts::http::Page;
use counterstep_contracts::webhook::WebhookSecretsView;
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};

/// Flags of `alerts`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct AlertsArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    /// Print the API's JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
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
            if args.json {
                json(&page)
            } else {
                Ok(list(&page))
            }
        }
        AlertsCommand::Test => {
            let view: AlertView = remote.post_to("/api/alerts/test", None::<&()>).await?;
            if args.json {
                json(&view)
            } else {
                Ok(format!("{} {}\n", view.id, view.status.as_str()))
            }
        }
        AlertsCommand::Secrets => {
            let found: WebhookSecretsView = remote.read_from("/api/alert-secrets").await?;
            if args.json {
                json(&found)
            } else {
                Ok(found.secrets.iter().map(|it| format!("{it}\n")).collect())
            }
        }
    }
}

fn list(page: &Page<AlertView>) -> String {
    let mut table = table::table(&[
        "event", "about", "tasks", "status", "sent", "last", "changed",
    ]);
    for alert in &page.items {
        let count = alert.data.count.map(|count| count.to_string());
        table.add_row([
            alert.event.to_string(),
            one_line(&about(&alert.data)),
            count.unwrap_or_default(),
            alert.status.as_str().to_owned(),
            alert.attempts.to_string(),
            alert.last.clone().unwrap_or_default(),
            shown(&alert.updated_at),
        ]);
    }
    table::page(&table, "alerts", false, None)
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
