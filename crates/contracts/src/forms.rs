//! The forms of texts in bodies, as patterns of their schemas (ECMA 262). The code that reads a text owns
//! its rule; here it is written down for clients. Must not check anything.

/// A duration above 0, as `30s`.
pub const DURATION: &str = "^0*[1-9][0-9]{0,10}(ms|s|m|h|d)$";

/// The period of a rate: a duration above 0, of a day or less.
pub(crate) const PERIOD: &str =
    "^([1-9][0-9]{0,6}ms|[1-9][0-9]{0,3}s|[1-9][0-9]{0,2}m|[1-9]h|1[0-9]h|2[0-4]h|1d)$";

/// An idempotency key.
pub(crate) const KEY: &str = "^[!-~]{1,255}$";

macro_rules! controls {
    () => {
        "\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff"
    };
}

macro_rules! of_one_line {
    () => {
        concat!("[^", controls!(), "]")
    };
}

/// A character of a text of one line: no control character, and none that changes its direction.
pub(crate) const OF_ONE_LINE: &str = of_one_line!();

/// A text of one line.
pub(crate) const ONE_LINE: &str = concat!("^", of_one_line!(), "*$");

/// A text without control characters.
pub(crate) const WITHOUT_CONTROLS: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";

/// The name of a file, without a path: of one line, and not blank. In one pattern, since generators of clients make a type of each
/// part of an `allOf`.
pub(crate) const FILE_NAME: &str = concat!(
    "^[^/\\\\",
    controls!(),
    "]*[^\\s/\\\\",
    controls!(),
    "][^/\\\\",
    controls!(),
    "]*$"
);

/// Why a person decides so: not blank, and without control characters but line ends and tabs.
pub(crate) const NOTE: &str = "^[^\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]*$";

/// Who decides so: not blank, of one line.
pub(crate) const ACTOR: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$";

/// Who holds an API key.
pub(crate) const SUBJECT: &str = "^[A-Za-z0-9._@-]{1,100}$";

/// A tenant.
pub(crate) const TENANT: &str = "^(\\.?[A-Za-z0-9_-]|\\.\\.[A-Za-z0-9._-])[A-Za-z0-9._-]{0,61}$";

/// Maximum characters of a search.
pub const LONGEST_SEARCH: usize = 512;
