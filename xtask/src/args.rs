//! Options of a verb: `--name VALUE` and `--flag`, each at most once, and nothing else.

use crate::repo::Fallible;

pub struct Args<'a> {
    values: Vec<(&'a str, &'a str)>,
    flags: Vec<&'a str>,
}

impl<'a> Args<'a> {
    /// Refuses what is neither one of `valued` with its value nor one of `flags`.
    pub fn parse(args: &[&'a str], valued: &[&str], flags: &[&str]) -> Fallible<Self> {
        let mut parsed = Self { values: Vec::new(), flags: Vec::new() };
        let mut rest = args.iter().copied();
        while let Some(arg) = rest.next() {
            if parsed.has(arg) || parsed.value(arg).is_some() {
                return Err(format!("`{arg}` is given twice").into());
            }
            if flags.contains(&arg) {
                parsed.flags.push(arg);
            } else if valued.contains(&arg) {
                parsed.values.push((arg, rest.next().ok_or_else(|| format!("`{arg}` needs a value"))?));
            } else {
                return Err(format!("I do not know `{arg}`").into());
            }
        }
        Ok(parsed)
    }

    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    pub fn number(&self, name: &str) -> Fallible<Option<u64>> {
        let Some(text) = self.value(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| format!("`{name} {text}`: a whole number is expected").into())
    }

    fn value(&self, name: &str) -> Option<&'a str> {
        self.values.iter().find(|(given, _)| *given == name).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUED: &[&str] = &["--rounds", "--seed"];

    #[test]
    fn options_are_read_in_any_order() {
        let args = Args::parse(&["--json", "--seed", "7"], VALUED, &["--json"]).expect("good");
        assert!(args.has("--json"));
        assert_eq!(args.number("--seed").expect("a number"), Some(7));
        assert_eq!(args.number("--rounds").expect("absent"), None);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for bad in [&["--round", "7"][..], &["7"], &["--seed"], &["--seed", "1", "--seed", "2"]] {
            assert!(Args::parse(bad, VALUED, &[]).is_err(), "{bad:?}");
        }
        let args = Args::parse(&["--rounds", "many"], VALUED, &[]).expect("read later");
        assert!(args.number("--rounds").is_err());
    }
}
