//! Bodies of requests, right and broken, as `serde_json` reads them.

use std::any::type_name;
use std::cell::Cell;
use std::fmt::{Debug, Write as _};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use zonewise::cluster::loose::Text;
use zonewise::cluster::wire::EndpointSlice;
use zonewise::webhook::json::{Reader, Result};
use zonewise::webhook::review::{self, BadReview};

use super::odd_json::{anything, odd_slices};
use crate::for_all::{for_all, is_often};

/// Pieces that JSON is made of, or could be taken for.
const PIECES: [&str; 48] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "{\"a\":",
    "\"a\":",
    "\"a\"",
    "[]",
    "{}",
    "\"\\u00e9\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud83d\"",
    "\\u",
    "\\ud83",
    "\\n",
    "\\x",
    "/",
    "é",
    "€",
    "😀",
    "0",
    "-",
    "1",
    "12.5",
    ".",
    "e",
    "E+",
    "1e400",
    "-0",
    "01",
    "true",
    "false",
    "null",
    "nul",
    "t",
    " ",
    "\n",
    "\t\r",
    "\u{0}",
    "\u{1f}",
    "\u{7f}",
    "\u{a0}",
    "\u{feff}",
    "//",
];

/// One change of a text: at a place, so many bytes are replaced by a piece.
type Change = (Index, usize, &'static str);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    vec((any::<Index>(), 0..3_usize, select(PIECES.to_vec())), 0..4)
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for (place, length, piece) in changes {
        let begin = place.index(bytes.len() + 1);
        let end = (begin + length).min(bytes.len());
        bytes.splice(begin..end, piece.bytes());
    }
    bytes
}

/// `value` as text, with white space, escapes and numbers that `serde_json` would not write.
fn spell(value: &Value, style: u8, text: &mut String) {
    let space = ["", " ", "\n\t", "\r\n"][usize::from(style % 4)];
    text.push_str(space);
    match value {
        Value::Object(members) => {
            text.push('{');
            for (place, (key, value)) in members.iter().enumerate() {
                text.push_str(if place == 0 { "" } else { "," });
                spell_string(key, style, text);
                text.push_str(space);
                text.push(':');
                spell(value, style, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                text.push_str(if place == 0 { "" } else { "," });
                spell(item, style, text);
            }
            text.push(']');
        }
        Value::String(string) => spell_string(string, style, text),
        other => write!(text, "{other}").unwrap(),
    }
    text.push_str(space);
}

fn spell_string(string: &str, style: u8, text: &mut String) {
    if style < 128 {
        write!(text, "{}", Value::from(string)).unwrap();
        return;
    }
    text.push('"');
    for unit in string.encode_utf16() {
        write!(text, "\\u{unit:04x}").unwrap();
    }
    text.push('"');
}

/// Texts of JSON, most of them broken.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let spelled = (anything(), any::<u8>(), changes()).prop_map(|(value, style, changes)| {
        let mut text = String::new();
        spell(&value, style, &mut text);
        changed(text.into_bytes(), &changes)
    });
    let soup = vec(select(PIECES.to_vec()), 0..12).prop_map(|pieces| pieces.concat().into_bytes());
    prop_oneof![3 => spelled, 1 => soup]
}

/// Whether it is JSON. What is ignored needs be no UTF-8 for `serde_json`.
fn is_json(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok() && serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// How a wire type shows itself, whatever the type of its texts.
fn shown(slice: &impl Debug) -> String {
    format!("{slice:?}").replace(type_name::<Text<'_>>(), type_name::<Box<str>>())
}

fn whole<'a, T>(text: &'a [u8], read: impl FnOnce(&mut Reader<'a>) -> Result<T>) -> Result<T> {
    let mut reader = Reader::of_bytes(text)?;
    let value = read(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Reads whatever comes.
fn value(reader: &mut Reader<'_>) -> Result<Value> {
    Ok(match reader.peek()? {
        b'{' => {
            let mut members = Map::new();
            reader.object(|reader, key| {
                members.insert(key.into_owned(), value(reader)?);
                Ok(())
            })?;
            Value::Object(members)
        }
        b'[' => {
            let mut items = Vec::new();
            reader.list(|reader| {
                items.push(value(reader)?);
                Ok(())
            })?;
            Value::Array(items)
        }
        b'"' => Value::from(reader.string()?.expect("it is short").into_owned()),
        b't' | b'f' => Value::from(reader.bool()?),
        b'n' => reader.null().map(|()| Value::Null)?,
        _ => serde_json::from_str(reader.number()?).unwrap_or_default(),
    })
}

#[test]
fn what_is_json_is_what_serde_json_says_and_its_values_are_the_same() {
    let (good, bad) = (Cell::new(0), Cell::new(0));
    for_all(30_000, texts(), |text| {
        let is_json = is_json(&text);
        let count = if is_json { &good } else { &bad };
        count.set(count.get() + 1);
        prop_assert_eq!(whole(&text, Reader::skip).is_ok(), is_json);
        let read = whole(&text, value);
        prop_assert_eq!(read.is_ok(), is_json);
        // Of numbers beyond all ranges and halves of surrogate pairs serde_json makes no values, and of objects with its
        // private keys other ones.
        if let (Ok(read), Ok(expected)) = (read, serde_json::from_slice::<Value>(&text))
            && !read.to_string().contains("$serde_json::private")
        {
            prop_assert_eq!(read, expected);
        }
        Ok(())
    });
    assert!(
        is_often(good.get(), 5000) && is_often(bad.get(), 5000),
        "{good:?} and {bad:?}"
    );
}

/// A slice that is sent, one that is stored, which often is the same, and how they are spelled.
fn reviews() -> impl Strategy<Value = (Value, Value, u8)> {
    (odd_slices(), odd_slices(), any::<(bool, u8)>()).prop_map(|(sent, stored, (same, style))| {
        let stored = if same { sent.clone() } else { stored };
        (sent, stored, style)
    })
}

fn body((sent, stored, style): &(Value, Value, u8)) -> String {
    let mut text = String::new();
    let review = json!({"apiVersion": "admission.k8s.io/v1", "request": {
        "uid": "u\u{e9}", "kind": {"group": "discovery.k8s.io", "version": "v1", "kind": "EndpointSlice"},
        "operation": "UPDATE", "namespace": "shop", "object": sent, "oldObject": stored, "dryRun": false,
    }});
    spell(&review, *style, &mut text);
    text
}

#[test]
fn both_slices_of_a_review_are_read_as_serde_reads_them() {
    for_all(10_000, reviews(), |review| {
        let body = body(&review);
        let request = review::parse(body.as_bytes()).expect("it is a review");
        prop_assert_eq!(request.uid(), "u\u{e9}");
        for (read, json) in [
            (&request.object, &review.0),
            (&request.old_object, &review.1),
        ] {
            let expected: EndpointSlice<Box<str>> =
                serde_json::from_value(json.clone()).expect("its fields can't fail");
            let read = read.slice.get().expect("it is an object");
            prop_assert_eq!(shown(read), shown(&expected));
        }
        Ok(())
    });
}

#[test]
fn a_review_is_refused_as_json_only_where_it_is_none() {
    let refused = Cell::new(0);
    for_all(10_000, (reviews(), changes()), |(review, changes)| {
        let body = changed(body(&review).into_bytes(), &changes);
        match review::parse(&body) {
            Ok(_) | Err(BadReview::NoRequest | BadReview::NoUid) => prop_assert!(is_json(&body)),
            Err(BadReview::Json(error)) => {
                refused.set(refused.get() + 1);
                let sentence = error.to_string();
                prop_assert!(sentence.len() < 200);
                let other_type = sentence.contains(" is not ");
                prop_assert!(other_type || !is_json(&body), "{}", sentence);
            }
        }
        Ok(())
    });
    assert!(is_often(refused.get(), 3000), "{refused:?}");
}
