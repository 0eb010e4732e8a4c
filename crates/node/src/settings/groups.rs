//! The groups that settings come in, and sets of groups. Must not know a single setting.

macro_rules! groups {
    ($( $(#[doc = $about:literal])+ $group:ident $heading:literal; )+) => {
        /// Settings that belong together: a command takes all of a group or none.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Group { $( $(#[doc = $about])+ $group ),+ }

        impl Group {
            /// All of them, as the help and the reference show them.
            pub const ALL: &'static [Self] = &[$(Self::$group),+];

            /// Its heading in the help.
            #[must_use]
            pub const fn heading(self) -> &'static str {
                match self { $(Self::$group => $heading),+ }
            }

            /// What the reference says of it.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$group => concat!($($about),+)),+ }
            }
        }
    };
}

groups! {
    /// The file is the same for all processes of an installation: a command ignores the keys that are not its own.
    /// Commands that open the database also accept the flags of the other servers, so that one line of flags serves them all.
    File "Settings file";

    /// What a process writes on its machine, and how it speaks to others: see [secrets and
    /// certificates](settings-file.md#secrets-and-certificates).
    Process "Process";

    /// The database decides what a task's state is: see [servers](operations.md#servers).
    Database "Database";

    /// With PostgreSQL, NATS carries the messages; an SQLite file carries them itself. Login: a user with a password, credentials,
    /// a token, or the seed of an nkey ([secrets and certificates](settings-file.md#secrets-and-certificates)). What counts for
    /// [streams](operations.md#streams) counts when this program makes them.
    Nats "NATS";

    /// Redis saves the other servers work, and everything works without it.
    Redis "Redis";

    /// The parameters of the URL stand in [the settings file](settings-file.md#object-stores-s3-and-azure).
    Objects "Object store";

    /// How long a host may be silent before its tasks are taken back: see [lost hosts](operations.md#when-a-host-is-lost).
    Lease "Leases";

    /// The limits of tasks and requests, and [shutdown](operations.md#shutdown).
    Tasks "Tasks";

    /// What [steps](holds.md#heavy-steps) may take of the host.
    Steps "Steps";

    /// Who may call, and what the API takes: see [callers and keys](operations.md#callers-and-keys).
    Api "API";

    /// Which tasks a worker runs, and how many.
    Worker "Worker";

    /// How often the reconciler passes. The bounds of a pass are flags of `reconciler` alone.
    Reconciler "Reconciler";

    /// What `GET /metrics` shows: see [metrics](metrics.md#metrics).
    Metrics "Metrics";

    /// Which spans are exported, and where to: see [traces](metrics.md#traces).
    Traces "Traces";

    /// Tables that change what task types declare: see [policies](settings-file.md#policies).
    Policies "Policies";

    /// A token may come from the variable `COUNTERSTEP_SERVICES_NAME_TOKEN`, or from the file that
    /// `COUNTERSTEP_SERVICES_NAME_TOKEN_FILE` names: see [services](settings-file.md#services).
    Services "Services";

    /// See [orphans](operations.md#orphans-that-no-row-names) and [retention](operations.md#retention).
    Upkeep "Upkeep";

    /// Commands that talk to a running API.
    Remote "Connection";
}

/// The groups as one number, which a type can have as a parameter.
#[must_use]
pub const fn uses(groups: &[Group]) -> u32 {
    let (mut bits, mut at) = (0, 0);
    while at < groups.len() {
        bits |= 1 << groups[at] as u32;
        at += 1;
    }
    bits
}

/// Whether a group is among those of a command.
#[must_use]
pub const fn takes(uses: u32, group: Group) -> bool {
    uses & (1 << group as u32) != 0
}
