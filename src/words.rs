//! Words for people: numbers with their nouns, lists that do not grow, errors with their causes.

use std::error::Error;

/// How many nodes, endpoints or namespaces a sentence names.
pub const NAMED: usize = 3;

/// A number with its noun: `1 node`, `2 nodes`.
#[must_use]
pub fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// The first [`NAMED`] of these, and how many more there are: `a, b, c, +2 more`.
#[must_use]
pub fn first<S: AsRef<str>>(all: &[S]) -> String {
    let named: Vec<&str> = all.iter().take(NAMED).map(AsRef::as_ref).collect();
    named.join(", ") + &and_more(all.len() - named.len())
}

/// The one of these that is most like `text`, if it may have been meant.
#[must_use]
pub fn nearest<'a>(text: &str, all: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.8;
    let text = text.trim().to_lowercase();
    let alike = |other: &str| strsim::damerau_levenshtein(&text, &other.to_lowercase());
    let nearest = all.into_iter().min_by_key(|other| alike(other))?;
    let is_alike = strsim::normalized_damerau_levenshtein(&text, &nearest.to_lowercase());
    (is_alike >= ALIKE || alike(nearest) <= text.len() / 3).then_some(nearest)
}

/// `, +2 more` after a list that was cut.
#[must_use]
pub fn and_more(more: usize) -> String {
    if more == 0 {
        String::new()
    } else {
        format!(", +{more} more")
    }
}

/// A text that somebody else may have written, with nothing in it that moves a terminal's cursor or changes its colours.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            printable.extend(c.escape_default());
        } else {
            printable.push(c);
        }
    }
    printable
}

/// As much of a text that somebody else wrote as fits a log line: some proxies answer with whole pages.
#[must_use]
pub fn for_a_line(text: &str) -> String {
    const MOST: usize = 300;
    let mut cut: String = text.chars().take(MOST).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// A text cut to at most so many characters, three dots being the last of one that is longer; between words where that costs
/// little.
#[must_use]
pub fn at_most(text: &str, most: usize) -> String {
    const DOTS: &str = "...";
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(DOTS.len());
    let end = text
        .char_indices()
        .nth(room)
        .map_or(text.len(), |(at, _)| at);
    let kept = &text[..end];
    let between_words = kept
        .rfind(' ')
        .filter(|space| kept.len() - space <= most / 8);
    kept[..between_words.unwrap_or(end)]
        .trim_end_matches([' ', ',', ';', ':'])
        .to_owned()
        + DOTS
}

/// An error with its causes, of which the outermost alone says little. Some errors say their cause themselves.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let told = cause.to_string();
        if !says(&text, &told) {
            text = text + ": " + &told;
        }
        source = cause.source();
    }
    text
}

/// Whether `cause` stands in `text` as a whole, between colons or its ends, as causes are written.
fn says(text: &str, cause: &str) -> bool {
    let mut found = text.match_indices(cause);
    found.any(|(start, _)| {
        let (before, behind) = (&text[..start], &text[start + cause.len()..]);
        (before.is_empty() || before.ends_with(": "))
            && (behind.is_empty() || behind.starts_with(": "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_meant_is_near() {
        let meant = |text| nearest(text, ["Auto", "Disabled"]);
        for text in ["Atuo", "AUTO", "auto ", "aut"] {
            assert_eq!(meant(text), Some("Auto"), "{text:?}");
        }
        assert_eq!(meant("disable"), Some("Disabled"));
        assert_eq!(["", "cilium", "PreferZone"].map(meant), [None; 3]);
        assert_eq!(nearest("wbe", ["api", "web"]), Some("web"));
    }

    #[test]
    fn a_long_text_is_cut_between_words_or_else_within_one() {
        assert_eq!(at_most("as it is", 8), "as it is");
        assert_eq!(at_most("ä".repeat(8).as_str(), 8), "ä".repeat(8));
        let words = "one two three four five six seven eight nine ten";
        assert_eq!(at_most(words, 40), "one two three four five six seven...");
        assert_eq!(at_most(&"x".repeat(50), 40), "x".repeat(37) + "...");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{told}")]
    struct Caused {
        told: &'static str,
        source: Option<Box<Caused>>,
    }

    #[test]
    fn each_cause_is_told_once() {
        let with_causes = |told: [&'static str; 3]| {
            let causes = told
                .into_iter()
                .rev()
                .fold(None, |source, told| Some(Box::new(Caused { told, source })));
            with_causes(&*causes.unwrap())
        };
        assert_eq!(
            with_causes(["can't connect", "tls: a", "a"]),
            "can't connect: tls: a"
        );
        assert_eq!(with_causes(["tcp: a", "tcp: a", "a"]), "tcp: a");
        assert_eq!(
            with_causes(["can't connect", "no", "not a name"]),
            "can't connect: no: not a name",
            "what stands in a word is not told yet"
        );
        assert_eq!(
            with_causes(["reading failed", "ed", "fail"]),
            "reading failed: ed: fail"
        );
    }

    #[test]
    fn nouns_follow_their_numbers() {
        assert_eq!(
            [0, 1, 2].map(|number| count(number, "endpoint")),
            ["0 endpoints", "1 endpoint", "2 endpoints"]
        );
    }

    #[test]
    fn a_list_names_three_and_counts_the_rest() {
        assert_eq!(first(&["a", "b", "c"]), "a, b, c");
        assert_eq!(first(&["a", "b", "c", "d", "e"]), "a, b, c, +2 more");
        assert_eq!(first::<&str>(&[]), "");
    }
}
