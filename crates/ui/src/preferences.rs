//! What a person chooses for one browser: light or dark, and whether keys do something. Each choice is kept in a
//! cookie. Must not keep anything on the server.

use crate::cookies;
use crate::query::Fields;
use actix_web::HttpRequest;
use actix_web::http::header::HeaderValue;

/// The fields of the form.
pub(crate) const THEME: &str = "theme";
pub(crate) const SHORTCUTS: &str = "shortcuts";

/// Their cookies. Without one: the colours of the system, and shortcuts are on.
const THEME_COOKIE: &str = "counterstep_theme";
const SHORTCUTS_COOKIE: &str = "counterstep_shortcuts";

/// The colours of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Theme {
    /// Those that the browser or the system is set to.
    #[default]
    System,
    Light,
    Dark,
}

impl Theme {
    pub(crate) const ALL: [Self; 3] = [Self::Light, Self::Dark, Self::System];

    /// As forms have it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// As pages and cookies have it; `None`: they leave it out.
    pub(crate) fn chosen(self) -> Option<&'static str> {
        (self != Self::System).then_some(self.as_str())
    }
}

/// Whether single keys do something: a person who speaks to the computer has to be able to switch that off (WCAG 2.1.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Shortcuts {
    #[default]
    On,
    Off,
}

impl Shortcuts {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::On => Self::Off,
            Self::Off => Self::On,
        }
    }
}

/// All choices of a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Preferences {
    pub(crate) theme: Theme,
    pub(crate) shortcuts: Shortcuts,
}

impl Preferences {
    /// Those that a browser has sent. A cookie with another value counts as none.
    pub(crate) fn of(request: &HttpRequest) -> Self {
        let theme = match cookies::choice(request, THEME_COOKIE) {
            Some("light") => Theme::Light,
            Some("dark") => Theme::Dark,
            _ => Theme::System,
        };
        let shortcuts = match cookies::choice(request, SHORTCUTS_COOKIE) {
            Some("off") => Shortcuts::Off,
            _ => Shortcuts::On,
        };
        Self { theme, shortcuts }
    }
}

/// Keeps the choices that a form has sent. Those that it has not, or that are none, stay as they are.
pub(crate) fn keep(request: &HttpRequest, path: &str, fields: &Fields) -> Vec<HeaderValue> {
    let mut all = Theme::ALL.into_iter();
    let theme = all.find(|it| fields.get(THEME) == Some(it.as_str()));
    let theme = theme.map(|it| it.chosen().unwrap_or_default());
    // What counts without a cookie has none.
    let shortcuts = match fields.get(SHORTCUTS) {
        Some("on") => Some(""),
        Some("off") => Some("off"),
        _ => None,
    };
    let all = [(THEME_COOKIE, theme), (SHORTCUTS_COOKIE, shortcuts)];
    all.into_iter()
        .filter_map(|(name, value)| cookies::with_choice(request, path, name, value?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    #[test]
    fn a_cookie_that_is_none_of_the_choices_counts_as_none() {
        let of = |cookie: &str| {
            let request = TestRequest::default().insert_header(("cookie", cookie));
            Preferences::of(&request.to_http_request())
        };
        let dark = of("counterstep_theme=dark; counterstep_shortcuts=off");
        assert_eq!((dark.theme, dark.shortcuts), (Theme::Dark, Shortcuts::Off));
        for odd in [
            "",
            "counterstep_theme=system",
            "counterstep_theme=\"><script>; counterstep_shortcuts=on",
        ] {
            assert_eq!(of(odd), Preferences::default(), "{odd}");
        }
    }
}
