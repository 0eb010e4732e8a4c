//! What stands below each page: the choices of a browser, and the keys with the panel that lists them. Must not
//! know a page, nor what the script does for a key.

use crate::markup::glyph;
use crate::preferences::{SHORTCUTS, Shortcuts, THEME, Theme};
use crate::shell::{Shell, TOKEN};
use maud::{Markup, html};

/// The keys of the script, and what each does.
const KEYS: [(&str, &str); 6] = [
    ("/", "Search for tasks"),
    ("j", "Next row of the list"),
    ("k", "Previous row of the list"),
    ("Enter", "Follow the link of the row"),
    ("?", "Show these keys"),
    ("Esc", "Close this"),
];

/// The foot of a page.
pub(crate) fn foot(shell: &Shell) -> Markup {
    html! {
        footer.foot {
            form #browser-choices method="post" action={ (shell.base) "/preferences" } {
                input type="hidden" name=(TOKEN) value=(shell.token);
                // A list that is searched anew brings its own along.
                input #back-to type="hidden" name="back" value=(shell.here);
                div.choice role="group" aria-label="Colours" {
                    @for theme in Theme::ALL {
                        button type="submit" name=(THEME) value=(theme.as_str())
                            aria-pressed=(shell.preferences.theme == theme) { (name(theme)) }
                    }
                }
            }
            // Of the script, as the keys are.
            @if shell.caller.is_some() {
                button type="button" data-opens="shortcuts" hidden aria-haspopup="dialog" {
                    "Keys" @if shell.preferences.shortcuts == Shortcuts::Off { ": off" }
                }
            }
        }
        @if shell.caller.is_some() { (panel(shell)) }
    }
}

const fn name(of: Theme) -> &'static str {
    match of {
        Theme::System => "As the system",
        Theme::Light => "Light",
        Theme::Dark => "Dark",
    }
}

/// The panel. Where `data-search` is missing, keys do nothing.
fn panel(shell: &Shell) -> Markup {
    let now = shell.preferences.shortcuts;
    let is_on = now == Shortcuts::On;
    let search = is_on.then(|| format!("{}/tasks#q", shell.base));
    html! {
        dialog #shortcuts aria-labelledby="shortcuts-title" data-search=[search] {
            div.head {
                h2 #shortcuts-title { "Keys" }
                form method="dialog" { button type="submit" { "Close" } }
            }
            dl.keys {
                @for (key, what) in KEYS { div { dt { kbd { (key) } } dd { (what) } } }
            }
            p.quiet { "Not while a text is typed, nor with Ctrl, Alt or Cmd." }
            div {
                button type="submit" form="browser-choices" name=(SHORTCUTS) value=(now.other().as_str()) role="switch"
                    aria-checked=(is_on) {
                    span.box { @if is_on { (glyph("check")) } }
                    "Shortcuts of a single key"
                }
            }
        }
    }
}
