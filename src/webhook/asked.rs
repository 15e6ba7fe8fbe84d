//! The mark by which `zonewise check` sees that the API server asks zonewise: a dry run of a slice with the label
//! [`LABEL`] is answered with a warning, which the API server hands on to whoever sent it.

use super::review::Request;
use super::warnings::MOST;
use crate::cluster::selector::is_name;
use crate::cluster::wire::Wire as _;
use crate::telemetry::VERSION;

/// The label of a slice that asks who is asked; its value comes back.
pub const LABEL: &str = "zonewise.dev/check";

/// The warning that a request asks for, from the replica of this name: nothing but for a dry run.
#[must_use]
pub fn warning(request: &Request<'_>, replica: &str) -> Option<String> {
    if !request.is_dry_run() {
        return None;
    }
    let nonce = request.slice()?.metadata()?.label(LABEL)?;
    is_name(nonce).then(|| sentence(replica, nonce))
}

fn sentence(replica: &str, nonce: &str) -> String {
    let of = |replica: &str| format!("zonewise {VERSION} ({replica}) was asked: check {nonce}");
    let room = MOST - of("").len();
    let name: Vec<char> = replica.chars().filter(char::is_ascii_graphic).collect();
    if name.len() <= room {
        return of(&name.iter().collect::<String>());
    }
    // What tells replicas of one Deployment apart is the end of their names.
    let end: String = name[name.len() + DOTS.len() - room..].iter().collect();
    of(&format!("{DOTS}{end}"))
}

const DOTS: &str = "...";

/// Who answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The version of the program.
    pub version: String,
    /// The replica's name, or the end of it.
    pub replica: String,
}

/// Reads the value of a `Warning` header: who answered the check with this nonce, if that is what it tells.
#[must_use]
pub fn read(warning: &str, nonce: &str) -> Option<Answered> {
    let (before, _) = warning.split_once(&format!(") was asked: check {nonce}\""))?;
    let (_, said) = before.split_once("\"zonewise ")?;
    let (version, replica) = said.split_once(" (")?;
    Some(Answered {
        version: version.to_owned(),
        replica: replica.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::review;

    fn asked(dry_run: bool, label: &str) -> Option<String> {
        let body = serde_json::json!({"request": {
            "uid": "1",
            "kind": {"group": "discovery.k8s.io", "version": "v1", "kind": "EndpointSlice"},
            "operation": "CREATE",
            "dryRun": dry_run,
            "object": {"metadata": {"labels": {LABEL: label}}},
        }});
        let body = body.to_string();
        warning(&review::parse(body.as_bytes()).unwrap(), "zonewise-1")
    }

    #[test]
    fn a_dry_run_with_a_nonce_is_answered_and_nothing_else() {
        let told = format!("zonewise {VERSION} (zonewise-1) was asked: check a-1.b_2");
        assert_eq!(asked(true, "a-1.b_2"), Some(told));
        assert_eq!(asked(false, "a-1.b_2"), None);
        for no_nonce in ["", "-a", "a-", "a b", "a\"", "ä", &"a".repeat(64)] {
            assert_eq!(asked(true, no_nonce), None, "{no_nonce}");
        }
    }

    #[test]
    fn a_long_name_gives_way_to_the_nonce() {
        let nonce = "n".repeat(63);
        let told = sentence(&format!("{}-abcde", "zonewise".repeat(30)), &nonce);
        assert_eq!(told.len(), MOST);
        assert!(told.contains(" (...") && told.contains("-abcde)"), "{told}");
        assert!(told.ends_with(&nonce));
        assert_eq!(sentence("a\n\"é", "n"), sentence("a\"", "n"));
    }

    #[test]
    fn an_answer_is_read_back() {
        let header = format!("299 - \"{}\"", sentence("zonewise-1", "n1"));
        let answered = Answered {
            version: VERSION.to_owned(),
            replica: "zonewise-1".to_owned(),
        };
        assert_eq!(read(&header, "n1"), Some(answered));
        assert_eq!(read(&header, "n"), None);
        assert_eq!(read("299 - \"something else\"", "n1"), None);
    }
}
