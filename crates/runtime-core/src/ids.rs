//! Identities: what the product allocates (`UUIDv7`) and what people write (bounded text).

use std::{borrow::Borrow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Invalid, TimestampMs, limits::ID_BYTES_MAX};

/// Makes identities. The time part comes from the authority's observation, the rest from a random source that the composition owns.
pub trait IdSource: Send + Sync {
    /// A fresh `UUIDv7` whose time part is `at`.
    fn uuid_v7(&self, at: TimestampMs) -> Uuid;
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Takes an identity that was stored or allocated before.
            pub fn from_uuid(id: Uuid) -> Self {
                Self(id)
            }

            /// Allocates a new one.
            pub fn generate(ids: &dyn IdSource, at: TimestampMs) -> Self {
                Self(ids.uuid_v7(at))
            }

            /// The plain UUID.
            pub fn as_uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                // Only the hyphenated form: one identity, one spelling.
                match Uuid::parse_str(text) {
                    Ok(id) if text.len() == 36 => Ok(Self(id)),
                    _ => Err(Invalid::new("id", format!("`{text}` is not a UUID")).hint("copy it from `ql3 runs`")),
                }
            }
        }
    };
}

uuid_id!(
    /// A Run: what a user asked for.
    RunId
);
uuid_id!(
    /// One try at executing a Run.
    AttemptId
);
uuid_id!(
    /// An append-only fact about a Run.
    EventId
);
uuid_id!(
    /// One page of schedule claims; a new one for every claim.
    ClaimToken
);
uuid_id!(
    /// One start of a worker process.
    SessionId
);
uuid_id!(
    /// Makes a dispatch claim replayable after a lost reply.
    RequestId
);

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        ///
        #[doc = concat!("`", $field, "`: `[A-Za-z0-9][A-Za-z0-9._:-]*`, at most 128 bytes.")]
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Checks the alphabet and the length.
            pub fn new(text: impl Into<String>) -> Result<Self, Invalid> {
                let text = text.into();
                check_id($field, &text)?;
                Ok(Self(text))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(from)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

text_id!(
    /// A namespace of tasks, triggers and idempotency keys.
    ProjectId, "project"
);
text_id!(
    /// What is executed.
    TaskId, "task"
);
text_id!(
    /// When it is executed; unique in its project.
    TriggerId, "trigger"
);
text_id!(
    /// A scheduler process, unique per process start: never derived from host, pod or pid alone.
    OwnerId, "owner_id"
);
text_id!(
    /// A worker, stable over its restarts; each start is a [`SessionId`] with a higher generation.
    WorkerId, "worker_id"
);

fn check_id(field: &str, text: &str) -> Result<(), Invalid> {
    let allowed = "a letter or digit, then letters, digits or `.` `_` `:` `-`, at most 128 bytes";
    if text.is_empty() {
        return Err(Invalid::new(field, "is empty").hint(allowed));
    }
    if text.len() > ID_BYTES_MAX {
        return Err(Invalid::new(field, format!("is {} bytes long, at most {ID_BYTES_MAX} are allowed", text.len())));
    }
    let bad = text
        .char_indices()
        .find(|&(at, c)| !(c.is_ascii_alphanumeric() || (at > 0 && matches!(c, '.' | '_' | ':' | '-'))))
        .map(|(at, c)| (text[..at].chars().count() + 1, c));
    match bad {
        Some((position, c)) => {
            Err(Invalid::new(field, format!("`{}` has {c:?} at character {position}", text.escape_debug())).hint(allowed))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_one_alphabet() {
        for good in ["a", "0", "a.b_c:d-e", &"x".repeat(128)] {
            assert_eq!(TaskId::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "-a", ".a", "a b", "a/b", "ä", "a\0", &"x".repeat(129)] {
            let refused = OwnerId::new(bad).unwrap_err();
            assert_eq!(refused.field, "owner_id", "{bad:?}");
        }
    }

    #[test]
    fn one_identity_has_one_spelling() {
        let text = "0199c5f4-7b1e-7c3d-8f00-0123456789ab";
        assert_eq!(text.parse::<RunId>().unwrap().to_string(), text);
        assert!("0199c5f47b1e7c3d8f000123456789ab".parse::<RunId>().is_err());
        assert!("{0199c5f4-7b1e-7c3d-8f00-0123456789ab}".parse::<RunId>().is_err());
    }
}
