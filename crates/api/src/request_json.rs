//! JSON from outside: stricter than serde_json, because the same bytes must mean the same to
//! the next reader. Refuses deep nesting, repeated keys and NUL; knows nothing of what the JSON is
//! about.

use crate::problem::malformed;
use counterstep_operations::{Refused, invalid};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Maximum nesting of arrays and objects. Below serde_json's own limit of 128, and enough for any request
/// type.
const MAX_DEPTH: u32 = 64;

/// Reads one JSON value.
///
/// # Errors
/// 400 where it is no JSON, nests too deep or repeats a key; 422 where a text holds a NUL, which no
/// database column takes.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, Refused> {
    let value = read(bytes, MAX_DEPTH)?;
    without_nul(&value).map(|()| value)
}

/// Reads an array whose items nest as deep as a value of their own may, `around` levels further in,
/// and may hold a NUL.
///
/// # Errors
/// 400 as for [`parse`]; 422 where it is no array.
pub(crate) fn parse_items(bytes: &[u8], around: u32) -> Result<Vec<Value>, Refused> {
    match read(bytes, MAX_DEPTH + around)? {
        Value::Array(items) => Ok(items),
        _ => Err(invalid("expected an array of requests")),
    }
}

/// Refuses a value with a NUL in a text, which no database column takes.
pub(crate) fn without_nul(value: &Value) -> Result<(), Refused> {
    match place_of_nul(value) {
        Some(pointer) => Err(no_nul().at(pointer)),
        None => Ok(()),
    }
}

fn read(bytes: &[u8], left: u32) -> Result<Value, Refused> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(malformed("the body is empty: send a JSON object"));
    }
    if let Err(error) = std::str::from_utf8(bytes) {
        return Err(malformed(format!(
            "the JSON is not UTF-8, from byte {} on",
            error.valid_up_to()
        )));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    Strict { left }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| malformed(format!("the JSON cannot be read: {error}")))
}

/// The refusal of a text with a NUL.
pub(crate) fn no_nul() -> Refused {
    invalid("a text must not contain the character U+0000: remove it")
}

/// JSON pointer of the first text or key with a NUL.
fn place_of_nul(value: &Value) -> Option<String> {
    fn walk(value: &Value, at: &str) -> Option<String> {
        match value {
            Value::String(text) => text.contains('\0').then(|| at.to_owned()),
            Value::Array(list) => list
                .iter()
                .enumerate()
                .find_map(|(n, inner)| walk(inner, &format!("{at}/{n}"))),
            Value::Object(map) => map.iter().find_map(|(key, inner)| {
                let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                if key.contains('\0') {
                    Some(at.replace('\0', "\\u0000"))
                } else {
                    walk(inner, &at)
                }
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }
    walk(value, "")
}

/// Reads a value that may nest so deep.
#[derive(Clone, Copy)]
struct Strict {
    left: u32,
}

impl Strict {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        let left = self.left.checked_sub(1).ok_or_else(|| {
            E::custom(format_args!(
                "arrays and objects may nest {MAX_DEPTH} deep, not deeper"
            ))
        })?;
        Ok(Self { left })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    /// A number without a fraction is a whole one, however it is written (`3.0`, `3e2`): so JSON Schema has
    /// it, and some clients have no other numbers. Above 2^53 it may have lost digits, and stays as it is.
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let is_whole = value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0;
        if is_whole && !(value == 0.0 && value.is_sign_negative()) {
            return Ok((value as i64).into());
        }
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            // Readers differ in which of two values they take, so neither is right.
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!(
                    "the key {key:?} stands twice in one object"
                )));
            }
            let value = entries.next_value_seed(inner)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::ProblemCode::{InvalidRequest, MalformedBody};

    #[test]
    fn a_number_without_a_fraction_is_a_whole_one_however_it_is_written() {
        let read = parse(b"[3.0, 3e2, -7.0, 1.5, -0.0, 1e300]").unwrap();
        let text = "[3,300,-7,1.5,-0.0,1e300]";
        let shown = serde_json::to_string(&read).unwrap().replace("e+", "e");
        assert_eq!(shown, text);
    }

    #[test]
    fn what_is_read_is_what_was_sent() {
        let text = r#"{"a":[1,-2,2.5,true,null,"é\n"],"b":{}}"#;
        assert_eq!(
            parse(text.as_bytes()).unwrap(),
            serde_json::from_str::<Value>(text).unwrap()
        );
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(nested(64).as_bytes()).is_ok());
        for depth in [65, 127, 200, 100_000] {
            assert_eq!(
                parse(nested(depth).as_bytes()).unwrap_err().code(),
                MalformedBody,
                "{depth}"
            );
        }
        let objects = format!("{}1{}", r#"{"a":"#.repeat(65), "}".repeat(65));
        assert_eq!(parse(objects.as_bytes()).unwrap_err().code(), MalformedBody);
    }

    #[test]
    fn what_readers_could_disagree_on_is_refused() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1}x"#,
            r#"{"a":"\ud800"}"#,
            "",
            "  ",
            "{",
            "{\"a\":1e999}",
            "\u{feff}{}",
        ] {
            assert_eq!(
                parse(text.as_bytes()).unwrap_err().code(),
                MalformedBody,
                "{text}"
            );
        }
        assert_eq!(
            parse(b"{\"a\":\"\xff\"}").unwrap_err().code(),
            MalformedBody
        );
    }

    #[test]
    fn a_nul_is_refused_wherever_it_stands() {
        for text in [r#"{"a":["\u0000"]}"#, r#"{"x\u0000":1}"#, r#""\u0000""#] {
            assert_eq!(
                parse(text.as_bytes()).unwrap_err().code(),
                InvalidRequest,
                "{text}"
            );
        }
    }
}
