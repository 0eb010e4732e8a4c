//! The payloads in the data of a row, and whether each is encrypted that has to be. Must not encrypt one.

use super::body::Data;
use crate::payloads::{Place, is_ciphertext};
use serde_json::Value;

/// The payloads in the data of a row.
pub(super) fn handed_in(data: &mut Data) -> impl Iterator<Item = (Place, &mut Value)> {
    let request = data.request.iter_mut().map(|it| (Place::Request, it));
    let response = data.response.iter_mut().map(|it| (Place::Response, it));
    let outputs = data
        .outputs
        .iter_mut()
        .map(|(no, it)| (Place::Output(*no), it));
    let signals = data
        .signals
        .iter_mut()
        .map(|(no, it)| (Place::Signal(*no), &mut it.body));
    let details = data.details.values_mut().map(|it| (Place::Details, it));
    request
        .chain(response)
        .chain(outputs)
        .chain(signals)
        .chain(details)
}

/// The first payload in the data of a row that is not encrypted, as an error names it. `key`: that of the row, or of one
/// before it.
pub(super) fn plaintext(data: &mut Data, key: &str) -> Option<String> {
    let (place, _) = handed_in(data).find(|(_, value)| !is_ciphertext(value))?;
    Some(format!(
        "has the {place} as plaintext, and this task is encrypted, with the payload key `{key}`"
    ))
}

/// The same of the data of a row as they stand in a store. Data that cannot be read have none.
#[must_use]
pub fn plaintext_in(data: &str, key: &str) -> Option<String> {
    let mut data: Data = serde_json::from_str(data).ok()?;
    plaintext(&mut data, key)
}
