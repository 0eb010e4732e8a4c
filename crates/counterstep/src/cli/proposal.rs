//! How this program is called here, for the commands that it proposes.

use counterstep_contracts::operator::OperatorMove;

/// How the program is called here.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    program: String,
    /// The API's address, where the commands have to name it.
    url: Option<String>,
}

impl Caller {
    /// `url`: of the API; `usual`: what the program takes where none is given.
    pub(super) fn new(program: &str, url: &str, usual: &str) -> Self {
        // A variable holds for the next command as well, and its value may hold a password.
        let is_known = url == usual || std::env::var("COUNTERSTEP_URL").is_ok_and(|set| set == url);
        Self {
            program: program.to_owned(),
            url: (!is_known).then(|| url.to_owned()),
        }
    }

    /// A move as a command that can be pasted into a shell.
    pub(super) fn command(&self, can: &OperatorMove) -> String {
        can.line(&self.program, self.url.as_deref())
    }
}
