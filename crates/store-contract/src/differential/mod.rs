//! The same seeded commands against two stores: every answer and what is left in the end must agree.
//!
//! Commands are drawn without looking at a store; they name Runs, claims and leases by their place among those that a side has answered
//! so far, stale ones included. Answers are compared as text in which identities and digests are numbered by their first appearance, so
//! that two stores may draw their ids in different orders.

mod command;
mod side;
mod text;

use runtime_core::verify::verify;

use crate::{Fixture, facts, rng::Rng};
use command::Command;
use side::Side;
use text::Names;

/// Drives `A` and `B` through `steps` commands of `seed`.
///
/// # Panics
/// If they disagree; the message holds the seed, the step, the command and both answers.
pub async fn differential<A: Fixture, B: Fixture>(seed: u64, steps: usize) {
    let mut rng = Rng::new(seed);
    let (mut a, mut b) = (Side::<A>::fresh().await, Side::<B>::fresh().await);
    let (mut names_a, mut names_b) = (Names::default(), Names::default());
    for step in 0..steps {
        let command = Command::draw(&mut rng);
        let in_a = names_a.number(&a.apply(&command).await);
        let in_b = names_b.number(&b.apply(&command).await);
        assert!(in_a == in_b, "seed {seed}, step {step}: {command:?}\n  first:  {in_a}\n  second: {in_b}");
    }
    let (left_a, left_b) = (facts(&*a.store()).await, facts(&*b.store()).await);
    for (line_a, line_b) in left_a.iter().zip(&left_b) {
        let (line_a, line_b) = (names_a.number(line_a), names_b.number(line_b));
        assert!(line_a == line_b, "seed {seed}, in the end\n  first:  {line_a}\n  second: {line_b}");
    }
    assert_eq!(left_a.len(), left_b.len(), "seed {seed}: facts in the end");
    for store in [a.store(), b.store()] {
        let found = verify(&*store).await.expect("the facts are readable");
        assert!(found.ok(), "seed {seed}: {:?}", found.findings);
    }
}
