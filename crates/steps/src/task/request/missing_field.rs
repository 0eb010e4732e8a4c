//! Reading a value with a missing field told apart from other errors, and with the fields that there are: the type
//! itself names them.
//! Must change neither what is accepted nor the text of an error.

use serde::de::{self, DeserializeSeed, Deserializer, Expected, MapAccess, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;
use std::fmt;

/// Why a value is not read.
#[derive(Debug)]
pub(super) enum ReadError<E> {
    /// The type needs this field, and the value does not have it.
    Missing(&'static str),
    /// All else; also a field that is missing in the value of a field.
    Other(E),
}

impl<E: de::Error> fmt::Display for ReadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(field) => fmt::Display::fmt(&E::missing_field(field), f),
            Self::Other(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl<E: de::Error> std::error::Error for ReadError<E> {}

impl<E: de::Error> de::Error for ReadError<E> {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::Other(E::custom(text))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field)
    }

    // These two have texts of their own in `serde_json`.
    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Other(E::invalid_type(unexpected, expected))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Other(E::invalid_value(unexpected, expected))
    }
}

/// A value whose own fields are told apart where they are missing.
pub(super) struct Whole<'a> {
    pub(super) value: Value,
    /// Those of the type, where it is a struct.
    pub(super) fields: &'a mut Option<&'static [&'static str]>,
}

impl<'de> Deserializer<'de> for Whole<'_> {
    type Error = ReadError<serde_json::Error>;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        if !self.value.is_object() {
            return self
                .value
                .deserialize_any(visitor)
                .map_err(ReadError::Other);
        }
        let mut missing = None;
        let fields = Fields {
            visitor,
            missing: &mut missing,
        };
        self.value
            .deserialize_any(fields)
            .map_err(|error| missing.map_or(ReadError::Other(error), ReadError::Missing))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        if self.value.is_null() {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.fields = Some(fields);
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.value
            .deserialize_enum(name, variants, visitor)
            .map_err(ReadError::Other)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

/// Notes the field that its visitor misses: the error type of the map is not ours.
struct Fields<'a, V> {
    visitor: V,
    missing: &'a mut Option<&'static str>,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Fields<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let Self { visitor, missing } = self;
        visitor
            .visit_map(Entries(map))
            .map_err(|error| match error {
                ReadError::Missing(field) => {
                    *missing = Some(field);
                    de::Error::missing_field(field)
                }
                ReadError::Other(error) => error,
            })
    }
}

struct Entries<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<A> {
    type Error = ReadError<A::Error>;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Self::Error> {
        self.0.next_key_seed(seed).map_err(ReadError::Other)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.next_value_seed(seed).map_err(ReadError::Other)
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Order {
        #[serde(rename = "order-no")]
        no: u32,
        note: Option<String>,
        place: Place,
        #[serde(flatten)]
        more: More,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Place {
        street: String,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct More {
        files: Vec<u8>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Wrapped(Option<Order>);

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "kind")]
    enum Tagged {
        Order(Order),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    enum Named {
        Order(Place),
    }

    /// What is missing; and whether all else is as `serde_json` alone reads it.
    fn missing<T: de::DeserializeOwned + PartialEq + fmt::Debug>(
        value: Value,
    ) -> Option<&'static str> {
        let alone = serde_json::from_value::<T>(value.clone()).map_err(|error| error.to_string());
        let mut fields = None;
        let read = T::deserialize(Whole {
            value,
            fields: &mut fields,
        });
        let found = match &read {
            Err(ReadError::Missing(field)) => Some(*field),
            _ => None,
        };
        assert_eq!(read.map_err(|error| error.to_string()), alone);
        found
    }

    #[test]
    fn a_missing_field_is_named_as_the_type_names_it() {
        let place = json!({"street": "x"});
        assert_eq!(missing::<Order>(json!({})), Some("order-no"));
        assert_eq!(missing::<Order>(json!({"order-no": 1})), Some("place"));
        let order = json!({"order-no": 1, "place": place});
        assert_eq!(missing::<Order>(order.clone()), Some("files"));
        assert_eq!(missing::<Wrapped>(order.clone()), Some("files"));
        let tagged = json!({"kind": "Order", "order-no": 1, "place": place});
        assert_eq!(missing::<Tagged>(tagged), Some("files"));
        assert_eq!(missing::<Tagged>(order), Some("kind"));
        assert_eq!(
            missing::<Order>(json!({"order-no": 1, "place": place, "files": []})),
            None
        );
    }

    #[test]
    fn all_else_is_as_without_it() {
        for order in [
            json!({"order-no": 1, "place": {}}),
            json!({"order-no": null, "place": {}}),
            json!({"order-no": "missing field `place`"}),
            json!({"order-no": 1, "place": {"street": "x"}, "files": [256]}),
            json!([1]),
            json!(null),
            json!("x"),
        ] {
            assert_eq!(missing::<Order>(order.clone()), None);
            assert_eq!(missing::<Wrapped>(order), None);
        }
        for named in [
            json!({"Order": {"street": "x"}}),
            json!({"Order": {}}),
            json!({"Other": {}}),
            json!("Order"),
        ] {
            assert_eq!(missing::<Named>(named), None);
        }
        for map in [json!({"1": 2}), json!({"x": 2}), json!({"1": null})] {
            assert_eq!(missing::<BTreeMap<u32, u32>>(map), None);
        }
        for number in [json!(1), json!(1.5), json!(-1), json!("1"), json!({})] {
            assert_eq!(missing::<u32>(number), None);
        }
        assert_eq!(missing::<()>(json!({})), None);
        assert_eq!(missing::<()>(json!(null)), None);
    }
}
