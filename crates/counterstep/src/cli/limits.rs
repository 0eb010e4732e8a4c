//! `counterstep limits …`: how many attempts of steps run at a time or start in a period, what is in use,
//! and what an operator sets in place of what is declared.

use super::output::{json, print};
use super::remote::Remote;
use super::table;
use super::times;
use clap::ArgGroup;
use counterstep_contracts::Rate;
use counterstep_contracts::http::Page;
use counterstep_contracts::limit::{LimitView, ResetLimitRequest, SetLimitRequest};
use counterstep_kernel::audit::one_line;
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};

/// Flags of `limits`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct LimitsArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    /// Print the API's JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: LimitsCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum LimitsCommand {
    /// List the limits of steps, what holds of each, and what is in use
    List,
    /// Set the values of a limit in place of those that are declared, for all processes
    #[command(group(ArgGroup::new("values").required(true).multiple(true).args(["at_once", "rate"])))]
    Set {
        /// Name of the limit
        name: String,
        /// Maximum number of attempts that run at a time; left out: no maximum
        #[arg(long)]
        at_once: Option<u32>,
        /// Maximum number of attempts that start in a period, as in 50/1s; left out: no maximum
        #[arg(long, value_parser = Rate::parse)]
        rate: Option<Rate>,
        #[command(flatten)]
        why: WhyArgs,
    },
    /// Reset a limit to what is declared
    Reset {
        /// Name of the limit
        name: String,
        #[command(flatten)]
        why: WhyArgs,
    },
}

#[derive(Debug, Clone, clap::Args)]
struct WhyArgs {
    /// Reason, recorded in the audit
    #[arg(long)]
    note: String,
    /// Who decides, recorded in the audit
    #[arg(long)]
    actor: Option<String>,
}

pub(super) fn main(args: &LimitsArgs) -> Result<(), Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Exit::failed)?;
    runtime.block_on(async {
        let remote = Remote::of(&args.api.read()?)?;
        let changed = match args.command.clone() {
            LimitsCommand::List => {
                let page = remote.limits().await?;
                let text = if args.json { json(&page)? } else { list(&page) };
                return print(&text);
            }
            LimitsCommand::Set {
                name,
                at_once,
                rate,
                why,
            } => {
                let WhyArgs { note, actor } = why;
                let body = SetLimitRequest {
                    at_once,
                    rate,
                    note,
                    actor,
                };
                remote.set_limit(&name, &body).await?
            }
            LimitsCommand::Reset { name, why } => {
                let WhyArgs { note, actor } = why;
                let body = ResetLimitRequest { note, actor };
                remote.reset_limit(&name, &body).await?
            }
        };
        let page = Page {
            items: vec![changed],
            next_cursor: None,
        };
        let text = if args.json {
            json(&page.items[0])?
        } else {
            list(&page)
        };
        print(&text)
    })
}

fn values(at_once: Option<u32>, rate: Option<Rate>) -> String {
    let at_once = at_once.map(|most| format!("{most} at once"));
    let rate = rate.map(|rate| rate.to_string());
    let both: Vec<String> = at_once.into_iter().chain(rate).collect();
    both.join(", ")
}

fn list(page: &Page<LimitView>) -> String {
    let mut table = table::table(&[
        "limit", "declared", "scope", "set", "by", "reason", "of", "in use", "waiting",
    ]);
    for limit in &page.items {
        let declared = limit.declared.as_ref();
        let set = limit.set.as_ref();
        let shown = [
            limit.name.clone(),
            declared.map_or_else(String::new, |limit| values(limit.at_once, limit.rate)),
            declared.map_or_else(String::new, |limit| limit.scope.clone()),
            set.map_or_else(String::new, |set| {
                let since = times::shown(&set.since);
                format!("{} since {since}", values(set.at_once, set.rate))
            }),
            set.map_or_else(String::new, |set| one_line(&set.by)),
            set.map_or_else(String::new, |set| one_line(&set.note)),
        ];
        let none = [String::new(), "0".to_owned(), "0".to_owned()];
        let uses = limit.uses.iter().map(|used| {
            let (held, waiting) = (used.held.to_string(), used.waiting.to_string());
            [one_line(&used.of), held, waiting]
        });
        let mut uses: Vec<_> = uses.collect();
        if uses.is_empty() {
            uses.push(none);
        }
        for used in uses {
            table.add_row(shown.iter().cloned().chain(used));
        }
    }
    table::page(&table, "limits", false, None)
}
