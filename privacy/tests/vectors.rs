//! The published vectors, every case of every file; an unknown kind of case is a failure. And a simulated analyst, against
//! the filters of the vectors.
//!
//! `UNDERTONE_VECTORS` names the folder (default `tests/vectors`, from the root of the workspace).

#[path = "filters/adaptive.rs"]
mod adaptive;
#[path = "vectors/audit.rs"]
mod audit;
#[path = "vectors/case.rs"]
mod case;
#[path = "vectors/fixed_size.rs"]
mod fixed_size;
#[path = "vectors/folder.rs"]
mod folder;
#[path = "vectors/gaussian.rs"]
mod gaussian;
#[path = "filters/interleaved.rs"]
mod interleaved;
#[path = "vectors/ledger.rs"]
mod ledger;
#[path = "vectors/lqs.rs"]
mod lqs;
#[path = "vectors/noise.rs"]
mod noise;
#[path = "vectors/pld.rs"]
mod pld;
#[path = "vectors/preech.rs"]
mod preech;
#[path = "vectors/rdp.rs"]
mod rdp;
#[path = "vectors/selection.rs"]
mod selection;
#[path = "filters/sums.rs"]
mod sums;
