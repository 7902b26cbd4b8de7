//! What the learning side may look at: questions that were released, and public texts.
//!
//! All that a classifier learns from and all that it ranks passes through [`Visible`]. There are two ways to one: from a
//! [`Released`] question, which came back from the server after a gate let it go and the ledger paid, and from a public text,
//! with the site's own word that the dataset is public. A sample, a nominated string or a row of a private log has neither, so
//! everything computed on this side is post-processing of what was paid for (`privacy.md`, 6.6).

use crate::queries::released::Released;
use crate::site::clearance::Published;

/// A text that anybody may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Visible<'a>(&'a str);

impl<'a> Visible<'a> {
    /// A text of a dataset that the site's policy marks as public. The permission is looked at, not used up.
    pub const fn public(_published: &Published, text: &'a str) -> Self {
        Self(text)
    }

    /// The text.
    pub const fn text(self) -> &'a str {
        self.0
    }

    /// A text of a test, of which nobody is the owner.
    #[cfg(test)]
    pub(crate) const fn in_test(text: &'a str) -> Self {
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
    /// A text with its label.
    pub const fn new(text: Visible<'a>, label: u16) -> Self {
        Self { text, label }
    }
}
