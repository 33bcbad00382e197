//! Lists in documents are complete: each has all that the engine, or a file, has.

use std::collections::BTreeMap;

use crate::answers::Asker;
use crate::files::read;
use crate::page::{Content, pieces};
use crate::server::{Folder, Server, shell};

/// Asks a new database.
fn ask(name: &str, query: &str) -> Vec<Vec<String>> {
    let folder = Folder::new(name);
    let server = Server::start(folder.path(), "");
    Asker::new(server.address()).rows(query)
}

/// Names that a help text or an engine has and a page does not.
fn missing<'a>(page: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    names.into_iter().filter(|name| !page.contains(name)).collect()
}

#[test]
fn the_page_of_functions_has_every_function() {
    let query = "SELECT DISTINCT proname || '(' FROM pg_proc WHERE proname NOT LIKE 'pg\\_%' \
                 AND proname NOT LIKE 'has\\_%' AND proname NOT IN (SELECT typname FROM pg_type) \
                 ORDER BY 1";
    let names: Vec<String> = ask("functions", query).into_iter().flatten().collect();
    assert!(names.len() > 100, "only {} functions", names.len());
    let page = read("docs/guide/examples.md");
    let missing = missing(&page, names.iter().map(String::as_str));
    assert!(missing.is_empty(), "docs/guide/examples.md does not show {missing:?}");
}

#[test]
fn the_page_of_system_views_has_every_column_with_its_type() {
    let query = "SELECT table_name, column_name, upper(data_type) FROM information_schema.columns \
                 WHERE table_schema = 'halcyon' ORDER BY table_name, ordinal_position";
    let mut views: BTreeMap<String, Vec<[String; 2]>> = BTreeMap::new();
    for row in ask("system-views", query) {
        let [view, column, ty] = <[String; 3]>::try_from(row).expect("three columns");
        let ty = ty.replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ");
        views.entry(view).or_default().push([format!("`{column}`"), ty]);
    }
    let page = read("docs/guide/system-views.md");
    for section in page.split("\n## halcyon.").skip(1) {
        let (name, body) = section.split_once('\n').expect("a section");
        let expected = views.remove(name).unwrap_or_else(|| panic!("there is no halcyon.{name}"));
        let tables = pieces(body).into_iter().filter_map(|piece| match piece.content {
            Content::Table { header, rows, .. } if header[..2] == ["column", "type"] => Some(rows),
            _ => None,
        });
        let found: Vec<[String; 2]> =
            tables.flatten().map(|row| [row.cells[0].clone(), row.cells[1].clone()]).collect();
        assert_eq!(found, expected, "docs/guide/system-views.md, halcyon.{name}");
    }
    assert!(views.is_empty(), "docs/guide/system-views.md lacks {:?}", views.keys());
}

#[test]
fn the_page_of_the_shell_has_every_command() {
    let folder = Folder::new("shell-commands");
    let help = shell(folder.path(), None, "\\?\n");
    let names = help.lines().filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.filter(|name| name.starts_with('\\')).collect();
    assert!(names.len() > 10, "{help}");
    let page = read("docs/guide/shell.md");
    let missing = missing(&page, names);
    assert!(missing.is_empty(), "docs/guide/shell.md does not show {missing:?}");
}

#[test]
fn numbers_on_the_status_page_are_those_of_the_files() {
    let known = read("tests/sql/corpus_known_failures.txt");
    let count = known.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
    let claim = format!("{count} fail");
    assert!(read("docs/status.md").contains(&claim), "docs/status.md does not say {claim:?}");
}
