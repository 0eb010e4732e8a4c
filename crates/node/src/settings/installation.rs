//! The name and the colour by which people tell installations apart. Must not show them.

use super::kinds::Kind;
use crate::exit::Exit;
use counterstep_contracts::installation::{BarColor, LONGEST_NAME};

/// A name for people: a text of one line.
pub struct DisplayName;

impl Kind for DisplayName {
    type Raw = String;
    type Value = String;
    const NAME: &'static str = "TEXT";

    fn check(key: &str, raw: String) -> Result<String, Exit> {
        let name = raw.trim();
        let length = name.chars().count();
        if (1..=LONGEST_NAME).contains(&length) && !name.chars().any(is_control) {
            return Ok(name.to_owned());
        }
        Err(Exit::config(format_args!(
            "invalid setting `{key}`: `{}`; expected 1 to {LONGEST_NAME} characters without control characters",
            raw.escape_debug()
        )))
    }

    fn shown(value: &String) -> String {
        value.clone()
    }
}

/// Also what changes the direction of a text: the name stands in the line of the brand.
fn is_control(sign: char) -> bool {
    let turns = |sign| matches!(sign, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    sign.is_control() || turns(sign)
}

impl Kind for BarColor {
    type Raw = String;
    type Value = Self;
    const NAME: &'static str = "COLOR";

    fn check(key: &str, raw: String) -> Result<Self, Exit> {
        raw.parse().map_err(|_| {
            let known: Vec<_> = Self::ALL
                .iter()
                .map(|it| format!("`{}`", it.as_str()))
                .collect();
            Exit::config(format_args!(
                "invalid setting `{key}`: `{}`; expected one of {}",
                raw.escape_debug(),
                known.join(", ")
            ))
        })
    }

    fn shown(value: &Self) -> String {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_line_and_has_at_most_40_characters() {
        let name = |text: &str| DisplayName::check("ui_name", text.to_owned());
        assert_eq!(name(" staging ").unwrap(), "staging");
        assert_eq!(name(&"ü".repeat(40)).unwrap(), "ü".repeat(40));
        for odd in ["", "  ", &"a".repeat(41), "a\nb", "a\u{7f}", "a\u{202e}b"] {
            let refused = name(odd).expect_err(odd);
            assert!(refused.message.contains("`ui_name`"), "{refused}");
            assert!(refused.message.contains("1 to 40"), "{refused}");
        }
    }

    #[test]
    fn a_color_is_one_of_the_list() {
        let color = |text: &str| BarColor::check("ui_color", text.to_owned());
        assert_eq!(color("orange").unwrap(), BarColor::Orange);
        let refused = color("#ff0000").unwrap_err();
        assert!(
            refused.message.contains("`red`, `orange`, `green`"),
            "{refused}"
        );
    }
}
