//! How people tell installations apart: the name and the colour that the operator's page shows. Must not check a
//! name: the settings do.

use crate::state::text_enum;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum characters of the name of an installation: it stands beside the brand, also on a phone.
pub const LONGEST_NAME: usize = 40;

text_enum!(
    /// The colour of the bar above each page.
    BarColor {
        /// No bar.
        None = "none",
        /// Red.
        Red = "red",
        /// Orange.
        Orange = "orange",
        /// Green.
        Green = "green",
        /// Blue.
        Blue = "blue",
        /// Violet.
        Violet = "violet",
    }
);

/// What pages show of the installation that they are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Its name, as `staging`; `None`: pages show no name.
    pub name: Option<String>,
    /// The colour of its bar. It needs a name: a person who does not see it has no other sign.
    pub color: BarColor,
}

impl Default for Installation {
    fn default() -> Self {
        Self {
            name: None,
            color: BarColor::None,
        }
    }
}
