//! `completions` and `man`.

use std::{fs, process::Command};

use crate::Place;

/// The commands as `ql3 help` lists them.
fn commands() -> Vec<String> {
    let help = Place::new().ok(&["--help"]).stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<_> = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned)).collect();
    let commands: Vec<_> = commands.into_iter().filter(|name| !name.is_empty()).collect();
    assert!(commands.len() > 20 && commands.iter().any(|name| name == "completions"), "{commands:?}");
    commands
}

#[test]
fn completions_know_every_command() {
    let commands = commands();
    for shell in ["bash", "zsh", "fish"] {
        let script = Place::new().ok(&["completions", shell]).stdout;
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell}: {command}");
        }
        assert!(script.contains("older-than"), "{shell}: options too");
    }
    assert_eq!(Place::new().run(&["completions", "cmd"]).code, 2);
}

#[test]
fn a_shell_completes_a_command_with_them() {
    let place = Place::new();
    place.write("ql3.bash", &place.ok(&["completions", "bash"]).stdout);
    let script = "source ./ql3.bash && COMP_WORDS=(ql3 pru) && COMP_CWORD=1 && _ql3 ql3 pru ql3 && echo \"${COMPREPLY[@]}\"";
    match Command::new("bash").args(["--norc", "-c", script]).current_dir(place.dir.path()).output() {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "prune\n", "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "no bash here, and nothing else is wrong"),
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Place::new();
    let first = place.ok(&["man"]).stdout;
    assert!(first.contains(".TH ql3 1"), "{first}");
    place.ok(&["man", "pages"]);
    assert_eq!(fs::read_to_string(place.path("pages/ql3.1")).unwrap(), first);
    for command in commands().iter().filter(|name| *name != "help") {
        assert!(first.contains(command.as_str()), "{command}");
        let page = fs::read_to_string(place.path(&format!("pages/ql3-{command}.1"))).unwrap_or_else(|error| panic!("{command}: {error}"));
        assert!(page.contains(".SH SYNOPSIS") && (page.contains("Example") || page.contains(".SH SUBCOMMANDS")), "{command}: {page}");
    }
    assert!(place.path("pages/ql3-run-logs.1").exists(), "commands of commands too");
    place.write("file", "");
    assert_eq!(place.run(&["man", "file/pages"]).code, 5);
}
