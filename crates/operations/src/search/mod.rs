//! What a search stands for: each term is a condition on tasks, or is looked up among types, states, labels and ids. Must not list
//! what it finds.

mod words;

use crate::filters::{declared_name, failure_filter, known_type};
use crate::{Cx, Refused};
use counterstep_contracts::bulk::BulkFilter;
use counterstep_contracts::search::{
    Field, MOST_LABEL_NAMES, MOST_TERMS, ReadAs, Searched, SearchedTerm, Term, parse,
};
use counterstep_contracts::{Labels, ProblemCode, TaskId, TaskStatus};
use counterstep_kernel::documents::view;
use counterstep_kernel::ports::{FailureFilter, ListOrder, TaskQuery};
use uuid::Uuid;
use words::{ending, id, names_with, states, tasks_with, time};

/// Maximum number of lists that one search reads: a word under several names of labels is a list for each.
const MOST_LISTS: usize = MOST_LABEL_NAMES;

/// Maximum number of words of a search that are looked for as endings of ids: each reads thousands of rows.
const MOST_ENDING_WORDS: usize = 2;

/// One of several things that a word stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Choice {
    Label(String, String),
    Task(TaskId),
}

/// What a search stands for.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// Of this type.
    pub(crate) task_type: Option<String>,
    /// In one of these states; none: in any.
    pub(crate) statuses: Vec<TaskStatus>,
    labels: Labels,
    failure: FailureFilter,
    since: Option<(TaskId, String)>,
    until: Option<(TaskId, String)>,
    order: Option<ListOrder>,
    /// Of each of these one.
    choices: Vec<Vec<Choice>>,
    /// Words that nothing else has.
    words: Vec<String>,
    /// Words that are no state and no type: what they are depends on the other terms.
    unknown: Vec<String>,
    terms: Vec<SearchedTerm>,
}

fn refused(detail: impl Into<String>) -> Refused {
    crate::invalid(detail).at("q")
}

/// Reads a search and looks up what it names.
///
/// # Errors
/// Where it is none, names what is not there, or would read without a bound.
pub(crate) async fn resolve(cx: &Cx, q: &str) -> Result<Resolved, Refused> {
    let mut found = Resolved::default();
    let terms = parse(q).map_err(|error| refused(error.to_string()))?;
    let mut count = terms.len();
    for term in terms {
        match term {
            Term::Field(Field::View, name) => {
                let view = view(&cx.engine.ports.store, &cx.caller.tenant, &name).await?;
                let view = view.ok_or_else(no_such_view)?;
                found.says(&format!("view:{name}"), ReadAs::View, vec![view.q.clone()]);
                let inner = parse(&view.q).map_err(|error| refused(error.to_string()))?;
                count += inner.len();
                if count > MOST_TERMS {
                    return Err(refused(format!(
                        "a search has at most {MOST_TERMS} terms with those of its saved views: leave some out"
                    )));
                }
                for term in inner {
                    found.term(cx, term)?;
                }
            }
            other => found.term(cx, other)?,
        }
    }
    let unknown = std::mem::take(&mut found.unknown);
    let endings = unknown.iter().filter(|it| id(it).is_none());
    let endings = endings.filter(|it| ending(it).is_some());
    if endings.count() > MOST_ENDING_WORDS {
        return Err(refused(format!(
            "at most {MOST_ENDING_WORDS} words of hexadecimal digits are looked for as endings of ids: write a label as `name=value`, and \
             the text of a failure as `text:…`"
        )));
    }
    for text in unknown {
        found.looked_up(cx, &text).await?;
    }
    found.text()?;
    Ok(found)
}

pub(crate) fn no_such_view() -> Refused {
    Refused::new(
        ProblemCode::NoSuchView,
        "see /api/views for those that there are",
    )
}

impl Resolved {
    fn says(&mut self, term: &str, read_as: ReadAs, fits: Vec<String>) {
        self.terms.push(SearchedTerm {
            term: term.to_owned(),
            read_as,
            fits,
            looked_at: None,
        });
    }

    fn term(&mut self, cx: &Cx, term: Term) -> Result<(), Refused> {
        let shown = term.to_string();
        match term {
            Term::Label(name, value) => self.label(&shown, &name, &value),
            Term::Field(field, value) => self.field(cx, &shown, field, &value),
            Term::Word { text, is_quoted } => self.word(cx, text, is_quoted),
        }
    }

    fn label(&mut self, shown: &str, name: &str, value: &str) -> Result<(), Refused> {
        add(&mut self.labels, name, value)?;
        self.says(shown, ReadAs::Label, vec![shown.to_owned()]);
        Ok(())
    }

    fn field(&mut self, cx: &Cx, shown: &str, field: Field, value: &str) -> Result<(), Refused> {
        let (read_as, fits) = match field {
            Field::Type => {
                let name = declared_name(&cx.engine, value);
                self.set_type(&name)?;
                (ReadAs::Type, vec![name])
            }
            Field::Status => {
                let found = states(value).ok_or_else(|| {
                    let known: Vec<_> = TaskStatus::ALL.iter().map(|it| it.as_str()).collect();
                    let known = known.join(", ");
                    refused(format!(
                        "`{shown}`: a state is one of {known}, or open, parked or ended"
                    ))
                })?;
                self.set_states(shown, found);
                return Ok(());
            }
            Field::Class => {
                let class = failure_filter(Some(value), None);
                let class = class.map_err(|(_, detail)| refused(detail))?;
                once(&self.failure.class, field)?;
                self.failure.class = class.class;
                (ReadAs::Class, vec![value.to_owned()])
            }
            Field::Text => {
                self.words.push(value.to_owned());
                (ReadAs::Text, vec![value.to_owned()])
            }
            Field::Since => {
                once(&self.since, field)?;
                let at = self.since.insert(time(cx, value)?);
                (ReadAs::Time, vec![at.1.clone()])
            }
            Field::Until => {
                once(&self.until, field)?;
                let at = self.until.insert(time(cx, value)?);
                (ReadAs::Time, vec![at.1.clone()])
            }
            Field::View => {
                return Err(refused(format!(
                    "`{shown}`: a saved view names no other view"
                )));
            }
            Field::Sort => {
                once(&self.order, field)?;
                self.order = Some(match value {
                    "newest" => ListOrder::Newest,
                    "oldest" => ListOrder::Oldest,
                    _ => {
                        let detail =
                            "a list is in the order of submission, `sort:newest` or `sort:oldest`";
                        return Err(refused(format!("`{shown}`: {detail}")));
                    }
                });
                (ReadAs::Order, vec![value.to_owned()])
            }
        };
        self.says(shown, read_as, fits);
        Ok(())
    }

    fn set_type(&mut self, name: &str) -> Result<(), Refused> {
        if self.task_type.as_deref().is_some_and(|it| it != name) {
            let detail = "a search is for tasks of one type or of all: leave one of the types out";
            return Err(refused(detail));
        }
        self.task_type = Some(name.to_owned());
        Ok(())
    }

    /// In one of these, or of those that were named before.
    fn set_states(&mut self, shown: &str, found: Vec<TaskStatus>) {
        let names = found.iter().map(|it| it.as_str().to_owned());
        self.says(shown, ReadAs::Status, names.collect());
        self.statuses.extend(found);
        self.statuses.sort_unstable();
        self.statuses.dedup();
    }

    fn word(&mut self, cx: &Cx, text: String, is_quoted: bool) -> Result<(), Refused> {
        if !is_quoted {
            if let Some(found) = states(&text) {
                self.set_states(&text, found);
                return Ok(());
            }
            if let Some(name) = known_type(&cx.engine, &text) {
                self.set_type(&name)?;
                self.says(&text, ReadAs::Type, vec![name]);
                return Ok(());
            }
        }
        if !self.unknown.contains(&text) {
            self.unknown.push(text);
        }
        Ok(())
    }

    /// A word that is a value of a label, an id or the ending of one, or a text of a failure.
    async fn looked_up(&mut self, cx: &Cx, text: &str) -> Result<(), Refused> {
        let (names, mut looked_at) = names_with(cx, text).await?;
        let labels = names.into_iter();
        let labels = labels.map(|name| Choice::Label(name, text.to_owned()));
        let mut choices: Vec<_> = labels.collect();
        if let Some(task) = id(text) {
            // Other systems have ids of this form too, and a label may name one.
            choices.push(Choice::Task(task));
        } else if let Some(ending) = ending(text) {
            let (tasks, far) = tasks_with(cx, &ending).await?;
            if choices.is_empty() || !tasks.is_empty() {
                looked_at = Some(
                    looked_at
                        .into_iter()
                        .chain([far])
                        .collect::<Vec<_>>()
                        .join("; "),
                );
            }
            choices.extend(tasks.into_iter().map(Choice::Task));
        }
        let fits = choices.iter().map(|it| match it {
            Choice::Label(name, value) => Term::Label(name.clone(), value.clone()).to_string(),
            Choice::Task(task) => task.to_string(),
        });
        let fits: Vec<_> = fits.collect();
        let read_as = match &choices[..] {
            [] if ending(text).is_none() || self.is_narrow() => {
                self.words.push(text.to_owned());
                self.says(text, ReadAs::Text, vec![text.to_owned()]);
                return Ok(());
            }
            [] => ReadAs::Ending,
            [Choice::Task(_)] if id(text).is_some() => ReadAs::Id,
            all if all.iter().all(|it| matches!(it, Choice::Task(_))) => ReadAs::Ending,
            [_] => ReadAs::Label,
            _ => ReadAs::Several,
        };
        self.says(text, read_as, fits);
        if let Some(last) = self.terms.last_mut() {
            last.looked_at = looked_at;
        }
        match &choices[..] {
            // With another value of the same label, no task has both.
            [Choice::Label(name, value)] if self.labels.get(name).is_none_or(|it| it == value) => {
                add(&mut self.labels, name, value)?;
            }
            _ => self.choices.push(choices),
        }
        Ok(())
    }

    /// Whether a text of failures may be looked for.
    fn is_narrow(&self) -> bool {
        self.task_type.is_some() || self.since.is_some()
    }

    /// Words that nothing else has are a text of the failure, which is looked for among few tasks only.
    fn text(&mut self) -> Result<(), Refused> {
        if self.words.is_empty() {
            return Ok(());
        }
        let text = self.words.join(" ");
        if !self.is_narrow() {
            let detail = "is no id, state, type or value of a label here. As a text of a failure it is looked for among the tasks of a \
                          type or a time: add `type:NAME` or `since:7d`";
            return Err(refused(format!("`{text}` {detail}")));
        }
        let filter = failure_filter(None, Some(&text));
        self.failure.text = filter.map_err(|(_, detail)| refused(detail))?.text;
        Ok(())
    }

    /// Adds this to a query. There is one for each choice.
    ///
    /// # Errors
    /// Where both name the same, or where there would be too many.
    pub(crate) fn queries(&self, mut base: TaskQuery) -> Result<Vec<TaskQuery>, Refused> {
        let twice = |name: &str| refused(format!("`q` and `{name}` set the same: leave one out"));
        if let Some(name) = &self.task_type {
            let given = base.task_type.replace(name.clone());
            given.is_none().then_some(()).ok_or_else(|| twice("type"))?;
        }
        if !self.statuses.is_empty() {
            let given = std::mem::replace(&mut base.statuses, self.statuses.clone());
            given
                .is_empty()
                .then_some(())
                .ok_or_else(|| twice("status"))?;
        }
        for (name, value) in self.labels.iter() {
            add(&mut base.labels, name, value)?;
        }
        for (mine, given, name) in [
            (
                &self.failure.class,
                &mut base.failure.class,
                "failure_class",
            ),
            (&self.failure.text, &mut base.failure.text, "failure_text"),
        ] {
            if let Some(mine) = mine {
                let given = given.replace(mine.clone());
                given.is_none().then_some(()).ok_or_else(|| twice(name))?;
            }
        }
        let since = self.since.as_ref().map(|it| it.0);
        base.from = base.from.into_iter().chain(since).max();
        let until = self.until.as_ref().map(|it| it.0);
        base.before = base.before.into_iter().chain(until).min();
        base.order = self.order.unwrap_or_default();
        let lists = self.choices.iter().map(Vec::len);
        let lists = lists.fold(1, usize::saturating_mul);
        if lists > MOST_LISTS {
            let detail = format!(
                "the terms fit {lists} lists together, at most {MOST_LISTS} are read: write a label as `name=value`"
            );
            return Err(refused(detail));
        }
        let mut queries = vec![base];
        for choices in &self.choices {
            let with = |query: &TaskQuery| -> Result<Vec<TaskQuery>, Refused> {
                let all = choices.iter().map(|choice| chosen(query.clone(), choice));
                all.collect::<Result<Vec<_>, _>>()
                    .map(|all| all.into_iter().flatten().collect())
            };
            let all = queries.iter().map(with);
            queries = all.collect::<Result<Vec<_>, _>>()?.concat();
        }
        Ok(queries)
    }

    /// How it was read.
    pub(crate) fn searched(self) -> Searched {
        let filter = self.filter();
        let terms = self.terms;
        Searched { terms, filter }
    }

    /// The same as a filter; `None`: it is more than one.
    pub(crate) fn filter(&self) -> Option<BulkFilter> {
        self.choices.is_empty().then(|| BulkFilter {
            q: None,
            task_type: self.task_type.clone(),
            status: self.statuses.clone(),
            labels: self.labels.clone(),
            failure_class: self.failure.class.clone(),
            failure_text: self.failure.text.clone(),
            since: self.since.as_ref().map(|it| it.1.clone()),
            until: self.until.as_ref().map(|it| it.1.clone()),
        })
    }

    /// The terms that fit several things.
    pub(crate) fn ambiguous(&self) -> Vec<String> {
        let terms = self.terms.iter();
        let several =
            terms.filter(|it| matches!(it.read_as, ReadAs::Id | ReadAs::Ending | ReadAs::Several));
        several.map(|it| format!("`{}`", it.term)).collect()
    }
}

fn add(labels: &mut Labels, name: &str, value: &str) -> Result<(), Refused> {
    if labels.get(name) == Some(value) {
        return Ok(());
    }
    let added = labels.look_for(name, value);
    added.map_err(|error| Refused::new(ProblemCode::InvalidLabel, error.to_string()).at("q"))
}

/// A query with one choice; none where no task can have it.
fn chosen(mut query: TaskQuery, choice: &Choice) -> Result<Option<TaskQuery>, Refused> {
    match choice {
        Choice::Label(name, value) => match query.labels.get(name) {
            Some(other) if other != value => return Ok(None),
            _ => add(&mut query.labels, name, value)?,
        },
        Choice::Task(task) => {
            let next = TaskId(Uuid::from_u128(task.0.as_u128().saturating_add(1)));
            query.from = query.from.into_iter().chain([*task]).max();
            query.before = query.before.into_iter().chain([next]).min();
        }
    }
    Ok(Some(query))
}

fn once<T>(given: &Option<T>, field: Field) -> Result<(), Refused> {
    match given {
        None => Ok(()),
        Some(_) => {
            let name = field.as_str();
            Err(refused(format!("`{name}:` stands twice: leave one out")))
        }
    }
}
