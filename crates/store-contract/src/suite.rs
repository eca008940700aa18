//! Registration: one list makes the tests of every adapter and the index.

use crate::Fixture;

/// An entry of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Module, named as the port.
    pub port: &'static str,
    /// The claim.
    pub name: &'static str,
    /// The capability without which it cannot be shown.
    pub needs: Option<&'static str>,
}

/// How many cases `F` skips, by capability.
pub fn skipped<F: Fixture>() -> Vec<(&'static str, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for needs in INDEX.iter().filter_map(|case| case.needs).filter(|needs| !F::capabilities().has(needs)) {
        *counts.entry(needs).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

/// Runs one case on a fixture of its own. For [`contract!`](crate::contract).
#[expect(clippy::print_stderr, reason = "a skipped case says why where the test's output goes")]
pub fn run_case<F: Fixture>(case: Case, body: impl AsyncFnOnce(&F)) {
    if let Some(needs) = case.needs.filter(|needs| !F::capabilities().has(needs)) {
        eprintln!("skipped {}::{}: this store has no `{needs}`", case.port, case.name);
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for one case");
    runtime.block_on(async { body(&F::fresh().await).await });
}

/// Registers every case for a fixture: one test each, in modules named as the ports, and one that pins how many there are and how many
/// are skipped for want of which capability.
#[macro_export]
macro_rules! contract {
    ($fixture:ty, cases = $cases:expr) => { $crate::contract!($fixture, cases = $cases, skipped = []); };
    ($fixture:ty, cases = $cases:expr, skipped = [$($skipped:expr),* $(,)?]) => {
        mod contract {
            use super::*;

            $crate::__every_case! { __tests ($fixture) }

            #[test]
            fn number_of_cases_is_pinned() {
                assert_eq!($crate::INDEX.len(), $cases, "cases registered");
                let expected: Vec<(&str, usize)> = vec![$($skipped),*];
                assert_eq!($crate::skipped::<$fixture>(), expected, "cases skipped, by capability");
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    (($fixture:ty) $($port:ident { $($case:ident $(if $needs:ident)?,)* })*) => {
        $(mod $port {
            use super::*;
            $(
                #[test]
                fn $case() {
                    let needs: &[&'static str] = &[$(stringify!($needs))?];
                    let case = $crate::Case { port: stringify!($port), name: stringify!($case), needs: needs.first().copied() };
                    $crate::run_case::<$fixture>(case, $crate::cases::$port::$case);
                }
            )*
        })*
    };
}

/// The list. Each name is a function of [`crate::cases`].
#[doc(hidden)]
#[macro_export]
macro_rules! __every_case {
    ($then:ident $args:tt) => {
        $crate::$then! {
            $args
            runs {
                an_admission_is_read_back_as_it_was_written,
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __index {
    (() $($port:ident { $($case:ident $(if $needs:ident)?,)* })*) => {
        /// Every case, in the order of the list.
        pub const INDEX: &[Case] = &[$($({
            let needs: &[&'static str] = &[$(stringify!($needs))?];
            Case { port: stringify!($port), name: stringify!($case), needs: needs.first().copied() }
        },)*)*];
    };
}

__every_case! { __index () }
