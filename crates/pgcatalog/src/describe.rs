//! Definitions as SQL text, in the spelling that PostgreSQL's tools expect.

use std::fmt::Write as _;

use halcyon_catalog::session_vars::SessionVars;
use halcyon_catalog::{
    Action, Catalog, Check, Column, Deferral, ForeignKey, Grant, Index, IndexColumn,
    IndexConstraint, Partitioning, Privilege, Relation, Sequence, Table, View,
};
use halcyon_collations::{BUILT_IN_SCHEMA, Collation};
use halcyon_dialect::shown_item_name;
use halcyon_plan::stored_names::mentioned_in;
use halcyon_sql::identifier::{fold, parts, quote_ident};
use halcyon_sql::parse::{ast, parse_query};
use halcyon_sql::types::SqlType;

/// `name` as the session would have to write it: with its schema if the search path lacks it.
pub(crate) fn qualified(session: &SessionVars, schema: &str, name: &str) -> String {
    if schema == "pg_catalog"
        || session
            .search_path
            .iter()
            .any(|s| s == schema || (s == "$user" && session.user == schema))
    {
        quote_ident(name)
    } else {
        format!("{}.{}", quote_ident(schema), quote_ident(name))
    }
}

/// The parts of a possibly qualified and quoted name; `None` if it is malformed.
pub(crate) fn parse_name(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let mut part = String::new();
                let mut chars = quoted.char_indices().peekable();
                let end = loop {
                    match chars.next()? {
                        (_, '"') if chars.peek().is_some_and(|(_, c)| *c == '"') => {
                            part.push('"');
                            chars.next();
                        }
                        (at, '"') => break at + 1,
                        (_, c) => part.push(c),
                    }
                };
                (part, &quoted[end..])
            }
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                (rest[..end].trim().to_lowercase(), &rest[end..])
            }
        };
        if part.is_empty() {
            return None;
        }
        parts.push(part);
        match after.trim_start().strip_prefix('.') {
            Some(after) => rest = after.trim_start(),
            None => return after.trim().is_empty().then_some(parts),
        }
    }
}

fn column_list(table: &Table, columns: &[u16]) -> String {
    let names: Vec<_> = columns.iter().map(|c| quote_ident(column_name(table, *c))).collect();
    names.join(", ")
}

fn column_name(table: &Table, column: u16) -> &str {
    &table.columns[column as usize].name
}

/// One key column of an index, numbered from 1, with its direction if `direction`.
pub(crate) fn index_column(
    table: &Table,
    index: &Index,
    number: usize,
    direction: bool,
) -> Option<String> {
    let at = number.checked_sub(1)?;
    let keys = index_columns(table, index);
    let key = keys.get(at)?;
    let mut text = key.text.clone();
    if direction && let (true, Some(own)) = (key.says_collation, key.collation) {
        // Those of `pg_catalog` are found without their schema.
        let schema = match own.schema.as_str() {
            BUILT_IN_SCHEMA => String::new(),
            schema => format!("{}.", quote_ident(schema)),
        };
        let _ = write!(text, " COLLATE {schema}{}", quote_ident(&own.name));
    }
    if direction && let Some(class) = key.class {
        text.push(' ');
        text.push_str(class);
    }
    if direction && key.descending {
        text.push_str(" DESC");
    }
    if direction && key.nulls_first != key.descending {
        text.push_str(if key.nulls_first { " NULLS FIRST" } else { " NULLS LAST" });
    }
    Some(text)
}

/// One column or expression of an index's key.
pub(crate) struct IndexKey<'a> {
    /// The column's name, or the expression as CREATE INDEX takes it.
    pub(crate) text: String,
    /// The name of the index's own column.
    pub(crate) name: String,
    /// Number of the table's column from 1; 0 for an expression.
    pub(crate) number: i64,
    /// Type of the values.
    pub(crate) ty: SqlType,
    /// DESC.
    pub(crate) descending: bool,
    /// NULLS FIRST.
    pub(crate) nulls_first: bool,
    /// The collation, if it is not the type's own.
    pub(crate) collation: Option<&'a Collation>,
    /// Whether the collation is the index's, and not that of its column.
    pub(crate) says_collation: bool,
    /// The operator class, if it is not the type's own.
    pub(crate) class: Option<&'a str>,
}

/// The columns of an index: those of its key, and those that it includes.
pub(crate) fn index_columns<'a>(table: &'a Table, index: &'a Index) -> Vec<IndexKey<'a>> {
    let mut columns = index_keys(table, index);
    columns.extend(index.included.iter().map(|at| {
        let column = &table.columns[*at as usize];
        IndexKey {
            text: quote_ident(&column.name),
            name: column.name.clone(),
            number: i64::from(*at) + 1,
            ty: column.ty,
            descending: false,
            nulls_first: false,
            collation: column.collation.as_ref(),
            says_collation: false,
            class: None,
        }
    }));
    columns
}

/// The key of an index, derived or not.
pub(crate) fn index_keys<'a>(table: &'a Table, index: &'a Index) -> Vec<IndexKey<'a>> {
    let class = |at: usize| {
        let class = index.operator_classes.get(&u16::try_from(at).ok()?);
        class.map(String::as_str)
    };
    let said = |at: usize| index.collations.get(&u16::try_from(at).ok()?);
    let of_column = |(at, key): (usize, &IndexColumn)| {
        let column = &table.columns[key.column as usize];
        IndexKey {
            text: quote_ident(&column.name),
            name: column.name.clone(),
            number: i64::from(key.column) + 1,
            ty: column.ty,
            descending: key.descending,
            nulls_first: key.nulls_first,
            collation: said(at).or(column.collation.as_ref()),
            says_collation: said(at).is_some(),
            class: class(at),
        }
    };
    let mut keys: Vec<IndexKey> = index.columns.iter().enumerate().map(of_column).collect();
    let mut expressions = 0;
    for key in index.derived.iter().flat_map(|derived| &derived.keys) {
        let column = key.column(table);
        let name = match (column, key.expr.split_once('(')) {
            (Some(at), _) => table.columns[at as usize].name.clone(),
            (None, Some((function, _))) if key.stands_alone => function.to_owned(),
            (None, _) => {
                expressions += 1;
                match expressions {
                    1 => "expr".to_owned(),
                    number => format!("expr{}", number - 1),
                }
            }
        };
        keys.push(IndexKey {
            text: key.shown(),
            name,
            number: column.map_or(0, |at| i64::from(at) + 1),
            ty: key.ty,
            descending: key.descending,
            nulls_first: key.nulls_first,
            collation: said(keys.len()),
            says_collation: said(keys.len()).is_some(),
            class: class(keys.len()),
        });
    }
    keys
}

/// `pg_index.indexprs`: the expressions of a key, as `pg_get_expr` shows them.
pub(crate) fn index_expressions(table: &Table, index: &Index) -> Option<String> {
    let keys = index_keys(table, index).into_iter().filter(|key| key.number == 0);
    let texts: Vec<String> = keys.map(|key| key.text).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// `pg_index.indpred`: the condition of a partial index, in brackets unless it is one name.
pub(crate) fn index_predicate(index: &Index) -> Option<String> {
    let text = index.derived.as_ref()?.predicate.as_ref()?;
    let is_name = text.chars().all(|c| c.is_alphanumeric() || c == '_');
    Some(if is_name { text.clone() } else { format!("({text})") })
}

/// `CREATE INDEX …` for an index; the table's name always carries its schema unless `short`.
pub(crate) fn index(session: &SessionVars, table: &Table, index: &Index, short: bool) -> String {
    let unique = if index.says_unique() { "UNIQUE " } else { "" };
    let on = match short {
        true => qualified(session, &table.schema, &table.name),
        false => format!("{}.{}", quote_ident(&table.schema), quote_ident(&table.name)),
    };
    let count = index_keys(table, index).len();
    let keys: Vec<_> = (1..=count).filter_map(|n| index_column(table, index, n, true)).collect();
    let name = quote_ident(&index.name);
    let mut rest = match index.included.as_slice() {
        [] => String::new(),
        included => format!(" INCLUDE ({})", column_list(table, included)),
    };
    rest.push_str(index.nulls_words());
    rest.extend(index_predicate(index).map(|text| format!(" WHERE {text}")));
    format!("CREATE {unique}INDEX {name} ON {on} USING btree ({}){rest}", keys.join(", "))
}

/// `PRIMARY KEY (…)` or `UNIQUE (…)` of the constraint that made an index.
pub(crate) fn key_constraint(table: &Table, index: &Index) -> Option<String> {
    let word = match index.constraint? {
        IndexConstraint::PrimaryKey => "PRIMARY KEY",
        IndexConstraint::Unique => "UNIQUE",
    };
    let columns: Vec<_> = index.columns.iter().map(|key| key.column).collect();
    let deferral = Deferral::words(index.deferral);
    let nulls = index.nulls_words();
    Some(format!("{word}{nulls} ({}){deferral}", column_list(table, &columns)))
}

/// The query of a view, giving its columns the view's names.
pub(crate) fn view(catalog: &Catalog, view: &View) -> String {
    let names: Vec<&str> = view.columns.iter().map(|(name, _)| name.as_str()).collect();
    let own = parse_query(&view.query).ok().and_then(|query| output_names(catalog, &query));
    match own {
        Some(own) if own.len() == names.len() && own != names => {
            let names: Vec<String> = names.into_iter().map(quote_ident).collect();
            let (alias, names) = (quote_ident(&view.name), names.join(", "));
            format!("SELECT * FROM ({}) AS {alias} ({names})", view.query)
        }
        _ => view.query.clone(),
    }
}

/// Names of a query's columns; `None` if they follow from more than its items and one relation.
fn output_names(catalog: &Catalog, query: &ast::Query) -> Option<Vec<String>> {
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return None };
    let items: Option<Vec<String>> = select.projection.iter().map(shown_item_name).collect();
    if items.is_some() {
        return items;
    }
    let ([ast::SelectItem::Wildcard(_)], [from]) = (&select.projection[..], &select.from[..])
    else {
        return None;
    };
    match &from.relation {
        ast::TableFactor::Derived { alias: Some(alias), .. } if from.joins.is_empty() => {
            let names: Vec<_> = alias.columns.iter().map(|column| fold(&column.name)).collect();
            (!names.is_empty()).then_some(names)
        }
        ast::TableFactor::Table { name, alias: None, args: None, .. } if from.joins.is_empty() => {
            match catalog.resolve(&parts(name).ok()?, &[])?.relation {
                Relation::Table(table) => {
                    Some(table.columns.iter().map(|column| column.name.clone()).collect())
                }
                Relation::View(view) => {
                    Some(view.columns.iter().map(|(name, _)| name.clone()).collect())
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Positions of the columns that a condition names, in ascending order.
pub(crate) fn columns_of_check(table: &Table, check: &Check) -> Vec<u16> {
    let named = mentioned_in(&check.expr);
    let columns = (0..).zip(&table.columns);
    columns.filter(|(_, column)| named.contains(&column.name)).map(|(at, _)| at).collect()
}

/// `CHECK (…)`.
pub(crate) fn check(check: &Check, pretty: bool) -> String {
    let not_valid = if check.not_valid { " NOT VALID" } else { "" };
    match pretty {
        true => format!("CHECK ({}){not_valid}", check.expr),
        false => format!("CHECK (({})){not_valid}", check.expr),
    }
}

/// `FOREIGN KEY (…) REFERENCES …`.
pub(crate) fn foreign_key(
    session: &SessionVars,
    catalog: &Catalog,
    table: &Table,
    key: &ForeignKey,
) -> String {
    let mut text = format!("FOREIGN KEY ({}) REFERENCES ", column_list(table, &key.columns));
    if let Some(target) = catalog.tables.get(&key.target) {
        text.push_str(&qualified(session, &target.schema, &target.name));
        let _ = write!(text, "({})", column_list(target, &key.target_columns));
    }
    text.push_str(if key.full { " MATCH FULL" } else { "" });
    for (event, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
        if action != Action::NoAction {
            let _ = write!(text, " ON {event} {}", action.name());
        }
        if event == "DELETE" && !key.on_delete_columns.is_empty() {
            let _ = write!(text, " ({})", column_list(table, &key.on_delete_columns));
        }
    }
    text.push_str(Deferral::words(key.deferral));
    text.push_str(if key.not_valid { " NOT VALID" } else { "" });
    text
}

/// A referential action as `pg_constraint` has it.
pub(crate) fn action_letter(action: Action) -> &'static str {
    match action {
        Action::NoAction => "a",
        Action::Restrict => "r",
        Action::Cascade => "c",
        Action::SetNull => "n",
        Action::SetDefault => "d",
    }
}

/// `pg_class.reloptions`: how the table is partitioned, if it is.
pub(crate) fn options(table: &Table) -> Option<Vec<String>> {
    let Partitioning::Column { column } = table.partitioning else { return None };
    let by = column_name(table, column);
    Some(vec![format!("partition_by={by}"), format!("partitions={}", table.cells.len())])
}

/// `pg_class.reloptions` of a view.
pub(crate) fn view_options(view: &View) -> Option<Vec<String>> {
    let options: Vec<_> =
        view.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    (!options.is_empty()).then_some(options)
}

/// `pg_attribute.attidentity`.
pub(crate) fn identity_letter(column: &Column) -> &'static str {
    match &column.identity {
        None => "",
        Some(identity) if identity.always => "a",
        Some(_) => "d",
    }
}

/// `pg_attribute.attlen` by type id: bytes, −1 if it varies.
pub(crate) fn type_length(oid: u32) -> i16 {
    crate::statics::type_by_oid(oid).map_or(-1, |ty| ty.length)
}

/// `pg_attribute.attlen` of a column's type.
pub(crate) fn type_length_of(ty: SqlType) -> i16 {
    match ty {
        SqlType::Enum(_) => 4,
        other => type_length(other.oid()),
    }
}

/// The condition of a domain as PostgreSQL shows it: `VALUE` in capitals.
pub(crate) fn value_in_capitals(text: &str) -> String {
    halcyon_plan::domains::with_value(text, &ast::Ident::new("VALUE"))
}

/// SQL's spelling of a type of `pg_type` that is the same in every database; `modifier` is −1 or absent if none was given.
pub(crate) fn format_type(oid: u32, modifier: Option<i32>) -> Option<String> {
    let given = modifier.filter(|m| *m >= 0);
    let sized = |name: &str| match given {
        Some(m) => format!("{name}({})", m - 4),
        None => name.to_owned(),
    };
    Some(match oid {
        0 => "-".to_owned(),
        16 => "boolean".to_owned(),
        18 => "\"char\"".to_owned(),
        20 => "bigint".to_owned(),
        21 => "smallint".to_owned(),
        23 => "integer".to_owned(),
        700 => "real".to_owned(),
        701 => "double precision".to_owned(),
        1042 if modifier == Some(-1) => "bpchar".to_owned(),
        1042 => sized("character"),
        1043 => sized("character varying"),
        1083 => "time without time zone".to_owned(),
        1114 => "timestamp without time zone".to_owned(),
        1184 => "timestamp with time zone".to_owned(),
        1266 => "time with time zone".to_owned(),
        1560 => sized("bit"),
        1562 => sized("bit varying"),
        1700 => match given {
            Some(m) => {
                let (precision, scale) = ((m - 4) >> 16, (m - 4) & 0x7ff);
                let scale = if scale >= 0x400 { scale - 0x800 } else { scale };
                format!("numeric({precision},{scale})")
            }
            None => "numeric".to_owned(),
        },
        _ => {
            let ty = super::statics::type_by_oid(oid)?;
            match ty.element {
                Some(element) if ty.name.starts_with('_') => {
                    format!("{}[]", format_type(element, modifier)?)
                }
                _ => ty.name.clone(),
            }
        }
    })
}

/// `aclitem[]` of an object: the owner's own rights first, then what was granted. `None` if
/// nothing was granted, which clients read as "the owner may do everything".
pub(crate) fn acl(owner: &str, grants: &[Grant], all: &str) -> Option<Vec<String>> {
    if grants.is_empty() {
        return None;
    }
    let mut items = vec![format!("{0}={all}/{0}", quote_ident(owner))];
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for grant in grants {
        let pair = (grant.grantee.as_str(), grant.grantor.as_str());
        if grant.grantee != owner && !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    for (grantee, grantor) in pairs {
        let mut letters = String::new();
        for (privilege, letter) in LETTERS {
            let mut of = (grants.iter())
                .filter(|g| g.grantee == grantee && g.grantor == grantor)
                .filter(|g| g.privilege == *privilege);
            if let Some(grant) = of.next() {
                letters.push(*letter);
                letters.push_str(if grant.grantable { "*" } else { "" });
            }
        }
        let name = if grantee == "public" { String::new() } else { quote_ident(grantee) };
        items.push(format!("{name}={letters}/{}", quote_ident(grantor)));
    }
    Some(items)
}

/// Privileges with their letters, in the order PostgreSQL prints them.
const LETTERS: &[(Privilege, char)] = &[
    (Privilege::Insert, 'a'),
    (Privilege::Select, 'r'),
    (Privilege::Update, 'w'),
    (Privilege::Delete, 'd'),
    (Privilege::Truncate, 'D'),
    (Privilege::References, 'x'),
    (Privilege::Usage, 'U'),
    (Privilege::Create, 'C'),
];

/// SQL's word for the privilege of a letter in rights.
pub(crate) fn privilege_of(letter: char) -> Option<&'static str> {
    let known = LETTERS.iter().find(|(_, known)| *known == letter);
    known.map(|(privilege, _)| privilege.name()).or(match letter {
        'x' => Some("REFERENCES"),
        't' => Some("TRIGGER"),
        'X' => Some("EXECUTE"),
        'T' => Some("TEMPORARY"),
        'c' => Some("CONNECT"),
        _ => None,
    })
}

/// A column's default as clients read it. Identity columns show none: `attidentity` tells.
pub(crate) fn default(column: &Column) -> Option<&String> {
    if column.identity.is_some() { None } else { column.default.as_ref() }
}

/// `pg_attribute.attgenerated`.
pub(crate) fn generated_letter(column: &Column) -> &'static str {
    if column.generated.is_some() { "s" } else { "" }
}

/// The type of a sequence as `pg_sequence` has it: that of the column it feeds, else BIGINT.
pub(crate) fn sequence_type(catalog: &Catalog, sequence: &Sequence) -> u32 {
    let column = sequence
        .owned_by
        .and_then(|(table, column)| catalog.tables.get(&table)?.columns.get(column as usize));
    match column.map(|column| column.ty) {
        Some(SqlType::SmallInt) => 21,
        Some(SqlType::Integer) => 23,
        _ => 20,
    }
}

/// Bytes in words, as `pg_size_pretty` tells them.
pub(crate) fn size(bytes: i64) -> String {
    const UNITS: &[&str] = &["bytes", "kB", "MB", "GB", "TB", "PB"];
    let mut unit = 0;
    let mut size = i128::from(bytes);
    // As PostgreSQL: the next unit begins at 10 of it, and halves round away from zero.
    while size.abs() >= if unit == 0 { 10 * 1024 } else { 20 * 1024 - 1 } && unit + 1 < UNITS.len()
    {
        // One bit is kept for rounding, from the first division on.
        size >>= if unit == 0 { 9 } else { 10 };
        unit += 1;
    }
    if unit > 0 {
        size = (size + size.signum()) / 2;
    }
    format!("{size} {}", UNITS[unit])
}

/// Rights on an object of a kind (`acldefault`'s letter) while nobody has granted or revoked any;
/// `None` if there is no such kind.
pub(crate) fn default_rights(kind: &str, owner: &str) -> Option<Vec<String>> {
    let (everybody, own) = match kind {
        "c" => return Some(Vec::new()),
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "n" => ("", "UC"),
        "p" => ("", "sA"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        _ => return None,
    };
    let owner = quote_ident(owner);
    let all = (!everybody.is_empty()).then(|| format!("={everybody}/{owner}"));
    Some(all.into_iter().chain([format!("{owner}={own}/{owner}")]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_as_postgresql_tells_them() {
        // Recorded from PostgreSQL 15.
        for (bytes, text) in [
            (0, "0 bytes"),
            (10239, "10239 bytes"),
            (10240, "10 kB"),
            (10752, "11 kB"),
            (-10752, "-11 kB"),
            (10484736, "10239 kB"),
            (10485247, "10239 kB"),
            (10485248, "10 MB"),
            (1 << 40, "1024 GB"),
            (i64::MAX, "8192 PB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }
}
