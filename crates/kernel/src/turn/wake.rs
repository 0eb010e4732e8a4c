//! What wakes a turn while steps are under way: a step that waits is due, or there is room for one.

use super::turn_loop::{Happened, Turn};
use crate::admission::limits::LimitPermit;
use crate::cancel::CancelReason;
use crate::record::DbTime;
use counterstep_contracts::StepStatus;
use futures::future::{Either, pending, select};
use std::time::Duration;

/// How often the tasks that steps wait for are read while other steps are under way.
const LOOK_AT_CHILDREN: Duration = Duration::from_secs(1);

impl Turn<'_> {
    /// Follows the rows as they are now: wakes the turn when a step that waits is due, and tells
    /// those that still run that a step beside them has given up.
    pub(super) fn arm(&mut self) {
        if self.undoing {
            return;
        }
        self.wait_for_room();
        let token = self.tokens.forward();
        if self
            .record
            .steps
            .iter()
            .any(|row| row.status == StepStatus::Failed)
        {
            self.tokens.cancel_forward(CancelReason::Sibling);
        }
        // A cancelled token would end the delay at once, again and again.
        if token.reason().is_some() {
            return;
        }
        let now = self.now();
        for at in 0..self.record.steps.len() {
            let row = &self.record.steps[at];
            // What ends a wait for room wakes the turn, and no delay of no time, again and again.
            if self.lacks_room(at, now) {
                continue;
            }
            if let Some(due) = row.waits_until()
                && !self.delayed.contains_key(&at)
            {
                let left = due.after(now);
                // Once it is due, its probe is under way, or what it found waits for something else.
                if row.status == StepStatus::InDoubt && left.is_zero() {
                    continue;
                }
                // The tasks that it waits for wake no task that a host has.
                let left = match row.children {
                    Some(_) if left.is_zero() => LOOK_AT_CHILDREN,
                    Some(_) => left.min(LOOK_AT_CHILDREN),
                    None => left,
                };
                self.delay(at, left, token.clone());
            }
        }
    }

    /// Has the turn woken when there is room for a step that only lacks room: or when its tokens
    /// tell it to stop, its deadline has come, or all of the room is in abandoned code.
    fn wait_for_room(&mut self) {
        if self.waits_for_room || !self.permits.wants_room() {
            return;
        }
        self.waits_for_room = true;
        let (engine, cancel) = (self.engine, self.tokens.forward());
        let left = self
            .record
            .task
            .deadline_at
            .map(|deadline| deadline.after(self.now()));
        self.under_way.push(Box::pin(async move {
            let deadline = async {
                match left {
                    Some(left) => engine.ports.clock.sleep(left).await,
                    None => pending().await,
                }
            };
            let over = select(Box::pin(deadline), Box::pin(cancel.cancelled()));
            let over = select(over, Box::pin(engine.heavy.stuck()));
            match select(Box::pin(engine.heavy.room()), over).await {
                Either::Left((room, _)) => Happened::Room(room),
                Either::Right(_) => Happened::Room(None),
            }
        }));
    }

    /// Whether a step is not due before there is room: the turn waits for that, or, where all of it
    /// is in abandoned code, for the end of the siblings, after which the task is given back.
    fn lacks_room(&self, at: usize, now: DbTime) -> bool {
        let is_due = self.record.steps[at].due_at.is_none_or(|due| due <= now);
        self.task_type.decl.steps[at].heavy
            && (self.waits_for_room || is_due && self.engine.heavy.is_stuck())
    }

    /// The wait is over.
    pub(super) fn has_room(&mut self, room: Option<LimitPermit>) {
        self.waits_for_room = false;
        if let Some(room) = room {
            self.permits.put_room(room);
        }
    }
}
