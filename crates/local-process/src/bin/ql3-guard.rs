//! The guard on its own, for programs that embed `local-process` and cannot call `run_if_guard` first in their `main`.

use std::process::ExitCode;

fn main() -> ExitCode {
    local_process::run_if_guard().unwrap_or(ExitCode::from(2))
}
