//! `deploy chart`: a Helm chart made of the Kubernetes manifests, so that no second copy of them is kept. Marks in their comments
//! name what is a value. The templates have values, `if` and `range` and no function. Must not read or write files.

use std::fmt::Write;

/// The manifests that become templates. Namespace and kustomization are Helm's own business.
pub(super) const TEMPLATES: [&str; 7] = [
    "settings.yaml",
    "migrate.yaml",
    "api.yaml",
    "worker.yaml",
    "worker-scaling.yaml",
    "reconciler.yaml",
    "network.yaml",
];
/// Those that not each program has.
pub(super) const OPTIONAL_TEMPLATES: [&str; 1] = ["worker-video.yaml"];

/// `# value SECTION.NAME: TEXT`: the next line has the default. With ` = DEFAULT` behind the name it stands in templates alone; without a
/// text it was described before.
const VALUE: &str = "# value ";
/// `# chart: LINE`: a line of the template alone.
const LINE: &str = "# chart: ";
/// `# chart instead: LINE`: in place of the next one.
const INSTEAD: &str = "# chart instead: ";
/// `# chart triggers SECTION`: the section with the consumers of the triggers below.
const TRIGGERS: &str = "# chart triggers ";
const RENDERED: &str = "# rendered: ";
const OF_TRIGGERS_ALONE: &str = "triggers of ";
const END_OF_RENDERED: &str = "# end of rendered";
/// Stands for the version of the program in a default.
const VERSION: &str = "VERSION";

/// What a trigger has, and the value that it is. Consumer and threshold are of its section.
const OF_TRIGGERS: [(&str, &str, &str); 3] = [
    (
        "natsServerMonitoringEndpoint",
        "monitoring",
        "Host and port of the monitoring of NATS",
    ),
    ("account", "account", "Account of NATS"),
    ("stream", "stream", "Stream of the tasks"),
];

/// The values of a chart, in the order in which the manifests name them.
#[derive(Debug, Default)]
pub(super) struct Values(Vec<Described>);

#[derive(Debug)]
struct Described {
    section: String,
    name: String,
    default: String,
    text: String,
}

impl Values {
    /// Notes a value. The same one may stand at several places, with the same default.
    fn add(&mut self, key: &str, default: &str, text: &str) -> Result<(), String> {
        let (section, name) = key
            .split_once('.')
            .filter(|(_, name)| !name.contains('.'))
            .ok_or_else(|| format!("the value `{key}` is not named SECTION.NAME"))?;
        let known = self
            .0
            .iter()
            .find(|it| it.section == section && it.name == name);
        match known {
            Some(known) if known.default == default => Ok(()),
            Some(known) => Err(format!(
                "the value `{key}` is `{}` at one place and `{default}` at another",
                known.default
            )),
            None if text.is_empty() => Err(format!("the value `{key}` has no text")),
            None => {
                self.0.push(Described {
                    section: section.to_owned(),
                    name: name.to_owned(),
                    default: default.to_owned(),
                    text: text.to_owned(),
                });
                Ok(())
            }
        }
    }

    /// `values.yaml`, with the text of each.
    pub(super) fn text(&self) -> String {
        let mut sections: Vec<&str> = Vec::new();
        for value in &self.0 {
            if !sections.contains(&value.section.as_str()) {
                sections.push(&value.section);
            }
        }
        let mut text = String::new();
        for section in sections {
            let _ = writeln!(text, "{section}:");
            for value in self.0.iter().filter(|it| it.section == section) {
                let _ = writeln!(text, "  # {}", value.text);
                let _ = writeln!(text, "  {}: {}", value.name, value.default);
            }
        }
        text
    }
}

/// `Chart.yaml`.
pub(super) fn about(program: &str, version: &str) -> String {
    format!(
        "apiVersion: v2\nname: {program}\ndescription: API, workers and reconciler of {program}\n\
        type: application\nversion: {version}\nappVersion: \"{version}\"\n"
    )
}

/// The statements of `roles.sql` as the migration mounts them. A hook as the migration is one: it needs them before all else.
pub(super) fn roles(sql: &str) -> String {
    let mut text = String::from(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: counterstep-roles\n  annotations:\n    \
        helm.sh/hook: pre-install,pre-upgrade\n    helm.sh/hook-weight: \"-1\"\ndata:\n  roles.sql: |\n",
    );
    for line in sql.lines() {
        // No line of spaces alone.
        let _ = match line {
            "" => writeln!(text),
            line => writeln!(text, "    {line}"),
        };
    }
    text
}

/// The template of a manifest.
///
/// # Errors
/// What is wrong with a mark.
pub(super) fn template(
    manifest: &str,
    version: &str,
    values: &mut Values,
) -> Result<String, String> {
    let mut made = String::new();
    let mut lines = manifest.lines();
    let mut section = None;
    while let Some(line) = lines.next() {
        let content = line.trim_start();
        let indent = &line[..line.len() - content.len()];
        if let Some(value) = content.strip_prefix(VALUE) {
            let (named, text) = value.split_once(": ").unwrap_or((value, ""));
            if let Some((key, default)) = named.split_once(" = ") {
                values.add(key, &default.replace(VERSION, version), text)?;
            } else {
                let next = lines.next().unwrap_or_default();
                let (start, default) = scalar(next)
                    .ok_or_else(|| format!("`{value}` stands before a line without a value"))?;
                values.add(named, default, text)?;
                let _ = writeln!(made, "{start}{}", reference(named, default));
            }
        } else if let Some(line) = content.strip_prefix(LINE) {
            let _ = writeln!(made, "{indent}{line}");
        } else if let Some(line) = content.strip_prefix(INSTEAD) {
            lines.next();
            let _ = writeln!(made, "{indent}{line}");
        } else if let Some(named) = content.strip_prefix(TRIGGERS) {
            section = Some(named);
        } else if let Some(part) = content.strip_prefix(RENDERED) {
            if !part.starts_with(OF_TRIGGERS_ALONE) {
                continue;
            }
            let section = section.ok_or_else(|| format!("`{content}` has no `{TRIGGERS}..`"))?;
            let part: Vec<&str> = lines
                .by_ref()
                .take_while(|line| line.trim() != END_OF_RENDERED)
                .collect();
            made.push_str(&triggers(&part, indent, section, values)?);
        } else if content != END_OF_RENDERED {
            let _ = writeln!(made, "{line}");
        }
    }
    Ok(made)
}

/// The value of a line, and what stands before it: behind a colon, behind the `=` of a setting, or an entry of a list.
fn scalar(line: &str) -> Option<(&str, &str)> {
    let content = line.trim_start();
    let behind = |sign: &str| content.find(sign).map(|at| at + sign.len());
    let at = if content.starts_with("- ") && behind(": ").is_none() {
        2
    } else {
        [behind(" = "), behind(": ")].into_iter().flatten().min()?
    };
    let (start, value) = line.split_at(line.len() - content.len() + at);
    (!value.starts_with('{') && !value.is_empty()).then_some((start, value))
}

/// What a template has for a value: in quotes where the manifest has some, and a list entry by entry.
fn reference(key: &str, default: &str) -> String {
    match default.chars().next() {
        Some('"') => format!("\"{{{{ .Values.{key} }}}}\""),
        Some('[') => format!("[{{{{ range .Values.{key} }}}}\"{{{{ . }}}}\", {{{{ end }}}}]"),
        _ => format!("{{{{ .Values.{key} }}}}"),
    }
}

/// One trigger for each consumer of the section, like the first that is there.
fn triggers(
    part: &[&str],
    indent: &str,
    section: &str,
    values: &mut Values,
) -> Result<String, String> {
    let parts = part.iter().filter_map(|line| line.trim().split_once(": "));
    let consumers = parts.filter(|(name, _)| *name == "consumer");
    let consumers: Vec<_> = consumers.map(|(_, name)| format!("\"{name}\"")).collect();
    values.add(
        &format!("{section}.consumers"),
        &format!("[{}]", consumers.join(", ")),
        "Consumers of NATS whose backlog decides how many workers there are: `deploy render` writes the list",
    )?;
    let mut made = format!("{indent}{{{{- range .Values.{section}.consumers }}}}\n");
    let is_begin = |line: &str| line.trim_start().starts_with("- ");
    let rest = part.iter().skip(1).take_while(|line| !is_begin(line));
    for line in part.iter().take(1).chain(rest) {
        let Some((start, default)) = scalar(line) else {
            let _ = writeln!(made, "{line}");
            continue;
        };
        let name = start.trim().trim_start_matches("- ").trim_end_matches(':');
        let of_all = OF_TRIGGERS.iter().find(|(known, ..)| *known == name);
        let key = match of_all {
            Some((_, own, text)) => {
                let key = format!("scaling.{own}");
                values.add(&key, default, text)?;
                key
            }
            None if name == "lagThreshold" => {
                let key = format!("{section}.backlog");
                values.add(&key, default, "Messages that one worker may have before it")?;
                key
            }
            None if name == "consumer" => {
                let _ = writeln!(made, "{start}\"{{{{ . }}}}\"");
                continue;
            }
            None => {
                let _ = writeln!(made, "{line}");
                continue;
            }
        };
        // Within the loop the dot is the consumer.
        let _ = writeln!(
            made,
            "{start}{}",
            reference(&key, default).replace(".Values", "$.Values")
        );
    }
    let _ = writeln!(made, "{indent}{{{{- end }}}}");
    Ok(made)
}

/// A manifest without the marks, which is what its reader sees of it.
#[cfg(test)]
pub(super) fn without_marks(manifest: &str) -> String {
    let is_mark = |line: &&str| {
        let line = line.trim_start();
        [VALUE, LINE, INSTEAD, TRIGGERS]
            .iter()
            .any(|mark| line.starts_with(mark))
    };
    manifest
        .lines()
        .filter(|line| !is_mark(line))
        .map(|line| format!("{line}\n"))
        .collect()
}
