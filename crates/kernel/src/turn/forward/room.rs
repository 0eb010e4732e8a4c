//! What bounds the steps that are next: room for the heavy ones, and the time that the deadline of
//! the task leaves.

use super::Ahead;
use crate::draft::Draft;
use crate::record::{DbTime, StepRow};
use crate::saga::Illegal;
use crate::scratch::scratch_files_in;
use crate::turn::{Happened, Next, Turn};
use futures::future::{Either, pending, select};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

impl Ahead<'_> {
    /// Which of these steps may start now: all light ones, and as many heavy ones as there is room
    /// for. The others are not started before there is room, or their limits and the grace of their
    /// objects would run while they wait. `None`: another host should run the stage. One that reads
    /// files of this host waits here instead, for as long as it takes: elsewhere the files would
    /// have to be made again. They are where all of the room is in abandoned code, which may never
    /// return. `readers`: the stage that it is for.
    pub(super) fn with_room(
        &self,
        draft: &Draft,
        mut steps: Vec<usize>,
        readers: &[usize],
        running: bool,
    ) -> Option<Vec<usize>> {
        let is_heavy = |at: usize| draft.decl().steps[at].heavy;
        let heavy = steps.iter().filter(|&&at| is_heavy(at)).count();
        let mut rooms = self.reserved.reserve(self.engine, heavy);
        if rooms == heavy {
            return Some(steps);
        }
        // Where the turn is told to stop, the rows know why, and the commit finds out.
        let waits = self.interrupted.is_none() && !self.engine.heavy.is_stuck();
        if rooms == 0 && !running && !(waits && reads_scratch(draft, readers)) {
            return None;
        }
        if waits {
            self.reserved.want_more();
        }
        steps.retain(|&at| {
            if !is_heavy(at) {
                return true;
            }
            let fits = rooms > 0;
            rooms = rooms.saturating_sub(1);
            fits
        });
        Some(steps)
    }

    /// Leaves the task to a host that has room.
    pub(super) fn leave_for_room(&self, draft: &mut Draft) -> Result<Next, Illegal> {
        draft.hand_over(
            self.host,
            "its next step is heavy, and this process runs as many as it may",
        )?;
        Ok(Next::End)
    }

    /// The limit of an attempt, cut short where the deadline of the task comes first.
    pub(super) fn within_deadline(&self, draft: &Draft, limit: Duration) -> Duration {
        let record = draft.record();
        record
            .task
            .deadline_at
            .map_or(limit, |deadline| limit.min(deadline.after(record.now)))
    }
}

fn reads_scratch(draft: &Draft, stage: &[usize]) -> bool {
    let holds = |row: &StepRow| {
        row.output
            .as_ref()
            .is_some_and(|output| !scratch_files_in(output).is_empty())
    };
    let makers = draft
        .decl()
        .steps
        .iter()
        .zip(&draft.record().steps)
        .filter(|(_, row)| holds(row));
    makers.map(|(maker, _)| maker.name).any(|maker| {
        stage.iter().any(|&at| {
            draft
                .inputs_of_step(at)
                .iter()
                .any(|input| input.source == maker)
        })
    })
}

impl Turn<'_> {
    /// Has the turn woken when there is room for a step that only lacks room: or when its tokens
    /// tell it to stop, its deadline has come, or all of the room is in abandoned code.
    pub(super) fn wait_for_room(&mut self) {
        if self.waits_for_room || !self.reserved.wants_more() {
            return;
        }
        self.waits_for_room = true;
        let (engine, cancel) = (self.engine, self.tokens.forward.clone());
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
    pub(super) fn lacks_room(&self, at: usize, now: DbTime) -> bool {
        let is_due = self.record.steps[at].due_at.is_none_or(|due| due <= now);
        self.task_type.decl.steps[at].heavy
            && (self.waits_for_room || is_due && self.engine.heavy.is_stuck())
    }

    /// The wait is over.
    pub(super) fn has_room(&mut self, room: Option<OwnedSemaphorePermit>) {
        self.waits_for_room = false;
        if let Some(room) = room {
            self.reserved.put(room);
        }
    }
}
