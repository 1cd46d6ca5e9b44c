//! Where a reader begins, and which cursors can be resumed.

use super::Logs;
use crate::fanout::cursor::Cursor;
use crate::fanout::feed::ResetReason;
use crate::fanout::position::{Position, Positions};

/// Where a reader begins.
pub(in crate::fanout) struct Opening {
    pub position: Position,
    /// To be said first.
    pub reset: Option<ResetReason>,
    /// It goes on at a cursor of its own.
    pub resumed: bool,
    /// Its cursor is ahead of this log, which has to come up to it first.
    pub ahead: bool,
    /// It wants `Refreshed`, which the store does not record yet.
    pub unrecorded: bool,
    /// The heads.
    pub head: Positions,
}

impl Logs {
    /// Where a reader with this text of a cursor begins. An empty one is none.
    pub fn open(&self, resume_from: &str, refreshed: bool) -> Opening {
        let now = self.position();
        let mut opening = Opening {
            head: now.at.clone(),
            position: now,
            reset: None,
            resumed: false,
            ahead: false,
            unrecorded: refreshed && !self.is_recorded(),
        };
        if resume_from.is_empty() {
            return opening;
        }
        let cursor = Cursor::decode(resume_from).ok();
        let of_former = cursor.as_ref().is_some_and(|cursor| Some(cursor.log) == self.former);
        match cursor.and_then(|cursor| self.position_of(&cursor)) {
            None if of_former => opening.reset = Some(ResetReason::LogLost),
            None => opening.reset = Some(ResetReason::UnknownCursor),
            Some(position) => match self.admits(&position, refreshed) {
                Err(reason) => opening.reset = Some(reason),
                Ok(()) => {
                    opening.ahead = !opening.head.covers(&position.at);
                    opening.resumed = true;
                    opening.position = position;
                }
            },
        }
        opening
    }

    /// The position that a cursor names, if it is one of this log.
    fn position_of(&self, cursor: &Cursor) -> Option<Position> {
        let at = Positions::of(&cursor.positions)?;
        (cursor.log == self.id && at.len() == self.partitions.len()).then_some(Position {
            log: cursor.log,
            epoch: cursor.epoch,
            turn: self.turn,
            at,
        })
    }

    /// Whether a reader may go on at a cursor.
    fn admits(&self, from: &Position, refreshed: bool) -> Result<(), ResetReason> {
        if from.epoch > self.epoch {
            return Err(ResetReason::UnknownCursor);
        }
        if from.epoch < self.epoch {
            return Err(ResetReason::LogLost);
        }
        if self.own && self.heads().zip(from.at.iter()).any(|(head, at)| at > head) {
            return Err(ResetReason::UnknownCursor);
        }
        if let Some(fence) = &self.fence
            && (from.at == fence.at || !from.at.covers(&fence.at))
        {
            return Err(fence.reason);
        }
        if !self.reaches_back_to(from, refreshed) {
            return Err(ResetReason::CursorTooOld);
        }
        Ok(())
    }
}
