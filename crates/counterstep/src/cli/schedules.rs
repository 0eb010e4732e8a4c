//! `counterstep schedules …`: what an operator asks about tasks that are submitted by time.

use super::output::{OutputArgs, print};
use super::remote::{Remote, runtime};
use super::submit::request_text;
use super::table::Look;
use clap::ArgGroup;
use counterstep_contracts::declaration::kebab_case;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::schedules::{list, next, shown};
use counterstep_contracts::operation::shown::View;
use counterstep_contracts::schedule::ScheduleView;
use counterstep_contracts::{Misfire, Overlap, ScheduleSpec};
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};

/// Flags of `schedules`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct SchedulesArgs {
    #[command(flatten)]
    api: SettingsFor<{ commands::REMOTE }>,
    #[command(flatten)]
    out: OutputArgs,
    #[command(subcommand)]
    command: SchedulesCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum SchedulesCommand {
    /// List schedules by name
    List {
        /// Of this task type only
        #[arg(long = "type")]
        task_type: Option<String>,
        /// Maximum number of rows
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: u32,
        /// Continue where another page ended
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Create or replace a schedule
    Set {
        /// Name of the schedule
        name: String,
        #[command(flatten)]
        spec: SpecArgs,
    },
    /// Print the next due times of a schedule
    Next {
        /// Name of the schedule
        name: String,
        /// Number of due times
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
        count: u32,
    },
}

/// What a schedule submits, and when.
#[derive(Debug, Clone, clap::Args)]
#[command(group(ArgGroup::new("when").required(true).args(["cron", "run_at"])))]
struct SpecArgs {
    /// The task type
    #[arg(long = "type")]
    task_type: String,
    /// Five fields (minute, hour, day of the month, month, day of the week), or six with the second
    /// first
    #[arg(long)]
    cron: Option<String>,
    /// The time zone of the expression [default: UTC]
    #[arg(long, conflicts_with = "run_at")]
    zone: Option<String>,
    /// Once, at this time, as 2026-12-24T18:00:00+01:00
    #[arg(long)]
    run_at: Option<String>,
    /// The request of each task: JSON, the path of a file with it, or - for standard input [default: an empty
    /// object]
    #[arg(long, value_name = "JSON|FILE")]
    request: Option<String>,
    /// What becomes of due times that no reconciler fired in time: fire_once, skip, catch_up
    /// [default: fire_once]
    #[arg(long)]
    misfire: Option<Misfire>,
    /// What becomes of a due time while the last task runs: skip, queue, allow [default: skip]
    #[arg(long)]
    overlap: Option<Overlap>,
    /// Maximum number of due times that fire at once, the newest [default: 100]
    #[arg(long)]
    catch_up_limit: Option<u32>,
    /// A due time counts as missed when it is later than this [default: 1m]
    #[arg(long)]
    grace: Option<String>,
}

impl SpecArgs {
    fn spec(&self) -> Result<ScheduleSpec, Exit> {
        let usual = ScheduleSpec::of(&self.task_type);
        let request = match &self.request {
            None => usual.request,
            Some(given) => serde_json::from_str(&request_text(given)?)
                .map_err(|error| Exit::usage(format_args!("--request is not JSON: {error}")))?,
        };
        Ok(ScheduleSpec {
            task_type: usual.task_type,
            cron: self.cron.clone(),
            zone: self.zone.clone(),
            run_at: self.run_at.clone(),
            request,
            misfire: self.misfire.unwrap_or(usual.misfire),
            overlap: self.overlap.unwrap_or(usual.overlap),
            catch_up_limit: self.catch_up_limit.unwrap_or(usual.catch_up_limit),
            grace: self.grace.clone().unwrap_or(usual.grace),
        })
    }
}

pub(super) fn main(args: &SchedulesArgs) -> Result<(), Exit> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let remote = Remote::of(&args.api.read()?)?;
        let text = match &args.command {
            SchedulesCommand::List {
                task_type,
                limit,
                cursor,
            } => {
                let mut page = remote.schedules(*limit, cursor.as_deref()).await?;
                if let Some(wanted) = task_type {
                    only(&remote, &mut page, wanted, *limit).await?;
                }
                let filtered = task_type.is_some() || cursor.is_some();
                args.out.show(&page, |page| list(page).filtered(filtered))?
            }
            SchedulesCommand::Set { name, spec } => {
                let view = remote.set_schedule(name, &spec.spec()?).await?;
                args.out.show(&view, shown)?
            }
            SchedulesCommand::Next { name, count } => {
                let view: ScheduleView = remote.schedule(name, *count).await?;
                match args.out.as_json(&view.upcoming)? {
                    Some(text) => text,
                    None => upcoming(&view, &args.out.look())?,
                }
            }
        };
        print(&text)
    })
}

/// Leaves only the schedules of a type, by its name or its route, and fetches pages until there are
/// `limit` of them. The API has no such filter: schedules are few.
async fn only(
    remote: &Remote,
    page: &mut Page<ScheduleView>,
    wanted: &str,
    limit: u32,
) -> Result<(), Exit> {
    let route = kebab_case(wanted);
    let is_wanted = |view: &ScheduleView| kebab_case(&view.spec.task_type) == route;
    page.items.retain(is_wanted);
    while let Some(cursor) = page
        .next_cursor
        .as_deref()
        .filter(|_| (page.items.len() as u64) < u64::from(limit))
    {
        let next = remote.schedules(limit, Some(cursor)).await?;
        page.items.extend(next.items.into_iter().filter(is_wanted));
        page.next_cursor = next.next_cursor;
    }
    Ok(())
}

fn upcoming(view: &ScheduleView, look: &Look) -> Result<String, Exit> {
    match view.upcoming.as_slice() {
        [] => look.text(&View::Lines(vec![next(view)])),
        times => Ok(times.join("\n") + "\n"),
    }
}
