//! What is wrong, told once for each change.

use std::collections::BTreeMap;

/// What was last told of each thing that is wrong.
#[derive(Debug, Default)]
pub struct Told(BTreeMap<String, String>);

impl Told {
    /// Tells how something stands, unless that is known: a sentence whose subject is `about`.
    pub fn tell(&mut self, about: &str, state: Result<(), String>) {
        match state {
            Ok(()) => {
                if self.0.remove(about).is_some() {
                    tracing::info!("{about} is well again");
                }
            }
            Err(problem) => {
                if self.0.get(about) != Some(&problem) {
                    tracing::warn!("{about} {problem}");
                    self.0.insert(about.to_owned(), problem);
                }
            }
        }
    }
}
