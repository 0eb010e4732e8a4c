//! Servers that do not answer: each command ends with 69 within ten seconds and says which it was; and a schema of
//! a newer program on PostgreSQL, which no command writes to.

use counterstep_testkit::servers::Postgres;
use counterstep_tests::command::{Ended, counterstep, run, to_its_end_within};
use counterstep_tests::place::Place;
use counterstep_tests::process::Process;
use counterstep_tests::services::{self, QUICK};
use counterstep_tests::wait::{SOON, until};
use reqwest::Method;
use std::net::TcpListener;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);

/// A task that is nowhere.
const ID: &str = "0193e6a0-0000-7000-8000-000000000000";

/// An address where nothing listens, and one where the system accepts connections and no answer comes.
struct Away {
    refused: String,
    silent: TcpListener,
}

impl Away {
    fn new() -> Self {
        let bound = || TcpListener::bind("127.0.0.1:0").expect("a free port");
        let refused = bound().local_addr().expect("an address").to_string();
        Self {
            refused,
            silent: bound(),
        }
    }

    fn addresses(&self) -> [String; 2] {
        let silent = self.silent.local_addr().expect("an address").to_string();
        [self.refused.clone(), silent]
    }
}

/// Runs all of these side by side, each within the limit.
fn all_of(place: &Place, commands: &[Vec<String>], check: impl Fn(&[String], &Ended) + Sync) {
    std::thread::scope(|scope| {
        for arguments in commands {
            let check = &check;
            scope.spawn(move || {
                let mut command = counterstep();
                command.args(arguments);
                check(arguments, &to_its_end_within(LIMIT, place.path(), command));
            });
        }
    });
}

fn words(arguments: &[&[&str]]) -> Vec<String> {
    arguments.concat().into_iter().map(str::to_owned).collect()
}

#[test]
fn an_api_that_is_away_is_named_within_ten_seconds_and_ends_each_command_with_69() {
    const COMMANDS: [&[&str]; 16] = [
        &["tasks", "list"],
        &["tasks", "show", ID],
        &["tasks", "watch", ID],
        &["tasks", "audit", ID],
        &["tasks", "cancel", ID],
        &["tasks", "why", ID],
        &["tasks", "dead-letters"],
        &["tasks", "download", ID, "zip", "-o", "x"],
        &[
            "tasks",
            "submit",
            "place-order",
            "--request",
            "request.json",
        ],
        &["types", "list"],
        &["schedules", "list"],
        &["queues", "list"],
        &["limits", "list"],
        &["dead-letters", "groups"],
        &["bulk", "list"],
        &["workers"],
    ];
    let (place, away) = (Place::new(), Away::new());
    std::fs::write(place.path().join("request.json"), "{}").expect("a file");
    for address in away.addresses() {
        let url = format!("http://{address}");
        let commands =
            COMMANDS.map(|command| words(&[&command[..1], &["--url", &url], &command[1..]]));
        all_of(&place, &commands, |arguments, ended| {
            assert_eq!(ended.code, Some(69), "{arguments:?}: {ended:#?}");
            ended.assert_says(&address);
        });
    }
}

#[test]
fn a_database_that_is_away_is_named_within_ten_seconds_and_ends_each_command_with_69() {
    const SERVERS: &[&str] = &["--nats", "nats://127.0.0.1:9"];
    const COMMANDS: [(&[&str], &[&str]); 12] = [
        (&["api", "--listen", "127.0.0.1:0"], SERVERS),
        (&["worker"], SERVERS),
        (&["reconciler"], SERVERS),
        (&["reconciler", "--once"], SERVERS),
        (&["reconciler", "--dry-run"], SERVERS),
        (&["migrate"], &[]),
        (&["audit", "verify"], &[]),
        (&["audit", "heads"], &[]),
        (&["audit", "changes"], &[]),
        (&["fsck"], &[]),
        (&["keys", "list"], &[]),
        (&["check-deploy"], &[]),
    ];
    let (place, away) = (Place::new(), Away::new());
    for address in away.addresses() {
        let database = format!("postgres://kim:open-sesame@{address}/tasks");
        let file = place.path().join("settings.toml");
        std::fs::write(&file, format!("database = \"{database}\"\n")).expect("a file");
        let config = ["--config", file.to_str().expect("UTF-8")];
        let commands = COMMANDS.map(|(command, more)| words(&[command, more, &config]));
        all_of(&place, &commands, |arguments, ended| {
            assert_eq!(ended.code, Some(69), "{arguments:?}: {ended:#?}");
            ended.assert_says("the database");
            let (host, port) = address.split_once(':').expect("host:port");
            // Those that only look find out by their first query.
            if !ended.stderr.contains("does not answer") {
                ended.assert_says(&format!("host {host}, port {port}"));
            }
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert!(!said.contains("open-sesame"), "{said}");
        });
    }
}

#[test]
fn an_object_store_that_is_away_is_named_by_what_looks_into_it() {
    let (place, away) = (Place::new(), Away::new());
    let data = place.data();
    let data = ["--data-dir", data.to_str().expect("UTF-8")];
    run(
        place.path(),
        &[&["reconciler", "--once"], &data[..]].concat(),
    )
    .assert_code(0);
    let [refused, _] = away.addresses();
    let objects = format!("s3://a-bucket?endpoint=http://{refused}&region=us-east-1");
    let mut command = counterstep();
    command
        .args(["reconciler", "--dry-run", "--objects", &objects])
        .args(data)
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret");
    let ended = to_its_end_within(LIMIT, place.path(), command);
    ended
        .assert_code(69)
        .assert_says("the object store")
        .assert_says("a-bucket");
    assert!(!ended.stderr.contains("the database"), "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn services_start_without_nats_redis_and_object_store_and_name_them() {
    let (place, away, postgres) = (Place::new(), Away::new(), Postgres::start());
    let database = postgres.database();
    run(place.path(), &["migrate", "--database", &database]).assert_code(0);
    let [refused, _] = away.addresses();
    let (nats, redis) = (format!("nats://{refused}"), format!("redis://{refused}"));
    let credentials = place.path().join("credentials");
    std::fs::write(
        &credentials,
        "aws_access_key_id = key\naws_secret_access_key = secret\n",
    )
    .expect("a file");
    let objects = format!(
        "s3://a-bucket?endpoint=http://{refused}&credentials_file={}",
        credentials.display()
    );
    let servers = [
        "--database",
        &database,
        "--nats",
        &nats,
        "--redis",
        &redis,
        "--objects",
        &objects,
    ];
    let flags = [QUICK, &servers].concat();
    let mut served = services::api(&place, &flags);
    let (mut worker, _) = services::worker(&place, &flags);
    let mut reconciler = services::reconciler(&place, &flags);
    let names = |process: &mut Process| {
        for line in ["NATS is not ready", "Redis cannot be reached"] {
            process.says(line, |said| said.contains(line).then_some(()));
        }
    };
    [&mut served.process, &mut worker, &mut reconciler]
        .into_iter()
        .for_each(names);
    let request = || served.api.request(Method::GET, "/readyz");
    let ready = until("it is not ready", SOON, || async {
        let answer = request().send().await.expect("an answer");
        let status = answer.status();
        let text = answer.text().await.expect("a body");
        (status == 503).then_some(text)
    })
    .await;
    assert!(ready.contains("object"), "{ready}");
    assert!(served.process.stop().success());
    assert!(worker.stop().success());
    assert!(reconciler.stop().success());
}

#[test]
fn a_postgres_schema_of_a_newer_program_is_refused_and_not_written_to() {
    let (place, postgres) = (Place::new(), Postgres::start());
    let database = postgres.database();
    run(place.path(), &["migrate", "--database", &database]).assert_code(0);
    // From here on whatever writes is found out by the server itself.
    let guard = "INSERT INTO __diesel_schema_migrations (version) VALUES ('29990101000000');
        CREATE FUNCTION is_written() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'a program wrote'; END $$;
        CREATE FUNCTION is_changed() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'a program wrote'; END $$;
        DO $$ DECLARE name TEXT; BEGIN
            FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
                EXECUTE format('CREATE TRIGGER guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %I
                    FOR EACH STATEMENT EXECUTE FUNCTION is_written()', name);
            END LOOP;
        END $$;
        CREATE EVENT TRIGGER guard ON ddl_command_start EXECUTE FUNCTION is_changed();";
    postgres.run_sql(&database, guard).expect("it is guarded");
    for written in ["DELETE FROM documents", "CREATE TABLE x (y INT)"] {
        let refused = postgres.run_sql(&database, written);
        assert!(refused.is_err_and(|error| error.contains("a program wrote")));
    }
    const SERVERS: &[&str] = &["--nats", "nats://127.0.0.1:9"];
    const COMMANDS: [(&[&str], &[&str]); 8] = [
        (&["api", "--listen", "127.0.0.1:0"], SERVERS),
        (&["worker"], SERVERS),
        (&["reconciler"], SERVERS),
        (&["reconciler", "--once"], SERVERS),
        (&["reconciler", "--dry-run"], SERVERS),
        (&["migrate"], &[]),
        (&["keys", "list"], &[]),
        (
            &["keys", "create", "--subject", "kim", "--role", "read"],
            &[],
        ),
    ];
    let commands =
        COMMANDS.map(|(command, more)| words(&[command, more, &["--database", &database]]));
    all_of(&place, &commands, |arguments, ended| {
        assert_eq!(ended.code, Some(78), "{arguments:?}: {ended:#?}");
        ended
            .assert_says("29990101000000")
            .assert_says("newer program");
        assert!(
            !ended.stderr.contains("a program wrote"),
            "{arguments:?}: {ended:#?}"
        );
    });
}
