//! `counterstep tasks submit`, `watch` and `download`: what a client asks of running services.

use super::edit::request_text;
use super::ids::{self, Named};
use super::output::{json, print};
use super::remote::Remote;
use super::table::Look;
use super::tasks::show;
use super::times::whole;
use crate::client::{Event, Submit};
use clap::ArgGroup;
use counterstep_contracts::declaration::kebab_case;
use counterstep_contracts::http::{Accepted, AuditView, TaskView};
use counterstep_contracts::operation::TASK_IDS;
use counterstep_contracts::{AuditSeq, FileName, TaskId, TaskStatus};
use counterstep_node::Exit;
use futures::StreamExt;
use serde_json::Value;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use tempfile::NamedTempFile;

/// Flags of `tasks submit`.
#[derive(Debug, Clone, clap::Args)]
#[command(group(ArgGroup::new("body").required(true).multiple(true).args(["request", "files"])))]
pub(super) struct SubmitArgs {
    /// The task type, by its name or as in its route
    task_type: String,
    /// The request as JSON, the path of a file with it, or - for standard input; beside files an object
    /// with the other fields
    #[arg(long, value_name = "JSON|FILE")]
    request: Option<String>,
    /// A file of the request; may be repeated
    #[arg(long = "file", value_name = "FIELD=PATH", value_parser = field_and_path)]
    files: Vec<(String, PathBuf)>,
    /// Idempotency key: the same request with the same key is one task
    #[arg(long)]
    key: Option<String>,
    /// Send a webhook to this address when the task comes to rest
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Label, by which lists find the task, as order=4711; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = name_and_value)]
    labels: Vec<(String, String)>,
    /// Watch the task until it is at rest; exit with 1 where it has not completed
    #[arg(long)]
    wait: bool,
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn field_and_path(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((field, path)) if !field.is_empty() && !path.is_empty() => {
            Ok((field.to_owned(), PathBuf::from(path)))
        }
        _ => Err("expected FIELD=PATH".to_owned()),
    }
}

impl SubmitArgs {
    /// Submits, and prints what became of it. Returns the task.
    pub(super) async fn run(&self, remote: &Remote, as_json: bool) -> Result<TaskId, Exit> {
        let accepted = self.submit(remote).await?;
        if self.wait {
            if !as_json {
                print(&format!("{}\n", accepted.task_id))?;
            }
            watch(remote, accepted.task_id, as_json).await?;
            return Ok(accepted.task_id);
        }
        print(&if as_json {
            json(&accepted)?
        } else {
            format!("{} {}\n", accepted.task_id, accepted.status)
        })?;
        Ok(accepted.task_id)
    }

    async fn submit(&self, remote: &Remote) -> Result<Accepted, Exit> {
        let mut how = Submit::new();
        if let Some(key) = &self.key {
            how = how.key(key);
        }
        if let Some(url) = &self.webhook {
            how = how.webhook(url);
        }
        for (name, value) in &self.labels {
            how = how.label(name, value);
        }
        let options = &how.checked().map_err(Exit::failed)?;
        let route = kebab_case(&self.task_type);
        remote.confirm(&format!("submit a task of type {}", self.task_type))?;
        let request = self.request.as_deref().map(request_text).transpose()?;
        if self.files.is_empty() {
            return remote
                .submit(&route, options, request.unwrap_or_default())
                .await;
        }
        let fields = match request.as_deref().map(serde_json::from_str) {
            None => serde_json::Map::new(),
            Some(Ok(Value::Object(fields))) => fields,
            Some(Ok(_)) => {
                return Err(Exit::usage(
                    "--request: invalid request beside files; expected a JSON object with the other fields",
                ));
            }
            Some(Err(error)) => {
                return Err(Exit::usage(format_args!(
                    "--request: invalid request: {error}; expected JSON"
                )));
            }
        };
        remote
            .submit_form(&route, options, &fields, &self.files)
            .await
    }
}

/// Prints each change of a task and its steps until it is at rest, then all of it.
pub(super) async fn watch(remote: &Remote, task: TaskId, as_json: bool) -> Result<(), Exit> {
    // An API that does not answer is named at once; later failures are retried.
    remote.task(task).await?;
    let mut seen = AuditSeq(0);
    let view = loop {
        if let Some(view) = watch_to_rest(remote, task, &mut seen, as_json).await? {
            break view;
        }
    };
    print(&if as_json {
        json(&view)?
    } else {
        show(&view, &Look::here())
    })?;
    if view.status == TaskStatus::Completed {
        return Ok(());
    }
    let why = view.failure.map(|failure| format!(": {}", failure.message));
    Err(Exit::failed(format_args!(
        "task {task} is {}{}",
        view.status,
        why.unwrap_or_default()
    )))
}

/// The same behind an entry, up to the end of its stream. `None`: a child that has ended goes on, since its parent
/// has it undone.
async fn watch_to_rest(
    remote: &Remote,
    task: TaskId,
    seen: &mut AuditSeq,
    as_json: bool,
) -> Result<Option<TaskView>, Exit> {
    let mut events = pin!(remote.events(task, *seen));
    loop {
        let last = match events.next().await.transpose()? {
            Some(Event::Audit(event)) => {
                *seen = event.entry.seq;
                if !as_json {
                    print(&line(&event.entry))?;
                }
                if !event.status.is_at_rest() {
                    continue;
                }
                Some(event.entry.at)
            }
            Some(_) => continue,
            None => None,
        };
        // An operator may have let it go on since then.
        let view = remote.task(task).await?;
        match last {
            Some(at) if view.status.is_at_rest() && at == view.updated_at => return Ok(Some(view)),
            Some(_) => {}
            None => return Ok(Some(view).filter(|view| view.status.is_at_rest())),
        }
    }
}

/// A line for the step that an entry changed, and one for the task.
fn line(entry: &AuditView) -> String {
    let at = whole(&entry.at);
    let mut text = String::new();
    if let (Some(step), Some(to)) = (&entry.step, entry.step_to)
        && entry.step_from != Some(to)
    {
        text.push_str(&format!("{at} {step}: {to}\n"));
    }
    if entry.from != Some(entry.to) {
        text.push_str(&format!("{at} {}\n", entry.to));
    }
    text
}

/// Flags of `tasks download`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct DownloadArgs {
    #[arg(help = ids::about(&TASK_IDS))]
    id: Named,
    /// The field of the response that names the file, as archive or renditions/0
    name: String,
    /// Where to write it, or - for standard output; a file that is there is written over [default: a
    /// new file with the stored file's own name]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
}

impl DownloadArgs {
    /// Writes the file, and says where. Returns the task.
    pub(super) async fn run(&self, remote: &Remote) -> Result<TaskId, Exit> {
        let id = self.id.id(remote).await?;
        if self.output.as_deref() == Some(Path::new("-")) {
            let out = std::io::stdout().as_fd().try_clone_to_owned();
            let mut out = tokio::fs::File::from_std(out.map_err(Exit::failed)?.into());
            let written = remote.download(id, &self.name, &mut out).await;
            return written.map(|_| id);
        }
        let path = match &self.output {
            Some(path) => path.clone(),
            None => {
                let response = remote.task(id).await?.response;
                let path = PathBuf::from(file_name(response.as_ref(), &self.name));
                if path.exists() {
                    return Err(Exit::failed(format_args!(
                        "`{}` is there already: say with --output where to write the file",
                        path.display()
                    )));
                }
                path
            }
        };
        let size = download(remote, id, &self.name, &path, self.output.is_some()).await?;
        print(&format!("{} ({size} bytes)\n", path.display()))?;
        Ok(id)
    }
}

/// The name of a stored file: its own where that is one, and names no hidden file of this folder; else the last part
/// of the field's.
fn file_name(response: Option<&Value>, field: &str) -> String {
    let own = response.and_then(|response| response.pointer(&format!("/{field}/name"))?.as_str());
    let own = own.filter(|own| !own.starts_with('.') && FileName::parse(own).is_ok());
    let last = || field.rsplit('/').next().unwrap_or_default();
    own.unwrap_or_else(last).to_owned()
}

/// Whether a file can be written to a path, as [`download`] does: before anything is done for it.
pub(super) fn check_place(path: &Path) -> Result<(), Exit> {
    if path.is_dir() {
        let error = std::io::Error::from(std::io::ErrorKind::IsADirectory);
        return Err(cannot_write(path, &error));
    }
    if is_other(path) {
        return Ok(());
    }
    partial(path).map(drop)
}

/// What is there and is no file, a device or a link say, is written to, and never replaced.
fn is_other(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|it| !it.is_file())
}

/// A file beside the one of this path, so that it is moved there without another copy. Readable as any new file.
fn partial(path: &Path) -> Result<NamedTempFile, Exit> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    // With `tempfile_in` an error would name this file.
    let made = tempfile::Builder::new()
        .prefix(".counterstep-")
        .make_in(folder, |path| {
            let mut options = std::fs::OpenOptions::new();
            options.read(true).write(true).create_new(true);
            options.mode(0o666).open(path)
        });
    made.map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Exit {
    let path = path.display();
    Exit::failed(format_args!("`{path}` cannot be written: {error}"))
}

/// Writes a stored file of the response to a path, whole or not at all. Returns its size in bytes.
/// `may_replace`: a file that is there.
pub(super) async fn download(
    remote: &Remote,
    task: TaskId,
    name: &str,
    path: &Path,
    may_replace: bool,
) -> Result<u64, Exit> {
    let cannot = |error| cannot_write(path, &error);
    if may_replace && is_other(path) {
        let opened = std::fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(path);
        let mut to = tokio::fs::File::from_std(opened.map_err(cannot)?);
        return remote.download(task, name, &mut to).await;
    }
    let partial = partial(path)?;
    let file = partial.reopen().map_err(cannot)?;
    let mut to = tokio::fs::File::from_std(file);
    let size = remote.download(task, name, &mut to).await?;
    to.sync_all().await.map_err(cannot)?;
    let persisted = if may_replace {
        partial.persist(path)
    } else {
        partial.persist_noclobber(path)
    };
    persisted.map_err(|error| cannot(error.error))?;
    Ok(size)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    const CHILD: &str = "01930d2c-6c4b-7d5e-8f00-0123456789ab";

    fn view(status: &str) -> String {
        let view = json!({
            "task_id": CHILD, "task_type": "Pay", "version": 1, "status": status, "cancel_requested": false,
            "residue": false, "revision": 1, "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:09Z", "recovery_attempts": 0, "steps": [],
            "progress": {"done": 0, "total": 0},
        });
        view.to_string()
    }

    fn entry(seq: u32, to: &str) -> String {
        let entry = json!({
            "seq": seq, "change_id": CHILD, "at": format!("2026-01-01T00:00:0{seq}Z"), "event": "ends", "to": to,
            "epoch": 1, "actor": "worker", "status": to,
        });
        format!("id: {seq}\ndata: {entry}\n\n")
    }

    /// Answers one request after the other, with what is to be asked and the answer.
    pub(in super::super) fn scripted<T: AsRef<str> + Send + 'static>(
        script: Vec<(T, String)>,
    ) -> (String, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let serving = std::thread::spawn(move || {
            for (asked, answer) in script {
                let (stream, _) = listener.accept().expect("a connection");
                let mut stream = BufReader::new(stream);
                let mut head = String::new();
                while stream.read_line(&mut head).expect("a line") > 2 {}
                assert!(head.contains(asked.as_ref()), "{head}");
                let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{answer}");
                stream
                    .get_mut()
                    .write_all(answer.as_bytes())
                    .expect("a reader");
            }
        });
        (url, serving)
    }

    #[test]
    fn a_download_has_the_name_of_the_stored_file_where_that_is_a_name() {
        for (name, field, expected) in [
            (
                json!({"zip": {"name": "archive.zip"}}),
                "zip",
                "archive.zip",
            ),
            (json!({"all": [{"name": "b.mp4"}]}), "all/0", "b.mp4"),
            (json!({"zip": {"name": "../x"}}), "zip", "zip"),
            (json!({"zip": {"name": "/etc/x"}}), "zip", "zip"),
            (json!({"zip": {"name": ".."}}), "zip", "zip"),
            (json!({"zip": {"name": ".bashrc"}}), "zip", "zip"),
            (json!({"zip": {}}), "zip", "zip"),
        ] {
            assert_eq!(file_name(Some(&name), field), expected);
        }
        assert_eq!(file_name(None, "all/0"), "0");
    }

    #[tokio::test]
    async fn a_child_that_is_undone_as_it_ends_is_watched_to_its_end() {
        let (url, serving) = scripted(vec![
            ("GET /api/tasks/", view("completed")),
            ("/events", entry(1, "completed")),
            // Its parent has it undone.
            ("GET /api/tasks/", view("compensating")),
            ("GET /api/tasks/", view("compensating")),
            ("last-event-id: 1", entry(9, "cancelled")),
            ("GET /api/tasks/", view("cancelled")),
        ]);
        let remote = Remote::at(&url);
        let exit = watch(&remote, CHILD.parse().expect("an id"), true).await;
        let said = exit.expect_err("it was undone").to_string();
        assert!(said.contains("is cancelled"), "{said}");
        serving.join().expect("all was asked");
    }
}
