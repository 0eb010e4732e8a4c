//! What a command prints, to standard output.

use counterstep_node::Exit;
use serde::Serialize;

/// Prints to standard output; a reader that went away (`| head`) is no error.
pub(super) fn print(text: &str) -> Result<(), Exit> {
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Exit::failed(
            format_args!("standard output cannot be written: {error}"),
        )),
        _ => Ok(()),
    }
}

/// A value as the JSON that a command prints with `--json`.
pub(super) fn json<T: Serialize>(value: &T) -> Result<String, Exit> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(Exit::failed)
}
