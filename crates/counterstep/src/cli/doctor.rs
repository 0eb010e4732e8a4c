//! `counterstep doctor`: prints what does not meet the requirements.

use super::output::print;
use counterstep_node::doctor::{Examined, Finding, examine};
use counterstep_node::nats_rights::User;
use counterstep_node::{Exit, SettingsArgs};
use counterstep_steps::Registry;
use serde_json::json;

pub(super) fn main(
    registry: &Registry,
    settings: &SettingsArgs,
    json: bool,
    processes: Option<usize>,
    role: Option<User>,
) -> Result<(), Exit> {
    let settings = settings.read()?.resolve()?;
    let accepted = |finding: &Finding| settings.accepted_findings.get(finding.code);
    counterstep_node::run(
        &settings,
        Box::pin(async {
            let examined = examine(&settings, registry, processes, role).await?;
            let Examined {
                findings: found,
                notes,
            } = examined;
            if json {
                let shown = found.iter().map(|finding| {
                    let mut shown = json!(finding);
                    if let Some(reason) = accepted(finding) {
                        shown["accepted"] = json!(reason);
                    }
                    shown
                });
                let shown: Vec<_> = shown.collect();
                print(&(serde_json::to_string_pretty(&shown).map_err(Exit::failed)? + "\n"))?;
            } else {
                for finding in &found {
                    print(&text(finding, accepted(finding)))?;
                }
            }
            for note in notes.iter().filter(|_| !json) {
                print(&format!("note: {note}\n"))?;
            }
            let open = found.iter().filter(|it| accepted(it).is_none());
            match open.count() {
                0 if json => Ok(()),
                0 if found.is_empty() => print("Nothing was found\n"),
                0 => print("Nothing was found that the settings do not accept\n"),
                1 => Err(Exit::failed("1 finding")),
                count => Err(Exit::failed(format_args!("{count} findings"))),
            }
        }),
    )
}

fn text(finding: &Finding, accepted: Option<&String>) -> String {
    let Finding {
        code,
        what,
        why,
        to_do,
    } = finding;
    match accepted {
        Some(reason) => format!("accepted, {code}: {what}\n  reason: {reason}\n"),
        None => {
            format!("{code}: {what}\n  why it matters: {why}\n  what to do: {to_do}\n")
        }
    }
}
