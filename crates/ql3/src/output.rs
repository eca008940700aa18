//! Printing: to a terminal with colour, to a pipe without, and to a closed pipe without a panic.

use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
    sync::{Mutex, PoisonError},
};

use serde_json::Value;

/// Colours, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    pub fn plain() -> Self {
        Self { on: false }
    }

    pub fn stdout() -> Self {
        Self { on: wanted(io::stdout().is_terminal()) }
    }

    pub fn stderr() -> Self {
        Self { on: wanted(io::stderr().is_terminal()) }
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    pub fn red(self, text: impl Display) -> String {
        self.wrap("31", text)
    }

    pub fn green(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    pub fn yellow(self, text: impl Display) -> String {
        self.wrap("33", text)
    }

    pub fn dim(self, text: impl Display) -> String {
        self.wrap("2", text)
    }

    pub fn bold(self, text: impl Display) -> String {
        self.wrap("1", text)
    }
}

/// See <https://no-color.org>: set and not empty means no colours.
fn wanted(terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Standard output of a command.
#[derive(Debug)]
pub struct Out {
    pub json: bool,
    pub paint: Paint,
    /// Why nothing more can be written.
    broken: Mutex<Option<io::Error>>,
}

impl Out {
    pub fn new(json: bool) -> Self {
        Self { json, paint: if json { Paint::plain() } else { Paint::stdout() }, broken: Mutex::new(None) }
    }

    /// Whether nothing more can be written. Whoever prints for long asks, and ends.
    pub fn closed(&self) -> bool {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// What went wrong with the output. A reader that has seen enough and went away is nothing wrong; a full disk is.
    pub fn error(&self) -> Option<String> {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.as_ref().filter(|error| error.kind() != io::ErrorKind::BrokenPipe).map(ToString::to_string)
    }

    /// Writes text as it is.
    pub fn text(&self, text: impl AsRef<[u8]>) {
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(text.as_ref()).and_then(|()| stdout.flush()) {
            self.broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// Writes a line.
    pub fn line(&self, line: impl Display) {
        self.text(format!("{line}\n"));
    }

    /// Writes a value: on several lines for a command's one answer.
    pub fn json(&self, value: &Value) {
        self.line(format_args!("{value:#}"));
    }
}

/// Writes a line to standard error.
pub fn complain(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Control characters are shown, not obeyed: what a job prints or is called must not steer the terminal of whoever looks at it.
pub fn harmless(text: &str, kept: &[char]) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && !kept.contains(&c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_does_not_steer_the_terminal() {
        assert_eq!(harmless("a\tb\n\x1b[31mred\x07\r", &['\n', '\t']), "a\tb\n\\u{1b}[31mred\\u{7}\\r");
        assert_eq!(harmless("a\n", &[]), "a\\n");
    }
}
