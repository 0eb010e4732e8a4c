//! The flags that have what is sent with an operation: from the schema of its input, and what the declaration says of some. Must
//! not know an operation.

use super::super::edit::{field as named_value, patch, read_file, request_text};
use super::super::ids;
use super::super::operator::user;
use super::super::times::Since;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches};
use counterstep_contracts::commands::WHOLE_BODY;
use counterstep_contracts::operation::{Declared, Flag, Ids, QueryParam, TASK_IDS, Takes};
use counterstep_contracts::{Labels, Rate};
use counterstep_node::Exit;
use serde_json::{Value, json};
use std::num::ParseIntError;
use std::path::Path;

/// A field of what is sent, and its flag.
#[derive(Debug)]
pub(super) struct Field {
    /// In the body.
    pub(super) name: String,
    flag: String,
    about: String,
    is_required: bool,
    /// What is sent, where the flag is not there.
    usual: Option<String>,
    kind: Kind,
}

/// A value that a flag takes.
#[derive(Debug, Clone)]
struct Word {
    /// As it is sent.
    sent: String,
    /// On the command line.
    typed: String,
    about: String,
}

/// What a flag takes.
#[derive(Debug, Clone)]
enum Kind {
    Text,
    Number {
        least: u64,
        most: u64,
    },
    Switch,
    /// One of these values.
    Word(Vec<Word>),
    /// One of these ids, or a part of it.
    Id(&'static Ids),
    Time,
    Json,
    File,
    /// JSON, or a file with it.
    JsonOrFile,
    Rate,
    /// Nothing: it stands for this text.
    Itself(&'static str),
    /// Nothing: it stands for an object without a field, and goes with none of these.
    Empty(Vec<&'static str>),
    /// Fields of a JSON merge patch.
    Fields,
    /// NAME=VALUE.
    Labels,
    /// Any number of these.
    Many(Box<Self>),
}

/// The flags of an operation, and the fields of which one is needed at least.
pub(super) fn of(it: &Declared) -> (Vec<Field>, Vec<String>) {
    if let Some(query) = it.query {
        return (of_query(it, query()), Vec::new());
    }
    let Some(input) = it.input else {
        return (Vec::new(), Vec::new());
    };
    let schema = input.whole_schema();
    if let Some(flag) = it.about.command.and_then(|it| it.body) {
        return (vec![Field::whole(flag, &schema)], Vec::new());
    }
    let declared = it.about.command.map_or(&[][..], |it| it.flags);
    let is_preset = it.about.command.is_some_and(|it| !it.given.is_empty());
    let is_required = texts(&schema["required"]);
    let properties = schema["properties"].as_object().into_iter().flatten();
    let others = properties.map(|(name, _)| &**name).filter(|name| {
        let has_flag = declared.iter().any(|flag| flag.field == *name);
        !has_flag && (!is_preset || *name == "actor")
    });
    let names = declared.iter().map(|flag| flag.field).chain(others);
    let field = |name: &str| {
        let flag = declared.iter().find(|flag| flag.field == name);
        let schema = field_of(&schema, name);
        let usual = format!("--{}", name.replace('_', "-"));
        let flag_name = flag.map_or(&*usual, |flag| flag.name);
        Field {
            name: name.to_owned(),
            flag: flag_name.trim_start_matches('-').to_owned(),
            about: match flag.map_or("", |flag| flag.about) {
                "" if name == "actor" => {
                    format!("{} [default: the user of this machine]", about(schema))
                }
                "" => about(schema),
                own => own.to_owned(),
            },
            is_required: is_required.iter().any(|it| it == name)
                || flag.is_some_and(|flag| flag.is_needed),
            usual: None,
            kind: flag.map_or_else(|| kind(schema), |flag| kind_of(flag, declared, schema)),
        }
    };
    let mut fields: Vec<_> = names.map(field).collect();
    // Who decides and why come last, as everywhere.
    fields.sort_by_key(|field| ["note", "actor"].iter().position(|it| field.name == *it));
    let one_of = schema["anyOf"].as_array().into_iter().flatten();
    let one_of = one_of.flat_map(|it| texts(&it["required"]));
    // One that is always there is enough.
    let is_enough = |flag: &Flag| flag.is_one_of && flag.is_needed;
    let is_open = !declared.iter().any(is_enough);
    let declared = declared.iter().filter(|flag| flag.is_one_of && is_open);
    let declared = declared.map(|flag| flag.field.to_owned());
    (fields, one_of.chain(declared).collect())
}

/// The flags of a query: words stand there as answers have them, and pages are those of people.
fn of_query(it: &Declared, query: Vec<QueryParam>) -> Vec<Field> {
    let declared = it.about.command.map_or(&[][..], |it| it.flags);
    let goes_on = it.about.command.is_some_and(|it| it.follows.is_some());
    let given = it.about.command.map_or(&[][..], |it| it.given);
    let field = |param: QueryParam| {
        let flag = declared.iter().find(|flag| flag.field == param.name);
        let given = given.iter().find(|(name, _)| *name == param.name);
        let usual = param.schema["default"].as_u64().filter(|_| !goes_on);
        let usual = usual.map(|usual| usual.to_string());
        Field {
            flag: flag.map_or_else(
                || param.name.replace('_', "-"),
                |flag| flag.name.trim_start_matches('-').to_owned(),
            ),
            about: match (flag.map_or("", |flag| flag.about), &*param.name) {
                ("", "limit") if goes_on => "Maximum number of rows [default: all]".to_owned(),
                ("", "limit") => "Maximum number of rows".to_owned(),
                ("", "cursor") => "Continue where another page ended".to_owned(),
                ("", _) => param.about,
                (own, _) => own.to_owned(),
            },
            is_required: false,
            usual: given.map(|(_, value)| (*value).to_owned()).or(usual),
            kind: kind(&param.schema).unspelled(),
            name: param.name,
        }
    };
    query.into_iter().map(field).collect()
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    let texts = texts.filter_map(Value::as_str).map(str::to_owned);
    texts.collect()
}

/// The schema of a field, or of a field of it.
pub(super) fn field_of<'a>(schema: &'a Value, name: &str) -> &'a Value {
    name.split('.').fold(schema, |schema, name| {
        // One that may be missing is an object or null.
        let kinds = schema["anyOf"].as_array().into_iter().flatten();
        let all = kinds.chain([schema]).map(|it| &it["properties"][name]);
        all.max_by_key(|it| it.is_object()).unwrap_or(schema)
    })
}

/// The description of a field as a help has it.
fn about(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.trim_end_matches('.').to_owned()
}

fn kind_of(flag: &Flag, declared: &[Flag], schema: &Value) -> Kind {
    match flag.takes {
        // The schema knows the values of a word, and the form of a text.
        Takes::Text | Takes::Word => match kind(schema) {
            // What is set is a time, and not how long ago one was.
            Kind::Time => Kind::Text,
            kind => kind,
        },
        Takes::Json => Kind::Json,
        Takes::File => Kind::File,
        Takes::JsonOrFile => Kind::JsonOrFile,
        Takes::Number => Kind::ANY_NUMBER,
        Takes::Rate => Kind::Rate,
        Takes::Itself(text) => Kind::Itself(text),
        Takes::Fields => Kind::Fields,
        Takes::Filter => kind(schema).unspelled(),
        Takes::Labels => Kind::Labels,
        Takes::Id(ids) => Kind::Id(ids),
        Takes::Empty => {
            let others = declared.iter().filter(|it| it.is_one_of && !it.is_needed);
            let others = others.map(|it| it.field).filter(|it| *it != flag.field);
            Kind::Empty(others.collect())
        }
    }
}

fn kind(schema: &Value) -> Kind {
    let choices = [&schema["oneOf"], &schema["anyOf"]];
    let choices = choices.into_iter().filter_map(Value::as_array).flatten();
    let choices: Vec<_> = choices.filter(|it| it["type"] != "null").collect();
    if let [one] = choices[..]
        && one["const"].is_null()
    {
        return kind(one);
    }
    let words: Vec<_> = choices.into_iter().flat_map(words).collect();
    let words = [words, self::words(schema)].concat();
    if !words.is_empty() {
        return Kind::Word(words);
    }
    let is =
        |name: &str| schema["type"] == name || texts(&schema["type"]).iter().any(|it| it == name);
    match schema["format"].as_str() {
        Some("uuid") => Kind::Id(&TASK_IDS),
        Some("date-time") => Kind::Time,
        _ if is("string") => Kind::Text,
        _ if is("integer") => Kind::Number {
            least: schema["minimum"].as_u64().unwrap_or(0),
            most: schema["maximum"].as_u64().unwrap_or(u64::MAX),
        },
        _ if is("boolean") => Kind::Switch,
        _ if is("array") => Kind::Many(Box::new(kind(&schema["items"]))),
        _ => Kind::Json,
    }
}

/// The values of a schema that names them, with what each is.
fn words(schema: &Value) -> Vec<Word> {
    let one = schema["const"].as_str().map(str::to_owned);
    let all = one.into_iter().chain(texts(&schema["enum"]));
    let word = |sent: String| Word {
        typed: spelled(&sent),
        sent,
        about: about(schema),
    };
    all.map(word).collect()
}

/// A word as the command line has it.
fn spelled(word: &str) -> String {
    word.replace('_', "-")
}

impl Kind {
    const ANY_NUMBER: Self = Self::Number {
        least: 0,
        most: u64::MAX,
    };

    /// The same with words as they are sent, and nothing but these.
    fn unspelled(self) -> Self {
        match self {
            Self::Word(words) => {
                let words = words.into_iter().map(|word| Word {
                    typed: word.sent.clone(),
                    sent: word.sent,
                    about: String::new(),
                });
                Self::Word(words.collect())
            }
            Self::Many(of) => Self::Many(Box::new(of.unspelled())),
            other => other,
        }
    }

    /// Reads a value of the flag.
    fn parser(&self) -> ValueParser {
        match self {
            Self::Text | Self::Switch | Self::Itself(_) | Self::Empty(_) | Self::Labels => {
                ValueParser::new(|text: &str| Ok::<_, String>(Value::from(text)))
            }
            Self::Number { least, most } => {
                let (least, most) = (*least, *most);
                ValueParser::new(move |text: &str| {
                    let number = text
                        .parse()
                        .map_err(|error: ParseIntError| error.to_string())?;
                    match (least..=most).contains(&number) {
                        true => Ok(Value::from(number)),
                        false => Err(format!("{number} is not in {least}..={most}")),
                    }
                })
            }
            Self::Word(words) => {
                let shown = words.iter().map(|word| {
                    // As answers have it, too.
                    let value = PossibleValue::new(word.typed.clone());
                    let value = match word.typed == word.sent {
                        true => value,
                        false => value.alias(word.sent.clone()),
                    };
                    match word.about.is_empty() {
                        true => value,
                        false => value.help(word.about.clone()),
                    }
                });
                let words = words.clone();
                let read = move |text: String| {
                    let word = words.iter().find(|word| word.typed == text);
                    Value::from(word.map_or(text, |word| word.sent.clone()))
                };
                ValueParser::new(PossibleValuesParser::new(shown).map(read))
            }
            Self::Id(ids) => {
                let ids = *ids;
                ValueParser::new(move |text: &str| ids::checked(ids, text).map(Value::from))
            }
            Self::Time => ValueParser::new(|text: &str| {
                let time = text.parse::<Since>();
                time.map(|time| Value::from(time.rfc3339()))
            }),
            Self::Json => ValueParser::new(|text: &str| {
                serde_json::from_str::<Value>(text).map_err(|error| {
                    format!("not JSON ({error}); a text needs its quotes: '\"like this\"'")
                })
            }),
            Self::File | Self::JsonOrFile => {
                ValueParser::new(|text: &str| Ok::<_, String>(Value::from(text)))
            }
            Self::Rate => ValueParser::new(|text: &str| {
                let rate = Rate::parse(text)?;
                serde_json::to_value(rate).map_err(|error| error.to_string())
            }),
            Self::Fields => ValueParser::new(|text: &str| {
                let (name, value) = named_value(text)?;
                Ok::<_, String>(Value::from(vec![Value::from(name), value]))
            }),
            Self::Many(of) => of.parser(),
        }
    }

    /// What stands for a value in a usage; `None`: the flag's name.
    const fn value_name(&self) -> Option<&'static str> {
        match self {
            Self::File => Some("FILE"),
            Self::JsonOrFile => Some("JSON|FILE"),
            Self::Fields => Some("FIELD=VALUE"),
            Self::Labels => Some("NAME=VALUE"),
            _ => None,
        }
    }
}

impl Field {
    /// The flag that has the whole body.
    fn whole(flag: &str, schema: &Value) -> Self {
        Self {
            name: WHOLE_BODY.to_owned(),
            flag: flag.trim_start_matches('-').to_owned(),
            about: match about(schema) {
                none if none.is_empty() => "What is sent, as JSON".to_owned(),
                about => about,
            },
            is_required: true,
            usual: None,
            kind: Kind::Json,
        }
    }

    /// Of what its flag has an id.
    pub(super) const fn ids(&self) -> Option<&'static Ids> {
        match self.kind {
            Kind::Id(ids) => Some(ids),
            _ => None,
        }
    }

    pub(super) fn arg(&self) -> Arg {
        let arg = Arg::new(self.name.clone()).long(self.flag.clone());
        let arg = arg.required(self.is_required).help(self.about.clone());
        if let Kind::Empty(others) = &self.kind {
            return arg.action(ArgAction::SetTrue).conflicts_with_all(others);
        }
        if matches!(self.kind, Kind::Switch | Kind::Itself(_)) {
            return arg.action(ArgAction::SetTrue);
        }
        let usual = self.flag.replace('-', "_").to_uppercase();
        let name = self.kind.value_name().map_or(usual, str::to_owned);
        let arg = arg.value_name(name).value_parser(self.kind.parser());
        let arg = arg.default_values(self.usual.clone());
        match self.kind {
            Kind::Many(_) | Kind::Fields | Kind::Labels => arg.action(ArgAction::Append),
            _ => arg,
        }
    }

    /// What a command line says of it; `None`: nothing.
    pub(super) fn value(&self, given: &ArgMatches) -> Result<Option<Value>, Exit> {
        if matches!(self.kind, Kind::Switch | Kind::Itself(_) | Kind::Empty(_)) {
            let is_set = given.get_flag(&self.name);
            return Ok(is_set.then(|| match self.kind {
                Kind::Itself(text) => Value::from(text),
                Kind::Empty(_) => json!({}),
                _ => Value::Bool(true),
            }));
        }
        let values = given.get_many::<Value>(&self.name);
        let values: Vec<_> = values.into_iter().flatten().cloned().collect();
        match &self.kind {
            Kind::Fields => patch(values.into_iter().filter_map(pair)),
            Kind::Labels => {
                let labels = Labels::of_pairs(values.iter().filter_map(Value::as_str));
                let labels =
                    labels.map_err(|error| Exit::usage(format!("--{}: {error}", self.flag)))?;
                Ok((!labels.is_empty()).then(|| json!(labels)))
            }
            Kind::Many(_) => Ok((!values.is_empty()).then_some(Value::Array(values))),
            Kind::File => {
                let file = values.first().and_then(Value::as_str);
                file.map(|file| read_file(Path::new(file))).transpose()
            }
            Kind::JsonOrFile => {
                let given = values.first().and_then(Value::as_str);
                let read = |given| {
                    let text = request_text(given)?;
                    let wrong = |error| format!("--{} is not JSON: {error}", self.flag);
                    serde_json::from_str(&text).map_err(|error| Exit::usage(wrong(error)))
                };
                given.map(read).transpose()
            }
            _ if self.name == "actor" => {
                let given = values.into_iter().next();
                Ok(given.or_else(|| user().map(Value::from)))
            }
            _ => Ok(values.into_iter().next()),
        }
    }
}

/// A name and its value, as the flag's parser has written them.
fn pair(of: Value) -> Option<(String, Value)> {
    match of {
        Value::Array(of) => {
            let mut of = of.into_iter();
            Some((of.next()?.as_str()?.to_owned(), of.next()?))
        }
        _ => None,
    }
}
