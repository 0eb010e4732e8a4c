//! The decisions that follow from declared operations: who may take one, its form, what is sent, and the same by other means. What
//! it would lead to the page of its group shows. Must not know an operation.

use super::confirm::{self, Form, Proposal};
use super::{get, part};
use crate::equivalents::Equivalents;
use crate::failed::{Answer, Failed};
use crate::forms;
use crate::layout::Chapter;
use crate::markup::plain;
use crate::notice;
use crate::page_request::PageRequest;
use crate::query::{Address, Fields, segment};
use actix_web::web::{self, resource};
use actix_web::{HttpRequest, Resource};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::commands::address;
use counterstep_contracts::limit::Rate;
use counterstep_contracts::operation::{ALL, About, Command, Declared, Flag, Takes};
use maud::{Markup, html};
use serde_json::{Value, json};

/// The page of a group of commands.
pub(crate) trait Group: 'static {
    const CHAPTER: Chapter;
    /// The page that a decision leads back to, and its name.
    const BACK: (&'static str, &'static str);

    /// What one of its decisions is about and would lead to. Refuses a name that nothing has.
    async fn look(visit: &PageRequest, what: &str, about: &About) -> Result<Look, Failed>;
}

/// A group without a page.
pub(crate) enum Others {}

impl Group for Others {
    const CHAPTER: Chapter = Chapter::Overview;
    const BACK: (&'static str, &'static str) = ("Overview", "/");

    async fn look(visit: &PageRequest, _: &str, about: &About) -> Result<Look, Failed> {
        Ok(Look::at(part(&visit.request, "name"), about))
    }
}

/// The command of an operation that has a form here: it changes one thing that its address names, and its flags are lines of text. A
/// task has moves, the page of a bulk operation shows how far it is, and no page lists messages that no host can read.
pub(crate) fn command(it: &Declared) -> Option<Command> {
    let command = it.about.command?;
    let is_line = |flag: &Flag| matches!(flag.takes, Takes::Text | Takes::Number | Takes::Rate);
    let is_here = it.about.changes() && it.params.len() == 1;
    let has_lines = command.body.is_none() && command.flags.iter().all(is_line);
    let has_others = ["tasks", "bulk", "dead-letters"].contains(&command.words[0]);
    (is_here && has_lines && !has_others).then_some(command)
}

/// What a decision is about, and what it would lead to.
pub(crate) struct Look {
    /// As the command line and the address have it.
    pub(super) name: String,
    pub(super) preview: Markup,
    /// What fields hold at first.
    pub(super) at_first: Vec<(&'static str, String)>,
    /// Where it leads back to, in place of the page of the group.
    pub(super) back: Option<(String, String)>,
}

impl Look {
    pub(super) fn at(name: &str, about: &About) -> Self {
        Self {
            name: name.to_owned(),
            preview: html! { p { (about.answers) "." } },
            at_first: Vec::new(),
            back: None,
        }
    }

    pub(super) fn shows(self, preview: Markup) -> Self {
        Self { preview, ..self }
    }
}

/// The button that leads to a decision about this; nothing for those who may not take it. `query`: of its address.
pub(super) fn button(
    visit: &PageRequest,
    words: [&str; 2],
    name: &str,
    query: &[(&str, &str)],
) -> Markup {
    let ([group, what], title) = (words, capital(words[1]));
    let mut of_command = ALL
        .iter()
        .filter_map(|it| Some((it.about.command?.words, it)));
    let found = of_command.find(|(its, _)| *its == words);
    let role = found.and_then(|(_, it)| it.about.access.role());
    let path = visit.at(&format!("/{group}/{}/{what}", segment(name)));
    let href = query
        .iter()
        .fold(Address::new(path), |href, (name, value)| {
            href.with(name, value)
        });
    html! {
        @if role.is_none_or(|role| visit.may(role)) {
            a.button href=(href.text()) aria-label={ (title) " " (name) } { (title) } " "
        }
    }
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at_checked(1).unwrap_or_default();
    first.to_uppercase() + rest
}

async fn asked<'a, G: Group>(
    visit: &PageRequest,
    it: &Declared,
    command: &Command,
    sent: Option<&'a Fields>,
) -> Result<Proposal<'a>, Failed> {
    let [group, what] = command.words;
    if let Some(role) = it.about.access.role() {
        visit.needs(role)?;
    }
    let look = G::look(visit, what, &it.about).await?;
    let mut form = Form::of(sent);
    let words = [group, what, &look.name];
    let path = address(it.about.path, &[&look.name]);
    let elsewhere = Equivalents::new(it.about.verb.name(), path, &words);
    let elsewhere = fields(&mut form, it, command, &look, elsewhere);
    let back = (G::BACK.0.to_owned(), G::BACK.1.to_owned());
    Ok(Proposal {
        chapter: G::CHAPTER,
        title: format!("What would happen if I {what} {}?", look.name),
        about: look.back.unwrap_or(back),
        preview: look.preview,
        form,
        button: format!("{} {}", capital(what), look.name),
        did: notice::first_of([it.about.id, ""]),
        elsewhere,
    })
}

/// The fields of what is sent: what the command has flags for. Who decides is the caller.
fn fields(
    form: &mut Form<'_>,
    it: &Declared,
    command: &Command,
    look: &Look,
    mut elsewhere: Equivalents,
) -> Equivalents {
    let schema = it.input.map_or(Value::Null, |input| input.whole_schema());
    for flag in command.flags.iter().filter(|flag| flag.field != "note") {
        let of = &schema["properties"][flag.field];
        let given = look.at_first.iter().find(|(name, _)| *name == flag.field);
        let at_first = match given {
            Some((_, value)) => value.clone(),
            None => of["default"].as_str().unwrap_or_default().to_owned(),
        };
        let about = match flag.about {
            "" => of["description"].as_str().unwrap_or_default(),
            own => own,
        };
        let label = html! { (plain(flag.field)) span.quiet { ", " (about.trim_end_matches('.')) } };
        let (text, value) = match flag.takes {
            Takes::Number => {
                let text = form.number(flag.field, label, &at_first);
                let value = text.parse::<u32>().map(Value::from);
                (text, value.map_err(|_| "it is no number".to_owned()))
            }
            Takes::Rate => {
                let text = form.line(flag.field, label, &at_first, "50/1s");
                let value = Rate::parse(&text).map(|rate| json!(rate));
                (text, value)
            }
            _ => {
                let text = form.line(flag.field, label, &at_first, "");
                let value = Ok(Value::String(text.clone()));
                (text, value)
            }
        };
        match value {
            // Without it the interface would take another value than the form had.
            _ if text.is_empty() && matches!(flag.takes, Takes::Text) && !at_first.is_empty() => {
                let why = format!(
                    "`{}` is missing; expected `{at_first}` or another",
                    flag.field
                );
                form.refuse(ProblemCode::InvalidRequest, why);
            }
            _ if text.is_empty() => {}
            Ok(value) => elsewhere = elsewhere.flag(flag.name, &text).field(flag.field, value),
            Err(why) => form.refuse(
                ProblemCode::InvalidRequest,
                format!("`{}`: `{text}`: {why}", flag.field),
            ),
        }
    }
    match schema["properties"]["note"].is_object() {
        true => elsewhere.note(&form.note()),
        false => elsewhere,
    }
}

/// The form of an operation, and where it is sent.
pub(crate) fn decision<G: Group>(it: Declared, command: Command) -> (String, Resource) {
    let [group, what] = command.words;
    let path = format!("/{group}/{{name}}/{what}");
    let page = move |request| page::<G>(it, command, request);
    let sent = move |request, payload| post::<G>(it, command, request, payload);
    let both = resource(&path)
        .route(get().to(page))
        .route(web::post().to(sent));
    (path, both)
}

async fn page<G: Group>(it: Declared, command: Command, request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let proposal = asked::<G>(&visit, &it, &command, None).await?;
    Ok(confirm::page(&visit, &proposal, None))
}

async fn post<G: Group>(
    it: Declared,
    command: Command,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let fields = forms::read(&visit, payload).await?;
    let proposal = asked::<G>(&visit, &it, &command, Some(&fields)).await?;
    confirm::send(&visit, &proposal).await
}
