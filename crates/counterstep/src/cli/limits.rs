//! `counterstep limits …`: how many attempts of steps run at a time or start in a period, what is in use,
//! and what an operator sets in place of what is declared.

use super::output::{OutputArgs, print};
use super::remote::Remote;
use clap::ArgGroup;
use counterstep_contracts::Rate;
use counterstep_contracts::limit::{LimitView, ResetLimitRequest, SetLimitRequest};
use counterstep_contracts::operation::shown::{Cell, Table, View};
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};

/// Flags of `limits`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct LimitsArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    #[command(flatten)]
    out: OutputArgs,
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
                return print(&args.out.show(&page, |page| list(&page.items))?);
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
        print(
            &args
                .out
                .show(&changed, |limit| list(std::slice::from_ref(limit)))?,
        )
    })
}

fn values(at_once: Option<u32>, rate: Option<Rate>) -> String {
    let at_once = at_once.map(|most| format!("{most} at once"));
    let rate = rate.map(|rate| rate.to_string());
    let both: Vec<String> = at_once.into_iter().chain(rate).collect();
    both.join(", ")
}

fn list(limits: &[LimitView]) -> View {
    let heads = [
        "limit", "declared", "scope", "set", "by", "reason", "of", "in use", "waiting",
    ];
    View::Table(Table::of("limits", &heads, limits.iter().flat_map(rows)))
}

/// A row for each that has the limit for itself.
fn rows(limit: &LimitView) -> Vec<Vec<Cell>> {
    let (declared, set) = (limit.declared.as_ref(), limit.set.as_ref());
    let shown = [
        Cell::name(&limit.name),
        declared.map_or(Cell::NONE, |it| values(it.at_once, it.rate).into()),
        Cell::text(declared.map(|it| &*it.scope)),
        set.map_or(Cell::NONE, |it| {
            let values = values(it.at_once, it.rate) + " since ";
            Cell::Parts(vec![values.into(), Cell::Time(it.since.clone())])
        }),
        Cell::text(set.map(|it| &*it.by)),
        Cell::text(set.map(|it| &*it.note)),
    ];
    let used = limit.uses.iter().map(|it| (&*it.of, it.held, it.waiting));
    let used: Vec<_> = used.collect();
    let used = if used.is_empty() {
        vec![("", 0, 0)]
    } else {
        used
    };
    let row = |(of, held, waiting): (&str, u32, u32)| {
        let used = [of.into(), Cell::number(held), Cell::number(waiting)];
        [&shown[..], &used].concat()
    };
    used.into_iter().map(row).collect()
}
