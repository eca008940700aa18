//! What a bad jobs file is answered with, to the letter. The files and answers are in `snapshots/`; `UPDATE_SNAPSHOTS=1` writes the answers anew.

use std::{fs, path::Path};

use crate::Place;

fn snapshots() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/snapshots"))
}

/// Checks `<name>.toml` and compares with `<name>.txt`.
fn snapshot(name: &str) -> String {
    let place = Place::with_jobs(&fs::read_to_string(snapshots().join(format!("{name}.toml"))).unwrap());
    let answer = place.run(&["check", "jobs.toml"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (3, ""), "{}", answer.stderr);
    let expected = snapshots().join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&expected, &answer.stderr).unwrap();
    }
    assert_eq!(answer.stderr, fs::read_to_string(expected).unwrap());
    answer.stderr
}

#[test]
fn every_error_of_a_file_is_shown_at_its_place() {
    let shown = snapshot("everything_wrong");
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn syntax_errors_show_no_value_after_an_env() {
    let shown = snapshot("syntax");
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn cron_errors_point_into_the_expression() {
    snapshot("cron");
}

#[test]
fn errors_are_json_if_asked_for() {
    let place = Place::with_jobs("[[task]]\nid = \"a\"\nshell = \"true\"\ntimeot = \"1m\"\n");
    let answer = place.run(&["check", "jobs.toml", "--json"]);
    assert_eq!(answer.code, 3);
    let error = answer.error();
    assert_eq!((error["code"].as_str(), error["message"].as_str()), (Some("invalid_jobs_file"), Some("jobs.toml has 1 error")));
    assert_eq!(
        error["details"],
        serde_json::json!([{
            "file": "jobs.toml", "line": 4, "column": 1, "field": "task `a`", "value": "timeot", "message": "`timeot` is not a key",
            "hint": "did you mean `timeout`?",
        }])
    );
}

/// Whatever is wrong with a file, its secrets stay in it.
#[test]
fn secrets_are_shown_in_no_error() {
    let bodies = [
        "env = { TOKEN = \"s3cret\", N = 5 }",
        "env = \"s3cret\"",
        "env = [\"s3cret\"]",
        "env = { TOKEN = [\"s3cret\"] }",
        "env = { TOKEN = { A = \"s3cret\" } }",
        "env = { \"A=B\" = \"s3cret\" }",
        "env = { TOKEN = \"s3cret\\u0000\" }",
        "evn = { TOKEN = \"s3cret\" }",
        "environment = { TOKEN = \"s3cret\" }",
        "env.TOKEN = \"s3cret\"\nenv.N = 5",
        "env = { TOKEN = \"s3cret }",
        "env = { TOKEN = s3cret }",
        "env = { TOKEN = \"s3cret\" \"s3cret\" }",
        "env = { TOKEN = \"s3cret\", TOKEN = \"s3cret\" }",
        "env = { TOKEN = '''\ns3cret\n''', N = 5 }",
        "env = { TOKEN = '''\ns3cret\n''' '''s3cret''' }",
        "env = {\n  TOKEN = \"s3cret\",\n  OTHER = s3cret\n}",
        "[task.env]\nTOKEN = \"s3cret\"\nN = 5",
        "[task.env]\nTOKEN = s3cret",
        "[task.env]\nTOKEN = \"s3cret\\q\"",
        "[task.env]\nTOKEN = \"\"\"\ns3cret \\q s3cret\n\"\"\"",
        "env = { QL3_TOKEN = \"s3cret\" }",
    ];
    let mut texts = [
        "task.env.TOKEN = \"s3cret\"",
        "task = { env = { TOKEN = \"s3cret\" } }",
        "tasks = [{ id = \"a\", env = { TOKEN = \"s3cret\" } }]",
        "task = [{ id = \"a\", shell = \"true\", env = { TOKEN = \"s3cret\", N = 5 } }]",
        "task = [[{ env = { TOKEN = \"s3cret\" } }]]",
        "env = { TOKEN = \"s3cret\" }",
        "env = { TOKEN = \"s3cret }",
        "[env]\nTOKEN = s3cret",
        "[[task]]\nid = \"a\"\nshell = \"true\"\ntrigger = { env = { TOKEN = \"s3cret\" } }",
        "[[task]]\nid = \"a\"\nshell = { env = { TOKEN = \"s3cret\" } }",
        "[[task]]\nid = \"a\"\nshell = \"true\"\n[[task.trigger]]\nenv = { TOKEN = \"s3cret\" }",
    ]
    .map(str::to_owned)
    .to_vec();
    for body in bodies {
        texts.push(format!("[[task]]\nid = \"a\"\nshell = \"true\"\n{body}\n"));
        texts.push(format!("[defaults]\n{}\n", body.replace("[task.env]", "[defaults.env]")));
    }
    for text in texts {
        let place = Place::with_jobs(&text);
        for args in [&["check", "jobs.toml"][..], &["check", "jobs.toml", "--json"], &["apply", "jobs.toml"], &["up", "jobs.toml"]] {
            let answer = place.run(args);
            assert_eq!(answer.code, 3, "{text}");
            assert!(!answer.stderr.contains("s3cret") && !answer.stdout.contains("s3cret"), "{text}\n{}", answer.stderr);
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let place = Place::new();
    let answer = place.run(&["check", "absent.toml"]);
    assert_eq!(answer.code, 4);
    assert!(answer.stderr.contains("absent.toml"), "{}", answer.stderr);
    fs::write(place.path("bytes.toml"), b"# ok\nid = \"\xff\"\n").unwrap();
    let answer = place.run(&["check", "bytes.toml"]);
    assert_eq!(answer.code, 3);
    assert!(answer.stderr.contains("bytes.toml:2:7: this byte is not UTF-8"), "{}", answer.stderr);
}

#[test]
fn a_good_file_is_summed_up() {
    let place = Place::with_jobs(
        "project = \"shop\"\n[[task]]\nid = \"a\"\nshell = \"true\"\n[[task.trigger]]\ncron = \"0 3 * * *\"\ntimezone = \"UTC\"\n[[task]]\nid = \"b\"\nshell = \"true\"\n",
    );
    let shown = place.ok(&["check", "jobs.toml"]).stdout;
    assert!(shown.starts_with("ok: 2 tasks and 1 trigger in project `shop`\n"), "{shown}");
    assert!(shown.contains("at 03:00 every day, UTC") && shown.contains("task `b` has no trigger"), "{shown}");
    let json = place.json(&["check", "jobs.toml"]);
    assert_eq!(
        (json["ok"].as_bool(), json["project"].as_str(), json["tasks"].as_u64(), json["triggers"].as_u64()),
        (Some(true), Some("shop"), Some(2), Some(1))
    );
    assert_eq!(place.run(&["check", "jobs.toml", "--project", "other"]).code, 3, "it is another project's");
}

#[test]
fn a_file_may_come_from_standard_input() {
    let place = Place::new();
    let mut child =
        place.command(&["check", "-"]).stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"colour = 1\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("<stdin>:1:1"));
}

#[test]
fn the_example_is_a_jobs_file() {
    let example = crate::repository().join("examples/jobs.toml");
    let json = Place::new().json(&["check", example.to_str().unwrap()]);
    assert_eq!(json["triggers"], 5);
}
