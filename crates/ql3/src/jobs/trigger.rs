//! Keys of `[[task.trigger]]`, here or in `[defaults]`.

use std::ops::Range;

use runtime_core::{
    cron::{CronExpr, Schedule, TimeZone},
    definition::{Misfire, Overlap, TriggerSpec},
    ids::{TaskId, TriggerId},
};

use super::{
    keys::{Places, Reader, Value},
    source::Problem,
};

/// Every key.
pub const TRIGGER_KEYS: [&str; 7] = ["id", "name", "enabled", "cron", "timezone", "misfire", "overlap"];

/// A trigger while its keys are taken; starts as a copy of what `[defaults]` says.
#[derive(Clone, Default)]
pub struct TriggerDraft {
    id: Option<TriggerId>,
    name: Option<String>,
    enabled: Option<bool>,
    cron: Option<CronExpr>,
    timezone: Option<TimeZone>,
    misfire: Misfire,
    overlap: Overlap,
    places: Places,
}

impl TriggerDraft {
    /// Takes one key; false: it is not a key of a trigger.
    pub fn take(&mut self, reader: &mut Reader<'_>, whose: &str, key: &str, value: &Value<'_>) -> bool {
        let field = format!("{whose}: {key}");
        match key {
            "id" => {
                self.id = reader.string(&field, value).and_then(|id| TriggerId::new(id).map_err(|e| reader.refuse(&field, value, e)).ok());
            }
            "name" => self.name = reader.string(&field, value),
            "enabled" => self.enabled = reader.boolean(&field, value),
            "cron" => {
                let text = reader.string(&field, value);
                self.cron = text.and_then(|text| CronExpr::parse(&text).map_err(|e| reader.refuse(&field, value, e)).ok());
            }
            "timezone" => {
                let text = reader.string(&field, value);
                self.timezone = text.and_then(|text| TimeZone::parse(&text).map_err(|e| reader.refuse(&field, value, e)).ok());
            }
            "misfire" => {
                let text = reader.string(&field, value);
                self.misfire =
                    text.and_then(|text| Misfire::parse(&text).map_err(|e| reader.refuse(&field, value, e)).ok()).unwrap_or_default();
            }
            "overlap" => {
                let text = reader.string(&field, value);
                self.overlap =
                    text.and_then(|text| Overlap::parse(&text).map_err(|e| reader.refuse(&field, value, e)).ok()).unwrap_or_default();
            }
            _ => return false,
        }
        self.places.insert(key.to_owned(), value.span());
        true
    }

    /// The trigger and where its id stands, if all that it needs is there; `header` is where its table begins.
    pub fn finish(
        self,
        reader: &mut Reader<'_>,
        whose: &str,
        header: &Range<usize>,
        task_id: Option<&TaskId>,
    ) -> Option<(TriggerSpec, Range<usize>)> {
        let missing = |reader: &mut Reader<'_>, key: &str, hint: &str| {
            reader.push(Problem::new(header.clone(), whose, format!("`{key}` is missing")).hint(hint));
        };
        if !self.places.contains_key("cron") {
            missing(reader, "cron", "write cron = \"0 3 * * *\": minute hour day-of-month month day-of-week");
        }
        if !self.places.contains_key("timezone") {
            missing(
                reader,
                "timezone",
                "write timezone = \"Europe/Berlin\" (or \"UTC\") here or under [defaults]; the machine's own zone is never used",
            );
        }
        let at = |key: &str| self.places.get(key).cloned().unwrap_or_else(|| header.clone());
        let (cron, timezone) = (self.cron?, self.timezone?);
        if let Err(invalid) = Schedule::new(cron.clone(), timezone.clone()) {
            let problem = reader.located(at("cron"), None, &format!("{whose}: cron"), invalid);
            reader.push(problem);
            return None;
        }
        let id = match (self.id, task_id) {
            (Some(id), _) => id,
            // An id that was there and refused has been reported.
            (None, _) if self.places.contains_key("id") => return None,
            (None, task_id) => TriggerId::new(task_id?.as_str()).expect("task and trigger ids have one alphabet"),
        };
        let place = at("id");
        let task_id = task_id?.clone();
        let spec = TriggerSpec {
            name: self.name,
            enabled: self.enabled.unwrap_or(true),
            misfire: self.misfire,
            overlap: self.overlap,
            ..TriggerSpec::new(id, task_id, &cron, &timezone)
        };
        if let Err(invalid) = spec.check() {
            let field = format!("{whose}: {}", invalid.field);
            let problem = reader.located(at(&invalid.field), None, &field, invalid);
            reader.push(problem);
            return None;
        }
        Some((spec, place))
    }
}
