//! What all pages have in common: head, navigation, who is signed in, and what a browser may do with them.
//! Must not know what a page shows.

use crate::assets::{HTMX, ICON, MORPH, SCRIPT, STYLE};
use crate::cookies;
use crate::foot::foot;
use crate::markup::{glyph, signs};
use crate::notice;
use crate::port::SignIn;
use crate::query::Fields;
use crate::shell::{Shell, TOKEN};
use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
};
use counterstep_contracts::access::Role;
use counterstep_contracts::installation::BarColor;
use maud::{DOCTYPE, Markup, html};

/// Nothing from elsewhere, nothing that stands in a page, in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// No evaluation of texts, no styles of its own, no pages kept in the browser's storage.
const HTMX_CONFIG: &str = r#"{"allowEval":false,"allowScriptTags":false,"includeIndicatorStyles":false,"historyCacheSize":0,"selfRequestsOnly":true}"#;

/// A chapter of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chapter {
    Overview,
    Tasks,
    Parked,
    Effects,
    Types,
    Schedules,
    Queues,
    Limits,
    Workers,
}

impl Chapter {
    const ALL: [(Self, &'static str, &'static str, Role); 9] = [
        (Self::Overview, "Overview", "/", Role::Read),
        (Self::Tasks, "Tasks", "/tasks", Role::Read),
        (Self::Parked, "Parked", "/parked", Role::Read),
        (Self::Effects, "Open effects", "/effects", Role::Read),
        (Self::Types, "Types", "/types", Role::Read),
        (Self::Schedules, "Schedules", "/schedules", Role::Read),
        (Self::Queues, "Queues", "/queues", Role::Admin),
        (Self::Limits, "Limits", "/limits", Role::Admin),
        (Self::Workers, "Workers", "/workers", Role::Admin),
    ];
}

/// A page.
pub(crate) fn page(shell: &Shell, chapter: Chapter, title: &str, body: Markup) -> HttpResponse {
    let said = notice::of(&Fields::of(&shell.query));
    let body = html! {
        @if let Some(said) = said { p.notice role="status" { (glyph("check")) (said) } }
        (body)
    };
    whole(StatusCode::OK, shell, Some(chapter), title, body)
}

/// A page of no chapter.
pub(crate) fn answer(status: StatusCode, shell: &Shell, title: &str, body: Markup) -> HttpResponse {
    whole(status, shell, None, title, body)
}

fn whole(
    status: StatusCode,
    shell: &Shell,
    chapter: Option<Chapter>,
    title: &str,
    body: Markup,
) -> HttpResponse {
    let asset = |name: &str| format!("{}/assets/{name}", shell.base);
    let headers = format!("{{\"x-form-token\":\"{}\"}}", shell.token);
    let theme = shell.preferences.theme.chosen();
    let end = title_end(shell);
    let page = html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content=(theme.unwrap_or("light dark"));
                meta name="htmx-config" content=(HTMX_CONFIG);
                title data-end=(end) { (title) (end) }
                link rel="icon" type="image/svg+xml" href=(asset(&ICON.name));
                link rel="stylesheet" href=(asset(&STYLE.name));
                script src=(asset(&MORPH.name)) defer {}
                script src=(asset(&HTMX.name)) defer {}
                script src=(asset(&SCRIPT.name)) defer {}
            }
            body hx-headers=(headers) {
                (signs())
                a.skip href="#main" { "Skip to the page" }
                (top(shell, chapter))
                main #main tabindex="-1" { (body) }
                (foot(shell))
            }
        }
    };
    let mut answer = HttpResponse::build(status)
        .insert_header((CONTENT_TYPE, "text/html; charset=utf-8"))
        .insert_header((CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((REFERRER_POLICY, "same-origin"))
        .insert_header((CACHE_CONTROL, "no-store"))
        .insert_header(("cross-origin-opener-policy", "same-origin"))
        .body(page.into_string());
    cookies::set(&mut answer, shell.new_cookie.clone());
    answer
}

/// What the title of each page ends with. The name comes first: tabs cut the end off.
fn title_end(shell: &Shell) -> String {
    match &shell.installation.name {
        Some(name) => format!(" · {name} · Counterstep"),
        None => " · Counterstep".to_owned(),
    }
}

fn top(shell: &Shell, chapter: Option<Chapter>) -> Markup {
    let color = shell.installation.color;
    html! {
        // Those who do not see it have the name beside the brand.
        @if color != BarColor::None { div class={ "bar " (color) } aria-hidden="true" {} }
        header.top {
            a.brand href={ (shell.base) "/" } {
                svg width="22" height="22" viewBox="0 0 22 22" aria-hidden="true" {
                    path.way.gone d="M3 7h11" {}
                    path.way.back d="M14 7c5 0 5 8 0 8H5" {}
                    path.way.back d="M8 12l-3 3 3 3" {}
                }
                span { "Counterstep" }
            }
            @if let Some(name) = &shell.installation.name { span.installation { (name) } }
            @if shell.caller.is_some() {
                nav aria-label="Pages" {
                    ul {
                        @for (at, name, path, needed) in Chapter::ALL {
                            @if shell.may(needed) {
                                li {
                                    a href={ (shell.base) (path) }
                                        aria-current=[(chapter == Some(at)).then_some("page")] { (name) }
                                }
                            }
                        }
                    }
                }
            }
            div.who {
                span #live-state .live-state role="status" {}
                @if let Some(caller) = &shell.caller {
                    span.caller {
                        @if let Some(subject) = &caller.subject { b { (subject) } " · " }
                        (caller.role.as_str()) " · " (caller.tenant)
                    }
                    @if matches!(shell.sign_in, SignIn::Key | SignIn::Token) {
                        form method="post" action={ (shell.base) "/sign-out" } {
                            input type="hidden" name=(TOKEN) value=(shell.token);
                            button.plain type="submit" { "Sign out" }
                        }
                    }
                }
            }
        }
    }
}
