//! What authors' values become as JSON. JSON has no NaN and no infinity, and `serde_json` writes `null` for them, which is
//! read back as something else, or not at all.

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::{Error, Value};

/// The value as JSON.
///
/// # Errors
/// Where its `Serialize` refuses, or a number in it is not finite.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Value, Error> {
    let json = serde_json::to_value(value)?;
    // Only there such a number can be.
    if holds_null(&json) {
        value.serialize(Finite)?;
    }
    Ok(json)
}

fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.iter().any(holds_null),
        Value::Object(map) => map.values().any(holds_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Writes nothing, and refuses numbers that are not finite.
struct Finite;

type Checked = Result<(), Error>;

macro_rules! fine {
    ($($method:ident($of:ty)),+ $(,)?) => {
        $(fn $method(self, _: $of) -> Checked {
            Ok(())
        })+
    };
}

impl Serializer for Finite {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    fine! {
        serialize_bool(bool), serialize_char(char), serialize_str(&str), serialize_bytes(&[u8]),
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64), serialize_i128(i128),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64), serialize_u128(u128),
        serialize_unit_struct(&'static str),
    }

    fn serialize_f32(self, number: f32) -> Checked {
        self.serialize_f64(number.into())
    }

    fn serialize_f64(self, number: f64) -> Checked {
        if number.is_finite() {
            return Ok(());
        }
        Err(Error::custom(format_args!(
            "the number {number} has no JSON form: say what stands for it, or leave it out"
        )))
    }

    fn serialize_none(self) -> Checked {
        Ok(())
    }

    fn serialize_unit(self) -> Checked {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Checked {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Checked {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Checked {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Checked {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Error> {
        Ok(self)
    }
}

macro_rules! parts {
    ($($of:ident::$method:ident($($name:ty)?)),+ $(,)?) => {
        $(impl $of for Finite {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $name,)? value: &T) -> Checked {
                value.serialize(Self)
            }

            fn end(self) -> Checked {
                Ok(())
            }
        })+
    };
}

parts! {
    SerializeSeq::serialize_element(),
    SerializeTuple::serialize_element(),
    SerializeTupleStruct::serialize_field(),
    SerializeTupleVariant::serialize_field(),
    SerializeStruct::serialize_field(&'static str),
    SerializeStructVariant::serialize_field(&'static str),
}

impl SerializeMap for Finite {
    type Ok = ();
    type Error = Error;

    // A key that is no text was refused by `serde_json`.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Checked {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Checked {
        value.serialize(Self)
    }

    fn end(self) -> Checked {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::to_json;
    use serde::Serialize;
    use serde_json::json;
    use std::collections::BTreeMap;

    #[derive(Serialize)]
    struct Measured {
        degrees: f64,
        wind: Option<f32>,
    }

    #[derive(Serialize)]
    enum Weather {
        Seen { of: Vec<Measured> },
        None,
    }

    fn seen(degrees: f64, wind: Option<f32>) -> Weather {
        let of = vec![Measured { degrees, wind }];
        Weather::Seen { of }
    }

    #[test]
    fn numbers_that_would_be_read_back_as_something_else_are_refused() {
        for refused in [
            to_json(&f64::NAN),
            to_json(&seen(f64::INFINITY, None)),
            to_json(&seen(1.5, Some(f32::NEG_INFINITY))),
            to_json(&BTreeMap::from([("a", (1, Some(f64::NAN)))])),
        ] {
            let error = refused.expect_err("no JSON").to_string();
            assert!(error.contains("has no JSON form"), "{error}");
        }
        let fine = json!({"Seen": {"of": [{"degrees": 1.5, "wind": null}]}});
        assert_eq!(to_json(&seen(1.5, None)).expect("JSON"), fine);
        assert_eq!(to_json(&Weather::None).expect("JSON"), json!("None"));
        assert_eq!(
            to_json(&((), None::<u8>)).expect("JSON"),
            json!([null, null])
        );
    }
}
