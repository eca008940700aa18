//! `import`: a crontab or a Qinglong export becomes a jobs file.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use runtime_core::{cron::TimeZone, definition::TriggerSpec};
use serde_json::Value;

use super::count;
use crate::{
    cli::{Global, Import, ImportTarget},
    failure::{Exit, Failure},
    import::{Imported, Verdict, crontab, qinglong, render, report},
    jobs,
    output::Out,
};

pub fn run(command: Import, global: &Global, out: &Out) -> Result<ExitCode, Failure> {
    match command {
        Import::Crontab { format, user, target } => crontab(format, user, &target, global, out),
        Import::Qinglong { target } => qinglong(&target, global, out),
    }
}

fn crontab(format: crontab::Format, user: Option<String>, target: &ImportTarget, global: &Global, out: &Out) -> Result<ExitCode, Failure> {
    refuse_to_overwrite(target)?;
    let text = text(&target.file)?;
    if let Some(mismatch) = crontab::mismatch(&text, format) {
        let message = format!("{}:{}: {}", target.file.display(), mismatch.line, mismatch.why);
        return Err(Failure::new(Exit::Invalid, "format_mismatch", message).hint(mismatch.hint));
    }
    let invoking = || ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let options = crontab::Options { format, zone: zone(target)?, user: user.or_else(invoking) };
    let imported = crontab::read(&text, &options);
    if let Some(line) = imported.needs_zone {
        return Err(no_zone(target, line, "a crontab runs in the machine's zone; `timedatectl` or `readlink /etc/localtime` shows it"));
    }
    finish(&imported, "LINE", target, global, out)
}

fn qinglong(target: &ImportTarget, global: &Global, out: &Out) -> Result<ExitCode, Failure> {
    refuse_to_overwrite(target)?;
    let items = qinglong::list(&text(&target.file)?).map_err(|refusal| {
        let message = format!("{}: {}", target.file.display(), refusal.why);
        Failure::new(Exit::Invalid, "invalid_export", message).hint(refusal.hint)
    })?;
    let imported = qinglong::read(&items, zone(target)?.as_ref());
    if let Some(line) = imported.needs_zone {
        return Err(no_zone(
            target,
            line,
            "a panel runs in the zone of its container, often Asia/Shanghai; `date` in the container shows it",
        ));
    }
    finish(&imported, "ITEM", target, global, out)
}

fn zone(target: &ImportTarget) -> Result<Option<TimeZone>, Failure> {
    Ok(target.tz.as_deref().map(TimeZone::parse).transpose()?)
}

fn no_zone(target: &ImportTarget, line: usize, how: &str) -> Failure {
    let message = format!("{}:{line}: no zone: name one with --tz", target.file.display());
    Failure::new(Exit::Usage, "timezone_missing", message).hint(format!("{how}; then add, for example, --tz Europe/Berlin"))
}

/// Reports, writes the file if it is asked for, and answers whether everything could be imported.
fn finish(imported: &Imported, line_word: &'static str, target: &ImportTarget, global: &Global, out: &Out) -> Result<ExitCode, Failure> {
    // A jobs file that defines nothing is none.
    let output = target.output.as_ref().filter(|_| !imported.jobs.is_empty());
    if let Some(path) = output {
        write(path, target.force, imported, line_word, global)?;
    }
    let written = output.map(|path| path.display().to_string());
    if out.json {
        let mut value = report::to_json(imported);
        value["written"] = written.map_or(Value::Null, Value::from);
        out.json(&value);
    } else {
        report::print(imported, line_word, out);
        let tasks = count(imported.jobs.len(), "task");
        out.line(match written {
            Some(path) => format!("{tasks} written to {path}; `ql3 check {path}` shows what runs when"),
            None if imported.jobs.is_empty() => "no task to write".to_owned(),
            None => format!("{tasks}; nothing was written, `-o jobs.toml` writes them"),
        });
    }
    let incomplete = imported.count(Verdict::Refused) > 0 || output.is_none() && target.output.is_some();
    Ok(if incomplete { ExitCode::from(Exit::Findings as u8) } else { ExitCode::SUCCESS })
}

/// The text of a file; `-` is standard input.
fn text(path: &Path) -> Result<String, Failure> {
    let name = path.display();
    let read = if path == Path::new("-") { io::read_to_string(io::stdin()) } else { fs::read_to_string(path) };
    read.map_err(|error| {
        let exit = if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Invalid };
        let failure = Failure::new(exit, "file_unreadable", format!("cannot read {name}: {error}"));
        if error.kind() == io::ErrorKind::InvalidData { failure.hint("save the file as UTF-8") } else { failure }
    })
}

fn refuse_to_overwrite(target: &ImportTarget) -> Result<(), Failure> {
    match &target.output {
        Some(path) if !target.force && path.symlink_metadata().is_ok() => Err(exists(path)),
        _ => Ok(()),
    }
}

fn exists(path: &Path) -> Failure {
    Failure::new(Exit::Conflict, "file_exists", format!("{} exists", path.display())).hint("name another file, or replace it with --force")
}

/// Writes the jobs file whole or not at all, readable by its owner only, since variables can be secrets.
fn write(path: &Path, force: bool, imported: &Imported, line_word: &str, global: &Global) -> Result<(), Failure> {
    let mut head = vec!["Written by `ql3 import`.".to_owned()];
    head.extend(imported.notes.iter().map(|note| format!("- {note}")));
    let refused = imported.rows.iter().filter(|row| row.verdict == Verdict::Refused);
    head.extend(refused.map(|row| format!("- {} {} is not here: {}", line_word.to_lowercase(), row.line, row.why.join("; "))));
    let text = render(&head, global.project.as_ref(), &imported.jobs);
    let unwritable =
        |error: io::Error| Failure::new(Exit::Unavailable, "file_unwritable", format!("cannot write {}: {error}", path.display()));
    let temporary = beside(path);
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let done = written.map_err(unwritable).and_then(|()| reads_back(&temporary, imported)).and_then(|()| {
        if force {
            return fs::rename(&temporary, path).map_err(unwritable);
        }
        // A link, unlike a rename, never replaces a file that has come into being since it was looked for.
        match fs::hard_link(&temporary, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(path)),
            linked => linked.map_err(unwritable),
        }
    });
    // After a rename it is gone.
    let _ = fs::remove_file(&temporary);
    done
}

/// A name beside `path` that nobody else uses.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

/// Whether the file says exactly what was decided. It always should; a jobs file that says something else must not come into being.
fn reads_back(path: &Path, imported: &Imported) -> Result<(), Failure> {
    let file = jobs::read(path)?;
    let triggers: Vec<TriggerSpec> = imported.jobs.iter().flat_map(|job| job.triggers.clone()).collect();
    let same = file.triggers == triggers && file.tasks.iter().eq(imported.jobs.iter().map(|job| &job.task));
    if same {
        Ok(())
    } else {
        Err(Failure::new(Exit::Invalid, "not_reproduced", "the jobs file would not say what was read").hint("please report it"))
    }
}
