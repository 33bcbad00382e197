//! The driver, and databases.

use std::sync::Arc;

use adbc_core::Optionable;
use adbc_core::options::{OptionConnection, OptionDatabase, OptionValue};
use halcyon::SessionOptions;

use crate::connections::Connection;
use crate::errors::{Result, invalid, missing, told};
use crate::options::{not_found, other_getters, text, unknown};
use crate::sharing::{self, Opened};

/// The driver.
#[derive(Default)]
pub struct Driver;

impl adbc_core::Driver for Driver {
    type DatabaseType = Database;

    fn new_database(&mut self) -> Result<Database> {
        self.new_database_with_opts([])
    }

    fn new_database_with_opts(
        &mut self,
        opts: impl IntoIterator<Item = (OptionDatabase, OptionValue)>,
    ) -> Result<Database> {
        let (mut uri, mut path, mut role, mut settings) = (None, None, None, Vec::new());
        for (key, value) in opts {
            let value = text(key.as_ref(), value)?;
            match key {
                OptionDatabase::Uri => uri = Some(value),
                OptionDatabase::Username => role = Some(value).filter(|role| !role.is_empty()),
                OptionDatabase::Password if value.is_empty() => {}
                OptionDatabase::Password => {
                    return Err(missing(
                        "a password of an embedded database, whose files are its owner's",
                    ));
                }
                other if other.as_ref() == "path" => path = Some(value),
                other => settings.push((other.as_ref().to_owned(), value)),
            }
        }
        if uri.is_some() && path.is_some() {
            return Err(invalid("\"uri\" and \"path\" both name the database"));
        }
        let name = path.or(uri).unwrap_or_default();
        settings.sort();
        let opened = sharing::open(folder(&name)?, &settings)?;
        Ok(Database { opened, name, role })
    }
}

/// The folder that a path or URI names; `None`: memory. Errors: invalid arguments for another scheme.
fn folder(name: &str) -> Result<Option<&str>> {
    let path = match name.split_once(':') {
        Some(("file" | "halcyon", rest)) => rest.strip_prefix("//").unwrap_or(rest),
        Some((scheme, rest)) if rest.starts_with("//") && !scheme.contains('/') => {
            return Err(invalid(format!(
                "the driver opens folders, and none by a URI of the scheme \"{scheme}\""
            )));
        }
        _ => name,
    };
    Ok(Some(path).filter(|path| !path.is_empty() && *path != ":memory:"))
}

/// A database: in memory, or kept in a folder.
pub struct Database {
    opened: Arc<Opened>,
    name: String,
    role: Option<String>,
}

impl Optionable for Database {
    type Option = OptionDatabase;

    fn set_option(&mut self, key: OptionDatabase, _: OptionValue) -> Result<()> {
        Err(unknown(key.as_ref()))
    }

    fn get_option_string(&self, key: OptionDatabase) -> Result<String> {
        match key {
            OptionDatabase::Uri => Ok(self.name.clone()),
            OptionDatabase::Username => Ok(self.role.clone().unwrap_or_default()),
            other if other.as_ref() == "path" => Ok(self.name.clone()),
            other => Err(not_found(other.as_ref())),
        }
    }

    other_getters!(OptionDatabase);
}

impl adbc_core::Database for Database {
    type ConnectionType = Connection;

    fn new_connection(&self) -> Result<Connection> {
        self.new_connection_with_opts([])
    }

    fn new_connection_with_opts(
        &self,
        opts: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> Result<Connection> {
        let options = SessionOptions { role: self.role.clone(), client: None };
        let session = self.opened.database.session_with(options).map_err(told)?;
        let mut connection = Connection::new(session, self.opened.clone());
        // What others depend on comes first, whatever order a table of hashes has.
        let mut opts: Vec<_> = opts.into_iter().collect();
        opts.sort_by(|(a, _), (b, _)| a.as_ref().cmp(b.as_ref()));
        for (key, value) in opts {
            connection.set_option(key, value)?;
        }
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_uris_name_folders() {
        for (name, expected) in [
            ("", None),
            (":memory:", None),
            ("file::memory:", None),
            ("halcyon:", None),
            ("data", Some("data")),
            ("/srv/data", Some("/srv/data")),
            ("file:/srv/data", Some("/srv/data")),
            ("file:///srv/data", Some("/srv/data")),
            ("halcyon:///srv/data", Some("/srv/data")),
            ("halcyon:data", Some("data")),
            ("/srv/a:b", Some("/srv/a:b")),
        ] {
            assert_eq!(folder(name).unwrap(), expected, "{name}");
        }
        assert!(folder("postgresql://host/db").is_err());
    }
}
