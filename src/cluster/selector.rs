//! Label selectors as people write them: `pool=web,tier in (a,b),!spot`.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Expression, Selector, SelectorExt as _};

use super::loose::Pairs;

/// Labels that a Node needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSelector(Selector);

impl NodeSelector {
    /// Reads `key`, `!key`, `key=value`, `key!=value`, `key in (a,b)` and `key notin (a,b)`, with commas between them, as
    /// `kubectl get -l` does; not its `key>1` and `key<1`.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = parts(text).ok_or_else(|| format!("{text:?} has a parenthesis too few"))?;
        let expressions: Result<Vec<Expression>, String> =
            parts.into_iter().map(expression).collect();
        Ok(Self(expressions?.into_iter().collect()))
    }

    /// Whether it takes something with these labels.
    #[must_use]
    pub fn takes(&self, labels: Option<&Pairs<Box<str>>>) -> bool {
        let pairs = labels.into_iter().flat_map(Pairs::iter);
        let pairs =
            pairs.map(|(key, value)| (key.to_owned(), value.unwrap_or_default().to_owned()));
        self.0.matches(&pairs.collect::<BTreeMap<_, _>>())
    }
}

/// What stands between commas that are in no parentheses.
fn parts(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut is_within) = (Vec::new(), 0, false);
    for (place, character) in text.char_indices() {
        match character {
            '(' if !is_within => is_within = true,
            ')' if is_within => is_within = false,
            '(' | ')' => return None,
            ',' if !is_within => {
                parts.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (!is_within).then_some(parts)
}

fn expression(part: &str) -> Result<Expression, String> {
    let part = part.trim();
    if let Some((key, values)) = part.split_once('(') {
        let (key, operator) = key.trim().rsplit_once(' ').unwrap_or((key, ""));
        let values = values.trim_end_matches(')');
        let values: BTreeSet<String> = values
            .split(',')
            .map(|value| value_of(value.trim()))
            .collect::<Result<_, _>>()?;
        let key = key_of(key.trim())?;
        return match operator {
            "in" => Ok(Expression::In(key, values)),
            "notin" => Ok(Expression::NotIn(key, values)),
            _ => Err(format!("{part:?} is neither KEY in (…) nor KEY notin (…)")),
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Expression::NotEqual(
            key_of(key.trim())?,
            value_of(value.trim())?,
        ));
    }
    if let Some((key, value)) = part.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        return Ok(Expression::Equal(
            key_of(key.trim())?,
            value_of(value.trim())?,
        ));
    }
    match part.strip_prefix('!') {
        Some(key) => key_of(key.trim()).map(Expression::DoesNotExist),
        None => key_of(part).map(Expression::Exists),
    }
}

/// A key of a label, such as `example.com/pool`.
///
/// # Errors
/// That it is none, as a sentence.
pub fn key_of(key: &str) -> Result<String, String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if !is_name(name) || !prefix.is_none_or(is_domain) {
        return Err(format!("{key:?} is no key of a label"));
    }
    Ok(key.to_owned())
}

fn value_of(value: &str) -> Result<String, String> {
    if value.is_empty() || is_name(value) {
        Ok(value.to_owned())
    } else {
        Err(format!("{value:?} is no value of a label"))
    }
}

/// Names of lower case with dots between them, of at most 253 together.
fn is_domain(text: &str) -> bool {
    let is_lower = |byte: &u8| !byte.is_ascii_uppercase() && *byte != b'_';
    text.len() <= 253 && text.bytes().all(|byte| is_lower(&byte)) && text.split('.').all(is_name)
}

/// Whether a text can be the value of a label, and says anything: letters and digits with hyphens, dots and underscores between
/// them, of at most 63.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|&byte| is_inner(byte))
        && is_end(bytes.first())
        && is_end(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(selector: &str, labels: &str) -> bool {
        let labels: Pairs<Box<str>> = serde_json::from_str(labels).unwrap();
        NodeSelector::parse(selector).unwrap().takes(Some(&labels))
    }

    #[test]
    fn forms_that_kubectl_takes_are_read() {
        let web = r#"{"pool":"web","example.com/tier":"b"}"#;
        for selector in [
            "pool",
            "!spot",
            "pool=web",
            "pool==web",
            "pool = web",
            "pool!=batch",
            "pool in (web, api)",
            "pool notin (batch)",
            "pool notin ()",
            "pool=web,example.com/tier in (a,b),!spot",
        ] {
            assert!(takes(selector, web), "{selector}");
        }
        for selector in [
            "spot",
            "!pool",
            "pool=batch",
            "pool!=web",
            "pool in (api)",
            "pool=web,spot",
        ] {
            assert!(!takes(selector, web), "{selector}");
        }
        assert!(!NodeSelector::parse("pool").unwrap().takes(None));
    }

    #[test]
    fn what_is_no_selector_is_refused_with_the_part_that_is_none() {
        for bad in [
            "", "a,", "a=b c", "a in b", "a in (b", "a=(b)", "a b", "-a", "a=-b", "a>1", "/a",
            "a/", "a..b/c", "A.b/c", "a_b/c", "a/b/c",
        ] {
            assert!(NodeSelector::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(
            NodeSelector::parse("a=b c").unwrap_err(),
            "\"b c\" is no value of a label"
        );
    }
}
