//! `up` under a service manager, played by a socket of the test.

use std::{
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram},
    },
    process::Stdio,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Answer, Place, repository};

/// What it inherits from its manager is said by the job itself.
const JOBS: &str = r#"
[[task]]
id = "nosy"
shell = "env | grep -E '^(NOTIFY_SOCKET|WATCHDOG_)' || echo none"
[[task]]
id = "own"
shell = "echo $NOTIFY_SOCKET"
env = { NOTIFY_SOCKET = "/its/own" }
"#;

struct Manager(UnixDatagram);

impl Manager {
    fn at(address: &SocketAddr) -> Self {
        let socket = UnixDatagram::bind_addr(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        Self(socket)
    }

    /// The next message.
    fn told(&self) -> String {
        let mut buffer = [0; 4_096];
        let bytes = self.0.recv(&mut buffer).expect("it tells more");
        String::from_utf8(buffer[..bytes].to_vec()).unwrap()
    }

    /// Messages up to the first that has this line.
    fn until(&self, line: &str) -> Vec<String> {
        let mut told = vec![self.told()];
        while !told.last().unwrap().lines().any(|told| told == line) {
            told.push(self.told());
        }
        told
    }

    /// What was told by somebody who has ended.
    fn rest(&self) -> Vec<String> {
        self.0.set_nonblocking(true).unwrap();
        let mut buffer = [0; 4_096];
        std::iter::from_fn(|| self.0.recv(&mut buffer).ok().map(|bytes| String::from_utf8(buffer[..bytes].to_vec()).unwrap())).collect()
    }
}

#[test]
fn the_manager_hears_of_readiness_life_and_the_end() {
    let place = Place::with_jobs(JOBS);
    let manager = Manager::at(&SocketAddr::from_pathname(place.path("notify")).unwrap());
    let mut up = place.command(&["up", "jobs.toml"]);
    up.env("NOTIFY_SOCKET", place.path("notify")).env("WATCHDOG_USEC", "200000").stdout(Stdio::null());
    let mut up = up.spawn().unwrap();
    manager.until("READY=1");
    assert!(place.json(&["status"])["scheduler"].as_str().unwrap().contains(&up.id().to_string()), "it schedules when it says so");
    for _ in 0..3 {
        manager.until("WATCHDOG=1");
    }

    // Meanwhile nobody reads, and the socket is soon full: that holds up nothing.
    let output = |task: &str| {
        let id = place.json(&["run", "start", task])["runId"].as_str().unwrap().to_owned();
        place.ok(&["run", "logs", "-f", &id]).stdout
    };
    assert_eq!(output("nosy"), "none\n", "a command could speak in the name of the scheduler");
    assert_eq!(output("own"), "/its/own\n", "what the task sets is its own");

    kill_process(Pid::from_child(&up), Signal::TERM).unwrap();
    manager.until("STOPPING=1");
    assert!(up.wait().unwrap().success());
    assert!(!manager.rest().iter().any(|told| told.contains("READY=1")));
}

#[test]
fn an_abstract_socket_is_one_and_a_watchdog_of_another_process_is_not_fed() {
    let place = Place::with_jobs(JOBS);
    let name = format!("ql3-test-{}", place.dir.path().display());
    let manager = Manager::at(&SocketAddr::from_abstract_name(&name).unwrap());
    let mut up = place.command(&["up", "jobs.toml", "--for", "1s"]);
    let up = up.env("NOTIFY_SOCKET", format!("@{name}")).env("WATCHDOG_USEC", "100000").env("WATCHDOG_PID", "1");
    let answer = Answer::of(up.output().unwrap());
    assert_eq!((answer.code, answer.stderr.as_str()), (0, ""));
    let told = manager.rest().join("\n");
    assert!(told.contains("READY=1\nSTATUS=scheduling") && told.contains("STOPPING=1\nSTATUS=stopping"), "{told}");
    assert!(!told.contains("WATCHDOG"), "{told}");
}

#[test]
fn what_cannot_schedule_is_never_ready() {
    let place = Place::with_jobs(JOBS);
    let manager = Manager::at(&SocketAddr::from_pathname(place.path("notify")).unwrap());
    place.write("bad.toml", "colour = 1\n");
    let mut up = place.command(&["up", "bad.toml"]);
    assert_eq!(Answer::of(up.env("NOTIFY_SOCKET", place.path("notify")).output().unwrap()).code, 3);
    assert_eq!(manager.rest(), Vec::<String>::new());
}

/// A manager that is not there, or is none, costs a warning.
#[test]
fn a_manager_that_is_not_there_is_no_obstacle() {
    let place = Place::with_jobs(JOBS);
    for socket in ["/nowhere/notify", "vsock:2:1234"] {
        let mut up = place.command(&["up", "jobs.toml", "--for", "100ms"]);
        let answer = Answer::of(up.env("NOTIFY_SOCKET", socket).output().unwrap());
        assert!(answer.code == 0 && answer.stderr.contains(" WARN ") && answer.stderr.contains("service manager"), "{}", answer.stderr);
    }
}

#[test]
fn the_example_unit_starts_a_command_that_is_one() {
    let unit = std::fs::read_to_string(repository().join("examples/systemd/ql3.service")).unwrap();
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(&format!("{key}="))).unwrap_or_else(|| panic!("{key}"));
    assert_eq!((value("Type"), value("KillMode")), ("notify", "mixed"));
    let args: Vec<_> =
        value("ExecStart").split(' ').skip(1).map(|arg| if arg.starts_with("/etc/ql3/") { "jobs.toml" } else { arg }).collect();
    let place = Place::with_jobs(JOBS);
    let mut up = place.command(&[&args[..], &["--for", "100ms"]].concat());
    for setting in value("Environment").split(' ').map(|setting| setting.replace("/var/lib/ql3/", "")) {
        let (name, value) = setting.split_once('=').unwrap();
        up.env(name, value);
    }
    assert!(up.output().unwrap().status.success() && place.path("ql3.db").exists());
}
