//! SHA-256 over canonical bytes.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::Invalid;

/// 64 lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut text = String::with_capacity(64);
        for byte in Sha256::digest(bytes) {
            use fmt::Write as _;
            write!(text, "{byte:02x}").expect("writing to a String does not fail");
        }
        Self(text)
    }

    /// Reads a stored digest.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let hex = text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if hex { Ok(Self(text.to_owned())) } else { Err(Invalid::new("digest", "is not 64 lower-case hex digits")) }
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").as_str(), empty);
        assert!(Digest::parse(empty).is_ok());
        assert!(Digest::parse(&empty.to_uppercase()).is_err());
    }
}
