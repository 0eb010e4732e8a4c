//! What an operation runs with. Must not know how a caller has asked.

use crate::{Caller, Refused};
use counterstep_contracts::note::Note;
use counterstep_contracts::operation::Operation;
use counterstep_kernel::Engine;
use counterstep_kernel::webhooks::Webhooks;
use std::fmt::Debug;
use std::sync::Arc;

/// What an operation needs of the process that it runs in, beside the engine.
pub trait Process: Debug + Send + Sync {
    /// How webhooks are signed and sent.
    ///
    /// # Errors
    /// Where this process sends none.
    fn webhooks(&self) -> Result<&Webhooks, Refused>;

    /// A key has changed: what this process knows of it no longer holds.
    fn forget_key(&self, id: &str);
}

/// What an operation runs with.
#[derive(Debug, Clone)]
pub struct Cx {
    /// The engine of the process.
    pub engine: Engine,
    /// Who asks. The tenant comes from nowhere else.
    pub caller: Caller,
    /// The process.
    pub process: Arc<dyn Process>,
    /// Where the interface is mounted, as the caller has reached it: addresses in answers begin with it.
    pub mount_path: String,
}

impl Cx {
    /// The caller's name in audits.
    #[must_use]
    pub fn actor<O: Operation>(&self) -> String {
        self.caller.actor(O::ABOUT.acts_as)
    }

    /// The caller's name in audits, and why it decides so.
    ///
    /// # Errors
    /// Where the reason could not be kept.
    pub fn decided<O: Operation>(
        &self,
        reason: &str,
        actor: Option<&str>,
    ) -> Result<(String, String), Refused> {
        Ok((self.actor::<O>(), note(reason, actor)?.to_string()))
    }
}

/// Why a person decides so, and who, as the audit shows it.
///
/// # Errors
/// Where it could not be kept.
pub fn note(note: &str, actor: Option<&str>) -> Result<Note, Refused> {
    Note::of(note, actor).map_err(|fault| crate::invalid(fault.to_string()).at(fault.field()))
}
