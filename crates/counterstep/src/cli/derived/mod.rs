//! The commands of declared operations: built of the declarations, sent by one call, and printed as they say. Must not know an
//! operation.

mod flags;
#[cfg(test)]
mod tests;

use super::group::{Group, Shown};
use super::ids;
use super::log;
use super::output::{OutputArgs, is_empty, unreadable};
use super::printers;
use super::proposal::Caller;
use super::remote::Remote;
use super::types;
use bytes::Bytes;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, FromArgMatches};
use counterstep_contracts::commands::WHOLE_BODY;
use counterstep_contracts::declaration::kebab_case;
use counterstep_contracts::gate::GateKind;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::{
    Also, BY_HAND, Command as Asks, Declared, GateMove, Param, ShownFn,
};
use counterstep_node::{Exit, Layers};
use flags::Field;
use serde_json::{Map, Value, json};

const FOLLOW: &str = "follow";

/// Adds the commands of these operations to their groups.
pub(super) fn add_to(whole: Command, operations: &[Declared]) -> Command {
    let all = all(operations);
    let whole = all.iter().fold(whole, |whole, (asks, _)| {
        let [group, _] = asks.words;
        match whole.find_subcommand(group) {
            Some(_) => whole,
            None => whole.subcommand(Group::augment_args(Command::new(group))),
        }
    });
    whole.mut_subcommands(|mut group| {
        let name = group.get_name().to_owned();
        let its = all.iter().filter(|(asks, _)| asks.words[0] == name);
        if let Some((_, it)) = its.clone().find(|(asks, _)| asks.is_of_group) {
            group = group.args(flags::of(it).0.iter().map(Field::arg));
        }
        let its = its.map(|(asks, it)| {
            let also = all.iter().filter_map(|(of, it)| Some((of.also?, it)));
            let also = also.filter(|(also, _)| also.words == asks.words);
            also.fold(command_of(*asks, it), |command, (also, it)| {
                command.args(flag_of(also, it))
            })
        });
        let moves: &[GateMove] = match name == GateMove::GROUP {
            true => &GateMove::ALL,
            false => &[],
        };
        let moves = moves.iter().map(|does| of_gates(*does, &all));
        let its: Vec<_> = its.chain(moves).collect();
        // By name, so that those that are written by hand do not stand before them.
        let group = match its.is_empty() {
            true => group,
            false => group.mut_subcommands(|it| it.display_order(0)),
        };
        let its = its.into_iter().map(|it| it.display_order(0));
        let its: Vec<_> = its.collect();
        match (its.is_empty(), does_something_itself(&group)) {
            (true, _) => group,
            (false, true) => group.subcommands(its),
            (false, false) => group
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommands(its),
        }
    })
}

/// All commands of operations, each with what it asks for.
fn all(operations: &[Declared]) -> Vec<(Asks, Declared)> {
    let all = operations.iter().chain(BY_HAND);
    let all = all.flat_map(Declared::commands);
    all.filter_map(|it| Some((it.about.command?, it))).collect()
}

/// The commands that do this to a gate, each by the kind of what it shuts or opens.
fn of_gates(does: GateMove, all: &[(Asks, Declared)]) -> Command {
    let its = all.iter().filter_map(|(asks, it)| {
        let (_, kind) = asks.gate.filter(|(its, _)| *its == does)?;
        Some(command_of(*asks, it).name(kind.as_str()))
    });
    Command::new(does.word())
        .about(does.summary())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(its)
}

/// Whether a group is a command, too: it has flags that no group has.
fn does_something_itself(group: &Command) -> bool {
    let of_groups = Group::augment_args(Command::new("group"));
    let of_groups: Vec<_> = of_groups.get_arguments().map(Arg::get_id).collect();
    let mut its = group.get_arguments().map(Arg::get_id);
    its.any(|id| !of_groups.contains(&id))
}

/// The command of an operation: its target in order, then what is sent.
fn command_of(asks: Asks, it: &Declared) -> Command {
    let about = match asks.more {
        "" => it.about.summary.to_owned(),
        more => format!("{}: {more}", it.about.summary),
    };
    let mut command = Command::new(asks.words[1]).about(about);
    for param in it.params {
        command = command.arg(arg_of(param).required(true));
    }
    let (fields, one_of) = flags::of(it);
    command = command.args(fields.iter().map(Field::arg));
    command = command.args(asks.follows.map(follow));
    if !one_of.is_empty() {
        let group = ArgGroup::new("one of").required(true).multiple(true);
        command = command.group(group.args(one_of));
    }
    command
}

fn arg_of(param: &Param) -> Arg {
    let about = match param.ids {
        Some(ids) => ids::about(ids),
        None => param.about.to_owned(),
    };
    Arg::new(param.name)
        .value_name(value_name(param))
        .help(about)
}

/// The flag of another command that asks for this operation: it has its last parameter.
fn flag_of(also: Also, it: &Declared) -> Option<Arg> {
    let flag = also.flag.trim_start_matches('-');
    let of = arg_of(it.params.last()?);
    Some(of.long(flag).help(also.about))
}

fn follow(about: &'static str) -> Arg {
    let arg = Arg::new(FOLLOW).short('f').long(FOLLOW).help(about);
    arg.action(ArgAction::SetTrue).conflicts_with("limit")
}

/// A parameter in a usage.
fn value_name(param: &Param) -> String {
    let name = param.name.rsplit('_').next().unwrap_or(param.name);
    name.to_uppercase()
}

/// Does what a command line asks for; `None`: it names no command of these operations.
pub(super) fn run(
    operations: &[Declared],
    matches: &ArgMatches,
    program: &str,
) -> Option<Result<(), Exit>> {
    let (it, given) = find(operations, matches)?;
    let of_group = matches.subcommand().map(|(_, of_group)| of_group);
    let before_another = of_group.filter(|of_group| of_group.subcommand().is_some());
    let flags = before_another.map_or(Ok(()), none_of_its_own);
    Some(flags.and_then(|()| run_one(&it, given, program)))
}

/// A group that is a command has flags of its own, which mean nothing to the commands in it.
fn none_of_its_own(of_group: &ArgMatches) -> Result<(), Exit> {
    let of_groups = Group::augment_args(Command::new("group"));
    let is_own = |id: &&clap::Id| {
        let is_given = of_group.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        // What clap derives has a group of arguments by the name of its type.
        let is_flag = !id.as_str().starts_with(char::is_uppercase);
        is_given && is_flag && !of_groups.get_arguments().any(|arg| arg.get_id() == *id)
    };
    match of_group.ids().find(is_own) {
        Some(id) => Err(Exit::usage(format_args!(
            "--{id} goes without a further command: leave one of them out"
        ))),
        None => Ok(()),
    }
}

/// The operation that a command line names, and its arguments.
fn find<'a>(
    operations: &[Declared],
    matches: &'a ArgMatches,
) -> Option<(Declared, &'a ArgMatches)> {
    let (group, of_group) = matches.subcommand()?;
    let mut all = all(operations).into_iter();
    let Some((name, given)) = of_group.subcommand() else {
        let found = all.find(|(asks, _)| asks.is_of_group && asks.words[0] == group);
        return Some((found?.1, of_group));
    };
    if let Some((kind, given)) = given.subcommand() {
        let is_it = |does: GateMove, its: GateKind| {
            (GateMove::GROUP, does.word(), its.as_str()) == (group, name, kind)
        };
        let found = all.find(|(asks, _)| asks.gate.is_some_and(|(does, its)| is_it(does, its)));
        return Some((found?.1, given));
    }
    let words = [group, name];
    // With its flag another operation is meant.
    let also = all.clone().find(|(asks, it)| {
        let has = |also: Also| also.words == words;
        let flag = it.params.last().filter(|_| asks.also.is_some_and(has));
        flag.is_some_and(|flag| given.contains_id(flag.name))
    });
    let found = also.or_else(|| all.find(|(asks, _)| asks.words == words))?;
    Some((found.1, given))
}

fn run_one(it: &Declared, given: &ArgMatches, program: &str) -> Result<(), Exit> {
    let group = Group::from_arg_matches(given).map_err(Exit::usage)?;
    let (mut named, mut body) = asked(it, given)?;
    let out = &group.out;
    group.run(async |remote| {
        find_ids(remote, it, &mut named, body.as_mut()).await?;
        let named: Vec<_> = named.iter().map(String::as_str).collect();
        let body = body.as_ref();
        // Of what goes on all is printed, unless a number of rows was asked for.
        let goes_on = it.about.command.is_some_and(|it| it.follows.is_some());
        let text = match printers::of(it.about.id).filter(|_| !out.is_json()) {
            _ if goes_on && !given.contains_id("limit") => {
                let task = named.concat().parse().map_err(Exit::usage)?;
                let cursor = body.and_then(|query| query["cursor"].as_str());
                let cursor = cursor.map(str::to_owned);
                log::all(remote, out, task, cursor, given.get_flag(FOLLOW)).await?
            }
            Some(printer) => {
                let url = group.api.read()?.url()?;
                let caller = Caller::new(program, &url, &Layers::default().url()?);
                printer(
                    &answered(remote, it, &named, body).await?,
                    &out.look(),
                    &caller,
                )?
            }
            None => ask(remote, out, it, &named, body).await?,
        };
        let of = it.about.command.map_or("", |command| command.words[0]);
        Ok(Shown::of(text, of, named.first().copied()))
    })
}

/// Puts whole ids in place of their parts. Before a change they are confirmed.
async fn find_ids(
    remote: &Remote,
    it: &Declared,
    named: &mut [String],
    body: Option<&mut Value>,
) -> Result<(), Exit> {
    let (mut found, mut none) = (Vec::new(), Value::Null);
    for (at, param) in it.params.iter().enumerate() {
        if let (Some(ids), (before, [text, ..])) = (param.ids, named.split_at_mut(at)) {
            found.extend(ids::complete(remote, ids, before, text).await?);
        }
    }
    let body = body.unwrap_or(&mut none);
    for field in flags::of(it).0 {
        let value = body.get_mut(&field.name);
        if let (Some(ids), Some(Value::String(text))) = (field.ids(), value) {
            found.extend(ids::complete(remote, ids, &[], text).await?);
        }
    }
    match it.about.changes_with(body) {
        true => ids::confirm(remote, &it.about, &found),
        false => Ok(()),
    }
}

/// What a command line names, and what it sends. An id may be a part of one.
fn asked(it: &Declared, given: &ArgMatches) -> Result<(Vec<String>, Option<Value>), Exit> {
    let named = it.params.iter().map(|param| {
        let text = given.get_one::<String>(param.name);
        let text = text.map_or("", String::as_str);
        Ok(match (param.name, param.ids) {
            // A type is named as it is declared, too.
            ("type", _) => kebab_case(text),
            (_, Some(ids)) => ids::checked(ids, text).map_err(Exit::usage)?,
            (_, None) => text.to_owned(),
        })
    });
    let named = named.collect::<Result<Vec<String>, Exit>>()?;
    let segments = it.params.iter().zip(&named).map(|(param, text)| {
        let is_part = param.ids.is_some_and(|ids| ids::is_part(ids, text));
        if is_part { param.example } else { text }
    });
    let segments: Vec<_> = segments.collect();
    (it.check)(&segments).map_err(|bad| Exit::usage(bad.detail))?;
    if it.input.is_none() {
        return Ok((named, None));
    }
    let preset = it.about.command.map_or(&[][..], |it| it.given).iter();
    let preset = preset.map(|(name, value)| ((*name).to_owned(), json!(value)));
    let mut body: Map<_, _> = preset.collect();
    for field in flags::of(it).0 {
        match (field.value(given)?, field.name.split_once('.')) {
            (None, _) => {}
            (Some(value), None) => drop(body.insert(field.name, value)),
            (Some(value), Some((of, name))) => {
                body.entry(of).or_insert_with(|| json!({}))[name] = value;
            }
        }
    }
    let is_whole = it.about.command.is_some_and(|it| it.body.is_some());
    let sent = match is_whole {
        true => body.remove(WHOLE_BODY),
        false => Some(Value::Object(body)),
    };
    Ok((named, sent))
}

/// Asks for an operation on what is named, and gives its answer as a command prints it.
pub(super) async fn ask(
    remote: &Remote,
    out: &OutputArgs,
    it: &Declared,
    named: &[&str],
    body: Option<&Value>,
) -> Result<String, Exit> {
    let answer = answered(remote, it, named, body).await?;
    printed(out, it, body, &answer)
}

/// The whole answer. Where nothing was found of a type, people are told of a type that is unknown.
async fn answered(
    remote: &Remote,
    it: &Declared,
    named: &[&str],
    body: Option<&Value>,
) -> Result<Bytes, Exit> {
    if it.about.changes_with(body.unwrap_or(&Value::Null)) {
        let what = match named {
            [] => it.about.summary.to_owned(),
            _ => format!("{} ({})", it.about.summary, named.join(" ")),
        };
        remote.confirm(&what)?;
    }
    let answer = remote.ask(&it.about, named, body).await?;
    let answer = filled(remote, it, named, body, answer).await?;
    let types = body.map(|sent| [&sent["type"], &sent["filter"]["type"]]);
    let task_type = types.and_then(|types| types.into_iter().find_map(Value::as_str));
    if let Some(name) = task_type.filter(|_| is_empty(&answer)) {
        types::tell_unknown(remote, name).await;
    }
    Ok(answer)
}

/// Maximum pages that are read to fill one.
const MOST_PAGES: usize = 50;

/// The same answer, or the pages behind it too. Where a list has to look for what fits, it goes on until the page is full, or as
/// many were read as may be; the last one may bring a few more.
async fn filled(
    remote: &Remote,
    it: &Declared,
    named: &[&str],
    query: Option<&Value>,
    answer: Bytes,
) -> Result<Bytes, Exit> {
    let limit = query.and_then(|query| query["limit"].as_u64());
    let Some(limit) = limit.filter(|_| it.query.is_some()) else {
        return Ok(answer);
    };
    let mut page: Page<Value> = match serde_json::from_slice(&answer) {
        Ok(page) => page,
        // It is no such list.
        Err(_) => return Ok(answer),
    };
    let is_full = |page: &Page<Value>| page.items.len() as u64 >= limit;
    if is_full(&page) || page.next_cursor.is_none() {
        return Ok(answer);
    }
    let mut query = query.cloned().unwrap_or_default();
    for _ in 1..MOST_PAGES {
        if is_full(&page) {
            break;
        }
        let Some(cursor) = page.next_cursor.take() else {
            break;
        };
        query["cursor"] = Value::from(cursor);
        let answer = remote.ask(&it.about, named, Some(&query)).await?;
        let next: Page<Value> = serde_json::from_slice(&answer).map_err(unreadable)?;
        page.items.extend(next.items);
        page.next_cursor = next.next_cursor;
    }
    serde_json::to_vec(&page)
        .map(Bytes::from)
        .map_err(unreadable)
}

/// An answer as a command prints it; `body`: what was sent.
fn printed(
    out: &OutputArgs,
    it: &Declared,
    body: Option<&Value>,
    answer: &[u8],
) -> Result<String, Exit> {
    // A filter may leave out all that there is.
    let query = body.filter(|_| it.query.is_some());
    let query = query.and_then(Value::as_object);
    let is_filtered = query.is_some_and(|all| all.keys().any(|name| name != "limit"));
    let shown = |shown: ShownFn| Ok(shown(answer)?.filtered(is_filtered));
    if let Some(part) = it.about.command.and_then(|it| it.part) {
        let answer: Value = serde_json::from_slice(answer).map_err(unreadable)?;
        let part = answer[part].as_array().map_or(&[][..], |it| it);
        if let Some(text) = out.as_json(&part)? {
            return Ok(text);
        }
    }
    match it.output {
        None if out.is_json() => Ok(String::new()),
        None => Ok(format!("{}\n", it.about.answers)),
        Some(_) => out.show_answer(answer, it.shown.map(|of| move || shown(of))),
    }
}
