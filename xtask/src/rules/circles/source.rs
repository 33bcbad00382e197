//! A crate's modules as its source has them: a tree, and what each module mentions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use syn::{Attribute, Expr, Item, ItemMod, Lit, Meta};

use super::module::{self, Module};

/// The modules of one target. The first one is the crate's root.
pub struct Crate {
    /// Every module, parents before their children.
    pub modules: Vec<Module>,
    by_path: HashMap<Vec<String>, usize>,
}

/// Why a crate's modules cannot be told.
pub struct ReadError {
    /// The file at fault.
    pub file: String,
    /// What is wrong with it.
    pub message: String,
}

/// Reads a file; `None` if there is none.
type Read<'a> = dyn Fn(&Path) -> Option<String> + 'a;

impl Crate {
    /// Reads the crate that begins at `root` with all files that its `mod` lines lead to.
    pub fn read(root: &Path, base: &Path, read: &Read) -> Result<Crate, ReadError> {
        let mut reader = Reader { base, read, modules: Vec::new() };
        let folder = root.parent().unwrap_or(Path::new(""));
        reader.file(root, folder, Vec::new())?;
        let by_path = reader.modules.iter().enumerate();
        let by_path = by_path.map(|(at, module)| (module.path.clone(), at)).collect();
        Ok(Crate { modules: reader.modules, by_path })
    }

    /// The module at a path from the root.
    pub fn find(&self, path: &[String]) -> Option<&Module> {
        self.by_path.get(path).map(|at| &self.modules[*at])
    }

    /// The child of `module` with this name.
    pub fn child(&self, module: &Module, name: &str) -> Option<&Module> {
        let path: Vec<String> = module.path.iter().cloned().chain([name.to_owned()]).collect();
        self.find(&path)
    }
}

/// Goes down the tree of modules, file by file.
struct Reader<'a> {
    base: &'a Path,
    read: &'a Read<'a>,
    modules: Vec<Module>,
}

impl Reader<'_> {
    /// Reads `file`, whose children lie in `home`; does nothing if there is no such file.
    fn file(&mut self, file: &Path, home: &Path, path: Vec<String>) -> Result<(), ReadError> {
        let Some(text) = (self.read)(file) else { return Ok(()) };
        let name = file.strip_prefix(self.base).unwrap_or(file).display().to_string();
        let parsed = syn::parse_file(&text).map_err(|error| ReadError {
            file: name.clone(),
            message: format!("cannot be parsed: {error} (line {})", error.span().start().line),
        })?;
        if module::is_for_tests(&parsed.attrs) {
            return Ok(());
        }
        self.module(&parsed.items, Location { file, name: &name, home }, path)
    }

    fn module(&mut self, items: &[Item], at: Location, path: Vec<String>) -> Result<(), ReadError> {
        self.modules.push(module::collect(items, at.name, path.clone()));
        for item in items {
            let Item::Mod(child) = item else { continue };
            if module::is_for_tests(&child.attrs) {
                continue;
            }
            let name = child.ident.to_string();
            let home = at.home.join(&name);
            let path: Vec<String> = path.iter().cloned().chain([name]).collect();
            match &child.content {
                Some((_, items)) => self.module(items, Location { home: &home, ..at }, path)?,
                None => self.declared(child, at, path)?,
            }
        }
        Ok(())
    }

    /// A module in a file of its own.
    fn declared(
        &mut self,
        child: &ItemMod,
        at: Location,
        path: Vec<String>,
    ) -> Result<(), ReadError> {
        let home = at.home.join(child.ident.to_string());
        let given = path_attribute(&child.attrs);
        if let Some(given) = given {
            let file = at.file.parent().unwrap_or(Path::new("")).join(given);
            let home = file.parent().unwrap_or(Path::new("")).to_path_buf();
            return self.file(&file, &home, path);
        }
        self.file(&home.with_extension("rs"), &home, path.clone())?;
        self.file(&home.join("mod.rs"), &home, path)
    }
}

/// Where the items of a module are written, and where the files of its children lie.
#[derive(Clone, Copy)]
struct Location<'a> {
    file: &'a Path,
    name: &'a str,
    home: &'a Path,
}

/// The file in `#[path = "…"]`.
fn path_attribute(attributes: &[Attribute]) -> Option<PathBuf> {
    attributes.iter().find_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else { return None };
        let Expr::Lit(literal) = &pair.value else { return None };
        match &literal.lit {
            Lit::Str(text) if pair.path.is_ident("path") => Some(PathBuf::from(text.value())),
            _ => None,
        }
    })
}
