//! `cargo xtask torture edge`: the kill test of the gate, for as many rounds as one has patience for.

use std::time::Instant;

use crate::args::Args;
use crate::repo::Fallible;
use crate::shell;

const TEST: &str = "kill::killed_at_random_moments_nothing_is_doubled_lost_or_overlapping";

/// `--rounds N`, and `--seed S` for other moments than those of the gate. False when the test failed.
pub fn run(args: &[&str]) -> Fallible<bool> {
    let args = Args::parse(args, &["--rounds", "--seed"], &[])?;
    let rounds = args.number("--rounds")?.ok_or("cargo xtask torture edge --rounds N [--seed S]")?;
    let seed = args.number("--seed")?.unwrap_or(2_026);
    println!("kill -9 of the scheduler and of guards under load: seed {seed}, {rounds} rounds");
    let mut command = shell::cargo(&["test", "--locked", "-p", "ql3-tests", "--test", "edge", "--", "--nocapture", "--exact", TEST])?;
    command.env("QL3_TEST_ROUNDS", rounds.to_string()).env("QL3_TEST_SEED", seed.to_string());
    let started = Instant::now();
    let done = shell::capture(command, |line| line.contains("panicked at") || line.starts_with("test result:"))?;
    // A filter that matches nothing passes as well.
    let ran = done.output.contains("test result: ok. 1 passed");
    if !ran {
        println!("{}", done.output.trim_end());
    }
    let verdict = if done.ok && ran { "nothing doubled, lost or overlapping" } else { "FAILED" };
    println!("seed {seed}, {rounds} rounds, {:.0} s: {verdict}", started.elapsed().as_secs_f64());
    Ok(done.ok && ran)
}
