//! `counterstep doctor`: prints what does not meet the requirements.

use super::output::print;
use counterstep_contracts::Host;
use counterstep_node::{Exit, SettingsArgs};
use counterstep_steps::Registry;

pub(super) fn main(
    registry: &Registry,
    settings: &SettingsArgs,
    json: bool,
    (processes, role): (Option<usize>, Option<Host>),
) -> Result<(), Exit> {
    let settings = settings.read()?.resolve()?;
    counterstep_node::run(
        &settings,
        Box::pin(async {
            let found =
                counterstep_node::doctor::examine(&settings, registry, processes, role).await?;
            if json {
                print(&(serde_json::to_string_pretty(&found).map_err(Exit::failed)? + "\n"))?;
            } else {
                for finding in &found {
                    let counterstep_node::doctor::Finding {
                        code,
                        what,
                        why,
                        to_do,
                    } = finding;
                    print(&format!(
                        "{code}: {what}\n  why it matters: {why}\n  what to do: {to_do}\n"
                    ))?;
                }
            }
            if let Some(note) = counterstep_node::doctor::one_machine(&settings)
                && !json
            {
                print(&format!("note: {note}\n"))?;
            }
            match found.len() {
                0 => print(if json { "" } else { "Nothing was found\n" }),
                1 => Err(Exit::failed("1 finding")),
                count => Err(Exit::failed(format_args!("{count} findings"))),
            }
        }),
    )
}
