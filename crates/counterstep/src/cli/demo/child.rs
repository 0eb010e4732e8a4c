//! A worker in a process of its own, so that it can be killed.

use super::{CRASH_GRACE, CRASH_LEASE, CRASH_STEP_TIMEOUT};
use counterstep_contracts::retry::format_duration;
use counterstep_node::{Exit, Settings};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

pub(super) struct WorkerProcess {
    child: Child,
    pid: u32,
}

impl WorkerProcess {
    /// Starts a worker on the same file and folders; in the first attempt of `hang_at` it does its
    /// work and then hangs.
    pub(super) fn start(settings: &Settings, hang_at: Option<&str>) -> Result<Self, Exit> {
        let cannot =
            |error| Exit::failed(format_args!("a worker process cannot be started: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command
            .arg("worker")
            .args(
                settings
                    .scratch
                    .parent()
                    .into_iter()
                    .flat_map(|data| ["--data-dir".into(), data.as_os_str().to_owned()]),
            )
            .args(["--lease", &format_duration(CRASH_LEASE)])
            .args(["--step-timeout", &format_duration(CRASH_STEP_TIMEOUT)])
            .args([
                "--test-time",
                &format!("cancel_grace={}", format_duration(CRASH_GRACE)),
            ])
            .args(["--log", &settings.log])
            .args(
                hang_at
                    .into_iter()
                    .flat_map(|step| ["--plant-fault".to_owned(), format!("{step}=hang@1")]),
            )
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let child = command.spawn().map_err(cannot)?;
        let pid = child.id().unwrap_or_default();
        Ok(Self { child, pid })
    }

    pub(super) const fn pid(&self) -> u32 {
        self.pid
    }

    /// SIGKILL: it gets no chance to say goodbye.
    pub(super) async fn kill(mut self) -> Result<u32, Exit> {
        self.child
            .kill()
            .await
            .map_err(|error| Exit::failed(format_args!("the worker cannot be killed: {error}")))?;
        Ok(self.pid)
    }

    /// The orderly way: SIGTERM, and a wait.
    pub(super) async fn stop(mut self) -> Result<(), Exit> {
        let asked = Command::new("kill")
            .args(["-TERM", &self.pid.to_string()])
            .status()
            .await;
        let orderly = asked.is_ok_and(|status| status.success())
            && tokio::time::timeout(Duration::from_secs(10), self.child.wait())
                .await
                .is_ok();
        if !orderly {
            self.kill().await?;
        }
        Ok(())
    }
}
