//! `KEY=value` lines, as systemd, Docker and dotenv share them.

use std::collections::BTreeMap;

/// Blank lines and lines that begin with `#` are skipped; `export ` before a name is allowed. A value is the rest of its line without
/// the blanks around it, `#` included; or it stands in `'...'` (nothing is special) or `"..."` (`\n` `\r` `\t` `\\` `\"` `\$` are), and
/// then only blanks or a comment may follow. The last line of a name wins. Errors are (line, problem) and never quote a value.
pub(super) fn parse(bytes: &[u8]) -> Result<BTreeMap<String, String>, (usize, &'static str)> {
    let mut env = BTreeMap::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let at_line = |problem| (index + 1, problem);
        let line = std::str::from_utf8(line).map_err(|_| at_line("is not UTF-8"))?.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let (name, value) = line.split_once('=').ok_or_else(|| at_line("expected KEY=value"))?;
        let mut letters = name.bytes();
        if !letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            || !letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
        {
            return Err(at_line("a name is a letter or `_`, then letters, digits and `_`, directly before the `=`"));
        }
        if value.contains('\0') {
            return Err(at_line("has a NUL byte"));
        }
        env.insert(name.to_owned(), unquote(value.trim()).map_err(at_line)?);
    }
    Ok(env)
}

fn unquote(value: &str) -> Result<String, &'static str> {
    let mut letters = value.chars();
    let Some(quote @ ('\'' | '"')) = letters.next() else { return Ok(value.to_owned()) };
    let mut text = String::new();
    loop {
        match letters.next() {
            None => return Err("the quote is not closed"),
            Some(letter) if letter == quote => break,
            Some('\\') if quote == '"' => match letters.next() {
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                Some('t') => text.push('\t'),
                Some(letter @ ('\\' | '"' | '$')) => text.push(letter),
                Some(letter) => text.extend(['\\', letter]),
                None => return Err("the quote is not closed"),
            },
            Some(letter) => text.push(letter),
        }
    }
    let rest = letters.as_str().trim_start();
    if rest.is_empty() || rest.starts_with('#') { Ok(text) } else { Err("text after the closing quote") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let text = "# c\n\n  A=1 \nexport B = no\n".replace("B = no", "B=two words # kept")
            + "C='a \\n \"b\"' # c\r\nD=\"x\\ny\\\"\\$\\z\"\nE=\nA=2\nF==x";
        let env = parse(text.as_bytes()).unwrap();
        let pairs: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("A", "2"), ("B", "two words # kept"), ("C", "a \\n \"b\""), ("D", "x\ny\"$\\z"), ("E", ""), ("F", "=x")]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_without_its_value() {
        for (text, line) in [
            (&b"A=1\nhunter2"[..], 2),
            (b"1A=hunter2", 1),
            (b"A =hunter2", 1),
            (b"=hunter2", 1),
            (b"\n\nA='hunter2", 3),
            (b"A=\"hunter2\\", 1),
            (b"A='x' hunter2", 1),
            (b"A=\xffhunter2", 1),
            (b"A=hunter2\0", 1),
        ] {
            let (at, problem) = parse(text).unwrap_err();
            assert_eq!(at, line, "{problem}");
            assert!(!problem.contains("hunter2"));
        }
    }
}
