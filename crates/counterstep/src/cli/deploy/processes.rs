//! The kinds of processes, as compose file, manifests and units have them: one description, from which `deploy render` writes the
//! parts of each. Must not read or write files.

use counterstep_node::nats_rights::User;

/// A kind of process that a deployment starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Process {
    /// With its own role of the database, user of NATS and secrets.
    Service(User),
    /// As the owner of the tables.
    Migration,
}

use Process::{Migration, Service};

/// By the names that parts have.
const NAMED: [(&str, Process); 4] = [
    ("the API", Service(User::Api)),
    ("workers", Service(User::Worker)),
    ("the reconciler", Service(User::Reconciler)),
    ("the migration", Migration),
];

/// The services, in the order of the files.
const SERVICES: [User; 3] = [User::Api, User::Worker, User::Reconciler];

/// The lines of a part of this name; `None`: it is none of these.
pub(super) fn part(part: &str, program: &str) -> Option<Vec<String>> {
    let lines = match part {
        "passwords of the users of NATS" => SERVICES
            .iter()
            .chain(&[User::Operator])
            .map(|user| {
                format!(
                    "COUNTERSTEP_NATS_{}: {}",
                    password(*user),
                    or_default(*user)
                )
            })
            .collect(),
        "passwords of the roles" => SERVICES
            .iter()
            .map(|user| format!("{}: {}", password(*user), or_default(*user)))
            .collect(),
        "statements that set them" => statements(),
        "secrets of the services" => SERVICES
            .iter()
            .map(|user| {
                format!(
                    "nats-{}: {{content: \"{}\"}}",
                    user.as_str(),
                    or_default(*user)
                )
            })
            .collect(),
        _ => {
            let (what, of) = part.split_once(" of ")?;
            let (_, process) = NAMED.iter().find(|(name, _)| *name == of)?;
            match (what, process) {
                ("settings", Service(user)) => pairs(&of_compose(*user, program), ": "),
                ("variables", Service(user)) => of_pods(*user, program),
                ("unit", process) => unit(*process, program),
                _ => return None,
            }
        }
    };
    Some(lines)
}

fn password(user: User) -> String {
    format!("{}_PASSWORD", user.as_str().to_ascii_uppercase())
}

/// A variable of the compose file, and what it is for trying out.
fn or_default(user: User) -> String {
    format!("${{{}:-for-trying-out-{}}}", password(user), user.as_str())
}

/// From the variables of psql: others on the machine can read the arguments of a process.
fn statements() -> Vec<String> {
    let read = |user: &User| format!("\\getenv {} {}", user.as_str(), password(*user));
    let set = |user: &User| {
        let name = user.as_str();
        format!("ALTER ROLE counterstep_{name} PASSWORD :'{name}';")
    };
    SERVICES
        .iter()
        .map(read)
        .chain(SERVICES.iter().map(set))
        .collect()
}

/// The reconciler alone creates streams.
const fn creates_streams(user: User) -> bool {
    matches!(user, User::Reconciler)
}

fn nats_user(user: User, program: &str) -> (String, String) {
    let named = format!("{program}-{}", user.as_str());
    ("COUNTERSTEP_NATS_USER".to_owned(), named)
}

fn creation(user: User) -> (String, String) {
    let creates = creates_streams(user).to_string();
    ("COUNTERSTEP_NATS_CREATE_STREAMS".to_owned(), creates)
}

/// What each container shows: the API its routes, all others their metrics and probes.
fn listens(user: User) -> (String, String) {
    let (name, port) = match user {
        User::Api => ("COUNTERSTEP_LISTEN", 8080),
        _ => ("COUNTERSTEP_METRICS_LISTEN", 9090),
    };
    (name.to_owned(), format!("0.0.0.0:{port}"))
}

fn of_compose(user: User, program: &str) -> Vec<(String, String)> {
    let name = user.as_str();
    let (creation, creates) = creation(user);
    vec![
        (
            "COUNTERSTEP_DATABASE".to_owned(),
            format!(
                "postgres://counterstep_{name}:{}@postgres/{program}",
                or_default(user)
            ),
        ),
        nats_user(user, program),
        // YAML would read it as no text.
        (creation, format!("\"{creates}\"")),
        (
            "COUNTERSTEP_SECRETS_DIR".to_owned(),
            format!("/run/secrets/{program}/{name}"),
        ),
        listens(user),
    ]
}

fn pairs(of: &[(String, String)], between: &str) -> Vec<String> {
    let line = |(name, value): &(String, String)| format!("{name}{between}{value}");
    of.iter().map(line).collect()
}

/// What differs between pods that share the settings file.
fn of_pods(user: User, program: &str) -> Vec<String> {
    let mut all = vec![nats_user(user, program), creation(user)];
    all.extend((user == User::Api).then(|| listens(user)));
    all.iter()
        .map(|(name, value)| format!("- {{name: {name}, value: \"{value}\"}}"))
        .collect()
}

/// The section `[Service]` of a unit.
fn unit(process: Process, program: &str) -> Vec<String> {
    let (name, words) = match process {
        Service(User::Reconciler) => ("reconciler", " --once"),
        Service(user) => (user.as_str(), ""),
        Migration => ("migrate", ""),
    };
    let own = format!("{program}-{name}");
    // Several workers of one machine have a folder each, for scratch and for results that the database could not be given.
    let folder = match process {
        Service(User::Worker) => format!("{own}-%i"),
        _ => own.clone(),
    };
    let runs_on = matches!(process, Service(User::Api | User::Worker));
    let mut lines = vec![
        format!("Type={}", if runs_on { "exec" } else { "oneshot" }),
        format!("User={own}"),
        format!("Group={own}"),
        format!("Environment=COUNTERSTEP_DATA_DIR=/var/lib/{folder}"),
    ];
    if let Service(user) = process {
        let (creation, creates) = creation(user);
        lines.extend([
            "# Its own role, user and keys, which no other unit reads.".to_owned(),
            format!("Environment=COUNTERSTEP_SECRETS_DIR=/etc/{program}/{name}"),
            format!("Environment={creation}={creates}"),
        ]);
    }
    lines.push(format!(
        "ExecStart=/usr/local/bin/{program} {name} --config /etc/{program}/{program}.toml{words}"
    ));
    lines.extend(ends(process, program).lines().map(str::to_owned));
    lines.extend([
        "# For scratch.".to_owned(),
        format!("StateDirectory={folder}"),
        "StateDirectoryMode=0750".to_owned(),
        "UMask=0077".to_owned(),
        String::new(),
    ]);
    let sandbox = SANDBOX.lines().map(str::to_owned);
    lines.extend(
        sandbox
            .filter(|line| runs_on || !line.contains("landlock") && !line.starts_with("# Steps")),
    );
    lines
}

/// When it is started again, and how it ends.
fn ends(process: Process, program: &str) -> String {
    match process {
        Service(User::Api | User::Worker) => RUNS_ON.to_owned(),
        Migration => format!(
            "# The owner of the tables: COUNTERSTEP_DATABASE=postgres://counterstep_owner:…@HOST/NAME?sslmode=verify-full\n\
             EnvironmentFile=/etc/{program}/owner.env\n\
             TimeoutStartSec=infinity"
        ),
        Service(_) => "TimeoutStartSec=600".to_owned(),
    }
}

const RUNS_ON: &str = "\
# 78: the settings are wrong, and starting again will not help.
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=78
# Longer than drain and ten seconds: the process ends by itself within that time.
TimeoutStopSec=60
# The process ends its steps itself: a signal to all would use up a retry of each.
KillMode=mixed
LimitNOFILE=65536";

const SANDBOX: &str = "\
CapabilityBoundingSet=
AmbientCapabilities=
NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProcSubset=pid
ProtectSystem=strict
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
# Steps in processes of their own are restricted with these; older sets of systemd do not have them.
SystemCallFilter=landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp
SystemCallErrorNumber=EPERM";
