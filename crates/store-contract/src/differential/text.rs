//! Answers as text that does not depend on who drew which id.

use std::{
    collections::HashMap,
    fmt::{Debug, Write as _},
};

use runtime_core::StoreError;

/// An answer, or the code of the error.
pub(super) fn answer<T: Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.code().as_str().to_owned(),
    }
}

/// Numbers for identities and digests, in the order in which they appear.
#[derive(Default)]
pub(super) struct Names {
    known: HashMap<String, usize>,
}

impl Names {
    /// The text with every UUID and every SHA-256 replaced by its number.
    pub(super) fn number(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut word = String::new();
        for c in text.chars().chain(['\n']) {
            if c.is_ascii_alphanumeric() || c == '-' {
                word.push(c);
                continue;
            }
            if is_uuid(&word) || is_digest(&word) {
                let next = self.known.len();
                let number = *self.known.entry(std::mem::take(&mut word)).or_insert(next);
                write!(out, "#{number}").expect("writing to a String does not fail");
            }
            out.push_str(&word);
            out.push(c);
            word.clear();
        }
        out.truncate(out.trim_end_matches('\n').len());
        out
    }
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36 && word.bytes().filter(|b| *b == b'-').count() == 4
}

fn is_digest(word: &str) -> bool {
    word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_id_has_the_same_number() {
        let (a, b) = ("0199c5f4-7b1e-7c3d-8f00-0123456789ab", "0199c5f4-7b1e-7c3d-8f00-0123456789ac");
        let mut names = Names::default();
        assert_eq!(names.number(&format!("RunId({b}), {a} x-1 \"{b}\"")), "RunId(#0), #1 x-1 \"#0\"");
        assert_eq!(names.number(a), "#1");
        assert_eq!(names.number(&"ab".repeat(32)), "#2");
    }
}
