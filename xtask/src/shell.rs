//! Child processes: both streams captured in the order they were written, chosen lines shown while it runs.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::repo::{Fallible, root};

/// What a command left behind: whether it succeeded, and stdout and stderr as one text.
pub struct Captured {
    pub ok: bool,
    pub output: String,
}

/// The cargo that started this program, at the workspace root.
pub fn cargo(args: &[&str]) -> Fallible<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root()?);
    Ok(command)
}

/// Runs to the end. Lines for which `shown` answers true are printed as they come, so that a long step is not silent.
pub fn capture(mut command: Command, shown: fn(&str) -> bool) -> Fallible<Captured> {
    let program = command.get_program().to_string_lossy().into_owned();
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?;
    // The command still holds the pipe's writing ends; the reader below would never see the end of the stream.
    drop(command);
    let mut output = String::new();
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        if shown(&text) {
            println!("{}", text.trim_end());
        }
        output.push_str(&text);
        line.clear();
    }
    Ok(Captured { ok: child.wait()?.success(), output })
}

/// Standard output of a command that must succeed; the error carries what it wrote to stderr.
pub fn stdout_of(mut command: Command) -> Fallible<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot start {program}: {error}"))?;
    if !done.status.success() {
        let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
        return Err(format!("{program} {}: {}\n{}", args.join(" "), done.status, String::from_utf8_lossy(&done.stderr).trim_end()).into());
    }
    Ok(String::from_utf8(done.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_are_captured_and_failure_is_seen() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let done = capture(command, |_| false).expect("sh starts");
        assert!(!done.ok);
        assert_eq!(done.output, "out\nerr\n");
    }

    #[test]
    fn a_failing_command_never_passes_as_empty_output() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo why >&2; exit 1"]);
        assert!(stdout_of(command).expect_err("it failed").to_string().contains("why"));
    }
}
