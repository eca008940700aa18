//! When a task is executed.

use serde::{Deserialize, Serialize};

use super::{canonical, task::check_name};
use crate::{
    Invalid,
    cron::{CronExpr, DIALECT, Schedule, TimeZone},
    digest::Digest,
    ids::{TaskId, TriggerId},
};

const SCHEMA: &str = "ql3/trigger@v1";

macro_rules! policy {
    ($(#[$doc:meta])* $name:ident, $field:literal, { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// As it is stored and shown.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Reads the stored form.
            pub fn parse(text: &str) -> Result<Self, Invalid> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(Invalid::new($field, format!("`{}` is not known", text.escape_debug())).hint([$($text),+].join(", "))),
                }
            }
        }
    };
}

policy!(
    /// What becomes of an occurrence that is noticed later than the grace allows.
    Misfire, "misfire", {
        /// It is recorded, not run.
        #[default]
        Skip = "skip",
        /// The latest one is run, all others are recorded.
        FireOnce = "fire_once",
    }
);

policy!(
    /// What becomes of an occurrence while a Run of the same trigger is unfinished.
    Overlap, "overlap", {
        /// It is admitted too.
        #[default]
        Allow = "allow",
        /// It is recorded, not run.
        Skip = "skip",
    }
);

/// A trigger, as its author wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriggerSpec {
    /// Unique in the project.
    pub id: TriggerId,
    /// What it executes.
    pub task_id: TaskId,
    /// For people; at most 255 bytes.
    pub name: Option<String>,
    /// A disabled trigger rests.
    pub enabled: bool,
    /// The expression as it was written; see [`CronExpr`].
    pub cron: String,
    /// The dialect that `cron` is read in; pins grammar, field count, day rule and DST rule.
    pub dialect: String,
    /// 5 or 6.
    pub fields: u8,
    /// IANA name; see [`TimeZone`].
    pub timezone: String,
    /// Noticed late.
    pub misfire: Misfire,
    /// Noticed while busy.
    pub overlap: Overlap,
}

impl TriggerSpec {
    /// A trigger with default policies.
    pub fn new(id: TriggerId, task_id: TaskId, cron: &CronExpr, timezone: &TimeZone) -> Self {
        Self {
            id,
            task_id,
            name: None,
            enabled: true,
            cron: cron.as_str().to_owned(),
            dialect: DIALECT.to_owned(),
            fields: cron.fields(),
            timezone: timezone.as_str().to_owned(),
            misfire: Misfire::default(),
            overlap: Overlap::default(),
        }
    }

    /// Checks every bound, and that the expression has an occurrence.
    pub fn check(&self) -> Result<(), Invalid> {
        check_name("name", self.name.as_deref())?;
        self.schedule()?;
        canonical::check(SCHEMA, "trigger", &self.canonical())
    }

    /// The evaluator of this trigger: the only one, whoever asks.
    pub fn schedule(&self) -> Result<Schedule, Invalid> {
        if self.dialect != DIALECT {
            return Err(Invalid::new("dialect", format!("`{}` is not known, this program reads {DIALECT}", self.dialect.escape_debug())));
        }
        let cron = CronExpr::parse(&self.cron)?;
        if cron.fields() != self.fields {
            return Err(Invalid::new("cron", format!("has {} fields, the trigger was defined with {}", cron.fields(), self.fields)));
        }
        Schedule::new(cron, TimeZone::parse(&self.timezone)?)
    }

    /// The canonical text, as it is stored.
    pub fn canonical(&self) -> String {
        canonical::to_text(SCHEMA, self)
    }

    /// Reads stored text.
    pub fn from_canonical(text: &str) -> Result<Self, Invalid> {
        canonical::from_text(SCHEMA, text)
    }

    /// SHA-256 of the canonical text.
    pub fn digest(&self) -> Digest {
        Digest::of(self.canonical().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger() -> TriggerSpec {
        TriggerSpec::new(
            TriggerId::new("nightly").unwrap(),
            TaskId::new("backup").unwrap(),
            &CronExpr::parse("0 3 * * *").unwrap(),
            &TimeZone::parse("Europe/Berlin").unwrap(),
        )
    }

    /// Golden: these bytes and this digest never change for `ql3/trigger@v1`.
    #[test]
    fn golden_digest() {
        let trigger = trigger();
        assert_eq!(
            trigger.canonical(),
            concat!(
                r#"{"cron":"0 3 * * *","dialect":"ql3/cron@v1","enabled":true,"fields":5,"id":"nightly","misfire":"skip","#,
                r#""name":null,"overlap":"allow","schema":"ql3/trigger@v1","task_id":"backup","timezone":"Europe/Berlin"}"#
            )
        );
        assert_eq!(trigger.digest().as_str(), "da9914227834a8bd4fa08a5ea3881f4c0ec9268d36d16c11b27738fd39a8b676");
        assert_eq!(TriggerSpec::from_canonical(&trigger.canonical()).unwrap(), trigger);
    }

    /// What an expression means is stored with it: a program that reads another dialect refuses it instead of guessing.
    #[test]
    fn meaning_is_bound_to_the_definition() {
        let other = TriggerSpec { dialect: "ql3/cron@v2".into(), ..trigger() };
        assert_eq!(other.check().unwrap_err().field, "dialect");
        let other = TriggerSpec { fields: 6, ..trigger() };
        assert_eq!(other.check().unwrap_err().field, "cron");
        assert_ne!(TriggerSpec { misfire: Misfire::FireOnce, ..trigger() }.digest(), trigger().digest());
    }
}
