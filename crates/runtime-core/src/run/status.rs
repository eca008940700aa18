//! The two state machines. docs/state-machine.md shows them; a test compares the page with this file.

use crate::Invalid;

macro_rules! text_enum {
    ($(#[$doc:meta])* $name:ident, $field:literal, { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// As it is stored and shown.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Reads the stored form.
            pub fn parse(text: &str) -> Result<Self, $crate::Invalid> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::Invalid::new($field, format!("`{}` is not known", text.escape_debug()))
                        .hint([$($text),+].join(", "))),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::Invalid;

            fn from_str(text: &str) -> Result<Self, $crate::Invalid> {
                Self::parse(text)
            }
        }
    };
}
pub(crate) use text_enum;

text_enum!(
    /// Where a Run is.
    RunStatus, "status", {
        /// Accepted, not yet offered to workers. Never rests here: the same transaction queues it.
        Created = "created",
        /// Waiting for a worker.
        Queued = "queued",
        /// A worker holds it and prepares its process.
        Dispatching = "dispatching",
        /// Its command runs.
        Running = "running",
        /// Its command waits for a person.
        WaitingApproval = "waiting_approval",
        /// An attempt ended badly; the next one is due at the retry policy's `next_attempt_at_ms`.
        RetryWait = "retry_wait",
        /// Its attempt was lost; the same transaction decides what follows.
        Lost = "lost",
        /// Final.
        Succeeded = "succeeded",
        /// Final.
        Failed = "failed",
        /// Final.
        Cancelled = "cancelled",
        /// Final.
        TimedOut = "timed_out",
    }
);

text_enum!(
    /// Where an attempt is.
    AttemptStatus, "status", {
        /// Admitted with its Run, waiting for a worker.
        Claimed = "claimed",
        /// A worker holds it; its guard is blocked before `exec`.
        Starting = "starting",
        /// Its identity is durable and its command may run.
        Running = "running",
        /// Final.
        Succeeded = "succeeded",
        /// Final.
        Failed = "failed",
        /// Final.
        Cancelled = "cancelled",
        /// Final.
        TimedOut = "timed_out",
        /// Final: nobody can say how it ended.
        Lost = "lost",
    }
);

impl RunStatus {
    /// Nothing follows a final state.
    pub fn is_final(self) -> bool {
        self.successors().is_empty()
    }

    /// What may follow.
    pub fn successors(self) -> &'static [Self] {
        use RunStatus::{Cancelled, Created, Dispatching, Failed, Lost, Queued, RetryWait, Running, Succeeded, TimedOut, WaitingApproval};
        match self {
            Created => &[Queued, Cancelled],
            Queued => &[Dispatching, Cancelled, TimedOut],
            Dispatching => &[Queued, Running, RetryWait, Failed, Cancelled, TimedOut, Lost],
            Running => &[WaitingApproval, RetryWait, Succeeded, Failed, Cancelled, TimedOut, Lost],
            WaitingApproval => &[Running, Failed, Cancelled, TimedOut, Lost],
            RetryWait => &[Queued, Failed, Cancelled, TimedOut],
            Lost => &[Queued, RetryWait, Failed, Cancelled],
            Succeeded | Failed | Cancelled | TimedOut => &[],
        }
    }
}

impl AttemptStatus {
    /// Nothing follows a final state.
    pub fn is_final(self) -> bool {
        self.successors().is_empty()
    }

    /// What may follow.
    pub fn successors(self) -> &'static [Self] {
        use AttemptStatus::{Cancelled, Claimed, Failed, Lost, Running, Starting, Succeeded, TimedOut};
        match self {
            Claimed => &[Starting, Cancelled, Lost],
            Starting => &[Claimed, Running, Failed, Cancelled, TimedOut, Lost],
            Running => &[Succeeded, Failed, Cancelled, TimedOut, Lost],
            Succeeded | Failed | Cancelled | TimedOut | Lost => &[],
        }
    }
}

/// Reads a stored integer that must fit `u32`.
pub(crate) fn small(field: &str, value: u64, max: u32) -> Result<u32, Invalid> {
    match u32::try_from(value) {
        Ok(value) if (1..=max).contains(&value) => Ok(value),
        _ => Err(Invalid::new(field, format!("is {value}, 1 ..= {max} is allowed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page and the code show the same machines, arrow by arrow.
    #[test]
    fn page_and_code_agree() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/state-machine.md")).unwrap();
        let line = |from: &str, to: Vec<&str>| {
            format!("| `{from}` | {} |", if to.is_empty() { "final".to_owned() } else { format!("`{}`", to.join("` `")) })
        };
        for state in RunStatus::ALL {
            let line = line(state.as_str(), state.successors().iter().map(|s| s.as_str()).collect());
            assert!(page.contains(&line), "docs/state-machine.md lacks the Run line: {line}");
        }
        for state in AttemptStatus::ALL {
            let line = line(state.as_str(), state.successors().iter().map(|s| s.as_str()).collect());
            assert!(page.contains(&line), "docs/state-machine.md lacks the attempt line: {line}");
        }
    }

    #[test]
    fn stored_form_round_trips() {
        for state in RunStatus::ALL {
            assert_eq!(RunStatus::parse(state.as_str()).unwrap(), *state);
        }
        assert!(RunStatus::parse("Queued").unwrap_err().hint.unwrap().contains("queued"));
    }
}
