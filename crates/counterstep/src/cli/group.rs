//! What each group of commands takes that are sent to the API, and how one of them is run: the server is asked, the answer printed,
//! and its page opened. Must not know an operation.

use super::output::{OutputArgs, print};
use super::remote::{Remote, runtime};
use super::web;
use counterstep_node::Exit;
use counterstep_node::settings::{SettingsFor, commands};

/// Flags of each group.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Group {
    #[command(flatten)]
    pub(super) api: SettingsFor<{ commands::REMOTE }>,
    #[command(flatten)]
    pub(super) out: OutputArgs,
    /// Make a change without a question: whether it is meant for this server, and for the task whose id was given in part
    #[arg(long, global = true, display_order = 903)]
    yes: bool,
    /// Open the page of what is shown in a browser, or print its address where there is none
    #[arg(long, global = true, display_order = 904)]
    web: bool,
}

/// What a command has shown.
pub(super) struct Shown {
    text: String,
    page: String,
}

impl Shown {
    /// A text, of this group and, where there is one, this member of it.
    pub(super) fn of(text: String, group: &str, name: Option<&str>) -> Self {
        let page = web::page(group, name);
        Self { text, page }
    }
}

impl Group {
    /// Runs a command of the group.
    pub(super) fn run(
        &self,
        command: impl AsyncFnOnce(&Remote) -> Result<Shown, Exit>,
    ) -> Result<(), Exit> {
        let settings = self.api.read()?;
        runtime()?.block_on(async {
            let remote = Remote::of(&settings)?;
            let remote = match self.yes {
                true => remote.confirmed(),
                false => remote.asking(&settings)?,
            };
            let shown = command(&remote).await?;
            print(&shown.text)?;
            if self.web {
                web::open(&remote.address(&shown.page));
            }
            Ok(())
        })
    }
}
