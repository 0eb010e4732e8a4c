//! The place of a task among those of its key: what a change of the task means for it.

use super::Draft;
use crate::change::transition::PlaceWrite;
use crate::record::TaskRow;

/// Of its place.
#[derive(Debug, Clone, Default)]
pub(super) struct DraftPlace {
    /// The task cannot be read: whether it has one is not known.
    pub(super) is_unknown: bool,
}

impl DraftPlace {
    /// The row in `places` is there while the task is not at rest.
    pub(super) fn write(&self, before: Option<&TaskRow>, row: &TaskRow) -> Option<PlaceWrite> {
        let was_open = before.filter(|before| !before.status.is_at_rest());
        let is_open = !row.status.is_at_rest();
        let Some(key) = &row.place_key else {
            let leaves = self.is_unknown && was_open.is_some();
            return leaves.then(|| PlaceWrite::Leave {
                key: String::new(),
                no: None,
            });
        };
        let has = |row: &TaskRow| row.place_no;
        match (was_open, is_open) {
            (Some(before), true) if has(before) == has(row) => None,
            (_, true) => Some(PlaceWrite::Put {
                key: key.clone(),
                no: has(row),
                since: before.map(|before| before.created_at),
            }),
            (Some(before), false) => Some(PlaceWrite::Leave {
                key: key.clone(),
                no: has(before),
            }),
            (None, false) => None,
        }
    }
}

impl Draft {
    /// Holds the place with this number from now on. The store refuses the change where another task
    /// has it.
    pub(crate) const fn take_place(&mut self, no: u32) {
        self.record.task.place_no = Some(no);
    }
}
