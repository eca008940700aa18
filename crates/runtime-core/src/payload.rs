//! Event payloads: a JSON object that every store keeps value for value.
//!
//! What one store would change or refuse is refused here, before any SQL: NUL in a string or key, lone surrogates, duplicate keys,
//! integers outside ±(2^53 - 1), non-finite numbers, `-0`. What is accepted has one compact form: keys in byte order, numbers in
//! their shortest spelling.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::{
    Invalid,
    limits::{PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX, SAFE_INTEGER_MAX},
};

/// A JSON object of at most 16 KiB in compact form, at most 64 levels deep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload(String);

impl Payload {
    /// `{}`.
    pub fn empty() -> Self {
        Self("{}".to_owned())
    }

    /// Reads JSON text.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::compact(&canonical_json(text).map_err(|reason| Invalid::new("payload", reason))?)
    }

    /// Takes a value that a program made. Its keys are unique by construction; all other rules are checked.
    pub fn from_value(value: &Value) -> Result<Self, Invalid> {
        Self::parse(&value.to_string())
    }

    /// The compact text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The object.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).expect("a payload was parsed when it was made")
    }

    fn compact(value: &Value) -> Result<Self, Invalid> {
        if !value.is_object() {
            return Err(Invalid::new("payload", "is not a JSON object"));
        }
        let text = value.to_string();
        if text.len() > PAYLOAD_BYTES_MAX {
            return Err(Invalid::new(
                "payload",
                format!("is {} bytes in compact form, at most {PAYLOAD_BYTES_MAX} are allowed", text.len()),
            ));
        }
        Ok(Self(text))
    }
}

/// Reads any JSON value under the rules of this module, without a size limit.
pub(crate) fn canonical_json(text: &str) -> Result<Value, String> {
    let mut from = serde_json::Deserializer::from_str(text);
    let value = Strict { depth: 1 }.deserialize(&mut from).map_err(|e| e.to_string())?;
    from.end().map_err(|e| e.to_string())?;
    Ok(value)
}

struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: serde::de::Error>(&self) -> Result<Self, E> {
        // A scalar inside the deepest object is one level further in and still allowed.
        if self.depth > PAYLOAD_DEPTH_MAX {
            return Err(E::custom(format!("more than {PAYLOAD_DEPTH_MAX} levels")));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        if value.unsigned_abs() > SAFE_INTEGER_MAX.unsigned_abs() {
            return Err(E::custom(format!("{value} is outside ±{SAFE_INTEGER_MAX}; send it as a string")));
        }
        Ok(Value::from(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(E::custom(format!("{value} is outside ±{SAFE_INTEGER_MAX}; send it as a string"))),
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the range is checked before the cast")]
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        if value == 0.0 && value.is_sign_negative() {
            return Err(E::custom("-0 is not kept by every store; send 0"));
        }
        if value.fract() == 0.0 {
            if value.abs() > SAFE_INTEGER_MAX as f64 {
                return Err(E::custom(format!("{value:e} is an integer outside ±{SAFE_INTEGER_MAX}; send it as a string")));
            }
            return Ok(Value::from(value as i64));
        }
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        no_nul(value)?;
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element_seed(self.deeper()?)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = from.next_key::<String>()? {
            no_nul(&key)?;
            let value = from.next_value_seed(self.deeper()?)?;
            if map.insert(key.clone(), value).is_some() {
                return Err(A::Error::custom(format!("key `{}` stands twice", key.escape_debug())));
            }
        }
        Ok(Value::Object(map))
    }
}

fn no_nul<E: serde::de::Error>(text: &str) -> Result<(), E> {
    if text.contains('\0') { Err(E::custom("a string or key holds the NUL character")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Payload::parse(text).unwrap_err().reason
    }

    #[test]
    fn one_value_has_one_text() {
        let one = Payload::parse(r#"{ "b": [1.0, 1e3, 1.50], "a": {"y": 1, "x": null} }"#).unwrap();
        assert_eq!(one.as_str(), r#"{"a":{"x":null,"y":1},"b":[1,1000,1.5]}"#);
        assert_eq!(Payload::parse(one.as_str()).unwrap(), one);
    }

    #[test]
    fn what_a_store_would_change_is_refused() {
        for text in [
            r#"{"a":"\u0000"}"#,
            r#"{"\u0000":1}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":321588685835436831}"#,
            r#"{"a":9223372036854775807}"#,
            r#"{"a":18446744073709551616}"#,
            r#"{"a":9007199254740992}"#,
            r#"{"a":1e400}"#,
            r#"{"a":1e20}"#,
            r#"{"a":-0}"#,
            r#"{"a":-0.0}"#,
            r#"{"a":NaN}"#,
            "[]",
            "1",
            "",
            "{} {}",
        ] {
            assert!(!refused(text).is_empty(), "{text}");
        }
        assert!(Payload::parse(r#"{"a":9007199254740991,"b":-9007199254740991}"#).is_ok());
    }

    #[test]
    fn size_and_depth_are_bounded() {
        let object = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8));
        assert!(Payload::parse(&object(PAYLOAD_BYTES_MAX)).is_ok());
        assert!(refused(&object(PAYLOAD_BYTES_MAX + 1)).contains("16385"));
        let nested = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        assert!(Payload::parse(&nested(PAYLOAD_DEPTH_MAX)).is_ok());
        assert!(refused(&nested(PAYLOAD_DEPTH_MAX + 1)).contains("64"));
    }

    #[test]
    fn shortest_numbers_survive() {
        for text in [r#"{"a":1e-300}"#, r#"{"a":0.1}"#, r#"{"a":5e-324}"#, r#"{"a":123456.789}"#] {
            assert_eq!(Payload::parse(text).unwrap().as_str(), text);
        }
    }
}
