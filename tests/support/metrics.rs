//! Reading metrics in Prometheus' text format.

/// The sum of all samples of a metric whose labels include `labels`; zero where there are none.
#[must_use]
pub fn sum(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    samples(text, name, labels).map(|(_, value)| value).sum()
}

/// The samples of a metric whose labels include `labels`: the line and its value.
pub fn samples<'a>(
    text: &'a str,
    name: &str,
    labels: &[(&str, &str)],
) -> impl Iterator<Item = (&'a str, f64)> {
    let wanted: Vec<String> = labels
        .iter()
        .map(|(label, value)| format!("{label}=\"{value}\""))
        .collect();
    text.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        if !rest.starts_with(['{', ' ']) || !wanted.iter().all(|label| rest.contains(label)) {
            return None;
        }
        Some((line, rest.rsplit(' ').next()?.parse().ok()?))
    })
}
