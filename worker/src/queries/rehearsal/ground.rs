//! The public data of a rehearsal: a labelled log, and what is measured on.

use std::collections::{BTreeMap, HashMap};

use crate::queries::classifier::{Example, Visible};
use crate::site::clearance::Published;

/// A distinct text of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The text.
    pub text: String,
    /// Its rows, by their counts.
    pub count: u64,
    /// The label that most of its rows have, of several the first of the list; `None` when no row has one.
    pub label: Option<u16>,
}

/// A public log by its texts, and a test set.
pub struct Ground<'p> {
    published: &'p Published,
    labels: Vec<String>,
    queries: BTreeMap<String, Query>,
    tests: Vec<(String, u16, u64)>,
}

impl<'p> Ground<'p> {
    /// From the rows of a public log, (text, count, label), and those of a public test set, (text, label). `labels` are the job's.
    ///
    /// # Errors
    /// The first error of the rows.
    pub fn new<E>(
        published: &'p Published,
        labels: Vec<String>,
        rows: impl Iterator<Item = Result<(String, u64, Option<u16>), E>>,
        tests: impl Iterator<Item = Result<(String, u64, u16), E>>,
    ) -> Result<Self, E> {
        let mut seen: HashMap<String, (u64, BTreeMap<u16, u64>)> = HashMap::new();
        for row in rows {
            let (text, count, label) = row?;
            let (all, by_label) = seen.entry(text).or_default();
            *all += count;
            if let Some(label) = label {
                *by_label.entry(label).or_default() += count;
            }
        }
        let query = |(text, (count, by_label)): (String, (u64, BTreeMap<u16, u64>))| {
            let most = by_label.values().copied().max();
            let label = by_label.iter().find(|(_, count)| Some(**count) == most).map(|(label, _)| *label);
            (text.clone(), Query { text, count, label })
        };
        let queries = seen.into_iter().map(query).collect();
        let mut weights: BTreeMap<(String, u16), u64> = BTreeMap::new();
        for row in tests {
            let (text, count, label) = row?;
            *weights.entry((text, label)).or_default() += count;
        }
        let tests = weights.into_iter().map(|((text, label), count)| (text, label, count)).collect();
        Ok(Self { published, labels, queries, tests })
    }

    /// The job's labels.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The log by its texts, in the order of their bytes.
    pub fn queries(&self) -> impl Iterator<Item = &Query> {
        self.queries.values()
    }

    /// The query with a text.
    pub fn query(&self, text: &str) -> Option<&Query> {
        self.queries.get(text)
    }

    /// A text of the log or the test set, to be looked at.
    pub const fn visible<'a>(&self, text: &'a str) -> Visible<'a> {
        Visible::public(self.published, text)
    }

    /// The test set: each (text, label) once, with its rows.
    pub fn tests(&self) -> Vec<(Example<'_>, u64)> {
        self.tests.iter().map(|(text, label, count)| (Example::new(self.visible(text), *label), *count)).collect()
    }
}

/// How many texts are asked how often: the lower edge of each power of two, and the texts in it, ascending.
pub fn frequencies(counts: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut bins: BTreeMap<u32, u64> = BTreeMap::new();
    counts.filter(|count| *count > 0).for_each(|count| *bins.entry(count.ilog2()).or_default() += 1);
    bins.into_iter().map(|(power, texts)| (1 << power, texts)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Ground, frequencies};
    use crate::site::clearance::Published;

    #[test]
    fn a_text_has_the_label_of_most_of_its_rows() {
        let published = Published::in_test();
        let rows = [
            ("yes", 3, Some(1)),
            ("yes", 2, Some(0)),
            ("yes", 9, None),
            ("no", 1, Some(2)),
            ("no", 1, Some(0)),
            ("hm", 1, None),
        ];
        let rows = rows.map(|(text, count, label)| Ok::<_, String>((text.to_owned(), count, label)));
        let tests =
            [("ok", 1, 1), ("ok", 4, 1), ("ok", 1, 0)].map(|(text, count, label)| Ok((text.to_owned(), count, label)));
        let labels = ["a", "b", "c"].map(str::to_owned).to_vec();
        let ground = Ground::new(&published, labels, rows.into_iter(), tests.into_iter()).expect("rows are right");
        let told: Vec<_> = ground.queries().map(|query| (query.text.as_str(), query.count, query.label)).collect();
        assert_eq!(
            told,
            [("hm", 1, None), ("no", 2, Some(0)), ("yes", 14, Some(1))],
            "a tie goes to the first of the list"
        );
        let tests: Vec<_> = ground.tests().into_iter().map(|(example, count)| (example.label, count)).collect();
        assert_eq!(tests, [(0, 1), (1, 5)], "a text that a test set has twice is read once");
        assert!(ground.query("maybe").is_none());
    }

    #[test]
    fn frequencies_are_counted_by_powers_of_two() {
        assert_eq!(frequencies([1, 1, 2, 3, 4, 7, 8, 1000].into_iter()), [(1, 2), (2, 2), (4, 2), (8, 1), (512, 1)]);
        assert_eq!(frequencies([0, 0].into_iter()), []);
    }
}
