//! What the code that `#[distributed_task]` writes refers to: traits whose bounds are the checks that tokens cannot
//! make. Owned by the macro; nothing else uses it.
