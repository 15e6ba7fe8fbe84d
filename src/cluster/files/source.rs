//! Texts of files, and the places in them that messages name.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{FileError, STANDARD_INPUT};

/// A text and where it is from, for messages.
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(super) fn fault(&self, line: u64, document: usize, problem: String) -> FileError {
        FileError::Content {
            path: self.path.to_owned(),
            line,
            document,
            problem,
        }
    }

    /// The fault that a parser found in `part` of the text.
    pub(super) fn no_json(
        &self,
        document: usize,
        part: &str,
        error: &serde_json::Error,
    ) -> FileError {
        let line = self.line_of(part) + (error.line() as u64).saturating_sub(1);
        let position = format!(" at line {} column {}", error.line(), error.column());
        let told = error.to_string();
        let problem = told.strip_suffix(&position).unwrap_or(&told);
        self.fault(line, document, problem.to_owned())
    }

    pub(super) fn no_yaml(&self, error: &serde_saphyr::Error) -> FileError {
        let (line, column) = error
            .location()
            .map_or((1, 1), |location| (location.line(), location.column()));
        let position = format!(" at line {line}, column {column}");
        let problem = error.to_string().replace(&position, "");
        self.fault(line, self.document_at(line), problem)
    }

    /// The line on which a part of the text begins.
    pub(super) fn line_of(&self, part: &str) -> u64 {
        let before = part.as_ptr() as usize - self.text.as_ptr() as usize;
        let ends = self.text.as_bytes()[..before]
            .iter()
            .filter(|&&byte| byte == b'\n');
        ends.count() as u64 + 1
    }

    /// The number of the YAML document that a line is in.
    pub(super) fn document_at(&self, line: u64) -> usize {
        let (mut document, mut begun) = (1, false);
        let lines = usize::try_from(line).unwrap_or(usize::MAX);
        for text in self.text.lines().take(lines) {
            if text == "---" || text.starts_with("--- ") {
                document += usize::from(begun);
                begun = true;
            } else if !text.trim_start().is_empty() && !text.starts_with(['#', '%']) {
                begun = true;
            }
        }
        document
    }
}

pub(super) fn expand(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let error = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    if path == Path::new(STANDARD_INPUT) || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(error)? {
        let file = entry.map_err(error)?.path();
        let extension = file
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        if matches!(extension, "yaml" | "yml" | "json") && file.is_file() {
            files.push(file);
        }
    }
    files.sort_unstable();
    Ok(files)
}

pub(super) fn read_text(path: &Path) -> Result<String, FileError> {
    let error = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    if path == Path::new(STANDARD_INPUT) {
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(error)?;
    } else {
        bytes = std::fs::read(path).map_err(error)?;
    }
    String::from_utf8(bytes).map_err(|invalid| {
        let before = &invalid.as_bytes()[..invalid.utf8_error().valid_up_to()];
        let line = before.split(|&byte| byte == b'\n').count() as u64;
        let text = &String::from_utf8_lossy(before);
        let source = Source { path, text };
        source.fault(line, source.document_at(line), "not UTF-8 text".into())
    })
}
