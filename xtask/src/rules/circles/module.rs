//! A module: what it declares, what it imports and which paths it mentions, without what only tests
//! compile.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Field, ImplItem, Item, ItemMod, ItemUse, Macro, Meta, Stmt, Token, TraitItem,
    UseTree, Variant,
};

/// A module: where it stands, what it declares, and which paths are written in it.
pub struct Module {
    /// Names from the root down; empty for the root.
    pub path: Vec<String>,
    /// The file it is written in.
    pub file: String,
    /// Names of the items that it declares, modules excepted.
    pub declared: BTreeSet<String>,
    /// What its `use` lines bring in.
    pub imports: Vec<Import>,
    /// Every path written in it.
    pub mentions: Vec<Mention>,
}

/// A name that a `use` line brings into a module.
pub struct Import {
    /// The name; `None` for a glob.
    pub name: Option<String>,
    /// What it stands for.
    pub segments: Vec<String>,
}

/// A path in the source.
pub struct Mention {
    /// Names of the path, the first one possibly `crate`, `self` or `super`.
    pub segments: Vec<String>,
    /// Line of the import.
    pub line: usize,
}

/// Reads the items of the module at `path`; modules inside are left to the caller.
pub fn collect(items: &[Item], file: &str, path: Vec<String>) -> Module {
    let mut module = Module {
        path,
        file: file.to_owned(),
        declared: items.iter().filter_map(declared_name).collect(),
        imports: Vec::new(),
        mentions: Vec::new(),
    };
    let mut collector = Collector { module: &mut module };
    for item in items {
        collector.visit_item(item);
    }
    module
}

/// Whether something with these attributes is compiled for tests and fuzzers alone.
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition))
        }
        _ => false,
    })
}

/// Whether a condition of `cfg` holds under `test` or `fuzzing` alone.
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test") || path.is_ident("fuzzing"),
        Meta::List(list) => {
            let parts = Punctuated::<Meta, Token![,]>::parse_terminated;
            let parts = list.parse_args_with(parts).unwrap_or_default();
            match list.path.get_ident().map(ToString::to_string).as_deref() {
                Some("all") => parts.iter().any(needs_test),
                Some("any") => !parts.is_empty() && parts.iter().all(needs_test),
                _ => false,
            }
        }
        Meta::NameValue(_) => false,
    }
}

struct Collector<'a> {
    module: &'a mut Module,
}

impl Collector<'_> {
    fn mention(&mut self, segments: Vec<String>, line: usize) {
        if !segments.is_empty() {
            self.module.mentions.push(Mention { segments, line });
        }
    }

    /// One `use` tree below the names in `before`.
    fn import(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &with(&path.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.import(item, before)),
            UseTree::Name(name) if name.ident == "self" => {
                self.bring_in(before.last().cloned(), before, name.ident.span());
            }
            UseTree::Name(name) => {
                self.bring_in(Some(name.ident.to_string()), &with(&name.ident), name.ident.span());
            }
            UseTree::Rename(rename) => {
                let is_self = rename.ident == "self";
                let segments = if is_self { before.to_vec() } else { with(&rename.ident) };
                self.bring_in(Some(rename.rename.to_string()), &segments, rename.ident.span());
            }
            UseTree::Glob(glob) => {
                let span = glob.star_token.spans[0];
                self.bring_in(None, before, span);
            }
        }
    }

    fn bring_in(&mut self, name: Option<String>, segments: &[String], at: proc_macro2::Span) {
        self.mention(segments.to_vec(), at.start().line);
        self.module.imports.push(Import { name, segments: segments.to_vec() });
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    /// Modules inside are read on their own.
    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.import(&item.tree, &[]);
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        let attributes: &[Attribute] = match item {
            TraitItem::Const(item) => &item.attrs,
            TraitItem::Fn(item) => &item.attrs,
            TraitItem::Type(item) => &item.attrs,
            TraitItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        let attributes: &[Attribute] = match statement {
            Stmt::Local(local) => &local.attrs,
            Stmt::Macro(call) => &call.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_field(&mut self, field: &'ast Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast Variant) {
        if !is_for_tests(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    /// Links of doc comments and arguments of derives order nothing.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let segments = path.segments.iter().map(|part| part.ident.to_string()).collect();
            let line = path.segments.first().map_or(0, |part| part.ident.span().start().line);
            self.mention(segments, line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        let mut tokens = Vec::new();
        flatten(call.tokens.clone(), &mut tokens);
        for (segments, line) in paths(&tokens) {
            self.mention(segments, line);
        }
    }
}

/// A token of a macro's arguments, as far as paths are concerned.
enum MacroToken {
    Name(String, usize),
    Colon,
    Other,
}

fn flatten(stream: TokenStream, into: &mut Vec<MacroToken>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                into.push(MacroToken::Other);
                flatten(group.stream(), into);
                into.push(MacroToken::Other);
            }
            TokenTree::Ident(name) => {
                into.push(MacroToken::Name(name.to_string(), name.span().start().line));
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' => into.push(MacroToken::Colon),
            TokenTree::Punct(_) | TokenTree::Literal(_) => into.push(MacroToken::Other),
        }
    }
}

/// Paths of two names and more among tokens.
fn paths(tokens: &[MacroToken]) -> Vec<(Vec<String>, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let MacroToken::Name(first, line) = &tokens[at] else {
            at += 1;
            continue;
        };
        let mut segments = vec![first.clone()];
        at += 1;
        while let [MacroToken::Colon, MacroToken::Colon, MacroToken::Name(next, _), ..] =
            &tokens[at..]
        {
            segments.push(next.clone());
            at += 3;
        }
        if segments.len() > 1 {
            found.push((segments, *line));
        }
    }
    found
}

fn declared_name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}

fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
