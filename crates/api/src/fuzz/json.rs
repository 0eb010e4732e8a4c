//! JSON bodies: what is accepted obeys the limits and is what serde_json reads, and what a task type or a
//! route takes of it is taken again in the form in which it is stored.

use crate::request_json;
use counterstep_contracts::access::NewKeyRequest;
use counterstep_contracts::http::BatchRequest;
use counterstep_contracts::operator::{RecoveriesRequest, ResolveRequest, RetryRequest};
use counterstep_contracts::{ProblemCode, ScheduleSpec};
use counterstep_operations::Refused;
use counterstep_steps::schedule;
use counterstep_steps::task::{ReadRequestFn, RequestError, read_request};
use counterstep_steps::times::DbTime;
use counterstep_steps::{Registry, TaskType};
use serde_json::Value;
use std::sync::LazyLock;

static TASKS: LazyLock<Registry> = LazyLock::new(counterstep_tasks::tasks);

/// Arrays and objects inside each other.
const DEEPEST: usize = 64;

/// As a batch is read: the array, and the object in which a request stands.
const AROUND: u32 = 2;

/// Numbers that JSON Schema takes for whole ones, as bodies are read.
fn with_whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            let text = format!("{float:.0}");
            let is_whole = float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0;
            match text.parse::<i64>() {
                Ok(whole) if is_whole && text != "-0" => whole.into(),
                _ => Value::Number(number),
            }
        }
        Value::Array(items) => items.into_iter().map(with_whole_numbers).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, with_whole_numbers(value)))
            .collect(),
        value => value,
    }
}

pub(super) fn body(bytes: &[u8]) {
    let read = request_json::parse(bytes);
    let plain: Option<Value> = serde_json::from_slice(bytes).ok();
    match &read {
        Ok(value) => {
            assert!(depth(value) <= DEEPEST, "deeper than allowed");
            assert!(!has_nul(value), "a NUL is accepted");
            assert_eq!(
                Some(value),
                plain.clone().map(with_whole_numbers).as_ref(),
                "serde_json reads something else"
            );
            fits(value);
        }
        Err(refused) => {
            let code = code_of(refused);
            let is_expected = [ProblemCode::MalformedBody, ProblemCode::InvalidRequest];
            assert!(is_expected.contains(&code), "{code:?}");
        }
    }
    // Repeated keys are gone once it is written again: then only depth and NUL are left to refuse it for.
    if let Some(value) = &plain {
        let written = serde_json::to_vec(value).expect("a value can be written");
        let again = request_json::parse(&written);
        let is_good = depth(value) <= DEEPEST && !has_nul(value);
        assert_eq!(again.is_ok(), is_good, "{again:?}");
    }
    if let Ok(items) = request_json::parse_items(bytes, AROUND) {
        for item in items {
            assert!(depth(&item) < DEEPEST + AROUND as usize);
            let Ok(()) = request_json::without_nul(&item) else {
                continue;
            };
            assert!(!has_nul(&item), "a NUL is accepted");
            if let Ok(item) = serde_json::from_value::<BatchRequest>(item) {
                assert!(depth(&item.request) <= DEEPEST);
            }
        }
    }
}

fn code_of(refused: &Refused) -> ProblemCode {
    refused.clone().into_parts().0.code
}

/// Each reader of a value.
fn fits(value: &Value) {
    let of_tasks = TASKS
        .iter()
        .map(|task_type: &TaskType| task_type.read_request);
    let of_routes: [ReadRequestFn; 4] = [
        read_request::<ResolveRequest>,
        read_request::<RetryRequest>,
        read_request::<RecoveriesRequest>,
        read_request::<NewKeyRequest>,
    ];
    for read in of_tasks.chain(of_routes) {
        if let Ok(stored) = read(value.clone()) {
            let again: Result<Value, RequestError> = read(stored.clone());
            assert_eq!(
                again.ok(),
                Some(stored),
                "what is stored is read as something else"
            );
        }
    }
    let spec = read_request::<ScheduleSpec>(value.clone());
    if let Ok(mut spec) =
        spec.map(|it| serde_json::from_value::<ScheduleSpec>(it).expect("it was read"))
    {
        times(&mut spec);
    }
}

/// The times of a schedule.
fn times(spec: &mut ScheduleSpec) {
    let Ok(when) = schedule::read(spec) else {
        return;
    };
    let mut again = spec.clone();
    assert!(schedule::read(&mut again).is_ok(), "{spec:?}");
    assert_eq!(&again, spec, "what is stored is read as something else");
    // 2026-11-20, and the last second of the calendar of four digits.
    for from in [
        DbTime(1_795_132_800_000_000),
        DbTime(253_402_300_799_000_000),
    ] {
        assert!(when.after(from).is_none_or(|due| due > from), "{spec:?}");
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(list) => list.iter().any(has_nul),
        Value::Object(map) => map
            .iter()
            .any(|(key, inner)| key.contains('\0') || has_nul(inner)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
