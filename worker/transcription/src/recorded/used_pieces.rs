//! The samples of recorded speech that recipients already may have.

use std::collections::HashMap;
use std::ops::Range;

/// Samples that must not be sent again, by the digest of their recording; sorted and disjoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsedPieces(HashMap<String, Vec<Range<u64>>>);

impl UsedPieces {
    /// Collects ranges of samples by recording digest.
    pub fn from_spans(spans: impl IntoIterator<Item = (String, Range<u64>)>) -> Self {
        let mut all: HashMap<String, Vec<Range<u64>>> = HashMap::new();
        for (digest, span) in spans {
            all.entry(digest).or_default().push(span);
        }
        for spans in all.values_mut() {
            spans.sort_unstable_by_key(|span| span.start);
            let mut apart: Vec<Range<u64>> = Vec::with_capacity(spans.len());
            for span in spans.drain(..) {
                match apart.last_mut().filter(|last| span.start <= last.end) {
                    Some(last) => last.end = last.end.max(span.end),
                    None => apart.push(span),
                }
            }
            *spans = apart;
        }
        Self(all)
    }

    /// Returns whether any of `samples` is in the set.
    pub fn has(&self, digest: &str, samples: Range<u64>) -> bool {
        let spans = self.0.get(digest).map_or(&[][..], Vec::as_slice);
        let at = spans.partition_point(|span| span.end <= samples.start);
        spans.get(at).is_some_and(|span| span.start < samples.end)
    }
}
