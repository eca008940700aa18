//! What the edge costs: `cargo xtask bench edge [--json]`. Each figure is the median of [`ROUNDS`] measurements; none of them gates.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made ends the program")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a table on standard output, progress on standard error")]

mod admission;
mod bare;
mod program;
mod seed;
mod tick;

use serde_json::{Value, json};

/// Measurements of each figure.
const ROUNDS: usize = 5;

/// Measures what belongs together.
type Part = fn() -> Vec<Figure>;

/// One line of the table.
struct Figure {
    name: &'static str,
    unit: &'static str,
    value: f64,
    /// What is aimed at, in the same unit: `<= 10`. Empty if the figure only explains another.
    aim: &'static str,
}

impl Figure {
    fn new(name: &'static str, unit: &'static str, value: f64, aim: &'static str) -> Self {
        Self { name, unit, value, aim }
    }

    fn to_json(&self) -> Value {
        json!({ "name": self.name, "unit": self.unit, "value": self.value, "aim": self.aim })
    }
}

/// Of an odd number of values the middle one.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    // `cargo bench` adds `--bench`.
    let as_json = std::env::args().any(|arg| arg == "--json");
    let mut figures = Vec::new();
    let parts: [(&str, Part); 6] = [
        ("admission, pages of 256", admission::pages),
        ("admission, one a transaction", admission::single),
        ("tick", tick::measure),
        ("cold start and size", program::start_and_size),
        ("memory", program::memory),
        ("lateness", program::lateness),
    ];
    for (what, measure) in parts {
        eprintln!("measuring: {what}");
        figures.extend(measure());
    }
    if as_json {
        let figures: Vec<Value> = figures.iter().map(Figure::to_json).collect();
        println!("{:#}", json!({ "rounds": ROUNDS, "figures": figures }));
        return;
    }
    println!("| Figure | Median of {ROUNDS} | Aim |\n|---|---|---|");
    for Figure { name, unit, value, aim } in &figures {
        let text = if *value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") };
        println!("| {name} | {} | {aim} |", format!("{text} {unit}").trim_end());
    }
}
