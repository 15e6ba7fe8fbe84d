//! Warnings in answers, which the API server hands on to whoever sent the request.

use crate::words;

/// The most characters of a warning: what Kubernetes recommends. Its API server cuts each to 256 when all of an answer
/// together have more than 4,096 (`truncateItemRunes` of k8s.io/apiserver/pkg/endpoints/filters).
pub const MOST: usize = 120;

/// Whoever reads a warning is not told which webhook it comes from.
const BY: &str = "zonewise: ";

/// A sentence as a warning: cut where it is too long, and with control characters written out, since the API server drops a
/// warning that has any (`NewWarningHeader` of k8s.io/apimachinery/pkg/util/net).
#[must_use]
pub fn warning(sentence: &str) -> String {
    BY.to_owned() + &words::at_most(&words::printable(sentence), MOST - BY.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_fits_and_says_who_warns() {
        let long = warning(&"zone-a has not enough endpoints, ".repeat(20));
        let length = long.chars().count();
        assert!(length > 100 && length <= MOST, "{long}");
        assert!(
            long.starts_with("zonewise: zone-a") && long.ends_with("..."),
            "{long}"
        );
        assert_eq!(warning("as it is"), "zonewise: as it is");
    }

    #[test]
    fn nothing_in_it_makes_the_api_server_drop_it() {
        let odd = warning("a\nb\t\u{1b}[31m\u{85}");
        assert!(!odd.contains(char::is_control), "{odd:?}");
    }
}
