//! The command part of a crontab line: per cent signs, quotes, and lines that are surely not what was meant.

/// A command with what is fed to it.
#[derive(Debug, PartialEq, Eq)]
pub struct Parts {
    pub command: String,
    pub stdin: Option<String>,
}

/// Cuts a line as cron does: at the first `%` that no backslash stands before. After it, further ones are line ends, and the input ends
/// with one. `\%` is `%` in both parts.
pub fn split(line: &str) -> Parts {
    let mut command = String::with_capacity(line.len());
    let mut chars = line.chars();
    let mut escaped = false;
    while let Some(c) = chars.next() {
        match c {
            '%' if escaped => {
                command.pop();
                command.push('%');
            }
            '%' => return Parts { command, stdin: input(chars.as_str()) },
            _ => command.push(c),
        }
        escaped = !escaped && c == '\\';
    }
    Parts { command, stdin: None }
}

/// What follows the first `%`. Cron reads backslashes here a little differently: the second of two may still escape.
fn input(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 1);
    let mut escaped = false;
    for c in text.chars() {
        let c = match (escaped, c) {
            (true, '%') => '%',
            (true, c) => {
                out.push('\\');
                c
            }
            (false, '%') => '\n',
            (false, c) => c,
        };
        escaped = c == '\\';
        if !escaped {
            out.push(c);
        }
    }
    if escaped {
        out.push('\\');
    }
    if out.is_empty() {
        return None;
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    Some(out)
}

/// Why a cut at `%` was surely not meant: what is before it is no whole command, or what is around it is a date format or an address.
pub fn surely_not_meant(command: &str, line: &str) -> Option<&'static str> {
    let before = command.chars().last();
    let after: String = line.chars().skip_while(|c| *c != '%').skip(1).take(2).collect();
    if !balanced(command) {
        return Some("it leaves a quote or a substitution open");
    }
    if before == Some('+') {
        return Some("it stands in a date format");
    }
    let hex = after.len() == 2 && after.bytes().all(|byte| byte.is_ascii_hexdigit());
    (hex && before.is_some_and(|c| !c.is_whitespace())).then_some("it looks like a part of an address")
}

/// Whether quotes, `` ` `` and `$(` are closed.
fn balanced(command: &str) -> bool {
    let mut open: Vec<char> = Vec::new();
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        let top = open.last().copied();
        match (top, c) {
            (Some('\''), '\'') => drop(open.pop()),
            (Some('\''), _) => {}
            (_, '\\') => drop(chars.next()),
            (Some(top), c) if top == c => drop(open.pop()),
            (Some('"'), '\'') => {}
            (_, '\'' | '"' | '`') => open.push(c),
            (_, '$') if chars.peek() == Some(&'(') => {
                chars.next();
                open.push(')');
            }
            _ => {}
        }
    }
    open.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(line: &str) -> (String, Option<String>) {
        let parts = split(line);
        (parts.command, parts.stdin)
    }

    #[test]
    fn per_cent_signs_are_cut_and_escaped_as_cron_does_it() {
        for (line, command, stdin) in [
            (r"date '+\%s'", "date '+%s'", None),
            ("date '+%s'", "date '+", Some("s'\n")),
            ("cat%line one%line two", "cat", Some("line one\nline two\n")),
            ("cat%a%%b%", "cat", Some("a\n\nb\n")),
            ("cat%", "cat", None),
            ("cat%%", "cat", Some("\n")),
            (r"a\\%b", r"a\\", Some("b\n")),
            (r"a\\\%b", r"a\\%b", None),
            (r"a\x\%", r"a\x%", None),
            (r"cat%a\%b%c\n\", "cat", Some("a%b\nc\\n\\\n")),
            (r"cat%a\\%b", "cat", Some("a\\%b\n")),
            ("x\\", "x\\", None),
            ("", "", None),
        ] {
            assert_eq!(parts(line), (command.to_owned(), stdin.map(str::to_owned)), "{line}");
        }
    }

    #[test]
    fn cuts_that_break_a_command_are_noticed() {
        for line in ["date '+%s'", "x $(date +%F)", "x `date +%F`", "date +%F > y", "curl http://x/a%20b", "echo \"100%\""] {
            assert!(surely_not_meant(&split(line).command, line).is_some(), "{line}");
        }
        for line in
            ["cat%line one", "mail -s 'it is' x%hello%", "echo \"it's\" | cat%x", "wall %beer time", r"echo \'%x", "$(a `b` 'c)')%x"]
        {
            assert_eq!(surely_not_meant(&split(line).command, line), None, "{line}");
        }
    }
}
