//! `counterstep schedules next`: when a schedule is due.

use super::group::{Group, Shown};
use super::table::Look;
use counterstep_contracts::operation::schedules::{GetSchedule, ScheduleName, ScheduleQuery, next};
use counterstep_contracts::operation::shown::View;
use counterstep_contracts::schedule::ScheduleView;
use counterstep_node::Exit;

/// Flags of `schedules`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct SchedulesArgs {
    #[command(flatten)]
    group: Group,
    #[command(subcommand)]
    command: SchedulesCommand,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum SchedulesCommand {
    /// Print the next due times of a schedule
    Next {
        /// Name of the schedule
        name: String,
        /// Number of due times
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
        count: u32,
    },
}

pub(super) fn main(args: &SchedulesArgs) -> Result<(), Exit> {
    let out = &args.group.out;
    args.group.run(async |remote| {
        let SchedulesCommand::Next { name, count } = &args.command;
        let query = ScheduleQuery { next: Some(*count) };
        let view = remote.call::<GetSchedule>(ScheduleName(name.clone()), query);
        let view = view.await?;
        let text = match out.as_json(&view.upcoming)? {
            Some(text) => text,
            None => upcoming(&view, &out.look())?,
        };
        Ok(Shown::of(text, "schedules", Some(name)))
    })
}

fn upcoming(view: &ScheduleView, look: &Look) -> Result<String, Exit> {
    match view.upcoming.as_slice() {
        [] => look.text(&View::Lines(vec![next(view)])),
        times => Ok(times.join("\n") + "\n"),
    }
}
