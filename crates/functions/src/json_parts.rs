//! Parts of documents: members, their number, their texts.

use datafusion::common::ScalarValue;
use halcyon_json::{Kind as Is, Node, change, text as in_text};

use super::json::{document, invalid, json};
use super::{Arguments, Gives, Kind, Row, integer, list, text};
use arrow::datatypes::DataType;
use halcyon_sql::error::Result;

const JSON_KEY: &[Kind] = &[Kind::Json, Kind::Text];
const JSON_INDEX: &[Kind] = &[Kind::Json, Kind::Integer];
const JSONB_KEY: &[Kind] = &[Kind::Jsonb, Kind::Text];
const JSONB_INDEX: &[Kind] = &[Kind::Jsonb, Kind::Integer];
const JSON_PATH: &[Kind] = &[Kind::Json, Kind::Path];
const JSONB_PATH: &[Kind] = &[Kind::Jsonb, Kind::Path];
const JSON_STEPS: &[Kind] = &[Kind::Json, Kind::Text];
const JSONB_STEPS: &[Kind] = &[Kind::Jsonb, Kind::Text];

const MEMBER: &str = "The member with this key, or the element at this index, as a document.";
const MEMBER_TEXT: &str = "The member with this key, or the element at this index, as text.";
const AT_PATH: &str = "The value at the end of a path, as a document.";
const AT_PATH_TEXT: &str = "The value at the end of a path, as text.";
const KEYS: &str = "The keys of the object, as rows.";
const ELEMENTS: &str = "The elements of the array, as rows.";
const ELEMENT_TEXTS: &str = "The elements of the array as texts, as rows.";
const LENGTH: &str = "The number of elements of the array.";
const TYPE: &str = "The type of the value: object, array, string, number, boolean or null.";

pub(super) const ROWS: &[Row] = &[
    Row::new("->", MEMBER, JSONB_KEY, Gives::Jsonb, |args| {
        Ok(found(args.node(0).get(args.text(1))))
    }),
    Row::new("->", MEMBER, JSONB_INDEX, Gives::Jsonb, |args| Ok(found(element(args)))),
    Row::new("->", MEMBER, JSON_KEY, Gives::Json, |args| {
        Ok(found_text(in_text::get(args.text(0), args.text(1))?))
    }),
    Row::new("->", MEMBER, JSON_INDEX, Gives::Json, |args| {
        Ok(found_text(in_text::at(args.text(0), args.integer(1))?))
    }),
    Row::new("->>", MEMBER_TEXT, JSONB_KEY, Gives::Text, |args| {
        Ok(shown(args.node(0).get(args.text(1))))
    }),
    Row::new("->>", MEMBER_TEXT, JSONB_INDEX, Gives::Text, |args| Ok(shown(element(args)))),
    Row::new("->>", MEMBER_TEXT, JSON_KEY, Gives::Text, |args| {
        shown_text(in_text::get(args.text(0), args.text(1))?)
    }),
    Row::new("->>", MEMBER_TEXT, JSON_INDEX, Gives::Text, |args| {
        shown_text(in_text::at(args.text(0), args.integer(1))?)
    }),
    Row::new("#>", AT_PATH, JSONB_PATH, Gives::Jsonb, |args| {
        Ok(found(change::at_path(args.node(0), &args.path(1)?)))
    }),
    Row::new("#>", AT_PATH, JSON_PATH, Gives::Json, |args| {
        Ok(found_text(change::text_at_path(args.text(0), &args.path(1)?)?))
    }),
    Row::new("#>>", AT_PATH_TEXT, JSONB_PATH, Gives::Text, |args| {
        Ok(shown(change::at_path(args.node(0), &args.path(1)?)))
    }),
    Row::new("#>>", AT_PATH_TEXT, JSON_PATH, Gives::Text, |args| {
        shown_text(change::text_at_path(args.text(0), &args.path(1)?)?)
    }),
    Row::new("jsonb_extract_path", AT_PATH, JSONB_STEPS, Gives::Jsonb, |args| {
        Ok(found(change::at_path(args.node(0), &args.path_from(1))))
    })
    .repeated(),
    Row::new("json_extract_path", AT_PATH, JSON_STEPS, Gives::Json, |args| {
        Ok(found_text(change::text_at_path(args.text(0), &args.path_from(1))?))
    })
    .repeated(),
    Row::new("jsonb_extract_path_text", AT_PATH_TEXT, JSONB_STEPS, Gives::Text, |args| {
        Ok(shown(change::at_path(args.node(0), &args.path_from(1))))
    })
    .repeated(),
    Row::new("json_extract_path_text", AT_PATH_TEXT, JSON_STEPS, Gives::Text, |args| {
        shown_text(change::text_at_path(args.text(0), &args.path_from(1))?)
    })
    .repeated(),
    Row::new("jsonb_typeof", TYPE, &[Kind::Jsonb], Gives::Text, |args| {
        Ok(text(args.node(0).kind().name()))
    }),
    Row::new("json_typeof", TYPE, &[Kind::Json], Gives::Text, |args| {
        Ok(text(in_text::kind(args.text(0)).name()))
    }),
    Row::new("jsonb_array_length", LENGTH, &[Kind::Jsonb], Gives::Integer, |args| {
        in_text::require_array(args.node(0).kind(), "get array length of")?;
        Ok(integer(args.node(0).len()))
    }),
    Row::new("json_array_length", LENGTH, &[Kind::Json], Gives::Integer, |args| {
        in_text::require_array(in_text::kind(args.text(0)), "get array length of")?;
        Ok(integer(in_text::elements(args.text(0))?.len()))
    }),
    Row::new("jsonb_object_keys\u{1}rows", KEYS, &[Kind::Jsonb], Gives::Texts, |args| {
        require_object_of_keys(args.node(0).kind(), "jsonb_object_keys")?;
        Ok(texts(args.node(0).pairs().map(|(key, _)| text(key))))
    }),
    Row::new("json_object_keys\u{1}rows", KEYS, &[Kind::Json], Gives::Texts, |args| {
        require_object_of_keys(in_text::kind(args.text(0)), "json_object_keys")?;
        Ok(texts(in_text::pairs(args.text(0))?.into_iter().map(|(key, _)| text(key))))
    }),
    Row::new("jsonb_array_elements\u{1}rows", ELEMENTS, &[Kind::Jsonb], Gives::Jsonbs, |args| {
        let elements = elements(args)?.map(|element| found(Some(element)));
        Ok(list(&elements.collect::<Vec<_>>(), &DataType::LargeBinary))
    }),
    Row::new(
        "jsonb_array_elements_text\u{1}rows",
        ELEMENT_TEXTS,
        &[Kind::Jsonb],
        Gives::Texts,
        |args| Ok(texts(elements(args)?.map(|element| shown(Some(element))))),
    ),
    Row::new("json_array_elements\u{1}rows", ELEMENTS, &[Kind::Json], Gives::Jsons, |args| {
        in_text::require_array(in_text::kind(args.text(0)), "call json_array_elements on")?;
        let elements = in_text::elements(args.text(0))?.into_iter().map(json);
        Ok(list(&elements.collect::<Vec<_>>(), &DataType::LargeUtf8))
    }),
    Row::new(
        "json_array_elements_text\u{1}rows",
        ELEMENT_TEXTS,
        &[Kind::Json],
        Gives::Texts,
        |args| {
            in_text::require_array(
                in_text::kind(args.text(0)),
                "call json_array_elements_text on",
            )?;
            let elements = in_text::elements(args.text(0))?.into_iter();
            let shown = elements.map(|element| shown_text(Some(element)));
            Ok(texts(shown.collect::<Result<Vec<_>>>()?))
        },
    ),
    // The columns of `jsonb_each` and its kin, which FROM makes rows of (`halcyon_dialect`).
    Row::new("jsonb_each\u{1}key", KEYS, &[Kind::Jsonb], Gives::Texts, |args| {
        Ok(texts(pairs(args, "jsonb_each")?.map(|(key, _)| text(key))))
    }),
    Row::new("jsonb_each\u{1}value", KEYS, &[Kind::Jsonb], Gives::Jsonbs, |args| {
        let values = pairs(args, "jsonb_each")?.map(|(_, value)| found(Some(value)));
        Ok(list(&values.collect::<Vec<_>>(), &DataType::LargeBinary))
    }),
    Row::new("jsonb_each_text\u{1}key", KEYS, &[Kind::Jsonb], Gives::Texts, |args| {
        Ok(texts(pairs(args, "jsonb_each_text")?.map(|(key, _)| text(key))))
    }),
    Row::new("jsonb_each_text\u{1}value", KEYS, &[Kind::Jsonb], Gives::Texts, |args| {
        Ok(texts(pairs(args, "jsonb_each_text")?.map(|(_, value)| shown(Some(value)))))
    }),
    Row::new("json_each\u{1}key", KEYS, &[Kind::Json], Gives::Texts, json_keys),
    Row::new("json_each\u{1}value", KEYS, &[Kind::Json], Gives::Jsons, |args| {
        let values = json_pairs(args)?.into_iter().map(|(_, value)| json(value));
        Ok(list(&values.collect::<Vec<_>>(), &DataType::LargeUtf8))
    }),
    Row::new("json_each_text\u{1}key", KEYS, &[Kind::Json], Gives::Texts, json_keys),
    Row::new("json_each_text\u{1}value", KEYS, &[Kind::Json], Gives::Texts, |args| {
        let values = json_pairs(args)?.into_iter().map(|(_, value)| shown_text(Some(value)));
        Ok(texts(values.collect::<Result<Vec<_>>>()?))
    }),
];

/// The element at an index; PostgreSQL takes a document that is a scalar for an array of one element.
fn element<'a>(args: &'a Arguments<'_>) -> Option<Node<'a>> {
    let node = args.node(0);
    match node.is_scalar() && matches!(args.integer(1), 0 | -1) {
        true => Some(node),
        false => node.at(args.integer(1)),
    }
}

/// A part as a document; NULL if there is none.
pub(super) fn found(node: Option<Node<'_>>) -> ScalarValue {
    node.map_or(ScalarValue::Null, |node| document(node.document()))
}

fn found_text(part: Option<&str>) -> ScalarValue {
    part.map_or(ScalarValue::Null, json)
}

/// A part as text: a string without its quotes, NULL for null.
pub(super) fn shown(node: Option<Node<'_>>) -> ScalarValue {
    match node {
        None => ScalarValue::Null,
        Some(node) if node.kind() == Is::Null => ScalarValue::Utf8View(None),
        Some(node) => text(node.string().map_or_else(|| node.text(), str::to_owned)),
    }
}

fn shown_text(part: Option<&str>) -> Result<ScalarValue> {
    let Some(part) = part else { return Ok(ScalarValue::Null) };
    Ok(ScalarValue::Utf8View(in_text::plain(part)?))
}

fn texts(items: impl IntoIterator<Item = ScalarValue>) -> ScalarValue {
    let items: Vec<ScalarValue> = items.into_iter().collect();
    list(&items, &DataType::Utf8View)
}

/// Errors: 22023 for what has no keys.
fn require_object_of_keys(kind: Is, function: &str) -> Result<()> {
    match kind {
        Is::Object => Ok(()),
        Is::Array => Err(invalid(format!("cannot call {function} on an array"))),
        _ => Err(invalid(format!("cannot call {function} on a scalar"))),
    }
}

fn elements<'a>(args: &'a Arguments<'_>) -> Result<impl Iterator<Item = Node<'a>>> {
    match args.node(0).kind() {
        Is::Array => Ok(args.node(0).elements()),
        Is::Object => Err(invalid("cannot extract elements from an object")),
        _ => Err(invalid("cannot extract elements from a scalar")),
    }
}

fn pairs<'a>(
    args: &'a Arguments<'_>,
    function: &str,
) -> Result<impl Iterator<Item = (&'a str, Node<'a>)>> {
    match args.node(0).kind() {
        Is::Object => Ok(args.node(0).pairs()),
        _ => Err(invalid(format!("cannot call {function} on a non-object"))),
    }
}

fn json_pairs<'a>(args: &'a Arguments<'_>) -> Result<Vec<(String, &'a str)>> {
    match in_text::kind(args.text(0)) {
        Is::Object => Ok(in_text::pairs(args.text(0))?),
        Is::Array => Err(invalid("cannot deconstruct an array as an object")),
        _ => Err(invalid("cannot deconstruct a scalar")),
    }
}

fn json_keys(args: &Arguments<'_>) -> Result<ScalarValue> {
    Ok(texts(json_pairs(args)?.into_iter().map(|(key, _)| text(key))))
}
