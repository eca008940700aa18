//! What the audits look at: the text files of the checkout and cargo's own view of the workspace.

use std::error::Error;
use std::path::{Path, PathBuf};

use cargo_metadata::{Metadata, MetadataCommand, Package};

pub type Fallible<T> = Result<T, Box<dyn Error>>;

/// A text file; `path` is relative to the workspace root, with `/`.
pub struct TextFile {
    pub path: String,
    pub text: String,
}

impl TextFile {
    #[cfg(test)]
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    pub fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// Integration tests, and unit tests that live in a file of their own.
    pub fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs"))
    }
}

pub struct Repo {
    pub root: PathBuf,
    pub metadata: Metadata,
    pub files: Vec<TextFile>,
}

impl Repo {
    pub fn load() -> Fallible<Self> {
        let root = root()?;
        let metadata = MetadataCommand::new().current_dir(&root).other_options(["--locked".to_owned()]).exec()?;
        let mut files = Vec::new();
        collect(&root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { root, metadata, files })
    }

    pub fn with_extension(&self, extension: &'static str) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(move |file| file.is(extension))
    }

    pub fn members(&self) -> Vec<&Package> {
        self.metadata.workspace_packages()
    }

    /// The text of one file that must be there.
    pub fn file(&self, path: &str) -> Fallible<&TextFile> {
        self.files.iter().find(|file| file.path == path).ok_or_else(|| format!("{path} is missing").into())
    }
}

/// The workspace root: cargo tells a program that it runs where its package is.
pub fn root() -> Fallible<PathBuf> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").ok_or("run it as `cargo xtask`: CARGO_MANIFEST_DIR is not set")?;
    Ok(Path::new(&package).parent().ok_or("the xtask package has no parent directory")?.to_owned())
}

const TEXT: &[&str] = &["json", "md", "rs", "service", "sh", "sql", "toml", "tsv", "txt", "yaml", "yml"];
const TEXT_NAMES: &[&str] = &[".ci/run", "migrations/CHECKSUMS"];

/// Build output, history, and what a `ql3 up` in the checkout leaves behind are not sources. Symbolic links are not
/// followed: what they point to inside the checkout is read at its own place.
fn collect(root: &Path, below: &str, files: &mut Vec<TextFile>) -> Fallible<()> {
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let skipped = name == ".git" || name.starts_with("target") || name.contains(".logs");
            if !skipped {
                collect(root, &path, files)?;
            }
        } else if kind.is_file() {
            let extension = Path::new(&name).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            if TEXT.contains(&extension) || TEXT_NAMES.contains(&path.as_str()) {
                let text = std::fs::read_to_string(entry.path()).map_err(|error| format!("{path}: {error}"))?;
                files.push(TextFile { path, text });
            }
        }
    }
    Ok(())
}
