//! Speech at the site: from recordings and labels on disk to the frames that a model learns from.
//!
//! The road is one way: [`audio`] decodes, [`mfcc`] turns samples into cepstra, [`features`] these into what a
//! model sees, [`align`] reads the labels or has them made, [`prepare`]
//! joins the two and writes what [`dataset`] then serves by memory map. [`synthesize`] makes a corpus where there is
//! none. [`recordings`] keeps recordings without labels. Nothing of it opens a socket. [`transcribe`] is another road, of which one room sends what was paid for. Nothing here
//! but the site's own report names a recording.

pub mod align;
pub mod audio;
pub mod dataset;
pub mod features;
pub mod mfcc;
pub mod model;
pub mod prepare;
pub mod progress;
pub mod recordings;
pub mod synthesize;
pub mod transcribe;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod fuzz;
