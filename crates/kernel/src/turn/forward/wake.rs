//! What wakes a turn while steps are under way: a step that waits is due, or there is room for one.

use super::ForwardTurn;
use crate::cancel::CancelReason;
use counterstep_contracts::StepStatus;

impl ForwardTurn<'_> {
    /// Follows the rows as they are now: wakes the turn when a step that waits is due, and tells
    /// those that still run that a step beside them has given up.
    pub(super) fn arm(&mut self) {
        let turn = &mut self.0;
        turn.wait_for_room();
        let token = turn.tokens.forward.clone();
        if turn
            .record
            .steps
            .iter()
            .any(|row| row.status == StepStatus::Failed)
        {
            token.cancel(CancelReason::Sibling);
        }
        // A cancelled token would end the delay at once, again and again.
        if token.reason().is_some() {
            return;
        }
        let now = turn.now();
        for at in 0..turn.record.steps.len() {
            let row = &turn.record.steps[at];
            // What ends a wait for room wakes the turn, and no delay of no time, again and again.
            if turn.lacks_room(at, now) {
                continue;
            }
            if let (StepStatus::Waiting, Some(due)) = (row.status, row.due_at)
                && !turn.delayed.contains_key(&at)
            {
                turn.delay(at, due.after(now), token.clone());
            }
        }
    }
}
