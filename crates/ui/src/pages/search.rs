//! The search of the list of tasks: its box, how it was read, what narrows it, and views that are saved. Must not list a task.

use super::declared::{Group, Look, button};
use super::tasks::COLUMNS;
use super::{done_at, part};
use crate::failed::{Answer, Failed};
use crate::layout::Chapter;
use crate::markup::{empty, plain};
use crate::page_request::PageRequest;
use crate::query::{Address, Fields, segment};
use actix_web::HttpRequest;
use counterstep_contracts::access::Role;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::About;
use counterstep_contracts::search::{
    Field, LONGEST_SEARCH, ReadAs, Searched, Suggestion, Term, parse, quoted,
};
use counterstep_contracts::view::SavedView;
use counterstep_contracts::{Problem, TaskId, TaskStatus};
use maud::{Markup, html};

/// Maximum columns of a list: an address may name any.
const MOST_COLUMNS: usize = 20;

/// What a list is of: the parameters of its page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    pub(super) q: String,
    pub(super) columns: Vec<String>,
    pub(super) cursor: Option<String>,
}

impl Filter {
    /// Other parameters than the search are terms of it.
    pub(crate) fn of(query: &Fields) -> Self {
        let field = |field: Field, value: &str| Term::Field(field, value.to_owned()).to_string();
        let one = |name: &str, of: Field| query.get(name).map(|value| field(of, value));
        let states = query.all("status").map(|it| field(Field::Status, it));
        let label = |pair: &str| match pair.split_once('=') {
            Some((name, value)) => format!("{name}={}", quoted(value)),
            None => quoted(pair),
        };
        let q = query.get("q").map(str::to_owned);
        let of_type = one("type", Field::Type);
        let since = one("since", Field::Since);
        // Only an address of the former page has it, which looked in the last week where neither a type nor a time was chosen.
        let has_bound = q.is_some() || of_type.is_some() || since.is_some();
        let text = query.get("text").map(|it| match it.parse::<TaskId>() {
            Ok(_) => it.to_owned(),
            Err(_) if has_bound => field(Field::Text, it),
            Err(_) => format!("{} {}", field(Field::Text, it), field(Field::Since, "7d")),
        });
        let terms = q.into_iter().chain(one("view", Field::View));
        let terms = terms.chain(of_type).chain(states);
        let terms = terms.chain(query.all("label").map(label));
        let terms: Vec<_> = terms.chain(since).chain(text).collect();
        let columns = query.all("columns").flat_map(|it| it.split(','));
        Self {
            q: terms.join(" "),
            columns: columns
                .filter(|it| !it.is_empty())
                .take(MOST_COLUMNS)
                .map(str::to_owned)
                .collect(),
            cursor: query.get("cursor").map(str::to_owned),
        }
    }

    fn address(&self, path: String) -> Address {
        let columns = self.columns.join(",");
        Address::new(path)
            .with_some("q", Some(&self.q).filter(|q| !q.is_empty()))
            .with_some("columns", Some(columns).filter(|it| !it.is_empty()))
    }

    /// Its page.
    pub(super) fn page(&self, visit: &PageRequest, cursor: Option<&str>) -> String {
        let address = self.address(visit.at("/tasks"));
        address.with_some("cursor", cursor).text()
    }

    /// The address whose events keep it up to date.
    pub(super) fn live(&self, visit: &PageRequest) -> String {
        let address = self.address(visit.at("/live/tasks"));
        address.with_some("cursor", self.cursor.as_deref()).text()
    }

    fn terms(&self) -> Vec<Term> {
        parse(&self.q).unwrap_or_default()
    }

    /// The page of the same columns with other terms.
    fn with(&self, visit: &PageRequest, terms: &[Term]) -> String {
        let q: Vec<_> = terms.iter().map(Term::to_string).collect();
        let other = Self {
            q: q.join(" "),
            cursor: None,
            ..self.clone()
        };
        other.page(visit, None)
    }

    /// Where a label of a task in the list leads: to all tasks that have it, in a saved view to those of the view.
    pub(super) fn label(
        &self,
        visit: &PageRequest,
        searched: Option<&Searched>,
        label: Term,
    ) -> String {
        let mut terms = self.terms();
        let is_view = |it: &Term| matches!(it, Term::Field(Field::View, _));
        if !terms.iter().any(is_view) {
            return tasks_with(visit, &label);
        }
        if !whole(&terms, searched).contains(&label) {
            terms.push(label);
        }
        self.with(visit, &terms)
    }

    /// The stream of changes that could change this list. Without states: a task that leaves the list
    /// has a state that is none of them.
    pub(crate) fn changes(&self) -> String {
        let terms = self.terms();
        let of_type = terms.iter().find_map(|term| match term {
            Term::Field(Field::Type, name) => Some(name),
            _ => None,
        });
        let labels = terms.iter().filter_map(|term| match term {
            Term::Label(name, value) => Some(format!("{name}={value}")),
            _ => None,
        });
        Address::new("/api/events")
            .with_some("type", of_type)
            .all("label", labels)
            .text()
    }
}

/// The page of all tasks that have this.
pub(super) fn tasks_with(visit: &PageRequest, term: &Term) -> String {
    Address::new(visit.at("/tasks")).with("q", term).text()
}

/// The terms, with those of a saved view in its place.
fn whole(terms: &[Term], searched: Option<&Searched>) -> Vec<Term> {
    let inner = |term: &Term| {
        let shown = term.to_string();
        let mut read = searched?.terms.iter();
        let view = read.find(|it| it.read_as == ReadAs::View && it.term == shown)?;
        parse(view.fits.first()?).ok()
    };
    let each = terms.iter();
    let each = each.flat_map(|it| inner(it).unwrap_or_else(|| vec![it.clone()]));
    each.collect()
}

fn is_status(term: &Term, name: &str) -> bool {
    match term {
        Term::Field(Field::Status, value) => value == name,
        Term::Word { text, is_quoted } => !is_quoted && text == name,
        _ => false,
    }
}

/// The box, and what is chosen beside it. `labels`: names of labels that may be columns; `searched`: how the search was read.
pub(super) async fn form(
    visit: &PageRequest,
    filter: &Filter,
    labels: &[String],
    searched: Option<&Searched>,
) -> Markup {
    let asked = Address::new("/api/searches/suggestions").with("q", &filter.q);
    let suggested = visit.find::<Page<Suggestion>>(&asked.text()).await;
    let views = visit.find::<Page<SavedView>>("/api/views").await;
    let suggested = suggested.map_or_else(Vec::new, |it| it.items);
    let views = views.map_or_else(Vec::new, |it| it.items);
    let terms = filter.terms();
    let whole = whole(&terms, searched);
    let states = ["open", "parked"].into_iter();
    let states = states.chain(TaskStatus::ALL.iter().map(|it| it.as_str()));
    html! {
        form.filters role="search" method="get" action=(visit.at("/tasks"))
            hx-get=(visit.at("/tasks")) hx-trigger="submit, input delay:400ms from:#q"
            hx-target="#found" hx-select="#found" hx-select-oob="#suggestions, #narrow, #back-to" hx-swap="outerHTML" hx-push-url="true" {
            div.field.wide {
                label for="q" { "Find " span.quiet { "an id or its ending, 4715, order=4715, a type, a state, a text of the failure" } }
                div.search {
                    input #q type="search" name="q" value=(filter.q) list="suggestions" maxlength=(LONGEST_SEARCH)
                        autocomplete="off" spellcheck="false";
                    button.primary type="submit" { "Find" }
                }
                datalist #suggestions { @for it in &suggested { option value=(it.q) { (it.about) } } }
            }
            @for name in &filter.columns { input type="hidden" name="columns" value=(name); }
        }
        div #narrow {
            nav.states aria-label="States" {
                @for name in states {
                    @let has = whole.iter().any(|it| is_status(it, name));
                    a.check href=(filter.with(visit, &toggled(&terms, &whole, name))) aria-current=[has.then_some("true")] { (plain(name)) }
                }
            }
            (saved(visit, filter, &views))
            (columns(visit, filter, labels))
        }
    }
}

/// What is changed to change such a term: the whole, where a saved view has one.
fn changed<'a>(
    terms: &'a [Term],
    whole: &'a [Term],
    is_such: impl Fn(&Term) -> bool,
) -> &'a [Term] {
    let count = |of: &[Term]| of.iter().filter(|it| is_such(it)).count();
    match count(whole) > count(terms) {
        true => whole,
        false => terms,
    }
}

/// The terms with a state, or without it where they have it.
fn toggled(terms: &[Term], whole: &[Term], name: &str) -> Vec<Term> {
    let of = changed(terms, whole, |it| is_status(it, name));
    let others = of.iter().filter(|it| !is_status(it, name));
    let mut others: Vec<_> = others.cloned().collect();
    if others.len() == of.len() {
        others.push(Term::Field(Field::Status, name.to_owned()));
    }
    others
}

/// Views that are saved, and saving this one.
fn saved(visit: &PageRequest, filter: &Filter, views: &[SavedView]) -> Markup {
    let of_name = |it: &SavedView| {
        let term = Term::Field(Field::View, it.name.clone());
        Address::new(visit.at("/tasks"))
            .with("q", term)
            .with_some("columns", it.columns.as_deref())
            .text()
    };
    let terms = filter.terms();
    let chosen = match &terms[..] {
        [Term::Field(Field::View, name)] => views.iter().find(|it| it.name == *name),
        _ => None,
    };
    let may_save = visit.may(Role::Operate) && chosen.is_none() && !terms.is_empty();
    html! {
        @if !views.is_empty() || may_save {
            div.views {
                @if !views.is_empty() {
                    nav aria-label="Saved views" {
                        "Saved: "
                        @for it in views {
                            a href=(of_name(it)) title=(it.q) aria-current=[chosen.is_some_and(|this| this.name == it.name).then_some("true")] { (it.name) } " "
                        }
                    }
                }
                @if let Some(it) = chosen {
                    p.quiet { "Finds " code { (it.q) } ", by " (it.by) " " (button(visit, ["views", "set"], &it.name, &[])) (button(visit, ["views", "delete"], &it.name, &[])) }
                }
                @if may_save {
                    form.save method="get" action=(visit.at("/views/new")) {
                        input type="hidden" name="q" value=(filter.q);
                        input type="hidden" name="columns" value=(filter.columns.join(","));
                        label for="view-name" { "Save this search as" }
                        input #view-name name="name" required pattern="[A-Za-z0-9._\\-]{1,100}" placeholder="late-orders";
                        button type="submit" { "Save" }
                    }
                }
            }
        }
    }
}

/// Which columns the list has.
fn columns(visit: &PageRequest, filter: &Filter, labels: &[String]) -> Markup {
    let is_usual = filter.columns.is_empty();
    let of_labels = labels
        .iter()
        .map(|name| (name.as_str(), name.as_str(), false));
    let known = COLUMNS.into_iter().chain(of_labels);
    let known: Vec<_> = known.collect();
    let others = filter
        .columns
        .iter()
        .map(|name| (name.as_str(), name.as_str(), false));
    let others = others.filter(|(name, ..)| !known.iter().any(|it| it.0 == *name));
    let all = known.iter().copied().chain(others);
    html! {
        details.columns {
            summary { "Columns" }
            form method="get" action=(visit.at("/tasks")) {
                @if !filter.q.is_empty() { input type="hidden" name="q" value=(filter.q); }
                fieldset.states {
                    legend { "Columns of the list" }
                    @for (name, title, usual) in all {
                        @let has = if is_usual { usual } else { filter.columns.iter().any(|it| it == name) };
                        label.check { input type="checkbox" name="columns" value=(name) checked[has]; span { (title) } }
                    }
                }
                button type="submit" { "Show these" }
            }
        }
    }
}

/// How the terms were read, where that is more than their words.
pub(super) fn terms(visit: &PageRequest, filter: &Filter, searched: Option<&Searched>) -> Markup {
    let notes = searched.iter().flat_map(|it| &it.terms);
    let notes: Vec<_> = notes.filter_map(|it| Some((it, it.note()?))).collect();
    let whole = whole(&filter.terms(), searched);
    html! {
        @if !notes.is_empty() {
            ul.read-as {
                @for (it, note) in notes {
                    li {
                        (note)
                        // Each of several is a search of its own.
                        @if it.fits.len() > 1 {
                            ": " @for one in &it.fits { a href=(filter.with(visit, &instead(&filter.terms(), &whole, &it.term, one))) { (one) } " " }
                        }
                    }
                }
            }
        }
    }
}

/// The terms with another one in place of this.
fn instead(terms: &[Term], whole: &[Term], term: &str, other: &str) -> Vec<Term> {
    let others = parse(other).unwrap_or_default();
    let is_it = |it: &Term| match it {
        Term::Word { text, .. } => text == term,
        other => other.to_string() == term,
    };
    let each = changed(terms, whole, is_it).iter();
    let each = each.flat_map(|it| match is_it(it) {
        true => others.clone(),
        false => vec![it.clone()],
    });
    each.collect()
}

/// Why nothing was looked for, and what to add.
pub(super) fn refused(visit: &PageRequest, filter: &Filter, problem: &Problem) -> Markup {
    let narrower = ["24h", "7d"].map(|age| {
        let mut terms = filter.terms();
        terms.push(Term::Field(Field::Since, age.to_owned()));
        (age, filter.with(visit, &terms))
    });
    let is_broad = problem.detail.contains("since:7d");
    html! {
        (empty(&problem.detail))
        @if is_broad {
            p { "Look in the last " @for (age, to) in &narrower { a.button href=(to) { (age) } " " } }
        }
    }
}

/// Leads to the decision that saves a view under the name that was entered.
pub(crate) async fn new_view(request: HttpRequest) -> Answer {
    let visit = PageRequest::of(&request).await?;
    let query = Fields::of(request.query_string());
    let name = query.get("name").unwrap_or("view");
    let to = Address::new(format!("/views/{}/set", segment(name)))
        .with_some("q", query.get("q"))
        .with_some("columns", query.get("columns"));
    Ok(done_at(&visit, &to.text()))
}

/// What is decided about saved views.
pub(crate) enum Views {}

impl Group for Views {
    const CHAPTER: Chapter = Chapter::Tasks;
    const BACK: (&'static str, &'static str) = ("Tasks", "/tasks");

    async fn look(visit: &PageRequest, what: &str, about: &About) -> Result<Look, Failed> {
        let look = Look::at(part(&visit.request, "name"), about);
        let views = visit.get::<Page<SavedView>>("/api/views").await?;
        let there = views.items.into_iter().find(|it| it.name == look.name);
        let query = Fields::of(visit.request.query_string());
        let (q, columns) = match &there {
            Some(it) => (it.q.as_str(), it.columns.as_deref().unwrap_or_default()),
            None => ("", ""),
        };
        let q = query.get("q").unwrap_or(q).to_owned();
        let columns = query.get("columns").unwrap_or(columns).to_owned();
        let preview = html! {
            p {
                @if what == "set" { "All who see these tasks find it as " } @else { "No search finds it any more as " }
                code { (Term::Field(Field::View, look.name.clone())) } "."
            }
            @if let Some(it) = &there { p { "Now: " code { (it.q) } ", by " (it.by) } }
        };
        Ok(Look {
            at_first: vec![("q", q), ("columns", columns)],
            ..look.shows(preview)
        })
    }
}
