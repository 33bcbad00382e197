//! The guide's list of settings, made from the registry: docs/guide/settings.md.

use std::fmt::Write;

use super::accepted::ACCEPTED;
use super::kind::{SWITCH, SettingKind};
use super::registry::{Home, REGISTRY, Setting};
use super::{Facts, Settings, Surroundings};

const HEAD: &str = "# Settings

Made from the registry of settings (crates/halcyon/src/settings/registry.rs) by a test, which fails
where the two differ; `HALCYON_BLESS=1 cargo test -p halcyon the_guide_lists` writes this page.

`SHOW name` shows a setting, `SHOW ALL`, `halcyon.settings` and `pg_settings` show all. Who may change
one, and when:

| of | changed by |
|---|---|
| session | `SET`, `SET LOCAL` (for a transaction), `RESET`; options on connecting; anybody at any time |
| transaction | `SET` or `SET TRANSACTION` before its first statement; outside of one the session's default is shown |
| database | `ALTER SYSTEM SET` and `RESET` by superusers; `DatabaseOptions::set`, or a flag of the command line, stands above it |
| read-only | told, never set |

A bare number has the unit in brackets. Durations take `us`, `ms`, `s`, `min`, `h` and `d`; sizes `B`,
`kB`, `MB`, `GB` and `TB`.

| setting | of | default | values | what it is for |
|---|---|---|---|---|
";

const WITHOUT_EFFECT: &str = "
## Without effect

Settings of PostgreSQL that tools set and show: they take what PostgreSQL takes and give it back, and
nothing goes by them. `pg_settings` lists them under *Without Effect*.
";

fn values<T>(kind: &SettingKind<T>) -> String {
    let bounds = kind.bounds();
    match (kind, bounds, kind.unit()) {
        (SettingKind::Bool { .. }, ..) => "on, off".to_owned(),
        (SettingKind::Word { .. }, ..) => kind.words().join(", "),
        (SettingKind::Text { .. }, ..) | (_, None, _) => "text".to_owned(),
        (_, Some((least, most)), None) => format!("{least} to {most}"),
        (_, Some((least, most)), Some(unit)) => format!("{least} to {most} [{unit}]"),
    }
}

fn row(setting: &Setting, default: &str) -> String {
    let (of, values) = match &setting.home {
        Home::Session(kind) => ("session", values(kind)),
        Home::System { kind, flag, .. } => ("database", format!("{}; `--{flag}`", values(kind))),
        Home::Transaction { spellings, .. } if *spellings == SWITCH => {
            ("transaction", "on, off".to_owned())
        }
        Home::Transaction { spellings, .. } => {
            let words: Vec<&str> = spellings.iter().map(|(word, _)| *word).collect();
            ("transaction", words.join(", "))
        }
        Home::Fact { .. } => ("read-only", String::new()),
    };
    let default = match (&setting.home, default) {
        // The default differs from session to session or from build to build.
        (Home::Fact { .. }, _) | (_, "") => String::new(),
        (_, default) => format!("`{default}`"),
    };
    format!("| `{}` | {of} | {default} | {values} | {} |\n", setting.name, setting.purpose)
}

/// The text of the page.
fn page() -> String {
    let (given, altered) = (super::SystemSettings::default(), Default::default());
    let system = super::Chosen { given: &given, altered: &altered };
    let around = Surroundings { system, transaction: None };
    let settings = Settings::new(Facts::default());
    let mut page = HEAD.to_owned();
    for setting in REGISTRY {
        let default = settings.row(setting, &around).default;
        page.write_str(&row(setting, &default)).expect("memory takes it");
    }
    page.push_str(WITHOUT_EFFECT);
    for of_session in [true, false] {
        let wanted = |setting: &&Setting| matches!(setting.home, Home::Session(_)) == of_session;
        let names = ACCEPTED.iter().filter(wanted).map(|setting| format!("`{}`", setting.name));
        let of = if of_session { "Of a session" } else { "Read-only" };
        let names: Vec<String> = names.collect();
        write!(page, "\n{of}: {}.\n", names.join(", ")).expect("memory takes it");
    }
    page
}

#[test]
fn the_guide_lists_every_setting() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/settings.md");
    if std::env::var_os("HALCYON_BLESS").is_some() {
        std::fs::write(path, page()).expect("the page can be written");
    }
    let written = std::fs::read_to_string(path).expect("the page is there");
    assert!(written == page(), "docs/guide/settings.md is old: see its head for how to write it");
}
