//! The question before a change on a server that is not this machine's, or that a profile names: it names the server, so that what
//! was meant for one is not done to another. Must not change anything itself.

use counterstep_node::{Exit, Layers, is_this_machine};
use std::io::{BufRead, IsTerminal as _, Write as _};

/// A server about which a question is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AskedAbout(String);

impl AskedAbout {
    /// The server of these settings; `None`: that of this machine, which no profile names.
    pub(super) fn of(settings: &Layers, shown: &str) -> Result<Option<Self>, Exit> {
        Ok(Self::named(settings.profile()?.as_deref(), shown))
    }

    /// `shown`: its address, as it may be shown.
    fn named(profile: Option<&str>, shown: &str) -> Option<Self> {
        let url = reqwest::Url::parse(shown).ok();
        let is_here = url.is_some_and(|url| url.host_str().is_some_and(is_this_machine));
        match profile {
            Some(profile) => Some(Self(format!("{profile} ({shown})"))),
            None => (!is_here).then(|| Self(shown.to_owned())),
        }
    }

    fn question(&self, change: &str) -> String {
        format!("On {}: {change}", self.0)
    }

    /// Asks, where a person can read it and answer.
    ///
    /// # Errors
    /// Where the answer is not yes.
    pub(super) fn ask(&self, change: &str) -> Result<(), Exit> {
        let (input, errors) = (std::io::stdin(), std::io::stderr());
        if !input.is_terminal() || !errors.is_terminal() {
            return Ok(());
        }
        ask(&self.question(change))
    }
}

/// Asks a person.
///
/// # Errors
/// Where the answer is not yes.
pub(super) fn ask(change: &str) -> Result<(), Exit> {
    let _ = write!(std::io::stderr(), "{change}\nContinue? [y/N] ");
    answered(&mut std::io::stdin().lock())
}

fn answered(input: &mut impl BufRead) -> Result<(), Exit> {
    let mut line = String::new();
    let read = input.read_line(&mut line);
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" if read.is_ok() => Ok(()),
        _ => Err(Exit::failed("nothing was changed")),
    }
}

#[cfg(test)]
mod tests {
    use super::{AskedAbout, answered};

    #[test]
    fn a_question_names_the_profile_and_the_address_and_none_is_asked_about_this_machine() {
        let of = |profile: Option<&str>, url: &str| {
            let it = AskedAbout::named(profile, url)?;
            Some(it.question("Pause a queue (mail)"))
        };
        assert_eq!(
            of(Some("prod"), "https://api.example.org").as_deref(),
            Some("On prod (https://api.example.org): Pause a queue (mail)")
        );
        assert_eq!(
            of(None, "https://api.example.org").as_deref(),
            Some("On https://api.example.org: Pause a queue (mail)")
        );
        assert_eq!(of(None, "http://127.0.0.1:8080"), None);
        assert_eq!(of(None, "http://localhost:8080"), None);
        // Behind a tunnel it may be any server.
        assert!(of(Some("prod"), "http://127.0.0.1:8080").is_some());
    }

    #[test]
    fn only_yes_is_yes() {
        for yes in ["y\n", "Y\n", " yes \n"] {
            assert!(answered(&mut yes.as_bytes()).is_ok(), "{yes}");
        }
        for no in ["", "\n", "n\n", "yess\n", "on prod\n"] {
            let refused = answered(&mut no.as_bytes()).expect_err(no);
            assert_eq!(refused.message, "nothing was changed");
        }
    }
}
