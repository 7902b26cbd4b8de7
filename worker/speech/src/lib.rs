//! Speech data of a site: from recordings and labels on disk to the frames that a model learns from.
//!
//! The modules form a pipeline: [`audio`] decodes, [`mfcc`] computes cepstra from samples, [`features`] turns cepstra
//! into model inputs, [`align`] reads the labels or runs an aligner, and [`prepare`] joins features and labels and
//! writes the files that [`dataset`] serves by memory map. [`synthesize`] generates a corpus for sites without data.
//! [`recordings`] stores recordings without labels. No module opens a socket, and only the site's own report names a
//! recording.

pub mod align;
pub mod audio;
pub mod dataset;
pub mod decode;
pub mod features;
pub mod mfcc;
pub mod prepare;
pub mod recordings;
pub mod sandbox;
pub mod synthesize;
pub mod transcript_format;
pub mod wav;

#[cfg(test)]
mod fuzz;
