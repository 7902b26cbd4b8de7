//! The texts that the learning side may read: released questions and public texts.
//!
//! Every text that a classifier learns from or ranks passes through [`Visible`]. There are two ways to make one: from a
//! [`Released`] question, which came back from the server after a gate released it and the ledger charged it, and from
//! a public text, with the site's own statement that the dataset is public. A sample, a nominated string or a row of a
//! private log offers neither. Everything computed on this side is therefore post-processing of a charged release
//! (`privacy.md`, 6.6).

use crate::released::Released;
use undertone_worker_site::clearance::PublicProof;

/// A text that may be read without a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Visible<'a>(&'a str);

impl<'a> Visible<'a> {
    /// Makes a text of a dataset that the site's policy marks as public. The permission is borrowed, not consumed.
    pub const fn public(_published: &PublicProof, text: &'a str) -> Self {
        Self(text)
    }

    /// Returns the text.
    pub const fn text(self) -> &'a str {
        self.0
    }

    /// Makes a text for a test.
    #[cfg(any(test, feature = "testing"))]
    pub const fn in_test(text: &'a str) -> Self {
        Self(text)
    }
}

impl<'a> From<&'a Released> for Visible<'a> {
    fn from(question: &'a Released) -> Self {
        Self(question.text())
    }
}

/// A visible text with its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Example<'a> {
    /// The text.
    pub text: Visible<'a>,
    /// Its label: an index into the job's labels.
    pub label: u16,
}

impl<'a> Example<'a> {
    /// Makes an example of a text and its label.
    pub const fn new(text: Visible<'a>, label: u16) -> Self {
        Self { text, label }
    }
}
