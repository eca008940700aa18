//! Canonical bytes: compact JSON with keys in byte order, every field present, and the name of the schema.
//!
//! The bytes are fixed here and stored as they are; a digest is never taken over what a database returns.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{Invalid, limits::DEFINITION_BYTES_MAX, payload::canonical_json};

/// The canonical text of `spec` under `schema`.
pub(super) fn to_text<T: Serialize>(schema: &'static str, spec: &T) -> String {
    let mut value = serde_json::to_value(spec).expect("specs hold strings, numbers and maps with string keys");
    value["schema"] = Value::from(schema);
    value.to_string()
}

/// Reads canonical text back.
pub(super) fn from_text<T: DeserializeOwned>(schema: &'static str, text: &str) -> Result<T, Invalid> {
    let refuse = |reason: String| Invalid::new("definition", reason);
    let mut value = canonical_json(text).map_err(refuse)?;
    match value.as_object_mut().and_then(|map| map.remove("schema")) {
        Some(Value::String(found)) if found == schema => {}
        other => return Err(refuse(format!("is of schema {other:?}, this program reads {schema}"))),
    }
    serde_json::from_value(value).map_err(|e| refuse(e.to_string()))
}

/// Checks what every store must be able to keep.
pub(super) fn check(schema: &'static str, field: &str, text: &str) -> Result<(), Invalid> {
    if text.len() > DEFINITION_BYTES_MAX {
        return Err(Invalid::new(field, format!("is {} bytes in compact form, at most {DEFINITION_BYTES_MAX} are allowed", text.len())));
    }
    canonical_json(text)
        .map_err(|reason| Invalid::new(field, reason).hint(format!("a definition of schema {schema} is plain JSON text")))?;
    Ok(())
}
