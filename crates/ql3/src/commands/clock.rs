//! `clock accept`: an operator vouches for the machine's clock.

use serde_json::json;

use super::{operator, with_db};
use crate::{cli::Global, failure::Failure, moment, output::Out};

pub async fn accept(reason: Option<String>, global: &Global, out: &Out) -> Result<(), Failure> {
    let by = operator(reason)?;
    let (before, mark) = with_db(global, async |db| Ok((db.control().accept_clock(&by).await?, db.control().clock_mark().await?))).await?;
    if out.json {
        out.json(&json!({ "markBefore": before.map(|at| at.to_string()), "mark": mark.map(|at| at.to_string()) }));
        return Ok(());
    }
    let show = |at: Option<runtime_core::TimestampMs>| at.map_or_else(|| "none".to_owned(), moment::utc);
    out.line(format_args!("accepted: the clock's high-water mark was {}, it is {}", show(before), show(mark)));
    Ok(())
}
