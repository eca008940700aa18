//! How people name a Run: its id, the beginning or the end of one, or `latest`.

use runtime_core::{
    StoreError,
    ids::{ProjectId, RunId},
    limits::LIST_PAGE_MAX,
    ports::history::{HistoryStore, RunFilter},
};

use crate::failure::{Exit, Failure};

/// How many characters tables show, and how many at least must be written.
const SHOWN: usize = 8;
const LEAST: usize = 4;
/// So many of the newest Runs are searched for an end.
const SEARCHED: u32 = 10_000;

/// A reference to a Run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunRef {
    Latest,
    Id(RunId),
    /// Hexadecimal digits and hyphens, in lower case.
    Part(String),
}

impl RunRef {
    pub fn parse(text: &str) -> Result<Self, String> {
        let part = text.trim_start_matches('…').to_ascii_lowercase();
        if part == "latest" {
            return Ok(Self::Latest);
        }
        if let Ok(id) = part.parse() {
            return Ok(Self::Id(id));
        }
        if part.len() >= LEAST && part.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
            return Ok(Self::Part(part));
        }
        Err(format!("write an id, at least {LEAST} characters of its beginning or end, or `latest`"))
    }

    /// Finds the Run.
    pub async fn resolve(&self, history: &dyn HistoryStore, project_id: &ProjectId) -> Result<RunId, Failure> {
        let filter = RunFilter { project_id: Some(project_id.clone()), ..RunFilter::default() };
        match self {
            Self::Id(id) => Ok(*id),
            Self::Latest => {
                let page = history.runs(&filter, None, 1).await?;
                page.runs.first().map(|item| item.run.id).ok_or_else(|| {
                    Failure::new(Exit::NotFound, "not_found", format!("project `{project_id}` has no Runs yet"))
                        .hint("`ql3 up` runs what is due; `ql3 run start TASK` starts one now")
                })
            }
            Self::Part(part) => {
                let mut found = by_beginning(history, part).await?;
                for id in by_end(history, &filter, part).await? {
                    if !found.contains(&id) {
                        found.push(id);
                    }
                }
                match found[..] {
                    [id] => Ok(id),
                    [] => Err(Failure::not_found("run", part).hint("`ql3 runs` lists the newest ones")),
                    _ => {
                        let some: Vec<_> = found.iter().take(3).map(ToString::to_string).collect();
                        Err(Failure::new(
                            Exit::Usage,
                            "ambiguous_run",
                            format!("`{part}` could be {} Runs: {}, …", found.len(), some.join(", ")),
                        )
                        .hint("write more of the id; the end differs most"))
                    }
                }
            }
        }
    }
}

/// The end of an id, as tables show it.
pub fn short(id: RunId) -> String {
    let text = id.to_string();
    format!("…{}", &text[text.len() - SHOWN..])
}

/// Ids are ordered, so the ones that begin with `part` stand together. Two are enough to know that it is not unique.
async fn by_beginning(history: &dyn HistoryStore, part: &str) -> Result<Vec<RunId>, StoreError> {
    let pattern = "00000000-0000-0000-0000-000000000000";
    let lowest = pattern.get(part.len()..).and_then(|rest| format!("{part}{rest}").parse::<RunId>().ok());
    let Some(lowest) = lowest else { return Ok(Vec::new()) };
    let before = lowest.as_uuid().as_u128().checked_sub(1).map(|below| RunId::from_uuid(uuid::Uuid::from_u128(below)));
    let ids = history.run_ids(before, 2).await?;
    Ok(ids.into_iter().filter(|id| id.to_string().starts_with(part)).collect())
}

async fn by_end(history: &dyn HistoryStore, filter: &RunFilter, part: &str) -> Result<Vec<RunId>, StoreError> {
    let mut found = Vec::new();
    let mut after = None;
    for _ in 0..SEARCHED / LIST_PAGE_MAX {
        let page = history.runs(filter, after, LIST_PAGE_MAX).await?;
        found.extend(page.runs.iter().map(|item| item.run.id).filter(|id| id.to_string().ends_with(part)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_told_apart() {
        let id = "0199c5f4-7b1e-7c3d-8f00-0123456789ab";
        assert_eq!(RunRef::parse("latest"), Ok(RunRef::Latest));
        assert_eq!(RunRef::parse(id), Ok(RunRef::Id(id.parse().unwrap())));
        assert_eq!(RunRef::parse("…456789AB"), Ok(RunRef::Part("456789ab".into())));
        for bad in ["", "abc", "backup", "0199/"] {
            assert!(RunRef::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(short(id.parse().unwrap()), "…456789ab");
    }
}
