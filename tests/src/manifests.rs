//! What is in `deploy/`, or in that of a crate that `counterstep new` has written, read as a cluster or
//! a supervisor reads it: which programs are started, with which arguments and variables, and as
//! which user. Must not start anything.

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
    /// The number of its user.
    pub user: Option<u32>,
    /// The secret that it mounts.
    pub secret: Option<String>,
}

impl Container {
    /// The queues of a worker.
    #[must_use]
    pub fn queues(&self) -> Vec<&str> {
        let is_worker = self.command.get(1).is_some_and(|role| role == "worker");
        let at = self
            .command
            .iter()
            .position(|word| word == "--queues")
            .filter(|_| is_worker);
        at.map(|at| self.command[at + 1].split(',').collect())
            .unwrap_or_default()
    }
}

/// A service of a compose file.
#[derive(Debug, Clone)]
pub struct Service {
    /// What is started.
    pub container: Container,
    /// What must be there, or have ended, before.
    pub after: Vec<String>,
    /// Whether others wait for its end.
    pub ends: bool,
    /// Whether it is run by a person, and not with the stack.
    pub is_on_demand: bool,
    /// The command that says whether it is healthy, without the word `CMD`.
    pub health: Vec<String>,
    /// Files of the folder that are mounted, and where.
    pub files: Vec<(String, String)>,
    /// Texts that are mounted, and where.
    pub texts: Vec<(String, String)>,
}

/// The files that deploy a program.
#[derive(Debug, Clone)]
pub struct Manifests {
    folder: PathBuf,
    program: String,
}

impl Manifests {
    /// Those of a program, in this folder.
    #[must_use]
    pub fn of(program: &str, folder: PathBuf) -> Self {
        Self {
            folder,
            program: program.to_owned(),
        }
    }

    /// This repository's own.
    #[must_use]
    pub fn shipped() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
        Self::of("counterstep", folder)
    }

    /// The program's name.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// A file.
    ///
    /// # Panics
    /// When it cannot be read.
    #[must_use]
    pub fn text(&self, path: &str) -> String {
        let path = self.folder.join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The Kubernetes objects, those of the example of secrets included.
    ///
    /// # Panics
    /// When one of the files is no YAML.
    #[must_use]
    pub fn objects(&self) -> Vec<Value> {
        let files = std::fs::read_dir(self.folder.join("kubernetes"));
        let files = files.expect("the folder of the manifests");
        let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        files.sort();
        files
            .iter()
            .flat_map(|path| documents(&std::fs::read_to_string(path).expect("a manifest")))
            .collect()
    }

    /// The services of the compose file, in the order of their names.
    ///
    /// # Panics
    /// When it is no YAML.
    #[must_use]
    pub fn composed(&self) -> Vec<Service> {
        let file = documents(&self.text("compose.yaml")).remove(0);
        let services = file["services"].as_object().expect("services");
        let ends = |name: &str| {
            let condition = |other: &Value| {
                other["depends_on"][name]["condition"] == "service_completed_successfully"
            };
            services.values().any(condition)
        };
        // Of `configs`, by the paths that the container finds them under.
        let texts = |service: &Value| {
            let configs = service["configs"].as_array().into_iter().flatten();
            let text = |config: &Value| {
                let content = &file["configs"][string(&config["source"])]["content"];
                (interpolated(&string(content)), string(&config["target"]))
            };
            configs.map(text).collect()
        };
        let read = |(name, service): (&String, &Value)| {
            let variables = service["environment"].as_object().into_iter().flatten();
            let variables =
                variables.map(|(name, value)| (name.clone(), interpolated(&string(value))));
            let mounted = strings(&service["volumes"]).filter_map(|volume| {
                let (from, to) = volume.strip_prefix("./")?.split_once(':')?;
                Some((from.to_owned(), to.trim_end_matches(":ro").to_owned()))
            });
            Service {
                container: Container {
                    name: name.clone(),
                    image: string(&service["image"]),
                    command: strings(&service["command"])
                        .map(|word| interpolated(&word))
                        .collect(),
                    variables: variables.collect(),
                    // That of the image.
                    user: None,
                    secret: None,
                },
                after: service["depends_on"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| name.clone())
                    .collect(),
                ends: ends(name),
                is_on_demand: service["profiles"].is_array(),
                health: strings(&service["healthcheck"]["test"])
                    .skip(1)
                    .map(|word| interpolated(&word))
                    .collect(),
                files: mounted.collect(),
                texts: texts(service),
            }
        };
        services.iter().map(read).collect()
    }

    /// What the image of the program adds to the variables of a container.
    ///
    /// # Panics
    /// When one of them has no value.
    #[must_use]
    pub fn image_variables(&self) -> Vec<(String, String)> {
        let text = self.text("Dockerfile");
        let lines = text.lines().filter_map(|line| line.strip_prefix("ENV "));
        let pair = |word: &str| {
            let (name, value) = word.split_once('=').expect("NAME=VALUE");
            (name.to_owned(), value.to_owned())
        };
        lines.flat_map(str::split_whitespace).map(pair).collect()
    }

    /// The number of the user that the image names.
    ///
    /// # Panics
    /// When it names none.
    #[must_use]
    pub fn image_user(&self) -> u32 {
        let text = self.text("Dockerfile");
        let last = text
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("USER "));
        let user = last.and_then(|user| user.split(':').next()?.parse().ok());
        user.expect("the number of a user")
    }

    /// A key of a systemd unit, as often as it stands there.
    #[must_use]
    pub fn unit(&self, path: &str, key: &str) -> Vec<String> {
        let lines = self.text(path);
        lines
            .lines()
            .filter_map(|line| Some(line.strip_prefix(key)?.strip_prefix('=')?.to_owned()))
            .collect()
    }
}

/// A text of a compose file when no variable is set: the defaults, and `$` for `$$`.
fn interpolated(text: &str) -> String {
    let (mut made, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        made.push_str(before);
        rest = if let Some(escaped) = after.strip_prefix('$') {
            made.push('$');
            escaped
        } else {
            let braces = after
                .strip_prefix('{')
                .and_then(|inner| inner.split_once('}'));
            let (inner, behind) = braces.unwrap_or_else(|| panic!("a variable in braces: {text}"));
            made.push_str(inner.split_once(":-").expect("a default").1);
            behind
        };
    }
    made + rest
}

/// The documents of a YAML file, with what their merge keys take from elsewhere.
///
/// # Panics
/// When it is no YAML.
#[must_use]
pub fn documents(text: &str) -> Vec<Value> {
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
                    user: spec["securityContext"]["runAsUser"]
                        .as_u64()
                        .and_then(|user| u32::try_from(user).ok()),
                    secret: secret_of(spec),
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

/// The secret that a pod mounts.
fn secret_of(spec: &Value) -> Option<String> {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let mut secrets = volumes.filter_map(|volume| volume["secret"]["secretName"].as_str());
    let secret = secrets.next().map(str::to_owned);
    assert_eq!(secrets.next(), None, "a pod with two secrets");
    secret
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
