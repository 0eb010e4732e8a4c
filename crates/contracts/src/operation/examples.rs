//! Values that the examples of several operations have. Must not be part of an answer.

use crate::TaskId;
use crate::cause::{Cause, CauseSide, Origin};
use crate::http::FailureView;
use crate::operation::Cursor;
use crate::webhook::WebhookSecretsView;
use uuid::Uuid;

/// A task.
pub(crate) const TASK: TaskId = TaskId(Uuid::from_u128(0x0193_0d2c_6c4b_7d5e_8f00_0123_4567_89ab));
/// Another one.
pub(crate) const OTHER: TaskId = TaskId(Uuid::from_u128(0x0193_0d2c_70aa_7e01_9c11_ba98_7654_3210));
/// A group of dead letters.
pub(crate) const GROUP: &str = "9f2c41d07be65a38";
/// Where a page begins.
pub(crate) fn cursor() -> Option<Cursor> {
    let text = "01930d2c6c4b7d5e8f000123456789ab2f5d5a1c9e7b3d40";
    Some(Cursor(text.to_owned()))
}
/// When something was made.
pub(crate) const MADE: &str = "2026-11-20T18:00:00.000000Z";
/// When it was changed last.
pub(crate) const CHANGED: &str = "2026-11-20T18:00:02.000000Z";

pub(crate) fn webhook_secrets() -> WebhookSecretsView {
    WebhookSecretsView {
        secrets: vec!["whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".to_owned()],
    }
}

pub(crate) fn failure() -> FailureView {
    FailureView {
        step: Some("charge".to_owned()),
        class: "permanent".to_owned(),
        message: "the card was declined".to_owned(),
        blocked_by: None,
    }
}

/// What blocks a task.
pub(crate) fn cause() -> Cause {
    Cause {
        side: CauseSide::Forward,
        step: Some("charge".to_owned()),
        class: Some("permanent".to_owned()),
        origin: Origin {
            service: Some("bank".to_owned()),
            method: Some("POST".to_owned()),
            status: Some(402),
            code: Some("card-declined".to_owned()),
            place: None,
        },
    }
}
