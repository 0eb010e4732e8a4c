//! The chart, rendered with what Helm has of values, `if` and `range`: with its defaults it is the manifests that it was made of.
//! Helm itself is not at hand.

use super::chart::{TEMPLATES, Values, template, without_marks};
use super::chart_of;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A part of a template.
#[derive(Debug)]
enum Part {
    Text(String),
    /// The dot or a value.
    Print(String),
    If(String, Vec<Part>, Vec<Part>),
    Range(String, Vec<Part>),
}

/// Text and actions in turn. `{{-` takes the spaces and the line's end before it away, as Helm's `-` does.
fn tokens(template: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let mut rest = template;
    while let Some((text, behind)) = rest.split_once("{{") {
        let (action, behind) = behind.split_once("}}").expect("an end of an action");
        let trimmed = action.strip_prefix("- ").map(|_| text.trim_end());
        found.push((false, trimmed.unwrap_or(text).to_owned()));
        let action = action.strip_prefix('-').unwrap_or(action);
        found.push((true, action.trim().to_owned()));
        rest = behind;
    }
    found.push((false, rest.to_owned()));
    found
}

/// The parts up to an `else` or an `end`, which is given back. What is none of the few known actions fails.
fn parse(tokens: &mut impl Iterator<Item = (bool, String)>) -> (Vec<Part>, Option<String>) {
    let mut parts = Vec::new();
    while let Some((is_action, text)) = tokens.next() {
        let words: Vec<&str> = text.split(' ').collect();
        parts.push(match words.as_slice() {
            _ if !is_action => Part::Text(text),
            ["else" | "end"] => return (parts, Some(text)),
            ["if", value] => {
                let (then, ended) = parse(tokens);
                let otherwise = match ended.as_deref() {
                    Some("else") => parse(tokens).0,
                    _ => Vec::new(),
                };
                Part::If((*value).to_owned(), then, otherwise)
            }
            ["range", value] => Part::Range((*value).to_owned(), parse(tokens).0),
            [value] if value.starts_with(['.', '$']) => Part::Print((*value).to_owned()),
            _ => panic!("`{text}` is more than values, `if` and `range`"),
        });
    }
    (parts, None)
}

fn value<'a>(path: &str, values: &'a Value, dot: Option<&'a Value>) -> &'a Value {
    if path == "." {
        return dot.expect("a dot is within a range");
    }
    // Within a range the dot is another one.
    let wanted = if dot.is_some() {
        "$.Values."
    } else {
        ".Values."
    };
    let path = path.strip_prefix(wanted);
    let path = path.unwrap_or_else(|| panic!("{path:?} does not begin with {wanted}"));
    let found = path.split('.').fold(values, |values, name| &values[name]);
    assert!(!found.is_null(), "values.yaml has no {path}");
    found
}

fn rendered(parts: &[Part], values: &Value, dot: Option<&Value>) -> String {
    let mut made = String::new();
    for part in parts {
        match part {
            Part::Text(text) => made += text,
            Part::Print(path) => match value(path, values, dot) {
                Value::String(text) => made += text,
                other => made += &other.to_string(),
            },
            Part::If(path, then, otherwise) => {
                let holds = value(path, values, dot).as_bool().expect("true or false");
                made += &rendered(if holds { then } else { otherwise }, values, dot);
            }
            Part::Range(path, each) => {
                for one in value(path, values, dot).as_array().expect("a list") {
                    made += &rendered(each, values, Some(one));
                }
            }
        }
    }
    made
}

fn yaml(text: &str) -> Vec<Value> {
    let documents = serde_yaml_ng::Deserializer::from_str(text);
    let parsed = documents.map(|document| {
        use serde::Deserialize;
        Value::deserialize(document).unwrap_or_else(|error| panic!("{error}\n{text}"))
    });
    parsed.filter(|document| !document.is_null()).collect()
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

struct Rendered {
    values: Value,
    templates: BTreeMap<String, String>,
}

impl Rendered {
    fn of_the_repository() -> Self {
        let files = chart_of(&deploy(), "counterstep").expect("a chart");
        let mut files: BTreeMap<String, String> = files.into_iter().collect();
        let values = yaml(&files.remove("values.yaml").expect("values")).remove(0);
        Self {
            values,
            templates: files,
        }
    }

    fn set(&mut self, section: &str, name: &str, to: Value) {
        let known = &mut self.values[section][name];
        assert!(!known.is_null(), "values.yaml has no {section}.{name}");
        *known = to;
    }

    /// The objects of one template.
    fn objects(&self, name: &str) -> Vec<Value> {
        let template = &self.templates[&format!("templates/{name}")];
        let (parts, left) = parse(&mut tokens(template).into_iter());
        assert_eq!(left, None, "{name}");
        // A list that a range has written ends with a comma.
        yaml(&rendered(&parts, &self.values, None).replace(", ]", "]"))
    }
}

/// The objects of a manifest, with the image that the kustomization gives them and the hook that is Helm's own.
fn expected(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(deploy().join("kubernetes").join(name)).expect(name);
    let version = env!("CARGO_PKG_VERSION");
    let mut objects = yaml(&without_marks(&text));
    for object in &mut objects {
        for pointer in [
            "/spec/template/spec/containers/0/image",
            "/spec/template/spec/initContainers/0/image",
            "/spec/jobTemplate/spec/template/spec/containers/0/image",
        ] {
            let Some(image) = object.pointer_mut(pointer) else {
                continue;
            };
            let named = image.as_str().expect("a name");
            if named.starts_with("counterstep") {
                *image = format!("ghcr.io/counterstep/{named}:{version}").into();
            }
        }
    }
    objects
}

#[test]
fn with_its_defaults_the_chart_is_the_manifests() {
    let mut chart = Rendered::of_the_repository();
    chart.set("video", "enabled", true.into());
    for name in TEMPLATES.iter().chain(&["worker-video.yaml"]) {
        let mut objects = chart.objects(name);
        assert!(!objects.is_empty(), "{name}");
        for object in &mut objects {
            let metadata = object["metadata"].as_object_mut().expect("metadata");
            let hook = metadata.remove("annotations");
            assert_eq!(hook.is_some(), *name == "migrate.yaml", "{name}");
        }
        assert_eq!(objects, expected(name), "{name}");
    }
    let roles = chart.objects("roles.yaml").remove(0);
    let sql = std::fs::read_to_string(deploy().join("postgres/roles.sql")).expect("roles");
    assert_eq!(roles["data"]["roles.sql"], sql);
    let about = yaml(&chart.templates["Chart.yaml"]).remove(0);
    assert_eq!(about["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_value_reaches_each_place_that_has_it() {
    let mut chart = Rendered::of_the_repository();
    chart.set("image", "repository", "registry.example.org/shop".into());
    chart.set("database", "host", "db.example.org".into());
    chart.set("secrets", "owner", "vault-owner".into());
    chart.set("settings", "allowedHosts", json!(["shop.example.org"]));
    chart.set(
        "settings",
        "more",
        json!(["lease = \"9s\"", "locale = \"de\""]),
    );
    chart.set("worker", "consumers", json!(["seats", "seats~urgent"]));
    chart.set("worker", "backlog", "40".into());
    chart.set("scaling", "account", "prod".into());
    chart.set("network", "databasePort", 6432.into());

    let text = |name: &str| Value::from(chart.objects(name)).to_string();
    for name in ["api.yaml", "worker.yaml", "reconciler.yaml", "migrate.yaml"] {
        let image = format!("registry.example.org/shop:{}", env!("CARGO_PKG_VERSION"));
        assert!(text(name).contains(&image), "{name}");
    }
    assert_eq!(text("migrate.yaml").matches("db.example.org").count(), 2);
    assert_eq!(text("migrate.yaml").matches("vault-owner").count(), 2);
    let settings = chart.objects("settings.yaml").remove(0);
    let settings = settings["data"]["counterstep.toml"]
        .as_str()
        .expect("settings");
    for line in [
        "allowed_hosts = [\"shop.example.org\"]",
        "log_format = \"json\"\nlease = \"9s\"\nlocale = \"de\"",
    ] {
        assert!(settings.contains(line), "{line}\n{settings}");
    }
    let scaled = chart.objects("worker-scaling.yaml").remove(0);
    let triggers = scaled["spec"]["triggers"].as_array().expect("triggers");
    let of = |name: &str| {
        triggers
            .iter()
            .map(|it| it["metadata"][name].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("consumer"), ["seats", "seats~urgent"]);
    assert_eq!(of("lagThreshold"), ["40", "40"]);
    assert_eq!(of("account"), ["prod", "prod"]);
    assert!(text("network.yaml").contains("6432"));
}

#[test]
fn a_part_that_is_switched_off_is_not_there() {
    let mut chart = Rendered::of_the_repository();
    let kinds = |chart: &Rendered, name: &str| -> Vec<String> {
        let objects = chart.objects(name);
        objects
            .iter()
            .map(|it| it["kind"].as_str().expect("a kind").to_owned())
            .collect()
    };
    assert_eq!(kinds(&chart, "worker-video.yaml"), [""; 0]);
    assert_eq!(kinds(&chart, "worker-scaling.yaml"), ["ScaledObject"]);
    assert!(chart.objects("worker.yaml")[0]["spec"]["replicas"].is_null());
    for section in ["scaling", "network", "disruption"] {
        chart.set(section, "enabled", false.into());
    }
    assert_eq!(kinds(&chart, "worker-scaling.yaml"), [""; 0]);
    assert_eq!(kinds(&chart, "network.yaml"), [""; 0]);
    assert_eq!(kinds(&chart, "api.yaml"), ["Deployment", "Service"]);
    assert_eq!(kinds(&chart, "worker.yaml"), ["Deployment"]);
    assert_eq!(chart.objects("worker.yaml")[0]["spec"]["replicas"], 2);
}

#[test]
fn a_mark_that_is_wrong_is_named() {
    let failed =
        |manifest: &str| template(manifest, "1", &mut Values::default()).expect_err(manifest);
    assert!(failed("# value a: text\nb: 1\n").contains("SECTION.NAME"));
    assert!(failed("# value a.b: text\nlist:\n").contains("without a value"));
    assert!(failed("# value a.b\nb: 1\n").contains("no text"));
    let twice = "# value a.b: text\nb: 1\n# value a.b\nb: 2\n";
    assert!(failed(twice).contains("`1` at one place and `2` at another"));
    assert!(failed("# rendered: triggers of x\n").contains("# chart triggers"));
}

#[test]
fn each_value_is_described() {
    let files = chart_of(&deploy(), "counterstep").expect("a chart");
    let values = files.iter().find(|(path, _)| path == "values.yaml");
    let lines: Vec<&str> = values.expect("values").1.lines().collect();
    assert!(lines.len() > 50, "{lines:?}");
    for pair in lines.windows(2) {
        let is_value = pair[1].starts_with("  ") && !pair[1].starts_with("  # ");
        assert_eq!(is_value, pair[0].starts_with("  # "), "{pair:?}");
    }
}
