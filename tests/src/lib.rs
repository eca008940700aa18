//! What end-to-end tests share: the program as users start it, and a seeded source of moments.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use serde_json::Value;

/// The `ql3` binary, built as part of the run if it is not there yet.
pub fn ql3() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let test = std::env::current_exe().expect("a test knows its own path");
        let profile = test.ancestors().nth(2).expect("tests run from <target>/<profile>/deps");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--locked", "-p", "ql3"]);
        build.arg("--target-dir").arg(profile.parent().expect("a profile lies in the target directory"));
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success(), "ql3 does not build");
        profile.join("ql3")
    })
}

/// A directory with a jobs file and a database.
pub struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "making a directory is not a default value")]
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("the temporary directory is writable");
    }

    /// Reads a file; empty if it is not there.
    pub fn read(&self, name: &str) -> String {
        std::fs::read(self.path(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// `ql3 ARGS` here, not yet started.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(ql3());
        command.args(args).current_dir(self.dir.path()).env_remove("QL3_DB").env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    /// Runs `ql3 ARGS` to its end; standard output must be JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        let out = self.command(args).arg("--json").output().expect("ql3 starts");
        let text = String::from_utf8_lossy(&out.stdout);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("ql3 {args:?}: {e}: {text}\n{}", String::from_utf8_lossy(&out.stderr)))
    }

    /// Runs `ql3 ARGS` to its end, which must be good.
    pub fn ok(&self, args: &[&str]) -> String {
        let out = self.command(args).output().expect("ql3 starts");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "ql3 {args:?}: {}\n{text}\n{}", out.status, String::from_utf8_lossy(&out.stderr));
        text
    }

    /// Starts `ql3 up ARGS`; its lines go to `up.log`.
    pub fn up(&self, args: &[&str]) -> Child {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.path("up.log")).expect("a log file");
        let mut command = self.command(&["up"]);
        command.args(args).stderr(log.try_clone().expect("a log file")).stdout(log);
        command.spawn().expect("ql3 starts")
    }

    /// Every Run there is.
    pub fn runs(&self) -> Vec<Value> {
        let mut out = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let mut args = vec!["runs", "--limit", "500"];
            if let Some(after) = &after {
                args.extend(["--after", after]);
            }
            let page = self.json(&args);
            out.extend(page["runs"].as_array().expect("runs").iter().cloned());
            match page["next"].as_str() {
                Some(next) => after = Some(next.to_owned()),
                None => return out,
            }
        }
    }
}

/// Sends a signal by name, as a shell would.
pub fn kill(signal: &str, pid: u32) {
    // The process may have ended by itself; that is no failure.
    let _ = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).stderr(Stdio::null()).status();
}

/// Processes whose parent is `parent`.
pub fn children(parent: u32) -> Vec<u32> {
    let stat = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let parent_of = |stat: &str| stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
    std::fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| stat(*pid).as_deref().and_then(parent_of) == Some(parent))
        .collect()
}

/// Waits for a condition, generously.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_mins(2), "waited two minutes for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A small seeded generator (`SplitMix64`): the same seed, the same moments.
pub struct Moments(u64);

impl Moments {
    /// Starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
