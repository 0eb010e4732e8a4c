//! The form in which a result lies in the spool: JSON, and encrypted where payloads are. Only a process of the same
//! installation reads it, perhaps of another version of the program.

use crate::error::{ErrorClass, StepError};
use crate::payloads::is_encrypted;
use crate::ports::{LogRow, PayloadCodec, PayloadError, SpoolKey};
use crate::sql::{Sql, SqlValue};
use crate::turn::Ended;
use counterstep_contracts::Tenant;
use counterstep_contracts::cause::Origin;
use counterstep_steps::times::DbTime;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use uuid::Uuid;

/// A reader refuses what it does not know: `deny_unknown_fields` keeps it from leaving something out.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    result: ResultBody,
    unsent: bool,
    stored: bool,
    sql: Vec<SqlBody>,
    log: Option<LogRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ResultBody {
    Output(Value),
    Error(ErrorBody),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorBody {
    class: ClassBody,
    message: String,
    backtrace: Option<String>,
    /// Missing in what an older program has kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Box<Origin>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ClassBody {
    Transient,
    Permanent,
    RateLimited { ms: u64 },
    TimedOut,
    Panicked,
    Cancelled,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SqlBody {
    text: String,
    values: Vec<SqlValueBody>,
    rows: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SqlValueBody {
    Bool(Option<bool>),
    Int(Option<i64>),
    /// Its bits: JSON has no numbers that are none.
    Float(Option<u64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    Uuid(Option<Uuid>),
    /// Microseconds since 1970.
    Time(Option<i64>),
    OutOfRange(String),
}

/// The place that an encrypted body is bound to.
fn place_of(key: &SpoolKey) -> String {
    let SpoolKey {
        task,
        step,
        direction,
        attempt,
    } = key;
    format!("spool {task} {step} {direction} {attempt}")
}

/// The body of an entry.
pub(super) fn encode(
    codec: Option<&dyn PayloadCodec>,
    key: &SpoolKey,
    tenant: &Tenant,
    ended: &Ended,
) -> Result<String, String> {
    let body = Body {
        result: match &ended.result {
            Ok(output) => ResultBody::Output(output.clone()),
            Err(error) => ResultBody::Error(ErrorBody::from(error)),
        },
        unsent: ended.unsent,
        stored: ended.stored,
        sql: ended.sql.iter().map(SqlBody::from).collect(),
        log: ended.log.clone(),
    };
    let text = serde_json::to_string(&body).map_err(|error| error.to_string())?;
    match codec {
        Some(codec) => codec
            .encrypt(tenant, &place_of(key), &text)
            .map_err(|error| error.to_string()),
        None => Ok(text),
    }
}

/// A body that is not read.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// By this process: a key may be missing.
    Here(String),
    /// By none.
    Anywhere(String),
}

/// The result in a body, of the step at this position of the declaration.
pub(super) fn decode(
    codec: Option<&dyn PayloadCodec>,
    key: &SpoolKey,
    at: usize,
    body: &str,
) -> Result<Ended, Unreadable> {
    let decrypted;
    let text = match (is_encrypted(body), codec) {
        (false, _) => body,
        (true, Some(codec)) => {
            let plain = codec.decrypt(&place_of(key), body);
            decrypted = plain.map_err(|error| match error {
                PayloadError::Missing(why) => Unreadable::Here(why),
                PayloadError::Erased(why) | PayloadError::Damaged(why) => Unreadable::Anywhere(why),
            })?;
            &decrypted
        }
        (true, None) => {
            let why = "it is encrypted, and this process has no keys";
            return Err(Unreadable::Here(why.to_owned()));
        }
    };
    let body: Body =
        serde_json::from_str(text).map_err(|error| Unreadable::Anywhere(error.to_string()))?;
    Ok(Ended {
        at,
        result: match body.result {
            ResultBody::Output(output) => Ok(output),
            ResultBody::Error(error) => Err(error.into()),
        },
        in_doubt: None,
        unsent: body.unsent,
        stored: body.stored,
        sql: body.sql.into_iter().map(Sql::from).collect(),
        log: body.log,
    })
}

impl From<&StepError> for ErrorBody {
    fn from(error: &StepError) -> Self {
        Self {
            class: match error.class {
                ErrorClass::Transient => ClassBody::Transient,
                ErrorClass::Permanent => ClassBody::Permanent,
                ErrorClass::RateLimited(after) => ClassBody::RateLimited {
                    ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
                },
                ErrorClass::TimedOut => ClassBody::TimedOut,
                ErrorClass::Panicked => ClassBody::Panicked,
                ErrorClass::Cancelled => ClassBody::Cancelled,
            },
            message: error.message.clone(),
            backtrace: error.backtrace.clone(),
            origin: error.origin.clone(),
        }
    }
}

impl From<ErrorBody> for StepError {
    fn from(error: ErrorBody) -> Self {
        Self {
            class: match error.class {
                ClassBody::Transient => ErrorClass::Transient,
                ClassBody::Permanent => ErrorClass::Permanent,
                ClassBody::RateLimited { ms } => ErrorClass::RateLimited(Duration::from_millis(ms)),
                ClassBody::TimedOut => ErrorClass::TimedOut,
                ClassBody::Panicked => ErrorClass::Panicked,
                ClassBody::Cancelled => ErrorClass::Cancelled,
            },
            message: error.message,
            backtrace: error.backtrace,
            origin: error.origin,
        }
    }
}

impl From<&Sql> for SqlBody {
    fn from(sql: &Sql) -> Self {
        let value = |value: &SqlValue| match value.clone() {
            SqlValue::Bool(value) => SqlValueBody::Bool(value),
            SqlValue::Int(value) => SqlValueBody::Int(value),
            SqlValue::Float(value) => SqlValueBody::Float(value.map(f64::to_bits)),
            SqlValue::Text(value) => SqlValueBody::Text(value),
            SqlValue::Bytes(value) => SqlValueBody::Bytes(value),
            SqlValue::Uuid(value) => SqlValueBody::Uuid(value),
            SqlValue::Time(value) => SqlValueBody::Time(value.map(|DbTime(micros)| micros)),
            SqlValue::OutOfRange(value) => SqlValueBody::OutOfRange(value),
        };
        Self {
            text: sql.text().to_owned(),
            values: sql.values().iter().map(value).collect(),
            rows: sql.must_change(),
        }
    }
}

impl From<SqlBody> for Sql {
    fn from(sql: SqlBody) -> Self {
        let value = |value| match value {
            SqlValueBody::Bool(value) => SqlValue::Bool(value),
            SqlValueBody::Int(value) => SqlValue::Int(value),
            SqlValueBody::Float(value) => SqlValue::Float(value.map(f64::from_bits)),
            SqlValueBody::Text(value) => SqlValue::Text(value),
            SqlValueBody::Bytes(value) => SqlValue::Bytes(value),
            SqlValueBody::Uuid(value) => SqlValue::Uuid(value),
            SqlValueBody::Time(value) => SqlValue::Time(value.map(DbTime)),
            SqlValueBody::OutOfRange(value) => SqlValue::OutOfRange(value),
        };
        Self::kept(
            sql.text,
            sql.values.into_iter().map(value).collect(),
            sql.rows,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::{Attempt, Direction, Epoch, StepNo, TaskId};
    use serde_json::json;

    fn key() -> SpoolKey {
        SpoolKey {
            task: TaskId(Uuid::from_u128(7)),
            step: StepNo(2),
            direction: Direction::Forward,
            attempt: Attempt(3),
        }
    }

    fn there_and_back(ended: &Ended) -> Ended {
        let body = encode(None, &key(), &Tenant("t".to_owned()), ended);
        decode(None, &key(), ended.at, &body.expect("a body")).expect("a result")
    }

    #[test]
    fn a_result_comes_back_with_all_that_its_commit_writes() {
        let sql = Sql::new("UPDATE a SET b = $1")
            .bind(None::<i32>)
            .bind(f64::NAN)
            .bind(vec![0_u8, 255])
            .bind("ü")
            .bind(true)
            .bind(Uuid::from_u128(7))
            .bind(DbTime(-1))
            .bind(u64::MAX)
            .rows(1);
        let ended = Ended {
            at: 1,
            result: Ok(json!({"n": 1, "text": "encrypted:1:not"})),
            in_doubt: None,
            unsent: false,
            stored: true,
            sql: vec![sql],
            log: Some(LogRow {
                epoch: Epoch(3),
                no: 2,
                lines: 1,
                bytes: 2,
                dropped: 0,
                body: "[]".to_owned(),
            }),
        };
        let back = there_and_back(&ended);
        // One number in it is none, and equal to nothing.
        assert_eq!(format!("{back:?}"), format!("{ended:?}"));
    }

    #[test]
    fn errors_of_every_class_come_back() {
        for class in [
            ErrorClass::Transient,
            ErrorClass::Permanent,
            ErrorClass::RateLimited(Duration::from_millis(1_500)),
            ErrorClass::TimedOut,
            ErrorClass::Panicked,
            ErrorClass::Cancelled,
        ] {
            let origin = Origin::call("bank", "POST").answered(402, br#"{"code":"declined"}"#);
            let error = StepError::new(class, "why").about(origin);
            let ended = Ended {
                at: 0,
                result: Err(error.clone()),
                in_doubt: None,
                unsent: true,
                stored: false,
                sql: Vec::new(),
                log: None,
            };
            let back = there_and_back(&ended);
            assert_eq!((back.result, back.unsent), (Err(error), true));
        }
    }

    #[test]
    fn an_error_that_an_older_program_has_kept_has_no_origin() {
        let error = json!({"class": "permanent", "message": "why", "backtrace": null});
        let body = json!({"result": {"error": error}, "unsent": false, "stored": false, "sql": [], "log": null});
        let back = decode(None, &key(), 0, &body.to_string()).expect("a result");
        let error = back.result.expect_err("an error");
        assert_eq!(
            (error.class, &*error.message),
            (ErrorClass::Permanent, "why")
        );
        assert_eq!(error.origin, None);
    }

    #[test]
    fn what_a_newer_program_has_kept_is_not_read_in_part() {
        let body = json!({"result": {"output": 1}, "unsent": false, "stored": false, "sql": [], "logs": []});
        let read = |body: &str| decode(None, &key(), 0, body);
        assert!(matches!(
            read(&body.to_string()),
            Err(Unreadable::Anywhere(_))
        ));
        assert!(matches!(
            read("encrypted:1:t:k:x"),
            Err(Unreadable::Here(_))
        ));
    }
}
