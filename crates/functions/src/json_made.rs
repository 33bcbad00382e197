//! Documents made of values and of other documents, and compared with each other.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use halcyon_json::change::{self, Edit};
use halcyon_json::string::quoted;
use halcyon_json::{Node, Tree, text as in_text, write};

use super::json::{document, invalid, json, jsonb, moment, write_parts, write_scalar};
use super::{Arguments, Gives, Kind, Row, error, text};
use halcyon_sql::error::{Result, SqlError, SqlState};

const EACH: &[Kind] = &[Kind::Each];
const JSONB_PAIR: &[Kind] = &[Kind::Jsonb, Kind::Jsonb];
const OF_VALUE: &str = "The value as a document.";
const OBJECT: &str = "An object of keys and values in turn.";
const ARRAY: &str = "An array of the values.";
const OF_TEXTS: &str = "An object of texts: keys and values in turn, or keys and values.";
const STRIPPED: &str = "The document without pairs whose value is null.";

pub(super) const ROWS: &[Row] = &[
    Row::new("to_jsonb", OF_VALUE, EACH, Gives::Jsonb, |args| Ok(jsonb(&args.as_tree(0)?))),
    Row::new("to_json", OF_VALUE, EACH, Gives::Json, |args| Ok(json(args.as_json(0)?))),
    Row::new(
        "array_to_json",
        "The array as a document, with a line for each element if TRUE follows.",
        &[Kind::List, Kind::Bool],
        Gives::Json,
        of_parts,
    )
    .optional(1),
    Row::new(
        "row_to_json",
        "The row as a document, with a line for each field if TRUE follows.",
        &[Kind::Each, Kind::Bool],
        Gives::Json,
        of_parts,
    )
    .optional(1),
    Row::new("json\u{1}moment", OF_VALUE, &[Kind::Text], Gives::Json, |args| {
        Ok(json(moment(args.text(0))))
    }),
    Row::new("jsonb_build_object", OBJECT, EACH, Gives::Jsonb, |args| {
        let mut pairs = Vec::new();
        for at in even(args, "jsonb_build_object")? {
            if args.is_null(at) {
                return Err(invalid(format!("argument {}: key must not be null", at + 1)));
            }
            pairs.push((key_text(&args.values[at])?, args.as_tree(at + 1)?));
        }
        Ok(jsonb(&Tree::object(pairs)))
    })
    .of_null()
    .optional(1)
    .repeated(),
    Row::new("json_build_object", OBJECT, EACH, Gives::Json, |args| {
        let mut out = String::from("{");
        for at in even(args, "json_build_object")? {
            if args.is_null(at) {
                let message = format!("argument {} cannot be null", at + 1);
                return Err(invalid(message).hint("Object keys should be text."));
            }
            if at > 0 {
                out.push_str(", ");
            }
            quoted(&key_text(&args.values[at])?, &mut out);
            out.push_str(" : ");
            write_scalar(&args.values[at + 1], &mut out)?;
        }
        out.push('}');
        Ok(json(out))
    })
    .of_null()
    .optional(1)
    .repeated(),
    Row::new("jsonb_build_array", ARRAY, EACH, Gives::Jsonb, |args| {
        let elements = (0..args.values.len()).map(|at| args.as_tree(at));
        Ok(jsonb(&Tree::Array(elements.collect::<Result<_>>()?)))
    })
    .of_null()
    .optional(1)
    .repeated(),
    Row::new("json_build_array", ARRAY, EACH, Gives::Json, |args| {
        let elements = (0..args.values.len()).map(|at| args.as_json(at));
        Ok(json(format!("[{}]", elements.collect::<Result<Vec<_>>>()?.join(", "))))
    })
    .of_null()
    .optional(1)
    .repeated(),
    Row::new("jsonb_build_object\u{1}absent", OBJECT, EACH, Gives::Jsonb, |args| {
        let mut pairs = Vec::new();
        for at in even(args, "jsonb_build_object")? {
            if args.is_null(at) {
                return Err(null_key());
            }
            if !args.is_null(at + 1) {
                pairs.push((key_text(&args.values[at])?, args.as_tree(at + 1)?));
            }
        }
        Ok(jsonb(&Tree::object(pairs)))
    })
    .of_null()
    .optional(1)
    .repeated(),
    Row::new("json_build_object\u{1}absent", OBJECT, EACH, Gives::Json, |args| {
        let mut out = String::from("{");
        for at in even(args, "json_build_object")? {
            if args.is_null(at) {
                return Err(null_key());
            }
            if args.is_null(at + 1) {
                continue;
            }
            if out.len() > 1 {
                out.push_str(", ");
            }
            quoted(&key_text(&args.values[at])?, &mut out);
            out.push_str(" : ");
            write_scalar(&args.values[at + 1], &mut out)?;
        }
        out.push('}');
        Ok(json(out))
    })
    .of_null()
    .optional(1)
    .repeated(),
    Row::new("jsonb_build_array\u{1}absent", ARRAY, EACH, Gives::Jsonb, |args| {
        let there = (0..args.values.len()).filter(|at| !args.is_null(*at));
        let elements = there.map(|at| args.as_tree(at));
        Ok(jsonb(&Tree::Array(elements.collect::<Result<_>>()?)))
    })
    .of_null()
    .optional(1)
    .repeated(),
    Row::new("json_build_array\u{1}absent", ARRAY, EACH, Gives::Json, |args| {
        let there = (0..args.values.len()).filter(|at| !args.is_null(*at));
        let elements = there.map(|at| args.as_json(at));
        Ok(json(format!("[{}]", elements.collect::<Result<Vec<_>>>()?.join(", "))))
    })
    .of_null()
    .optional(1)
    .repeated(),
    Row::new("jsonb_object", OF_TEXTS, &[Kind::Path, Kind::Path], Gives::Jsonb, |args| {
        let value = |value: Option<String>| value.map_or(Tree::Null, Tree::String);
        let pairs = pairs_of_texts(args)?.into_iter().map(|(key, own)| (key, value(own)));
        Ok(jsonb(&Tree::object(pairs.collect())))
    })
    .optional(1),
    Row::new("json_object", OF_TEXTS, &[Kind::Path, Kind::Path], Gives::Json, |args| {
        let mut out = String::from("{");
        for (at, (key, value)) in pairs_of_texts(args)?.into_iter().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            quoted(&key, &mut out);
            out.push_str(" : ");
            match value {
                Some(value) => quoted(&value, &mut out),
                None => out.push_str("null"),
            }
        }
        out.push('}');
        Ok(json(out))
    })
    .optional(1),
    Row::new("jsonb_strip_nulls", STRIPPED, &[Kind::Jsonb], Gives::Jsonb, |args| {
        Ok(jsonb(&change::without_nulls(args.node(0).tree())))
    }),
    Row::new("json_strip_nulls", STRIPPED, &[Kind::Json], Gives::Json, |args| {
        Ok(json(in_text::without_nulls(args.text(0))?))
    }),
    Row::new(
        "jsonb_pretty",
        "The document with a line for each member.",
        &[Kind::Jsonb],
        Gives::Text,
        |args| Ok(text(write::pretty(args.node(0)))),
    ),
    Row::new(
        "jsonb_set",
        "The document with a value at the end of a path replaced, or made unless FALSE follows.",
        &[Kind::Jsonb, Kind::Path, Kind::Jsonb, Kind::Bool],
        Gives::Jsonb,
        |args| {
            let creates = truth(args, 3).unwrap_or(true);
            edited(args, &Edit::Set { value: args.node(2).tree(), creates })
        },
    )
    .optional(1),
    Row::new(
        "array\u{1}set",
        "The document with a value under a member's name, as `SET document['member'] = value`.",
        &[Kind::Jsonb, Kind::Text, Kind::Jsonb],
        Gives::Jsonb,
        |args| under_subscript(args, args.text(1), false),
    )
    .of_null(),
    Row::new(
        "array\u{1}set",
        "The document with a value at a place, as `SET document[0] = value`.",
        &[Kind::Jsonb, Kind::Integer, Kind::Jsonb],
        Gives::Jsonb,
        |args| under_subscript(args, &args.integer(1).to_string(), true),
    )
    .of_null(),
    Row::new(
        "jsonb_insert",
        "The document with a value put at the end of a path, behind an element if TRUE follows.",
        &[Kind::Jsonb, Kind::Path, Kind::Jsonb, Kind::Bool],
        Gives::Jsonb,
        |args| {
            let after = truth(args, 3).unwrap_or(false);
            edited(args, &Edit::Insert { value: args.node(2).tree(), after })
        },
    )
    .optional(1),
    Row::new(
        "#-",
        "The document without the value at the end of a path.",
        &[Kind::Jsonb, Kind::Path],
        Gives::Jsonb,
        |args| edited(args, &Edit::Delete),
    ),
    Row::new(
        "||",
        "Both documents as one: objects merged, anything else as arrays.",
        JSONB_PAIR,
        Gives::Jsonb,
        |args| Ok(jsonb(&change::concatenated(args.node(0).tree(), args.node(1).tree()))),
    ),
    Row::new(
        "-",
        "The document without a key, or without elements that are this text.",
        &[Kind::Jsonb, Kind::Text],
        Gives::Jsonb,
        |args| Ok(jsonb(&change::without_keys(args.node(0).tree(), &[args.text(1)])?)),
    ),
    Row::new(
        "-",
        "The document without the element at this index.",
        &[Kind::Jsonb, Kind::Integer],
        Gives::Jsonb,
        |args| Ok(jsonb(&change::without_element(args.node(0).tree(), args.integer(1))?)),
    ),
    Row::new(
        "-",
        "The document without these keys.",
        &[Kind::Jsonb, Kind::Path],
        Gives::Jsonb,
        |args| {
            let keys = args.path(1)?;
            let keys: Vec<&str> = keys.iter().filter_map(Option::as_deref).collect();
            Ok(jsonb(&change::without_keys(args.node(0).tree(), &keys)?))
        },
    ),
    Row::new("@>", "Whether the document holds the other one.", JSONB_PAIR, Gives::Bool, |args| {
        Ok(ScalarValue::Boolean(Some(change::contains(args.node(0), args.node(1)))))
    }),
    Row::new("<@", "Whether the other document holds this one.", JSONB_PAIR, Gives::Bool, |args| {
        Ok(ScalarValue::Boolean(Some(change::contains(args.node(1), args.node(0)))))
    }),
    Row::new(
        "?",
        "Whether the text is a key of the object or an element of the array.",
        &[Kind::Jsonb, Kind::Text],
        Gives::Bool,
        |args| Ok(ScalarValue::Boolean(Some(change::has_key(args.node(0), args.text(1))))),
    ),
    Row::new(
        "?|",
        "Whether any of the texts is a key or an element.",
        &[Kind::Jsonb, Kind::Path],
        Gives::Bool,
        |args| has_keys(args, false),
    ),
    Row::new(
        "?&",
        "Whether all of the texts are keys or elements.",
        &[Kind::Jsonb, Kind::Path],
        Gives::Bool,
        |args| has_keys(args, true),
    ),
    // What equal documents have in common, and in the order of documents: what is compared.
    Row::new("jsonb\u{1}key", OF_VALUE, &[Kind::Jsonb], Gives::Bytes, |args| {
        Ok(ScalarValue::BinaryView(Some(args.node(0).key())))
    }),
    // The aggregates: `json_agg(x)` is the document of `array_agg(to_json(x))` (`halcyon_dialect`).
    Row::new("json\u{1}values", OF_VALUE, &[Kind::List], Gives::Json, |args| {
        let values = gathered(args)?.join(", ");
        Ok(json(format!("[{}]", values.trim_start())))
    }),
    // Arrays and rows have lines of their own.
    Row::new("json\u{1}value", OF_VALUE, EACH, Gives::Json, |args| {
        let line = if args.values[0].data_type().is_nested() { "\n " } else { "" };
        Ok(json(format!("{line}{}", args.as_json(0)?)))
    }),
    Row::new("json\u{1}pair", OF_VALUE, &[Kind::Each, Kind::Each], Gives::Json, |args| {
        let mut out = String::new();
        quoted(&aggregated_key(args)?, &mut out);
        out.push_str(" : ");
        write_scalar(&args.values[1], &mut out)?;
        Ok(json(out))
    })
    .of_null(),
    Row::new("json\u{1}pairs", OF_VALUE, &[Kind::List], Gives::Json, |args| {
        Ok(json(format!("{{ {} }}", gathered(args)?.join(", "))))
    }),
    Row::new("jsonb\u{1}values", OF_VALUE, &[Kind::List], Gives::Jsonb, |args| {
        Ok(jsonb(&Tree::Array(gathered_trees(args)?)))
    }),
    Row::new("jsonb\u{1}pair", OF_VALUE, &[Kind::Each, Kind::Each], Gives::Jsonb, |args| {
        let key = Tree::String(aggregated_key(args)?);
        Ok(jsonb(&Tree::Array(vec![key, args.as_tree(1)?])))
    })
    .of_null(),
    Row::new("jsonb\u{1}pairs", OF_VALUE, &[Kind::List], Gives::Jsonb, |args| {
        let pair = |tree| match tree {
            Tree::Array(pair) => match <[Tree; 2]>::try_from(pair) {
                Ok([Tree::String(key), value]) => Some((key, value)),
                _ => None,
            },
            _ => None,
        };
        let pairs = gathered_trees(args)?.into_iter().filter_map(pair);
        Ok(jsonb(&Tree::object(pairs.collect())))
    }),
];

/// An array or a row as a document; a second argument that is TRUE gives each element or field a line.
fn of_parts(args: &Arguments<'_>) -> Result<ScalarValue> {
    let mut out = String::new();
    let between = if truth(args, 1).unwrap_or(false) { ",\n " } else { "," };
    write_parts(&args.values[0], between, &mut out)?;
    Ok(json(out))
}

/// 22004: a key of an object is NULL.
fn null_key() -> SqlError {
    error(SqlState::NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key")
}

/// The places of keys among keys and values in turn. Errors: 22023 for an odd number.
fn even(args: &Arguments<'_>, function: &str) -> Result<impl Iterator<Item = usize>> {
    let count = args.values.len();
    if count.is_multiple_of(2) {
        return Ok((0..count).step_by(2));
    }
    let hint =
        format!("The arguments of {function}() must consist of alternating keys and values.");
    Err(invalid("argument list must have even number of elements").hint(hint))
}

/// The text of a key. Errors: 22023 for a key that is no scalar.
fn key_text(key: &ScalarValue) -> Result<String> {
    let ty = key.data_type();
    if ty.is_nested() || matches!(ty, DataType::LargeUtf8 | DataType::LargeBinary) {
        let message = "key value must be scalar, not array, composite, or json";
        return Err(invalid(message));
    }
    if let Some(text) = key.try_as_str().flatten() {
        return Ok(text.to_owned());
    }
    let mut out = String::new();
    write_scalar(key, &mut out)?;
    Ok(out.trim_matches('"').to_owned())
}

/// Errors: 22023 for a key that is NULL.
fn aggregated_key(args: &Arguments<'_>) -> Result<String> {
    match args.is_null(0) {
        true => Err(invalid("field name must not be null")),
        false => key_text(&args.values[0]),
    }
}

fn gathered(args: &Arguments<'_>) -> Result<Vec<String>> {
    let text = |item: &ScalarValue| {
        let mut out = String::new();
        write_scalar(item, &mut out)?;
        Ok(out)
    };
    args.list(0)?.unwrap_or_default().iter().map(text).collect()
}

fn gathered_trees(args: &Arguments<'_>) -> Result<Vec<Tree>> {
    let tree = |item: ScalarValue| match item {
        ScalarValue::LargeBinary(Some(bytes)) => Node::new(&bytes).tree(),
        _ => Tree::Null,
    };
    Ok(args.list(0)?.unwrap_or_default().into_iter().map(tree).collect())
}

fn truth(args: &Arguments<'_>, at: usize) -> Option<bool> {
    match args.values.get(at) {
        Some(ScalarValue::Boolean(value)) => *value,
        _ => None,
    }
}

/// Errors: 22004 for a subscript that is NULL; those of [`change::assigned`].
fn under_subscript(args: &Arguments<'_>, step: &str, is_number: bool) -> Result<ScalarValue> {
    if args.is_null(1) {
        let message = "jsonb subscript in assignment must not be null";
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
    }
    let before = (!args.is_null(0)).then(|| args.node(0).tree());
    let value = if args.is_null(2) { Tree::Null } else { args.node(2).tree() };
    Ok(document(change::assigned(before, step, is_number, value)?.encode()))
}

fn edited(args: &Arguments<'_>, edit: &Edit) -> Result<ScalarValue> {
    let changed = change::edited(args.node(0).tree(), &args.path(1)?, edit)?;
    Ok(document(changed.encode()))
}

fn has_keys(args: &Arguments<'_>, all: bool) -> Result<ScalarValue> {
    let keys = args.path(1)?;
    let mut keys = keys.iter().filter_map(Option::as_deref);
    let has = |key: &str| change::has_key(args.node(0), key);
    Ok(ScalarValue::Boolean(Some(if all { keys.all(has) } else { keys.any(has) })))
}

/// The pairs of `json_object`: keys and values in turn, or keys and values. Errors: 2202E for arrays that
/// do not fit, 22004 for a key that is NULL.
fn pairs_of_texts(args: &Arguments<'_>) -> Result<Vec<(String, Option<String>)>> {
    let mismatch = |message: &str| -> SqlError { error(SqlState::ARRAY_SUBSCRIPT_ERROR, message) };
    let keys = args.path(0)?;
    let pairs: Vec<(Option<String>, Option<String>)> = match args.has(1) {
        true => {
            let values = args.path(1)?;
            if keys.len() != values.len() {
                return Err(mismatch("mismatched array dimensions"));
            }
            keys.into_iter().zip(values).collect()
        }
        false if !keys.len().is_multiple_of(2) => {
            return Err(mismatch("array must have even number of elements"));
        }
        false => keys.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
    };
    let null = || error(SqlState::NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key");
    pairs.into_iter().map(|(key, value)| Ok((key.ok_or_else(null)?, value))).collect()
}
