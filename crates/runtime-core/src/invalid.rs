//! Refused input: which field, what was found, what is allowed.

use std::fmt;

/// A value was refused before anything was stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Invalid {
    /// The field, as its owner spells it: `timezone`, `retry.max_attempts`.
    pub field: String,
    /// What is wrong, with the value that was found and what is allowed.
    pub reason: String,
    /// What to write instead, where something can be said.
    pub hint: Option<String>,
}

impl Invalid {
    /// A refusal of `field` for `reason`.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into(), hint: None }
    }

    /// Adds what to do instead.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}
