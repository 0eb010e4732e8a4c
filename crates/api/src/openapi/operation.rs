//! What is written down of a route beside its handler: parameters, bodies, answers, examples. A value in
//! a constant, so that a route without one does not compile.

use counterstep_contracts::ProblemCode;
use counterstep_contracts::operation::{Body, Chapter, Command, Declared, Link, Param, QueryParam};
use counterstep_steps::task::SchemaFn;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A header of an answer.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Whether each such answer has it.
    pub(crate) is_always: bool,
}

pub(crate) const LOCATION: Header = Header {
    name: "Location",
    about: "The address of the task",
    is_always: true,
};
pub(crate) const CACHE_CONTROL: Header = Header {
    name: "Cache-Control",
    about: "What a cache may keep",
    is_always: true,
};

/// A JSON value: its schema from the type that is parsed or written, and an example.
#[derive(Clone, Copy)]
pub(crate) struct Json {
    pub(crate) schema: SchemaFn,
    pub(crate) example: fn() -> Value,
    /// Reads the example as the type and writes it again; `None`: the type is only written.
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests read the examples"))]
    pub(crate) round_trip: Option<fn(Value) -> serde_json::Result<Value>>,
}

/// What an answer holds.
#[derive(Clone, Copy)]
pub(crate) enum Content {
    Nothing,
    Json(Json),
    /// A stream of server-sent events, whose `data` is one of these.
    Events {
        data: &'static [SchemaFn],
        example: &'static str,
    },
    /// Another media type, with an example where one can be shown.
    Text {
        media_type: &'static str,
        example: Option<&'static str>,
    },
}

/// An answer that is no problem document.
#[derive(Clone, Copy)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    pub(crate) headers: &'static [Header],
    pub(crate) links: &'static [Link],
    pub(crate) content: Content,
}

/// The schema of a type.
pub(crate) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn round_trip<T: Serialize + DeserializeOwned>(example: Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<T>(example)?)
}

impl Json {
    const fn of<T: JsonSchema + Serialize + DeserializeOwned>(example: fn() -> Value) -> Self {
        Self {
            schema: schema_of::<T>,
            example,
            round_trip: Some(round_trip::<T>),
        }
    }
}

impl Reply {
    const fn of(status: u16, about: &'static str, content: Content) -> Self {
        Self {
            status,
            about,
            headers: &[],
            links: &[],
            content,
        }
    }

    /// Without a body.
    pub(crate) const fn empty(status: u16, about: &'static str) -> Self {
        Self::of(status, about, Content::Nothing)
    }

    /// With a value of this type as JSON.
    pub(crate) const fn json<T: JsonSchema + Serialize + DeserializeOwned>(
        status: u16,
        about: &'static str,
        example: fn() -> Value,
    ) -> Self {
        Self::of(status, about, Content::Json(Json::of::<T>(example)))
    }

    /// With another media type.
    pub(crate) const fn text(
        status: u16,
        about: &'static str,
        media_type: &'static str,
        example: Option<&'static str>,
    ) -> Self {
        let content = Content::Text {
            media_type,
            example,
        };
        Self::of(status, about, content)
    }

    /// With server-sent events.
    pub(crate) const fn events(
        about: &'static str,
        data: &'static [SchemaFn],
        example: &'static str,
    ) -> Self {
        Self::of(200, about, Content::Events { data, example })
    }

    pub(crate) const fn headers(self, headers: &'static [Header]) -> Self {
        Self { headers, ..self }
    }

    pub(crate) const fn links(self, links: &'static [Link]) -> Self {
        Self { links, ..self }
    }
}

/// A route that stands for one address of each task type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PerType {
    /// One request.
    One,
    /// Many requests; not of types with uploads.
    Batch,
}

/// What is written down of a route.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) id: &'static str,
    pub(crate) chapter: Chapter,
    pub(crate) summary: &'static str,
    pub(crate) path: &'static [Param],
    pub(crate) query: &'static [Param],
    /// More of them, as the fields of an input.
    pub(crate) declared_query: Option<fn() -> Vec<QueryParam>>,
    pub(crate) headers: &'static [Param],
    pub(crate) body: Option<Json>,
    /// The body may be left out.
    pub(crate) body_is_optional: bool,
    replies: &'static [Reply],
    /// More of them, those of a declared operation.
    declared: [Option<Reply>; 2],
    /// Beside those that the method, the access and the body bring along.
    pub(crate) problems: &'static [ProblemCode],
    pub(crate) per_type: Option<PerType>,
    /// The command of a declared operation.
    pub(crate) command: Option<Command>,
}

impl Operation {
    pub(crate) const fn new(id: &'static str, chapter: Chapter, summary: &'static str) -> Self {
        Self {
            id,
            chapter,
            summary,
            path: &[],
            query: &[],
            declared_query: None,
            headers: &[],
            body: None,
            body_is_optional: false,
            replies: &[],
            declared: [None; 2],
            problems: &[],
            per_type: None,
            command: None,
        }
    }

    pub(crate) const fn path(self, path: &'static [Param]) -> Self {
        Self { path, ..self }
    }

    pub(crate) const fn query(self, query: &'static [Param]) -> Self {
        Self { query, ..self }
    }

    pub(crate) const fn declared_query(self, query: fn() -> Vec<QueryParam>) -> Self {
        Self {
            declared_query: Some(query),
            ..self
        }
    }

    pub(crate) const fn headers(self, headers: &'static [Param]) -> Self {
        Self { headers, ..self }
    }

    /// With these headers in the answers of a declared operation.
    pub(crate) fn answered_with(self, headers: &'static [Header]) -> Self {
        Self {
            declared: self.declared.map(|reply| Some(reply?.headers(headers))),
            ..self
        }
    }

    /// With a body of this type.
    pub(crate) const fn body<T: JsonSchema + Serialize + DeserializeOwned>(
        self,
        example: fn() -> Value,
    ) -> Self {
        Self {
            body: Some(Json::of::<T>(example)),
            ..self
        }
    }

    /// The body may be left out.
    pub(crate) const fn body_is_optional(self) -> Self {
        Self {
            body_is_optional: true,
            ..self
        }
    }

    pub(crate) const fn replies(self, replies: &'static [Reply]) -> Self {
        Self { replies, ..self }
    }

    /// All of them.
    pub(crate) fn all_replies(&self) -> impl Iterator<Item = &Reply> {
        let declared = self.declared.iter().flatten();
        self.replies.iter().chain(declared)
    }

    pub(crate) const fn problems(self, problems: &'static [ProblemCode]) -> Self {
        Self { problems, ..self }
    }

    /// One address of each task type, with the body and the response of the type.
    pub(crate) const fn per_type(self, per_type: PerType) -> Self {
        Self {
            per_type: Some(per_type),
            ..self
        }
    }
}

impl From<Body> for Json {
    fn from(body: Body) -> Self {
        Self {
            schema: body.schema,
            example: body.example,
            // The compiler has checked it.
            round_trip: None,
        }
    }
}

impl From<&Declared> for Operation {
    fn from(declared: &Declared) -> Self {
        let about = declared.about;
        let output = declared.output.map(|body| Content::Json(body.into()));
        let content = output.unwrap_or(Content::Nothing);
        let headers: &[Header] = match (about.no_store, (declared.is_located)()) {
            (false, false) => &[],
            (true, false) => &[CACHE_CONTROL],
            (false, true) => &[LOCATION],
            (true, true) => &[CACHE_CONTROL, LOCATION],
        };
        let reply = Reply::of(about.status, about.answers, content)
            .headers(headers)
            .links(about.links);
        let other = declared.other.map(|it| {
            let reply = Reply::of(it.status, it.answers, Content::Json(it.body.into()));
            let links = if it.is_of_its_own { &[] } else { about.links };
            reply.headers(headers).links(links)
        });
        Self {
            path: declared.params,
            declared_query: declared.query,
            body: declared.body().map(Json::from),
            declared: [Some(reply), other],
            problems: about.problems,
            command: about.command,
            ..Self::new(about.id, about.chapter, about.summary)
        }
    }
}
