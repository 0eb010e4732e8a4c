//! Built-in steps as values: the declaration's function says what is to be stored where, or what is
//! to be waited for (`waits`), or what is asked of which service (`call`); the engine streams,
//! records size and SHA-256, and deletes on undo. A new one is added at the places that
//! `ARCHITECTURE.md` lists under "Where to add".

mod step;
mod upload;
mod work;

pub use step::BuiltInStep;
pub use upload::{UploadMany, UploadOne};
pub use work::{
    Call, ChildRequest, FileSource, LONGEST_WAIT, Tasks, TasksShape, Upload, Wait, Work,
};
