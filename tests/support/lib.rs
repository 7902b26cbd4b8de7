//! What the end-to-end tests and the measurements stand on: finding the programs, starting and killing them, and a real
//! browser. It knows nothing of what Undertone does; a scenario belongs in `integration/`.

pub mod browser;
pub mod port;
pub mod process;
pub mod workspace;
