//! `backup`: a consistent copy of the database, while it is used.

use std::path::Path;

use serde_json::json;

use super::with_db;
use crate::{
    cli::Global,
    failure::{Exit, Failure},
    output::Out,
};

pub async fn run(file: &Path, force: bool, global: &Global, out: &Out) -> Result<(), Failure> {
    if !force && file.symlink_metadata().is_ok() {
        let message = format!("{} exists", file.display());
        return Err(Failure::new(Exit::Conflict, "file_exists", message).hint("name another file, or replace it with --force"));
    }
    let bytes = with_db(global, async |db| Ok(db.backup(file, force).await?)).await?;
    if out.json {
        out.json(&json!({ "file": file.display().to_string(), "bytes": bytes }));
    } else {
        out.line(format_args!("copied to {} ({bytes} bytes), and the copy is sound", file.display()));
    }
    Ok(())
}
