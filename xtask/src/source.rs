//! A Rust source split into code and string literals, so that a word in a comment or a message is not taken for code.

use std::ops::RangeInclusive;

pub struct Literal {
    /// Line of the opening quote, from 1.
    pub line: usize,
    /// Between the quotes, escapes as written.
    pub text: String,
}

pub struct Source {
    /// The source with comments, literals' contents and character literals blanked; lines stay where they were.
    pub code: String,
    pub literals: Vec<Literal>,
}

impl Source {
    pub fn parse(text: &str) -> Self {
        let mut scanner = Scanner { chars: text.chars().collect(), at: 0, line: 1, code: String::new(), literals: Vec::new() };
        while scanner.at < scanner.chars.len() {
            scanner.step();
        }
        Self { code: scanner.code, literals: scanner.literals }
    }

    /// Lines of items under `#[cfg(test)]` that have a body here.
    pub fn test_lines(&self) -> Vec<RangeInclusive<usize>> {
        let mut ranges = Vec::new();
        for (start, marker) in self.code.match_indices("#[cfg(test)]") {
            let rest = &self.code[start + marker.len()..];
            let Some(open) = rest.find(['{', ';']).filter(|&at| rest[at..].starts_with('{')) else { continue };
            let mut depth = 0_usize;
            let body = rest[open..].find(|c: char| {
                depth = match c {
                    '{' => depth + 1,
                    '}' => depth - 1,
                    _ => depth,
                };
                depth == 0
            });
            let end = body.map_or(self.code.len(), |length| start + marker.len() + open + length);
            ranges.push(line_of(&self.code, start)..=line_of(&self.code, end));
        }
        ranges
    }
}

/// The line, from 1, of a byte offset.
pub fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// Whether `code` contains `word` as a whole identifier.
pub fn has_ident(code: &str, word: &str) -> bool {
    let is_ident = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| !code[..at].ends_with(is_ident) && !code[at + word.len()..].starts_with(is_ident))
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
    line: usize,
    code: String,
    literals: Vec<Literal>,
}

impl Scanner {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    /// Takes one character; into the code as it is, or as a blank.
    fn take(&mut self, keep: bool) -> char {
        let c = self.peek(0);
        self.at += 1;
        self.line += usize::from(c == '\n');
        self.code.push(if keep || c == '\n' { c } else { ' ' });
        c
    }

    fn step(&mut self) {
        let inside_word = self.code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => {
                while self.at < self.chars.len() && self.peek(0) != '\n' {
                    self.take(false);
                }
            }
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(),
            ('r', '"' | '#') if !inside_word => self.raw_string(1),
            ('b' | 'c', 'r') if !inside_word && matches!(self.peek(2), '"' | '#') => self.raw_string(2),
            ('\'', '\\') => {
                self.take(true);
                self.take(false);
                self.take(false);
                while self.at < self.chars.len() && self.peek(0) != '\'' {
                    self.take(false);
                }
                self.take(true);
            }
            ('\'', _) if self.peek(2) == '\'' => {
                self.take(true);
                self.take(false);
                self.take(true);
            }
            _ => {
                self.take(true);
            }
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.take(false);
                    continue;
                }
            }
            self.take(false);
            self.take(false);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        let line = self.line;
        self.take(true);
        let mut text = String::new();
        while self.at < self.chars.len() && self.peek(0) != '"' {
            if self.peek(0) == '\\' {
                text.push(self.take(false));
            }
            text.push(self.take(false));
        }
        self.take(true);
        self.literals.push(Literal { line, text });
    }

    /// `prefix` is the length of `r`, `br` or `cr`. Without a quote after the hashes it is a raw identifier: plain code.
    fn raw_string(&mut self, prefix: usize) {
        let hashes = (prefix..self.chars.len()).take_while(|&ahead| self.peek(ahead) == '#').count();
        if self.peek(prefix + hashes) != '"' {
            self.take(true);
            return;
        }
        let line = self.line;
        for _ in 0..=prefix + hashes {
            self.take(true);
        }
        let mut text = String::new();
        while self.at < self.chars.len() {
            if self.peek(0) == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == '#') {
                break;
            }
            text.push(self.take(false));
        }
        for _ in 0..=hashes {
            self.take(true);
        }
        self.literals.push(Literal { line, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        let source = Source::parse(
            "// todo!()\nlet a = \"dbg!( \\\" x\"; /* a /* b */ c */ let r#type = r#\"q\"z\"#; let c = '\"'; f::<'a>('\\'')\n",
        );
        for hidden in ["todo", "dbg", "b */ c", "q\"z"] {
            assert!(!source.code.contains(hidden), "{hidden} in {}", source.code);
        }
        for code in ["let a", "let r#type", "f::<'a>("] {
            assert!(source.code.contains(code), "{code} not in {}", source.code);
        }
        let texts: Vec<_> = source.literals.iter().map(|literal| (literal.line, literal.text.as_str())).collect();
        assert_eq!(texts, [(2, "dbg!( \\\" x"), (2, "q\"z")]);
    }

    #[test]
    fn literals_keep_their_line() {
        let source = Source::parse("let a = \"one\n two\";\nlet b = \"x\";\n");
        assert_eq!(source.literals[1].line, 3);
        assert_eq!(source.code.lines().count(), 3);
    }

    #[test]
    fn items_under_cfg_test_are_found_whole() {
        let source = Source::parse("fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { \"}\"; }\n}\nfn c() {}\n#[cfg(test)]\nmod other;\n");
        assert_eq!(source.test_lines(), [2..=5]);
    }

    #[test]
    fn identifiers_match_whole() {
        assert!(has_ident("use tokio::sync;", "tokio"));
        assert!(!has_ident("use tokio_postgres::X;", "tokio"));
    }
}
