//! Who manages which field of an object: its `metadata.managedFields`.

use super::json::{Reader, Result};

/// The longest list, in bytes of JSON, that is compared. An API server's have a few hundred.
const LONGEST: usize = 256 << 10;

/// Whether two lists say the same but for times and, where one is named, who manages `annotation`. Lists that are too long
/// never do.
#[must_use]
pub fn agree(one: &str, other: &str, annotation: Option<&str>) -> bool {
    if one.len().max(other.len()) > LONGEST {
        return false;
    }
    let field = annotation.map(|annotation| format!("f:{annotation}"));
    let path = field
        .iter()
        .flat_map(|field| ["fieldsV1", "f:metadata", "f:annotations", field]);
    let path: Vec<&str> = path.collect();
    let said = |list: &str| said(list, &path).ok();
    said(one).is_some_and(|one| said(other) == Some(one))
}

/// What a list says without times and without what is at `path` in its entries.
fn said(list: &str, path: &[&str]) -> Result<String> {
    let mut said = String::with_capacity(list.len());
    let mut reader = Reader::new(list);
    reader.list(|reader| {
        said.push('\n');
        reader.object(|reader, key| match &*key {
            "time" => reader.skip(),
            key => copy_member(reader, key, path, &mut said),
        })
    })?;
    Ok(said)
}

/// Copies a member of an object, or nothing where it is at `path`, or holds nothing else.
fn copy_member(reader: &mut Reader<'_>, key: &str, path: &[&str], copy: &mut String) -> Result<()> {
    let start = reader.member();
    match path {
        [last] if key == *last => reader.skip(),
        [first, rest @ ..] if key == *first && reader.peek()? == b'{' => {
            let length = copy.len();
            copy.push_str(reader.since(start));
            copy.push('{');
            let empty = copy.len();
            reader.object(|reader, key| copy_member(reader, &key, rest, copy))?;
            // Beside its fields, a map has a mark for itself.
            if matches!(&copy[empty..], "" | r#"".":{}"#) {
                copy.truncate(length);
            } else {
                copy.push('}');
            }
            Ok(())
        }
        _ => {
            reader.skip()?;
            copy.push_str(reader.since(start));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, time: &str, annotations: &str) -> String {
        format!(
            r#"{{"manager":"{manager}","time":"{time}","fieldsV1":{{"f:metadata":{{{annotations}"f:labels":{{}}}}}}}}"#
        )
    }

    fn agree_on_trigger(one: &str, other: &str) -> bool {
        agree(&format!("[{one}]"), &format!("[{other}]"), Some("trigger"))
    }

    #[test]
    fn who_manages_the_annotation_counts_where_it_is_not_taken_along() {
        let alone = entry("m", "1", r#""f:annotations":{".":{},"f:trigger":{}},"#);
        let two = format!(
            "{alone},{}",
            entry("bob", "1", r#""f:annotations":{"f:trigger":{}},"#)
        );
        let agree = |other: &str| agree(&format!("[{alone}]"), &format!("[{other}]"), None);
        assert!(agree(&alone) && !agree(&two));
        assert!(!agree(&entry("m", "1", "")));
    }

    #[test]
    fn times_and_the_annotation_make_no_difference() {
        let stored = entry("m", "1", r#""f:annotations":{".":{},"f:trigger":{}},"#);
        assert!(agree_on_trigger(&stored, &entry("m", "2", "")));
        let others = |trigger: &str| {
            entry(
                "m",
                "1",
                &format!(r#""f:annotations":{{{trigger}"f:x":{{}}}},"#),
            )
        };
        assert!(agree_on_trigger(&others(""), &others(r#""f:trigger":{},"#)));
    }

    #[test]
    fn everything_else_does() {
        let stored = entry("m", "1", "");
        assert!(!agree_on_trigger(&stored, &entry("alice", "1", "")));
        let two = format!("{stored},{}", entry("alice", "1", ""));
        assert!(!agree_on_trigger(&stored, &two));
        let annotated = entry("m", "1", r#""f:annotations":{".":{},"f:x":{}},"#);
        assert!(!agree_on_trigger(&stored, &annotated));
        assert!(!agree_on_trigger("1", "1"), "no entries");
    }

    #[test]
    fn lists_without_end_are_not_looked_at() {
        let long = format!("[{}{{}}]", "{},".repeat(LONGEST / 3));
        assert!(!agree(&long, &long, None));
    }
}
