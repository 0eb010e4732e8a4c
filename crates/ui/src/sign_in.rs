//! Signing in and out. A credential that the interface accepts is kept in a cookie that no script reads;
//! nothing is kept on the server. Must not look into a credential.

use crate::cookies;
use crate::failed::{Answer, Cause};
use crate::forms;
use crate::layout;
use crate::page_request::PageRequest;
use crate::pages::done_at;
use crate::port::SignIn;
use crate::query::{Fields, place};
use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::access::CallerView;
use maud::{Markup, html};

pub(crate) async fn page(request: HttpRequest) -> Answer {
    let visit = PageRequest::open(&request);
    if matches!(visit.shell.sign_in, SignIn::None | SignIn::ByProxy) {
        return Ok(done_at(&visit, "/"));
    }
    let query = Fields::of(request.query_string());
    Ok(form(&visit, StatusCode::OK, query.get("next"), None))
}

pub(crate) async fn post(request: HttpRequest, payload: web::Payload) -> Answer {
    let visit = PageRequest::open(&request);
    let fields = forms::read(&visit, payload).await?;
    let given = fields.get("credential").unwrap_or_default();
    let next = fields.get("next");
    if !cookies::is_value(given) {
        return Ok(form(
            &visit,
            StatusCode::UNAUTHORIZED,
            next,
            Some(refusal(&visit)),
        ));
    }
    let asked = visit.clone().with_credential(given);
    match asked.get::<CallerView>("/api/caller").await {
        Ok(_) => {
            let mut answer = done_at(&visit, place(next));
            let cookie = cookies::with_credential(&request, &visit.shell.base, given);
            cookies::set(&mut answer, cookie);
            Ok(answer)
        }
        Err(failed) if matches!(failed.cause, Cause::SignIn(_)) => Ok(form(
            &visit,
            StatusCode::UNAUTHORIZED,
            next,
            Some(refusal(&visit)),
        )),
        Err(failed) => Err(failed),
    }
}

pub(crate) async fn out(request: HttpRequest, payload: web::Payload) -> Answer {
    let visit = PageRequest::open(&request);
    forms::read(&visit, payload).await?;
    let mut answer = done_at(&visit, "/sign-in");
    let cookie = cookies::with_credential(&request, &visit.shell.base, "");
    cookies::set(&mut answer, cookie);
    Ok(answer)
}

fn refusal(visit: &PageRequest) -> &'static str {
    match visit.shell.sign_in {
        SignIn::Token => "This server does not accept this access token.",
        SignIn::Key | SignIn::None | SignIn::ByProxy => "This server does not accept this key.",
    }
}

fn form(
    visit: &PageRequest,
    status: StatusCode,
    next: Option<&str>,
    wrong: Option<&str>,
) -> HttpResponse {
    let what = match visit.shell.sign_in {
        SignIn::Token => "Access token",
        SignIn::Key | SignIn::None | SignIn::ByProxy => "API key",
    };
    let body: Markup = html! {
        section.sheet.narrow.sign-in {
            h1 { "Sign in" }
            form method="post" action=(visit.at("/sign-in")) {
                (forms::token(visit))
                input type="hidden" name="next" value=(place(next));
                label for="credential" { (what) }
                input #credential type="password" name="credential" required autocomplete="off"
                    spellcheck="false" autofocus aria-invalid=[wrong.map(|_| "true")]
                    aria-describedby=[wrong.map(|_| "wrong")];
                @if let Some(wrong) = wrong { p #wrong.wrong role="alert" { (wrong) } }
                button.primary type="submit" { "Sign in" }
            }
            p.quiet {
                "It stays in this browser until you sign out or close it. What you may see and do is what it may over HTTP."
            }
        }
    };
    layout::answer(status, &visit.shell, "Sign in", body)
}
