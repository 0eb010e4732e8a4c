//! The attribute on things that are no plain inherent impl.
use counterstep_macros::distributed_task;

pub struct Task;
pub struct Many<T>(T);

#[distributed_task]
impl Clone for Task {
    fn clone(&self) -> Self {
        Task
    }
}

#[distributed_task]
impl<T> Many<T> {}

#[distributed_task]
pub struct Other;

fn main() {}
