//! What the rules look at: cargo's metadata and the repository's files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The repository, read once.
pub struct Workspace {
    /// Root folder.
    pub root: PathBuf,
    /// Every package of the build, ours and others'.
    pub packages: Vec<Package>,
    /// Files that git tracks or would track, relative to the root, sorted.
    pub files: Vec<String>,
    /// Files that git tracks: nothing that a build or a check left beside them.
    pub committed: Vec<String>,
}

/// A package, as `cargo metadata` tells it.
#[derive(Default)]
pub struct Package {
    /// Name in its manifest.
    pub name: String,
    /// Version, for messages.
    pub version: String,
    /// Whether it is a member of this workspace.
    pub ours: bool,
    /// SPDX expression, if the manifest has one.
    pub licence: Option<String>,
    /// Names of the packages its manifest names, in any section.
    pub dependencies: Vec<String>,
    /// Root files of its targets (library, binaries, tests, examples, benches).
    pub target_roots: Vec<PathBuf>,
    /// Folder of its manifest.
    pub folder: PathBuf,
}

impl Workspace {
    /// Reads `cargo metadata` and `git ls-files`.
    pub fn load() -> Result<Self, String> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let text = output(Command::new(cargo).args(["metadata", "--format-version", "1"]))?;
        let json: Value = serde_json::from_str(&text)
            .map_err(|error| format!("cargo metadata answers what is not JSON: {error}"))?;
        let root = PathBuf::from(json["workspace_root"].as_str().unwrap_or("."));
        let members = strings(&json["workspace_members"]);
        let packages = json["packages"].as_array().into_iter().flatten();
        let packages = packages.map(|package| Package::new(package, &members)).collect();
        let committed = listed(&root, &[])?;
        let files = listed(&root, &["--others", "--exclude-standard"])?;
        Ok(Workspace { root, packages, files, committed })
    }

    /// Text of a file; `None` if it is not UTF-8.
    pub fn text(&self, file: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.root.join(file)).ok()
    }

    /// The members of the workspace.
    pub fn own(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.ours)
    }

    /// A path as the repository speaks of it.
    pub fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

/// Files that `git ls-files --cached` names with these further arguments, and that are there.
fn listed(root: &Path, arguments: &[&str]) -> Result<Vec<String>, String> {
    let mut list = Command::new("git");
    list.args(["ls-files", "--cached"]).args(arguments).current_dir(root);
    let mut files: Vec<String> = output(&mut list)?.lines().map(str::to_owned).collect();
    files.retain(|file| root.join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

impl Package {
    fn new(json: &Value, members: &[String]) -> Self {
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
        let manifest = PathBuf::from(text("manifest_path"));
        let names = |list: &Value, key: &str| -> Vec<String> {
            let items = list.as_array().into_iter().flatten();
            items.filter_map(|item| item[key].as_str()).map(str::to_owned).collect()
        };
        Package {
            name: text("name"),
            version: text("version"),
            ours: members.contains(&text("id")),
            licence: json["license"].as_str().map(str::to_owned),
            dependencies: names(&json["dependencies"], "name"),
            target_roots: names(&json["targets"], "src_path").iter().map(PathBuf::from).collect(),
            folder: manifest.parent().map(Path::to_path_buf).unwrap_or_default(),
        }
    }
}

fn strings(json: &Value) -> Vec<String> {
    let items = json.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn output(command: &mut Command) -> Result<String, String> {
    let name = format!("{command:?}");
    let output = command.output().map_err(|error| format!("{name} does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{name} answers what is not UTF-8"))
}
