//! What a command prints, to standard output.

pub(super) use counterstep_node::exit::print;

use counterstep_node::Exit;
use serde::Serialize;

/// A value as the JSON that a command prints with `--json`.
pub(super) fn json<T: Serialize>(value: &T) -> Result<String, Exit> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(Exit::failed)
}
