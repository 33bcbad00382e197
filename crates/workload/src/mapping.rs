//! Which class a statement is in: mappings, and the one that decides.
//!
//! All keys of a mapping have to match. Of several mappings that match, the one with more exact keys decides, then
//! with more characters before wildcards, then with the key of higher precedence ([`MappingKey`]), then the one whose
//! name comes first. So there is always one answer, which depends on nothing but the definitions and the context.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::key::MappingKey;
use crate::limits::ClassId;
use crate::problem::{Problem, ProblemKind};

/// What is known of a statement's session when its class is looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The role that the session runs as.
    pub user: Option<&'a str>,
    /// Roles of which that role is a member.
    pub groups: &'a [String],
    /// `application_name`, or the session variable APPLICATION.
    pub application_name: Option<&'a str>,
    /// The application's user.
    pub application_user: Option<&'a str>,
    /// A part of the application.
    pub application_component: Option<&'a str>,
    /// The kind of that part.
    pub application_component_type: Option<&'a str>,
    /// A place in the application's source.
    pub application_source: Option<&'a str>,
    /// The client of an application of SAP.
    pub client: Option<&'a str>,
    /// The application's tenant.
    pub tenant: Option<&'a str>,
    /// The application's user, told by SAP's XS server.
    pub xs_user: Option<&'a str>,
    /// Tables and views that the statement names and a mapping asks for.
    pub objects: &'a [Object],
    /// The database of the connection.
    pub database: Option<&'a str>,
}

/// A table or view by its name and that of its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The schema.
    pub schema: Arc<str>,
    /// The name within the schema.
    pub name: Arc<str>,
}

impl Context<'_> {
    fn matches(&self, key: MappingKey, pattern: &Pattern) -> bool {
        let value = match key {
            MappingKey::UserName => self.user,
            MappingKey::UserGroupName => {
                return self.groups.iter().any(|group| pattern.matches(group));
            }
            MappingKey::XsApplicationUserName => self.xs_user,
            MappingKey::ApplicationUserName => self.application_user,
            // The two name one object together: see `Mapping::matches`.
            MappingKey::SchemaName | MappingKey::ObjectName => return true,
            MappingKey::ApplicationName => self.application_name,
            MappingKey::ApplicationComponentName => self.application_component,
            MappingKey::ApplicationComponentType => self.application_component_type,
            MappingKey::ApplicationSource => self.application_source,
            MappingKey::DatabaseName => self.database,
            MappingKey::Client => self.client,
            MappingKey::ApplicationTenantName => self.tenant,
        };
        value.is_some_and(|value| pattern.matches(value))
    }
}

/// A value that a key must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Exact(String),
    Prefix(String),
}

impl Pattern {
    fn matches(&self, value: &str) -> bool {
        match self {
            Pattern::Exact(text) => text == value,
            Pattern::Prefix(text) => value.starts_with(text.as_str()),
        }
    }
}

/// A mapping in force.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) name: Arc<str>,
    pub(crate) class: ClassId,
    patterns: Vec<(MappingKey, Pattern)>,
}

/// The rank of a mapping among those that match: the greatest decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    exact: usize,
    wildcard_length: usize,
    /// A bit for each key, that of the highest precedence first.
    keys: u32,
}

impl Mapping {
    pub(crate) fn new(name: &str, class: ClassId, patterns: Vec<(MappingKey, Pattern)>) -> Self {
        Mapping { name: Arc::from(name), class, patterns }
    }

    fn matches(&self, context: &Context<'_>) -> bool {
        self.patterns.iter().all(|(key, pattern)| context.matches(*key, pattern))
            && self.object().is_none_or(|object| context.objects.contains(&object))
    }

    /// The table or view that the mapping asks for.
    pub(crate) fn object(&self) -> Option<Object> {
        let of = |wanted: MappingKey| {
            self.patterns.iter().find_map(|(key, pattern)| match pattern {
                Pattern::Exact(text) if *key == wanted => Some(Arc::from(text.as_str())),
                _ => None,
            })
        };
        let (schema, name) = (of(MappingKey::SchemaName)?, of(MappingKey::ObjectName)?);
        Some(Object { schema, name })
    }

    fn rank(&self) -> Rank {
        let prefixes = self.patterns.iter().filter_map(|(_, pattern)| match pattern {
            Pattern::Exact(_) => None,
            Pattern::Prefix(text) => Some(text.chars().count()),
        });
        Rank {
            exact: self
                .patterns
                .iter()
                .filter(|(_, pattern)| matches!(pattern, Pattern::Exact(_)))
                .count(),
            wildcard_length: prefixes.sum(),
            keys: self.patterns.iter().fold(0, |keys, (key, _)| keys | 1 << (31 - *key as u32)),
        }
    }

    /// Whether the server itself knows every value that the mapping looks at, so that no client can choose to match:
    /// any statement can name a table besides.
    fn is_verified(&self) -> bool {
        let known = [MappingKey::UserName, MappingKey::UserGroupName, MappingKey::DatabaseName];
        self.patterns.iter().all(|(key, _)| known.contains(key))
    }
}

/// Puts mappings in the order in which they are tried: the first that matches decides.
pub(crate) fn sort(mappings: &mut [Arc<Mapping>]) {
    mappings.sort_by_cached_key(|mapping| (Reverse(mapping.rank()), Arc::clone(&mapping.name)));
}

/// Reads a mapping's settings.
///
/// Errors: [`ProblemKind::UnknownKey`]; [`ProblemKind::BadValue`] for a wildcard that does not end its value, or that
/// of a key without wildcards; [`ProblemKind::Conflict`] for keys that exclude or need each other.
pub(crate) fn patterns(
    settings: &BTreeMap<String, String>,
    wildcard: Option<char>,
) -> Result<Vec<(MappingKey, Pattern)>, Problem> {
    let mut patterns = Vec::new();
    for (key, value) in settings {
        let key = MappingKey::parse(key)?;
        patterns.push((key, pattern(key, value, wildcard)?));
    }
    patterns.sort_by_key(|(key, _)| *key);
    let has = |wanted: MappingKey| patterns.iter().any(|(key, _)| *key == wanted);
    let conflict = |message: &str| Err(Problem::new(ProblemKind::Conflict, message));
    if patterns.is_empty() {
        return conflict("a workload mapping needs at least one setting");
    }
    if has(MappingKey::UserName) && has(MappingKey::UserGroupName) {
        return conflict("a workload mapping takes \"USER NAME\" or \"USERGROUP NAME\", not both");
    }
    if has(MappingKey::SchemaName) != has(MappingKey::ObjectName) {
        return conflict("a workload mapping takes \"SCHEMA NAME\" and \"OBJECT NAME\" together");
    }
    Ok(patterns)
}

fn pattern(key: MappingKey, value: &str, wildcard: Option<char>) -> Result<Pattern, Problem> {
    let Some(wildcard) = wildcard.filter(|wildcard| value.contains(*wildcard)) else {
        return Ok(Pattern::Exact(value.to_owned()));
    };
    let bad = |message: String| Problem::new(ProblemKind::BadValue, message);
    if !key.takes_wildcard() {
        let message = format!("workload mapping setting {:?} takes no wildcard", key.name());
        return Err(bad(message).hint("Another character may be the wildcard: WITH WILDCARD '*'."));
    }
    match value.strip_suffix(wildcard) {
        Some(prefix) if !prefix.contains(wildcard) => Ok(Pattern::Prefix(prefix.to_owned())),
        _ => {
            let message = format!("the wildcard in {value:?} does not stand at the end");
            Err(bad(message).hint("A wildcard stands for the rest of a value: 'shop%'."))
        }
    }
}

/// The class of a statement, and why that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The class.
    pub class: ClassId,
    /// The mapping that decided; `None` if none matched.
    pub mapping: Option<Arc<str>>,
    /// The explanation, made when it is displayed.
    pub why: Choice,
}

/// How a class was chosen; `Display` tells the choice, the runner-up and what was not allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    winner: Option<Arc<Mapping>>,
    runner_up: Option<Arc<Mapping>>,
    refused: Option<Arc<Mapping>>,
}

impl Choice {
    /// The first mapping that matched and was passed over because the role lacks USAGE of its class.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_ref().map(|mapping| &*mapping.name)
    }

    /// The mapping that would decide if the chosen one were not there.
    pub fn runner_up(&self) -> Option<&str> {
        self.runner_up.as_ref().map(|mapping| &*mapping.name)
    }
}

/// Chooses among sorted mappings. `may` says whether a mapping to a class may decide although clients choose whether
/// they match; it is given that class and the one that the values known to the server lead to.
pub(crate) fn resolve(
    mappings: &[Arc<Mapping>],
    context: &Context<'_>,
    may: impl Fn(ClassId, ClassId) -> bool,
) -> Resolution {
    let matching = || mappings.iter().filter(|mapping| mapping.matches(context));
    let verified = matching().find(|mapping| mapping.is_verified());
    let base = verified.map_or(ClassId::DEFAULT, |mapping| mapping.class);
    let mut why = Choice::default();
    for mapping in matching() {
        if !mapping.is_verified() && !may(mapping.class, base) {
            why.refused.get_or_insert_with(|| Arc::clone(mapping));
        } else if why.winner.is_none() {
            why.winner = Some(Arc::clone(mapping));
        } else {
            why.runner_up = Some(Arc::clone(mapping));
            break;
        }
    }
    let class = why.winner.as_ref().map_or(ClassId::DEFAULT, |mapping| mapping.class);
    Resolution { class, mapping: why.winner.as_ref().map(|mapping| Arc::clone(&mapping.name)), why }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mapping \"{}\" (", self.name)?;
        for (at, (key, pattern)) in self.patterns.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            match pattern {
                Pattern::Exact(text) => write!(f, "{comma}{} = '{text}'", key.name())?,
                Pattern::Prefix(text) => write!(f, "{comma}{} begins with '{text}'", key.name())?,
            }
        }
        write!(f, ")")
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.winner {
            None => write!(f, "no mapping matches")?,
            Some(winner) => write!(f, "{winner} matches")?,
        }
        if let (Some(winner), Some(next)) = (&self.winner, &self.runner_up) {
            let (first, second) = (winner.rank(), next.rank());
            let reason = if first.exact != second.exact {
                "has fewer exact settings"
            } else if first.wildcard_length != second.wildcard_length {
                "has fewer characters before its wildcards"
            } else if first.keys != second.keys {
                "has a setting of lower precedence"
            } else {
                "has a name that comes later"
            };
            write!(f, "; {next} matches too, but {reason}")?;
        }
        if let Some(refused) = &self.refused {
            write!(
                f,
                "; {refused} matches too, but the role has no USAGE of a class of higher priority"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(name: &str, class: u8, settings: &[(&str, &str)]) -> Result<Arc<Mapping>, Problem> {
        let settings =
            settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Ok(Arc::new(Mapping::new(name, ClassId(class), patterns(&settings, Some('%'))?)))
    }

    type Case<'a> = (&'a str, u8, &'a [(&'a str, &'a str)]);

    fn sorted(list: &[Case<'_>]) -> Vec<Arc<Mapping>> {
        let one = |(name, class, settings): &Case<'_>| mapping(name, *class, settings).unwrap();
        let mut mappings: Vec<_> = list.iter().map(one).collect();
        sort(&mut mappings);
        mappings
    }

    #[test]
    fn more_exact_settings_then_longer_prefixes_then_precedence_then_names_decide() {
        let mappings = sorted(&[
            ("two", 10, &[("APPLICATION NAME", "shop"), ("USER NAME", "ann")]),
            ("app", 11, &[("APPLICATION NAME", "shop")]),
            ("user", 12, &[("USER NAME", "ann")]),
            ("short", 13, &[("APPLICATION NAME", "s%")]),
            ("long", 14, &[("APPLICATION NAME", "sho%")]),
            ("b", 15, &[("CLIENT", "7")]),
            ("a", 16, &[("CLIENT", "7")]),
        ]);
        let class = |context: Context<'_>| resolve(&mappings, &context, |_, _| true).class.0;
        let ann = Context { user: Some("ann"), ..Context::default() };
        let shop = Context { application_name: Some("shop"), ..Context::default() };
        assert_eq!(class(Context { user: Some("ann"), ..shop }), 10);
        assert_eq!((class(ann), class(shop)), (12, 11));
        assert_eq!(class(Context { application_name: Some("shot"), ..ann }), 12);
        assert_eq!(class(Context { application_name: Some("shot"), ..Context::default() }), 14);
        assert_eq!(class(Context { application_name: Some("sun"), ..Context::default() }), 13);
        assert_eq!(class(Context { client: Some("7"), ..Context::default() }), 16);
        assert_eq!(class(Context::default()), ClassId::DEFAULT.0);
    }

    #[test]
    fn the_choice_is_explained() {
        let mappings = sorted(&[
            ("app", 11, &[("APPLICATION NAME", "shop")]),
            ("user", 12, &[("USER NAME", "ann")]),
        ]);
        let context =
            Context { user: Some("ann"), application_name: Some("shop"), ..Context::default() };
        let resolution = resolve(&mappings, &context, |_, _| true);
        assert_eq!(
            resolution.why.to_string(),
            "mapping \"user\" (USER NAME = 'ann') matches; mapping \"app\" (APPLICATION NAME = 'shop') matches too, \
             but has a setting of lower precedence"
        );
        let none = resolve(&mappings, &Context::default(), |_, _| true);
        assert_eq!((none.why.to_string().as_str(), none.mapping), ("no mapping matches", None));
    }

    #[test]
    fn a_client_may_not_choose_a_class_that_its_role_may_not_use() {
        let mappings = sorted(&[
            ("app", 11, &[("APPLICATION NAME", "shop"), ("USER NAME", "ann")]),
            ("user", 12, &[("USER NAME", "ann")]),
        ]);
        let context =
            Context { user: Some("ann"), application_name: Some("shop"), ..Context::default() };
        let resolution = resolve(&mappings, &context, |class, base| {
            assert_eq!((class, base), (ClassId(11), ClassId(12)));
            false
        });
        assert_eq!((resolution.class, resolution.why.refused()), (ClassId(12), Some("app")));
        assert!(resolution.why.to_string().ends_with("no USAGE of a class of higher priority"));
    }

    #[test]
    fn an_object_matches_by_both_of_its_names() {
        let mappings = sorted(&[
            ("o", 9, &[("SCHEMA NAME", "shop"), ("OBJECT NAME", "orders")]),
            ("user", 12, &[("USER NAME", "ann")]),
        ]);
        let object = |schema: &str, name: &str| Object { schema: schema.into(), name: name.into() };
        let class = |objects: &[Object]| {
            let context = Context { user: Some("ann"), objects, ..Context::default() };
            resolve(&mappings, &context, |_, _| false).class.0
        };
        assert_eq!(class(&[object("public", "t"), object("shop", "orders")]), 12, "no USAGE");
        let class = |objects: &[Object]| {
            let context = Context { user: Some("ann"), objects, ..Context::default() };
            resolve(&mappings, &context, |_, _| true).class.0
        };
        assert_eq!(class(&[object("public", "t"), object("shop", "orders")]), 9);
        assert_eq!(class(&[object("public", "orders"), object("shop", "t")]), 12);
        assert_eq!(class(&[]), 12);
    }

    #[test]
    fn groups_match_by_any_member() {
        let mappings = sorted(&[("g", 9, &[("USERGROUP NAME", "etl")])]);
        let groups = ["web".to_owned(), "etl".to_owned()];
        let context = Context { groups: &groups, ..Context::default() };
        assert_eq!(resolve(&mappings, &context, |_, _| true).class, ClassId(9));
    }

    #[test]
    fn settings_that_exclude_or_need_each_other_are_refused() {
        let kind = |settings: &[(&str, &str)]| {
            mapping("m", 5, settings).map(|_| ()).map_err(|problem| problem.kind)
        };
        assert_eq!(kind(&[]), Err(ProblemKind::Conflict));
        assert_eq!(
            kind(&[("USER NAME", "a"), ("USERGROUP NAME", "b")]),
            Err(ProblemKind::Conflict)
        );
        assert_eq!(kind(&[("OBJECT NAME", "a")]), Err(ProblemKind::Conflict));
        assert_eq!(kind(&[("OBJECT NAME", "a"), ("SCHEMA NAME", "s")]), Ok(()));
        assert_eq!(kind(&[("USER NAME", "a%")]), Err(ProblemKind::BadValue));
        assert_eq!(kind(&[("CLIENT", "%a")]), Err(ProblemKind::BadValue));
        assert_eq!(kind(&[("CLIENT", "a%%")]), Err(ProblemKind::BadValue));
        assert_eq!(kind(&[("CLIENT", "%")]), Ok(()));
        assert_eq!(kind(&[("CLIENTS", "a")]), Err(ProblemKind::UnknownKey));
    }
}
