//! The end-to-end tests of Undertone, and the tests of its plan.

mod architecture;
