//! What stands around each page: who looks at it, and from where. Must not know how it is shown.

use crate::port::SignIn;
use crate::preferences::Preferences;
use actix_web::http::header::HeaderValue;
use counterstep_contracts::access::{CallerView, Role};
use counterstep_contracts::installation::Installation;

/// The name of a form's token: as a field, and in the query of a form with files.
pub(crate) const TOKEN: &str = "form_token";

/// The frame around a page.
#[derive(Debug, Clone)]
pub(crate) struct Shell {
    /// The path of the interface, as this browser reaches it.
    pub(crate) mount: String,
    /// The path of the pages.
    pub(crate) base: String,
    pub(crate) sign_in: SignIn,
    pub(crate) caller: Option<CallerView>,
    /// Value that each form sends in the field [`TOKEN`].
    pub(crate) token: String,
    /// The query of the page's address.
    pub(crate) query: String,
    /// Where a form that belongs to no page leads back to, below [`Self::base`].
    pub(crate) here: String,
    pub(crate) preferences: Preferences,
    pub(crate) installation: Installation,
    pub(crate) new_cookie: Option<HeaderValue>,
}

impl Shell {
    /// Whether the caller may do what needs this role. What pages have for administrators is of all tenants.
    pub(crate) fn may(&self, needed: Role) -> bool {
        let may = |caller: &CallerView| {
            caller.role >= needed && (needed != Role::Admin || caller.is_of_installation)
        };
        self.caller.as_ref().is_some_and(may)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_for_administrators_are_those_of_the_installation() {
        let may = |role, is_of_installation, needed| {
            let caller = CallerView {
                tenant: "acme".to_owned(),
                subject: None,
                role,
                is_of_installation,
                key: None,
            };
            let shell = Shell {
                mount: String::new(),
                base: String::new(),
                sign_in: SignIn::Key,
                caller: Some(caller),
                token: String::new(),
                query: String::new(),
                here: String::new(),
                preferences: Preferences::default(),
                installation: Installation::default(),
                new_cookie: None,
            };
            shell.may(needed)
        };
        assert!(may(Role::Admin, true, Role::Admin));
        assert!(!may(Role::Admin, false, Role::Admin));
        assert!(may(Role::Admin, false, Role::Operate));
        assert!(!may(Role::Read, false, Role::Submit));
    }
}
