//! SPDX licence expressions, as package manifests write them: `AND` binds tighter than `OR`, and `/` is an old `OR`.

/// Whether the expression can be satisfied with allowed licences alone. An expression that cannot be read is refused.
/// `X WITH exception` counts as a licence of its own, as it does for cargo-deny.
pub fn is_allowed(expression: &str, allowed: &[&str]) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { tokens: &tokens, allowed };
    match (parser.any_of(), parser.tokens) {
        (Some(answer), []) => Ok(answer),
        _ => Err(format!("cannot read the licence `{expression}`")),
    }
}

struct Parser<'a> {
    tokens: &'a [&'a str],
    allowed: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn next_is(&mut self, word: &str) -> bool {
        let found = self.tokens.first() == Some(&word);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    // Both sides are always parsed: a short cut would leave tokens behind.
    fn any_of(&mut self) -> Option<bool> {
        let mut answer = self.all_of()?;
        while self.next_is("OR") {
            answer |= self.all_of()?;
        }
        Some(answer)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut answer = self.one()?;
        while self.next_is("AND") {
            answer &= self.one()?;
        }
        Some(answer)
    }

    fn one(&mut self) -> Option<bool> {
        if self.next_is("(") {
            let answer = self.any_of()?;
            return self.next_is(")").then_some(answer);
        }
        let licence = self.next().filter(|token| !["AND", "OR", "WITH", ")"].contains(token))?;
        if self.next_is("WITH") {
            let exception = self.next()?;
            return Some(self.allowed.contains(&format!("{licence} WITH {exception}").as_str()));
        }
        Some(self.allowed.contains(&licence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_judged_by_their_structure() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"];
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("MIT/Apache-2.0", true),
            ("GPL-2.0-only OR MIT", true),
            ("MIT AND GPL-2.0-only", false),
            ("GPL-2.0-only OR MIT AND Apache-2.0", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND OpenSSL", false),
            ("Apache-2.0 WITH LLVM-exception", false),
            ("Apache-2.0 WITH LLVM-exception OR MIT", true),
        ] {
            assert_eq!(is_allowed(expression, &allowed), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error_even_when_it_begins_well() {
        for expression in ["", "MIT MIT", "(MIT", "MIT)", "MIT AND", "OR MIT", "MIT WITH"] {
            assert!(is_allowed(expression, &["MIT"]).is_err(), "{expression}");
        }
    }
}
