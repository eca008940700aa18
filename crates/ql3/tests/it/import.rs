//! `import`: the examples, and what is written.

use std::{path::PathBuf, process::Stdio};

use serde_json::Value;

use crate::{Place, repository};

/// A file of `examples/`, and how many lines are exact, translated, refused, and have warnings.
type Expected = (&'static str, [u64; 4]);

const USER: [Expected; 12] = [
    ("ansible", [4, 0, 0, 0]),
    ("backups", [4, 3, 0, 0]),
    ("broken", [1, 0, 11, 0]),
    ("django", [7, 1, 1, 1]),
    ("guarded", [6, 3, 2, 0]),
    ("laptop", [4, 1, 0, 0]),
    ("monitoring", [3, 1, 1, 1]),
    ("nicknames", [0, 7, 3, 0]),
    ("odd-days", [5, 2, 3, 0]),
    ("per-cent", [0, 7, 0, 3]),
    ("web-server", [3, 2, 1, 0]),
    ("zones", [5, 3, 2, 0]),
];
const SYSTEM: [Expected; 2] = [("crontab", [6, 0, 0, 0]), ("packages", [6, 2, 3, 0])];
const QINGLONG: [Expected; 3] = [("api-answer", [0, 5, 0, 0]), ("export", [2, 3, 0, 0]), ("troubles", [2, 1, 8, 0])];

fn example(name: &str) -> PathBuf {
    repository().join("examples").join(name)
}

fn files(directory: &str, extension: &str) -> usize {
    let files = std::fs::read_dir(example(directory)).unwrap();
    files.filter(|file| file.as_ref().unwrap().path().to_string_lossy().ends_with(extension)).count()
}

/// Imports a file, checks the sums, and checks the jobs file.
fn import(kind: &[&str], file: &str, expected: [u64; 4]) -> (Value, String) {
    let place = Place::new();
    let path = example(file).display().to_string();
    let args = [&["import"], kind, &[path.as_str(), "-o", "jobs.toml", "--json"]].concat();
    let answer = place.run(&args);
    let report: Value = serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{file}: {error}\n{}", answer.stderr));
    let sums = ["exact", "translated", "refused", "warnings"].map(|sum| report["summary"][sum].as_u64().unwrap());
    assert_eq!(sums, expected, "{file}\n{report:#}");
    assert_eq!(answer.code, i32::from(expected[2] > 0), "{file}");
    for line in report["lines"].as_array().unwrap() {
        let explained = !line["why"].as_array().unwrap().is_empty();
        match line["verdict"].as_str().unwrap() {
            "exact" => assert!(line["cron"].is_null(), "{line}"),
            "translated" => assert!(explained, "{line}"),
            verdict => assert!(verdict == "refused" && explained && line["hint"].is_string() && line["taskId"].is_null(), "{line}"),
        }
    }
    let checked = place.json(&["check", "jobs.toml"]);
    assert_eq!([&checked["tasks"], &checked["triggers"]], [&report["summary"]["tasks"], &report["summary"]["triggers"]], "{file}");
    (report, std::fs::read_to_string(place.path("jobs.toml")).unwrap())
}

#[test]
fn example_crontabs_are_imported_as_expected() {
    for (name, expected) in USER {
        import(&["crontab", "--format", "user", "--tz", "Europe/Berlin"], &format!("crontabs/{name}.crontab"), expected);
    }
    assert_eq!(files("crontabs", ".crontab"), USER.len());
    for (name, expected) in SYSTEM {
        import(&["crontab", "--format", "system", "--user", "root", "--tz", "UTC"], &format!("crontabs/system/{name}"), expected);
    }
    assert_eq!(files("crontabs/system", ""), SYSTEM.len());
}

#[test]
fn example_exports_are_imported_as_expected() {
    for (name, expected) in QINGLONG {
        import(&["qinglong", "--tz", "Asia/Shanghai"], &format!("qinglong/{name}.json"), expected);
    }
    assert_eq!(files("qinglong", ".json"), QINGLONG.len());
}

#[test]
fn lines_of_the_examples_are_where_they_are() {
    let (report, jobs) = import(&["crontab", "--format", "user", "--tz", "UTC"], "crontabs/zones.crontab", [5, 3, 2, 0]);
    let line = |number: u64| report["lines"].as_array().unwrap().iter().find(|line| line["line"] == number).unwrap().clone();
    assert_eq!([line(12)["taskId"].as_str(), line(12)["verdict"].as_str()], [Some("invoice"), Some("exact")]);
    assert_eq!([line(14)["kind"].as_str(), line(14)["source"].as_str()], [Some("variable"), Some("CRON_TZ")]);
    assert!(line(15)["why"][0].as_str().unwrap().contains("line 14"));
    assert_eq!(jobs.matches("timezone = \"Europe/Berlin\"").count(), 1, "the first zone is the default\n{jobs}");
    assert_eq!(jobs.matches("timezone = \"America/New_York\"").count(), 3, "{jobs}");
    assert!(jobs.contains("line 15 is not here"), "what was refused is not forgotten\n{jobs}");
}

#[test]
fn comments_become_names_and_stay_comments() {
    let (_, jobs) = import(&["crontab", "--format", "user", "--tz", "UTC"], "crontabs/laptop.crontab", [4, 1, 0, 0]);
    assert!(jobs.contains("name = \"photos from the camera card\"") && jobs.contains("cwd = \"/srv/alice\""), "{jobs}");
    assert!(!jobs.contains("DO NOT EDIT") && !jobs.contains("archive"), "{jobs}");
    let place = Place::new();
    place.write("crontab", "# first line\n# second line\n* * * * * x\n");
    place.ok(&["import", "crontab", "crontab", "--format", "user", "--tz", "UTC", "-o", "jobs.toml"]);
    let jobs = std::fs::read_to_string(place.path("jobs.toml")).unwrap();
    assert!(jobs.contains("# first line\n# second line\n[[task]]"), "{jobs}");
}

/// A crontab cannot be imported without the zone that it runs in, and no zone of the host is guessed.
#[test]
fn a_zone_is_asked_for() {
    let place = Place::new();
    place.write("crontab", "0 3 * * * x\n");
    place.write("zoned", "CRON_TZ=Asia/Tokyo\n0 3 * * * x\n");
    place.write("crons.json", r#"[{"name":"a","command":"task a","schedule":"0 3 * * *"}]"#);
    for args in [&["import", "crontab", "crontab", "--format", "user"][..], &["import", "qinglong", "crons.json"]] {
        let output = place.command(&[args, &["--json", "-o", "jobs.toml"]].concat()).env("TZ", "Europe/Berlin").output().unwrap();
        let answer = crate::Answer::of(output);
        assert_eq!((answer.code, answer.error()["code"].as_str()), (2, Some("timezone_missing")), "{args:?}");
        assert!(answer.error()["hint"].as_str().unwrap().contains("--tz"));
        assert!(!place.path("jobs.toml").exists());
    }
    place.ok(&["import", "crontab", "zoned", "--format", "user"]);
    let answer = place.run(&["import", "crontab", "crontab", "--format", "user", "--tz", "PST"]);
    assert_eq!(answer.code, 3, "{}", answer.stderr);
}

#[test]
fn the_other_format_is_asked_for_and_nothing_is_imported() {
    let place = Place::new();
    for (file, wrong, right) in [("system/crontab", "user", "system"), ("backups.crontab", "system", "user")] {
        let path = example("crontabs").join(file).display().to_string();
        let answer = place.run(&["import", "crontab", &path, "--format", wrong, "--tz", "UTC", "-o", "jobs.toml", "--json"]);
        assert_eq!((answer.code, answer.error()["code"].as_str()), (3, Some("format_mismatch")), "{file}");
        assert!(answer.error()["hint"].as_str().unwrap().contains(&format!("--format {right}")), "{}", answer.stderr);
        assert!(!place.path("jobs.toml").exists());
    }
    assert_eq!(place.run(&["import", "crontab", "x", "--tz", "UTC"]).code, 2, "the format is never guessed");
}

#[test]
fn a_file_is_not_replaced_unless_asked() {
    let place = Place::new();
    place.write("crontab", "0 3 * * * x\n");
    place.write("jobs.toml", "# mine\n");
    let args = ["import", "crontab", "crontab", "--format", "user", "--tz", "UTC", "-o", "jobs.toml"];
    let answer = place.run(&[&args[..], &["--json"]].concat());
    assert_eq!((answer.code, answer.error()["code"].as_str()), (8, Some("file_exists")));
    assert_eq!(std::fs::read_to_string(place.path("jobs.toml")).unwrap(), "# mine\n");
    place.ok(&[&args[..], &["--force"]].concat());
    assert_eq!(place.json(&["check", "jobs.toml"])["triggers"], 1);
    let names: Vec<_> = std::fs::read_dir(place.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing else is left behind: {names:?}");
}

#[test]
fn without_an_output_file_nothing_is_written() {
    let place = Place::new();
    place.write("crontab", "0 3 * * * x\n");
    let shown = place.ok(&["import", "crontab", "crontab", "--format", "user", "--tz", "UTC"]).stdout;
    assert!(shown.contains("1 exact, 0 translated, 0 refused") && shown.contains("nothing was written"), "{shown}");
    assert_eq!(std::fs::read_dir(place.dir.path()).unwrap().count(), 1);
}

#[test]
fn a_file_that_would_define_nothing_is_not_written() {
    let place = Place::new();
    for (text, code) in [("# nothing\n", 1), ("@reboot x\n", 1)] {
        place.write("crontab", text);
        let args = ["import", "crontab", "crontab", "--format", "user", "--tz", "UTC"];
        let answer = place.run(&[&args[..], &["-o", "jobs.toml"]].concat());
        assert_eq!(answer.code, code, "{text}");
        assert!(answer.stdout.contains("no task to write") && !place.path("jobs.toml").exists(), "{}", answer.stdout);
    }
    place.write("crontab", "# nothing\n");
    assert!(place.ok(&["import", "crontab", "crontab", "--format", "user"]).stdout.contains("0 refused"));
}

/// Variables can be secrets: the report names them, the file has them and is its owner's alone.
#[test]
fn values_of_variables_are_in_the_file_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    place.write("crontab", "TOKEN=s3cret\nMAILTO=s3cret@example.org\nQL3_X=s3cret\nHOME=/s3cret\n* * * * * x\n");
    let args = ["import", "crontab", "crontab", "--format", "user", "--tz", "UTC", "-o", "jobs.toml", "--force"];
    for args in [&args[..], &[&args[..], &["--json"]].concat()] {
        let answer = place.run(args);
        assert!(!answer.stdout.contains("s3cret") && !answer.stderr.contains("s3cret"), "{}", answer.stdout);
    }
    let jobs = std::fs::read_to_string(place.path("jobs.toml")).unwrap();
    assert_eq!(jobs.matches("s3cret").count(), 4, "two variables, HOME, and the directory that follows from it\n{jobs}");
    assert_eq!(std::fs::metadata(place.path("jobs.toml")).unwrap().permissions().mode() & 0o777, 0o600);
}

/// What was moved in runs as cron ran it: the shell, the directory, the variables, the input.
#[test]
fn imported_jobs_run_as_cron_ran_them() {
    let place = Place::new();
    let home = place.dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let text = format!(
        "HOME={}\nSHELL=/bin/bash\nGREETING=hello there\n* * * * * [[ $SHELL == */bash ]] && echo \"$GREETING $(date +\\%Y | wc -c)\" && pwd && cat%a%b\n",
        home.display()
    );
    place.write("crontab", &text);
    place.ok(&["import", "crontab", "crontab", "--format", "user", "--tz", "UTC", "-o", "jobs.toml"]);
    place.ok(&["apply", "jobs.toml"]);
    let task = place.json(&["tasks"])["tasks"][0]["id"].as_str().unwrap().to_owned();
    place.ok(&["run", "start", &task]);
    let mut up = place.command(&["up"]).stdout(Stdio::null()).spawn().unwrap();
    // The oldest Run is the one that was started; its trigger may have added others.
    let oldest = || place.json(&["runs", "--task", &task])["runs"].as_array().unwrap().last().unwrap().clone();
    let patience = std::time::Instant::now() + std::time::Duration::from_mins(2);
    while oldest()["finishedAt"].is_null() && std::time::Instant::now() < patience {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    up.kill().unwrap();
    up.wait().unwrap();
    assert_eq!(oldest()["status"], "succeeded");
    let run = oldest()["id"].as_str().unwrap().to_owned();
    let printed = place.ok(&["run", "logs", &run]).stdout;
    assert_eq!(printed, format!("hello there 5\n{}\na\nb\n", home.display()));
}

#[test]
fn what_the_moving_page_shows_is_what_is_printed() {
    let page = std::fs::read_to_string(repository().join("docs/moving-in.md")).unwrap();
    let place = Place::new();
    for directory in ["crontabs", "qinglong"] {
        std::os::unix::fs::symlink(example(directory), place.path(directory)).unwrap();
    }
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_ql3")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let blocks: Vec<_> = page.split("```console\n$ ").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 5, "{}", blocks.len());
    for block in blocks {
        let (command, shown) = block.split_once('\n').unwrap();
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", &format!("{command} 2>&1")]).current_dir(place.dir.path()).env("PATH", &path).env_remove("QL3_PROJECT");
        assert_eq!(crate::Answer::of(shell.output().unwrap()).stdout, shown, "$ {command}");
    }
}
