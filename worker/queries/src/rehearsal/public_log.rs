//! The public data of a rehearsal: a labelled log and a test set.

use std::collections::{BTreeMap, HashMap};

use crate::classifier::{Example, Visible};
use undertone_worker_site::clearance::PublicProof;

/// A distinct text of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicQuery {
    /// The text.
    pub text: String,
    /// Its occurrences.
    pub count: u64,
    /// The label of most of its rows, of several the first of the list; `None` if no row has one.
    pub label: Option<u16>,
}

/// A public log by its texts, and a test set.
pub struct PublicLog<'p> {
    published: &'p PublicProof,
    labels: Vec<String>,
    queries: BTreeMap<String, PublicQuery>,
    tests: Vec<(String, u16, u64)>,
}

impl<'p> PublicLog<'p> {
    /// Collects the rows of a public log, (text, count, label), and those of a public test set, (text, label). `labels`
    /// are the job's.
    ///
    /// # Errors
    /// The first error of the rows.
    pub fn new<E>(
        published: &'p PublicProof,
        labels: Vec<String>,
        rows: impl Iterator<Item = Result<(String, u64, Option<u16>), E>>,
        tests: impl Iterator<Item = Result<(String, u64, u16), E>>,
    ) -> Result<Self, E> {
        let mut by_text: HashMap<String, (u64, BTreeMap<u16, u64>)> = HashMap::new();
        for row in rows {
            let (text, count, label) = row?;
            let (all, by_label) = by_text.entry(text).or_default();
            *all += count;
            if let Some(label) = label {
                *by_label.entry(label).or_default() += count;
            }
        }
        let query = |(text, (count, by_label)): (String, (u64, BTreeMap<u16, u64>))| {
            let most = by_label.values().copied().max();
            let label = by_label.iter().find(|(_, count)| Some(**count) == most).map(|(label, _)| *label);
            (text.clone(), PublicQuery { text, count, label })
        };
        let queries = by_text.into_iter().map(query).collect();
        let mut weights: BTreeMap<(String, u16), u64> = BTreeMap::new();
        for row in tests {
            let (text, count, label) = row?;
            *weights.entry((text, label)).or_default() += count;
        }
        let tests = weights.into_iter().map(|((text, label), count)| (text, label, count)).collect();
        Ok(Self { published, labels, queries, tests })
    }

    /// Returns the job's labels.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Iterates over the texts of the log, in byte order.
    pub fn queries(&self) -> impl Iterator<Item = &PublicQuery> {
        self.queries.values()
    }

    /// Returns the query with a text.
    pub fn query(&self, text: &str) -> Option<&PublicQuery> {
        self.queries.get(text)
    }

    /// Makes a text of the log or the test set visible.
    pub const fn visible<'a>(&self, text: &'a str) -> Visible<'a> {
        Visible::public(self.published, text)
    }

    /// Returns the test set: each (text, label) once, with its occurrences.
    pub fn tests(&self) -> Vec<(Example<'_>, u64)> {
        self.tests.iter().map(|(text, label, count)| (Example::new(self.visible(text), *label), *count)).collect()
    }
}

/// Returns a histogram of counts: the lower edge of each power of two, and the number of texts in it, ascending.
pub fn frequencies(counts: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut bins: BTreeMap<u32, u64> = BTreeMap::new();
    counts.filter(|count| *count > 0).for_each(|count| *bins.entry(count.ilog2()).or_default() += 1);
    bins.into_iter().map(|(power, texts)| (1 << power, texts)).collect()
}

#[cfg(test)]
mod tests {
    use super::{PublicLog, frequencies};
    use undertone_worker_site::clearance::PublicProof;

    #[test]
    fn text_takes_the_label_of_most_rows() {
        let published = PublicProof::in_test();
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
        let public_log =
            PublicLog::new(&published, labels, rows.into_iter(), tests.into_iter()).expect("rows are right");
        let queries: Vec<_> =
            public_log.queries().map(|query| (query.text.as_str(), query.count, query.label)).collect();
        assert_eq!(
            queries,
            [("hm", 1, None), ("no", 2, Some(0)), ("yes", 14, Some(1))],
            "a tie goes to the first of the list"
        );
        let tests: Vec<_> = public_log.tests().into_iter().map(|(example, count)| (example.label, count)).collect();
        assert_eq!(tests, [(0, 1), (1, 5)], "a text that a test set has twice is read once");
        assert!(public_log.query("maybe").is_none());
    }

    #[test]
    fn frequencies_are_binned_by_powers_of_two() {
        assert_eq!(frequencies([1, 1, 2, 3, 4, 7, 8, 1000].into_iter()), [(1, 2), (2, 2), (4, 2), (8, 1), (512, 1)]);
        assert_eq!(frequencies([0, 0].into_iter()), []);
    }
}
