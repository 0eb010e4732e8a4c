//! The place of a task among those of its key: what a change of the task means for it.

use super::Draft;

impl Draft {
    /// Holds the place with this number from now on. The store refuses the change where another task
    /// has it.
    pub(crate) const fn take_place(&mut self, no: u32) {
        self.record.task.place_no = Some(no);
    }
}
