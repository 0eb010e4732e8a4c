//! What is in `deploy/`, read as a cluster or a supervisor reads it: which programs are started,
//! with which arguments and variables. Must not start anything.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A container of a pod, or a service of a compose file.
#[derive(Debug, Clone)]
pub struct Container {
    /// Of the pod and the container.
    pub name: String,
    /// Its image.
    pub image: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Its variables, as the manifest names them; those of service links included, unless the pod
    /// goes without.
    pub variables: Vec<(String, String)>,
}

impl Container {
    /// The queues of a worker.
    #[must_use]
    pub fn queues(&self) -> Vec<&str> {
        let is_worker = self
            .command
            .first()
            .is_some_and(|program| program == "counterstep-worker");
        let at = self
            .command
            .iter()
            .position(|word| word == "--queues")
            .filter(|_| is_worker);
        at.map(|at| self.command[at + 1].split(',').collect())
            .unwrap_or_default()
    }
}

/// The folder.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// A file in it.
///
/// # Panics
/// When it cannot be read.
#[must_use]
pub fn text(path: &str) -> String {
    let path = folder().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The Kubernetes objects, those of the example of secrets included.
///
/// # Panics
/// When one of the files is no YAML.
#[must_use]
pub fn objects() -> Vec<Value> {
    let files =
        std::fs::read_dir(folder().join("kubernetes")).expect("the folder of the manifests");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files
        .iter()
        .flat_map(|path| documents(&std::fs::read_to_string(path).expect("a manifest")))
        .collect()
}

/// The documents of a YAML file, with what their merge keys take from elsewhere.
fn documents(text: &str) -> Vec<Value> {
    let read = |document| {
        let mut document = serde_yaml_ng::Value::deserialize(document).expect("YAML");
        // Once for each level: what is merged may have a merge key of its own.
        for _ in 0..2 {
            document.apply_merge().expect("merge keys of maps");
        }
        serde_json::to_value(document).expect("keys that are texts")
    };
    serde_yaml_ng::Deserializer::from_str(text)
        .map(read)
        .collect()
}

/// Objects of a kind.
pub fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

/// The containers of all pods, in the order of their files; those that run first in a pod come
/// first.
#[must_use]
pub fn containers(objects: &[Value]) -> Vec<Container> {
    let mut found = Vec::new();
    for object in objects {
        let spec = match &object["spec"]["jobTemplate"] {
            Value::Null => &object["spec"]["template"]["spec"],
            job => &job["spec"]["template"]["spec"],
        };
        // Kubernetes' own default.
        let links = if spec["enableServiceLinks"] == false {
            Vec::new()
        } else {
            service_links(objects)
        };
        for list in ["initContainers", "containers"] {
            for container in spec[list].as_array().into_iter().flatten() {
                let mut variables = links.clone();
                variables.extend(
                    container["env"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .map(|one| variable(one, objects)),
                );
                found.push(Container {
                    name: format!(
                        "{}/{}",
                        string(&object["metadata"]["name"]),
                        string(&container["name"])
                    ),
                    image: string(&container["image"]),
                    command: strings(&container["command"])
                        .chain(strings(&container["args"]))
                        .collect(),
                    variables,
                });
            }
        }
    }
    found
}

/// What the kubelet adds to every pod of the namespace: see
/// <https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables>.
#[must_use]
pub fn service_links(objects: &[Value]) -> Vec<(String, String)> {
    let mut links = Vec::new();
    for service in of_kind(objects, "Service") {
        let name = string(&service["metadata"]["name"])
            .to_uppercase()
            .replace('-', "_");
        let mut add =
            |rest: String, value: &str| links.push((format!("{name}_{rest}"), value.to_owned()));
        add("SERVICE_HOST".to_owned(), "10.96.0.11");
        for (at, port) in service["spec"]["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            let number = port["port"].to_string();
            let address = format!("tcp://10.96.0.11:{number}");
            if at == 0 {
                add("SERVICE_PORT".to_owned(), &number);
                add("PORT".to_owned(), &address);
            }
            add(
                format!("SERVICE_PORT_{}", string(&port["name"]).to_uppercase()),
                &number,
            );
            for (part, value) in [
                ("", address.as_str()),
                ("_PROTO", "tcp"),
                ("_PORT", &number),
                ("_ADDR", "10.96.0.11"),
            ] {
                add(format!("PORT_{number}_TCP{part}"), value);
            }
        }
    }
    links
}

fn variable(one: &Value, objects: &[Value]) -> (String, String) {
    let from = &one["valueFrom"]["secretKeyRef"];
    let value = match from {
        Value::Null => string(&one["value"]),
        from => string(&secret(objects, &string(&from["name"]))[&string(&from["key"])]),
    };
    (string(&one["name"]), value)
}

/// The keys of a secret.
///
/// # Panics
/// When there is none of this name.
#[must_use]
pub fn secret<'a>(objects: &'a [Value], name: &str) -> &'a Value {
    let found = of_kind(objects, "Secret").find(|secret| secret["metadata"]["name"] == name);
    &found.unwrap_or_else(|| panic!("no secret `{name}`"))["stringData"]
}

/// The services of the compose file.
///
/// # Panics
/// When it is no YAML.
#[must_use]
pub fn composed() -> Vec<Container> {
    let file = documents(&text("compose.yaml")).remove(0);
    let services = file["services"].as_object().expect("services").iter();
    let read = |(name, service): (&String, &Value)| Container {
        name: name.clone(),
        image: string(&service["image"]),
        command: strings(&service["command"]).collect(),
        variables: Vec::new(),
    };
    services.map(read).collect()
}

/// A key of a systemd unit, as often as it stands there.
#[must_use]
pub fn unit(path: &str, key: &str) -> Vec<String> {
    let lines = text(path);
    lines
        .lines()
        .filter_map(|line| Some(line.strip_prefix(key)?.strip_prefix('=')?.to_owned()))
        .collect()
}

/// Variables as an `EnvironmentFile` has them.
#[must_use]
pub fn environment(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn string(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("a text and not {value}"))
        .to_owned()
}

fn strings(value: &Value) -> impl Iterator<Item = String> {
    value.as_array().into_iter().flatten().map(string)
}
