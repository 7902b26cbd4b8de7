//! The answers of a program without an engine: there are none, because [`super::open`] fails.

use super::CountError;

/// Strings with their exact counts.
pub enum CountStream {}

impl Iterator for CountStream {
    type Item = Result<(String, u64), CountError>;

    fn next(&mut self) -> Option<Self::Item> {
        match *self {}
    }
}

/// The texts of an answer, one for each remaining row.
pub enum TextStream {}

impl Iterator for TextStream {
    type Item = Result<String, CountError>;

    fn next(&mut self) -> Option<Self::Item> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Queries;
    use crate::count::open;

    #[test]
    fn counting_without_an_engine_names_the_feature() {
        let error = open(&Queries::default(), Path::new("unused")).err().expect("there is no engine");
        assert!(error.to_string().contains("--features datafusion"), "{error}");
    }
}
