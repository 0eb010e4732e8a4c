//! The refusals of a route as answers of the document. Must not decide which route refuses what.

use super::schemas::Schemas;
use counterstep_contracts::{Problem, ProblemCode};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The answers with problem documents that operations of a document refer to. Many have the same.
pub(super) struct Problems {
    schema: Value,
    answers: Map<String, Value>,
}

impl Problems {
    pub(super) fn new(schemas: &mut Schemas) -> Self {
        Self {
            schema: schemas.answered(|generator| generator.subschema_for::<Problem>()),
            answers: Map::new(),
        }
    }

    /// One answer for each status, with the codes that it may have.
    pub(super) fn of(&mut self, codes: &[ProblemCode]) -> Map<String, Value> {
        let mut by_status: BTreeMap<u16, Vec<ProblemCode>> = BTreeMap::new();
        for code in ProblemCode::ALL.iter().filter(|code| codes.contains(code)) {
            by_status.entry(code.status()).or_default().push(*code);
        }
        let mut refer = |codes: &[ProblemCode]| {
            let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
            let name = names.join(".");
            let reference = json!({ "$ref": format!("#/components/responses/{name}") });
            let answer = || one(&self.schema, codes);
            self.answers.entry(name).or_insert_with(answer);
            reference
        };
        let answers = by_status.iter();
        let answers = answers.map(|(status, codes)| (status.to_string(), refer(codes)));
        answers.collect()
    }

    /// All of them, by name.
    pub(super) fn into_answers(self) -> Map<String, Value> {
        self.answers
    }
}

fn one(problem: &Value, codes: &[ProblemCode]) -> Value {
    let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let lines = codes
        .iter()
        .map(|code| format!("- `{}`: {}", code.as_str(), code.title()));
    let examples: Map<String, Value> = codes.iter().map(|code| example(*code)).collect();
    let mut headers = json!({ "X-Request-Id": { "$ref": super::document::REQUEST_ID } });
    let may_retry = |code: &ProblemCode| matches!(code.status(), 409 | 429 | 503);
    if codes.iter().any(may_retry) {
        headers["Retry-After"] = json!({ "$ref": super::document::RETRY_AFTER });
    }
    if codes.contains(&ProblemCode::Unauthenticated) {
        let about = "How to authenticate";
        headers["WWW-Authenticate"] =
            json!({ "description": about, "schema": { "type": "string" }});
    }
    json!({
        "description": lines.collect::<Vec<_>>().join("\n"),
        "headers": headers,
        "content": { crate::problem::PROBLEM_JSON: {
            "schema": { "allOf": [problem, { "properties": { "code": { "enum": names } } }] },
            "examples": examples,
        }},
    })
}

fn example(code: ProblemCode) -> (String, Value) {
    let detail = "What was wrong this time, what was expected, and what to do";
    let example = json!({ "value": Problem::new(code, detail) });
    (code.as_str().to_owned(), example)
}
