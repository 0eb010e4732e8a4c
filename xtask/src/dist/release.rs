//! What is released: which package, of which commit, for which target. Builds and packs nothing.

use crate::command;

/// The package whose program is released.
pub(super) const PACKAGE: &str = "counterstep";
/// With all servers, as the README and the image build it.
pub(super) const FEATURES: &str = "servers,all-types";

/// What an archive is named by, and what its times are.
#[derive(Debug, Clone)]
pub(super) struct Release {
    pub(super) version: String,
    /// The target triple of the machine.
    pub(super) target: String,
    /// As `--version` shows it.
    pub(super) commit: String,
    /// When the commit was made, in seconds: the time of all that is in the archive.
    pub(super) seconds: u64,
    /// The same in UTC, as `2026-01-31T12:00:00Z`.
    pub(super) time: String,
}

impl Release {
    pub(super) fn of_the_commit() -> Result<Self, String> {
        let git = |args: &[&str]| {
            let mut git = command::at_top("git");
            let text = command::output(git.env("TZ", "UTC").args(args))?;
            Ok::<_, String>(text.trim().to_owned())
        };
        if !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty() {
            return Err(
                "there are changes without a commit; the archive is named by its commit, \
                so commit them first"
                    .to_owned(),
            );
        }
        let seconds = git(&["show", "--no-patch", "--format=%ct", "HEAD"])?;
        let date = "--date=format-local:%Y-%m-%dT%H:%M:%SZ";
        Ok(Self {
            version: version()?,
            target: host()?,
            commit: git(&["rev-parse", "--short=12", "HEAD"])?,
            seconds: seconds
                .parse()
                .map_err(|error| format!("invalid time of the commit `{seconds}`: {error}"))?,
            time: git(&["show", "--no-patch", "--format=%cd", date, "HEAD"])?,
        })
    }

    /// The folder in the archive, and the start of the archive's own name.
    pub(super) fn name(&self) -> String {
        format!("{PACKAGE}-{}-{}", self.version, self.target)
    }
}

fn version() -> Result<String, String> {
    let packages = crate::publish::published()?;
    let own = packages.into_iter().find(|it| it.name == PACKAGE);
    own.map(|package| package.version)
        .ok_or_else(|| format!("the package {PACKAGE} is not published"))
}

/// The target triple that the compiler builds for where none is named.
pub(super) fn host() -> Result<String, String> {
    let text = command::output(command::at_top("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "`rustc -vV` names no host".to_owned())
}
