//! Metrics, read as strictly as a scraper may.

use std::collections::{BTreeMap, BTreeSet};

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its name, suffix included.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// What `/metrics` says, in the OpenMetrics text format.
#[derive(Debug, Default)]
pub struct Exposition {
    /// The samples in their order.
    pub samples: Vec<Sample>,
    /// The type of each family.
    pub types: BTreeMap<String, String>,
    /// The families with a help text.
    pub helps: BTreeSet<String>,
}

impl Exposition {
    /// Reads a text; panics at what is not OpenMetrics.
    pub fn parse(text: &str) -> Self {
        let body = text
            .strip_suffix("# EOF\n")
            .expect("the text ends with # EOF");
        let mut exposition = Self::default();
        for line in body.lines() {
            exposition
                .take(line)
                .unwrap_or_else(|| panic!("no OpenMetrics line: {line:?}"));
        }
        exposition
    }

    fn take(&mut self, line: &str) -> Option<()> {
        if let Some(comment) = line.strip_prefix("# ") {
            let (word, rest) = comment.split_once(' ')?;
            let (family, text) = rest.split_once(' ')?;
            match word {
                "TYPE" => assert_eq!(
                    self.types.insert(family.into(), text.into()),
                    None,
                    "{family} stands twice"
                ),
                "HELP" => assert!(
                    self.helps.insert(family.into()),
                    "{family} is explained twice"
                ),
                _ => return None,
            }
            return Some(());
        }
        let sample = sample(line)?;
        let family = self
            .types
            .keys()
            .find(|family| belongs(&sample.name, family, &self.types[*family]));
        assert!(family.is_some(), "a sample of no family: {line:?}");
        let twice = self
            .samples
            .iter()
            .any(|other| other.name == sample.name && other.labels == sample.labels);
        assert!(!twice, "a sample stands twice: {line:?}");
        self.samples.push(sample);
        Some(())
    }

    /// The sum of the samples of this name whose labels include these, which is a whole number.
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        // A sum of nothing would be -0.
        let sum = self
            .values(name, labels)
            .iter()
            .fold(0.0, |sum, value| sum + value);
        sum.to_string()
            .parse()
            .unwrap_or_else(|_| panic!("{name} with {labels:?} is {sum}"))
    }

    /// The values of the samples of this name whose labels include these, in their order.
    pub fn values(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        self.matching(name, labels)
            .map(|sample| sample.value)
            .collect()
    }

    /// The values that a label has in the samples of a name.
    pub fn label_values<'a>(&'a self, name: &'a str, label: &str) -> BTreeSet<&'a str> {
        self.matching(name, &[])
            .map(|sample| sample.labels[label].as_str())
            .collect()
    }

    fn matching<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&str, &str)],
    ) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |sample| {
            let has = |(label, value): &(&str, &str)| {
                sample.labels.get(*label).is_some_and(|is| is == value)
            };
            sample.name == name && labels.iter().all(has)
        })
    }
}

fn belongs(sample: &str, family: &str, kind: &str) -> bool {
    let Some(suffix) = sample.strip_prefix(family) else {
        return false;
    };
    match kind {
        "counter" => suffix == "_total",
        "gauge" => suffix.is_empty(),
        "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
        _ => false,
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (rest, value) = line.rsplit_once(' ')?;
    let (name, labels) = match rest.split_once('{') {
        None => (rest, ""),
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(legal) {
        return None;
    }
    Some(Sample {
        name: name.into(),
        labels: parse_labels(labels)?,
        value: value.parse().ok()?,
    })
}

/// No value here has a quote, a comma or a backslash, so none is looked for.
fn parse_labels(text: &str) -> Option<BTreeMap<String, String>> {
    let pair = |pair: &str| {
        let (label, value) = pair.split_once('=')?;
        Some((
            label.to_owned(),
            value.strip_prefix('"')?.strip_suffix('"')?.to_owned(),
        ))
    };
    text.split(',')
        .filter(|pair| !pair.is_empty())
        .map(pair)
        .collect()
}
