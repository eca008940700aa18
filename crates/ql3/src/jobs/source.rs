//! The text of a jobs file, and problems shown at the place where they are.

use std::{fmt::Write as _, io::Read, ops::Range, path::Path};

use serde_json::json;

use crate::{
    failure::{Exit, Failure},
    output::Paint,
};

/// More is no jobs file: `/dev/zero`, or a wrong name.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Shown where a secret stands.
const HIDDEN: &str = "…";

/// The text of a file, and which parts of it are never shown.
#[derive(Debug)]
pub struct Source {
    name: String,
    text: String,
    secrets: Vec<Range<usize>>,
}

/// Something that the file must not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, in bytes of the text.
    pub span: Range<usize>,
    /// Which key, as a path: ``task `backup`: retry.max_attempts``.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What is allowed, or what to write instead.
    pub hint: Option<String>,
    /// Another place that matters, and why.
    pub other: Option<(Range<usize>, String)>,
}

impl Problem {
    pub fn new(span: Range<usize>, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { span, field: field.into(), message: message.into(), hint: None, other: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl Source {
    /// Reads a file; `-` is standard input.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let read = if name == "-" { read_all(std::io::stdin()) } else { std::fs::File::open(path).and_then(read_all) };
        let bytes = read.map_err(|error| {
            let failure = |exit| Failure::new(exit, "file_unreadable", format!("cannot read {name}: {error}"));
            match error.kind() {
                std::io::ErrorKind::NotFound => failure(Exit::NotFound).hint("`ql3` alone shows how to write a jobs file"),
                _ => failure(Exit::Invalid),
            }
        })?;
        let name = if name == "-" { "<stdin>".to_owned() } else { name };
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(name, text)),
            Err(error) => {
                let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = good.split(|byte| *byte == b'\n').count();
                let column = String::from_utf8_lossy(good).rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
                let message = format!("{name}:{line}:{column}: this byte is not UTF-8");
                Err(Failure::new(Exit::Invalid, "invalid_jobs_file", message).hint("save the file as UTF-8"))
            }
        }
    }

    /// Takes text; a byte order mark is dropped.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        Self { name: name.into(), text, secrets: Vec::new() }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Never shows this part.
    pub fn hide(&mut self, span: Range<usize>) {
        self.secrets.push(span);
    }

    /// 1-based line and column, the column in characters.
    pub fn position(&self, at: usize) -> (usize, usize) {
        let before = &self.text[..self.floor(at)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// The bytes that stand for the `position`-th (1-based) character of the string literal at `span`, up to the end of its item.
    /// `None` if the literal has escapes, so that its characters are not where they seem to be.
    pub fn inside_string(&self, span: &Range<usize>, value: &str, position: usize) -> Option<Range<usize>> {
        let literal = self.text.get(span.clone())?;
        let start = span.start + literal.find(value).filter(|_| !value.is_empty())?;
        let from = value.char_indices().nth(position - 1).map_or(value.len(), |(at, _)| at);
        let rest = &value[from..];
        let length = rest.find([' ', '\t', ',']).unwrap_or(rest.len()).max(rest.chars().next().map_or(1, char::len_utf8));
        Some(start + from..start + from + length)
    }

    /// The part as it stands in the file, on one line and without secrets.
    fn shown(&self, span: &Range<usize>) -> String {
        let text = self.masked(span.clone());
        match text.split_once('\n') {
            Some((first, _)) => format!("{}{HIDDEN}", first.trim_end_matches('\r')),
            None => text,
        }
    }

    /// Text of a range, with every secret in it replaced.
    fn masked(&self, range: Range<usize>) -> String {
        let mut out = String::new();
        let mut at = range.start;
        let mut secrets: Vec<_> = self.secrets.iter().filter(|s| s.start < range.end && s.end > range.start).collect();
        secrets.sort_by_key(|secret| secret.start);
        for secret in secrets {
            let start = self.floor(secret.start.max(at));
            out.push_str(&self.text[at..start]);
            if secret.end > at {
                if start > at || at == range.start {
                    out.push_str(HIDDEN);
                }
                at = self.floor(secret.end.min(range.end)).max(start);
            }
        }
        out.push_str(&self.text[at..range.end]);
        out
    }

    fn floor(&self, at: usize) -> usize {
        self.text.floor_char_boundary(at.min(self.text.len()))
    }

    /// The excerpt around one place: the line, and a caret under the part that is meant.
    fn excerpt(&self, span: &Range<usize>, mark: char, paint: Paint, gutter: usize, out: &mut String) {
        let (line, _) = self.position(span.start);
        let start = self.floor(span.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |newline| start + newline);
        let shown = self.masked(line_start..line_end);
        let before = self.masked(line_start..start);
        let pad: String = before.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let end = self.floor(span.end.min(line_end));
        let width = if end > start { self.masked(start..end).trim_end().chars().count() } else { 1 }.max(1);
        let (bar, number) = (paint.dim("|"), paint.dim(format!("{line:>gutter$}")));
        let marks: String = std::iter::repeat_n(mark, width).collect();
        let marks = if mark == '^' { paint.red(marks) } else { paint.dim(marks) };
        let _ = writeln!(out, "{number} {bar} {}", shown.trim_end());
        let _ = write!(out, "{:gutter$} {bar} {pad}{marks}", "");
    }

    /// One problem, as a compiler shows it.
    pub fn render(&self, problem: &Problem, paint: Paint) -> String {
        let mut out = String::new();
        let (line, column) = self.position(problem.span.start);
        let deepest = problem.other.iter().map(|(span, _)| self.position(span.start).0).chain([line]).max().unwrap_or(line);
        let gutter = deepest.to_string().len();
        let field = if problem.field.is_empty() { String::new() } else { format!("{}: ", problem.field) };
        let _ = writeln!(out, "{} {}", paint.red("error:"), paint.bold(format!("{field}{}", problem.message)));
        let _ = writeln!(out, "{:gutter$}{} {}:{line}:{column}", "", paint.dim("-->"), self.name);
        let _ = writeln!(out, "{:gutter$} {}", "", paint.dim("|"));
        let mut excerpts = vec![(&problem.span, '^', "")];
        excerpts.extend(problem.other.iter().map(|(span, why)| (span, '-', why.as_str())));
        excerpts.sort_by_key(|(span, ..)| span.start);
        for (span, mark, why) in excerpts {
            self.excerpt(span, mark, paint, gutter, &mut out);
            let _ = if why.is_empty() { writeln!(out) } else { writeln!(out, " {}", paint.dim(why)) };
        }
        if let Some(hint) = &problem.hint {
            let _ = writeln!(out, "{:gutter$} {} help: {hint}", "", paint.dim("="));
        }
        out
    }

    /// All problems of the file as one failure.
    pub fn failure(&self, mut problems: Vec<Problem>) -> Failure {
        problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
        problems.dedup();
        let count = problems.len();
        let message = format!("{} has {count} {}", self.name, if count == 1 { "error" } else { "errors" });
        let details = problems.iter().map(|problem| {
            let (line, column) = self.position(problem.span.start);
            json!({
                "file": self.name, "line": line, "column": column, "field": problem.field, "value": self.shown(&problem.span),
                "message": problem.message, "hint": problem.hint,
            })
        });
        let details = details.collect();
        let paint = Paint::stderr();
        let mut report: String = problems.iter().map(|problem| self.render(problem, paint) + "\n").collect();
        let _ = write!(report, "{} {message}", paint.red("error:"));
        Failure::new(Exit::Invalid, "invalid_jobs_file", message)
            .hint(problems.iter().find_map(|problem| problem.hint.clone()).unwrap_or_else(|| "see docs/cli.md for every key".to_owned()))
            .report(report, details)
    }
}

fn read_all(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let count = from.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if count as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters() {
        let source = Source::new("f", "\u{feff}a = 1\r\nä€ = 2\n");
        assert_eq!(source.position(0), (1, 1));
        let at = source.text().find('=').unwrap();
        assert_eq!(source.position(at), (1, 3));
        let at = source.text().rfind('=').unwrap();
        assert_eq!(source.position(at), (2, 4));
        assert_eq!(source.position(10_000), (3, 1));
    }

    #[test]
    fn secrets_are_not_shown_anywhere() {
        let text = "a = \"x\" b = \"s3cret\" c";
        let mut source = Source::new("f", text);
        source.hide(12..20);
        assert_eq!(source.masked(0..text.len()), "a = \"x\" b = … c");
        assert_eq!(source.shown(&(14..18)), HIDDEN);
        let shown = source.render(&Problem::new(14..18, "b", "bad"), Paint::plain());
        assert!(!shown.contains("s3cret") && !shown.contains("cre"), "{shown}");
        let shown = source.render(&Problem::new(21..22, "c", "bad"), Paint::plain());
        assert!(shown.ends_with("1 | a = \"x\" b = … c\n  |               ^\n"), "{shown}");
    }

    #[test]
    fn a_place_inside_a_string_is_found_unless_it_has_escapes() {
        let text = r#"cron = "0 0 ? * *""#;
        let source = Source::new("f", text);
        let span = source.inside_string(&(7..text.len()), "0 0 ? * *", 5).unwrap();
        assert_eq!((span.clone(), &text[span]), (12..13, "?"));
        let end = source.inside_string(&(7..text.len()), "0 0 ? * *", 10).unwrap();
        assert_eq!(&text[end], "\"", "what is missing is missing at the end");
        let escaped = Source::new("f", r#"cron = "0\t0""#);
        assert_eq!(escaped.inside_string(&(7..13), "0\t0", 3), None);
    }
}
