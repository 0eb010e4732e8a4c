//! An error of a library, whose class only the author of the step knows.
use counterstep_steps::{Classify, IntoStepError, StepError, StepResult};

pub struct Declined;

impl IntoStepError for Declined {
    fn into_step_error(self) -> StepError {
        StepError::permanent("the card is declined")
    }
}

pub async fn charge(path: &std::path::Path) -> StepResult<u64> {
    let size = std::fs::metadata(path)?.len();
    let again = std::fs::metadata(path).transient("reading the size")?.len();
    Err(Declined)?;
    Ok(size + again)
}

fn main() {}
