//! `dp_sgd` at a site.

use undertone_api::job::dp_sgd::Spec;

use super::{Exchange, Run, RunError};

impl Run for Spec {
    fn run(&self, _: &mut dyn Exchange) -> Result<(), RunError> {
        Err(RunError::Failed("this build of the worker cannot train yet".to_owned()))
    }
}
