//! `counterstep fsck`: whether the rows of every task agree with its journal, and its journal with
//! the rules. Reads the database and the object store, beside the services, and changes nothing.

use super::audit::{Format, end, show, summary};
use counterstep_contracts::TaskId;
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};
use counterstep_reconciler::audit::Scope;
use counterstep_reconciler::fsck::{Checked, FsckError, fsck};
use counterstep_steps::Registry;

/// Flags of `fsck`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct FsckArgs {
    #[command(flatten)]
    settings: SettingsFor<{ commands::FSCK }>,
    /// Check this task only
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    /// Look for the objects of outputs too: one listing a task
    #[arg(long)]
    with_objects: bool,
    /// How to print what is found
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub(super) fn main(registry: &Registry, args: &FsckArgs) -> Result<(), Exit> {
    let settings = args.settings.read()?.resolve()?;
    let scope = Scope {
        task: args.task,
        ..Scope::default()
    };
    counterstep_node::run(
        &settings,
        Box::pin(async {
            let store = counterstep_node::look(&settings, "fsck")?;
            let objects = args
                .with_objects
                .then(|| counterstep_node::look_at_objects(&settings))
                .transpose()?;
            let mut printed = Ok(());
            let mut found = |finding| show(&finding, args.format, &mut printed);
            let checked = fsck(&store, registry, objects.as_deref(), &scope, &mut found).await;
            let checked = checked.map_err(|error| {
                let schema = match error {
                    FsckError::Store(_) => " (is the schema that of this program?)",
                    FsckError::Objects(_) => "",
                };
                Exit::unavailable(format_args!("fsck cannot go on{schema}: {error}"))
            })?;
            printed?;
            end(
                &scope,
                &checked.verified,
                &text(&checked, args.with_objects),
                &checked,
                args.format,
            )
        }),
    )
}

fn text(checked: &Checked, with_objects: bool) -> String {
    let Checked {
        verified,
        objects,
        newer,
        not_judged,
    } = checked;
    let mut text = summary(verified);
    if with_objects {
        text.push_str(&format!("looked for {objects} objects\n"));
    }
    if *newer > 0 {
        text.push_str(&format!(
            "{newer} tasks have rows of a newer program: only their chains were checked\n"
        ));
    }
    if *not_judged > 0 {
        text.push_str(&format!(
            "{not_judged} tasks are of types, versions or definitions that this program does not have: their events were \
             not judged again\n"
        ));
    }
    text
}
