//! docs/cli.md shows what the program prints.

use crate::{Answer, Place, repository};

/// The fenced blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn what_the_page_shows_is_what_is_printed() {
    let page = std::fs::read_to_string(repository().join("docs/cli.md")).unwrap();
    let place = Place::with_jobs(&blocks(&page, "toml")[0]);
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_ql3")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let blocks = blocks(&page, "console");
    assert!(blocks.len() >= 4, "{}", blocks.len());
    for block in blocks {
        let (command, shown) = block.strip_prefix("$ ").unwrap().split_once('\n').unwrap();
        let mut shell = std::process::Command::new("/bin/sh");
        shell
            .args(["-c", &format!("{command} 2>&1")])
            .current_dir(place.dir.path())
            .env("PATH", &path)
            .env_remove("QL3_DB")
            .env_remove("QL3_PROJECT")
            .env_remove("QL3_LOG");
        let printed = Answer::of(shell.output().unwrap()).stdout;
        assert_eq!(printed, shown, "$ {command}");
    }
}

#[test]
fn the_example_file_of_the_page_is_a_jobs_file() {
    let page = std::fs::read_to_string(repository().join("docs/cli.md")).unwrap();
    for file in blocks(&page, "toml") {
        let place = Place::with_jobs(&file);
        place.ok(&["check", "jobs.toml"]);
    }
}
