//! Limits of steps over HTTP: what is declared, what a person sets in place of it, what is in use, and each
//! refusal.

use crate::reply::Reply;
use crate::site::{Site, eventually};
use counterstep_contracts::Limit;
use counterstep_contracts::http::{Accepted, Page};
use counterstep_contracts::limit::{LimitUseView, LimitView};
use counterstep_macros::distributed_task;
use counterstep_steps::{Registry, StepContext, StepError, StepResult};

const BANK: Limit = Limit::named("bank").at_once(2).rate(50, "1s").per_tenant();

pub(crate) fn types(registry: Registry) -> Registry {
    registry.with::<AskBank>()
}

/// Asks until it is cancelled.
pub(crate) struct AskBank;

#[distributed_task(name = "AskBank", queue = "banks", cancellable)]
impl AskBank {
    type Request = u32;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "it only asks", limit = BANK)]
    async fn ask(ctx: &StepContext, _no: &u32) -> StepResult<u32> {
        ctx.cancel().cancelled().await;
        Err(StepError::cancelled())
    }

    fn respond(ask: &u32) -> u32 {
        *ask
    }
}

async fn bank(site: &Site) -> LimitView {
    let page: Page<LimitView> = site.get("/api/limits").await.json(200);
    let [limit] = &page.items[..] else {
        panic!("one limit: {page:?}");
    };
    assert_eq!(limit.name, "bank");
    limit.clone()
}

async fn set(site: &Site, name: &str, body: &str) -> Reply {
    let request = site
        .request("PUT", &format!("/api/limits/{name}"))
        .header("content-type", "application/json");
    site.send(request.body(body.to_owned())).await
}

async fn reset(site: &Site, name: &str) -> Reply {
    let body = r#"{"note":"the bank takes all again","actor":"ada"}"#;
    site.post(&format!("/api/limits/{name}/reset"), body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_listed_set_used_and_reset() {
    let site = Site::start().await;
    let declared = bank(&site).await;
    let values = declared.declared.as_ref().expect("it is declared");
    assert_eq!((values.at_once, values.scope.as_str()), (Some(2), "tenant"));
    assert_eq!(
        values.rate.map(|rate| rate.to_string()).as_deref(),
        Some("50/1s")
    );
    assert_eq!((&declared.set, &declared.uses[..]), (&None, &[][..]));

    let body = r#"{"at_once":1,"note":"the bank asks for less","actor":"ada"}"#;
    let changed: LimitView = set(&site, "bank", body).await.json(200);
    let value = changed.set.clone().expect("it is set");
    assert_eq!((value.at_once, value.rate), (Some(1), None));
    assert_eq!(
        (value.by.as_str(), value.note.as_str()),
        ("operator", "the bank asks for less (by ada)")
    );
    assert_eq!(changed.declared, declared.declared);
    assert_eq!(bank(&site).await, changed);

    site.run_worker();
    let mut tasks = Vec::new();
    for no in ["1", "2"] {
        let accepted: Accepted = site.post("/api/tasks/ask-bank", no).await.json(202);
        tasks.push(accepted.task_id);
    }
    eventually("one asks, and one waits", || async {
        match &bank(&site).await.uses[..] {
            [
                LimitUseView {
                    of,
                    held: 1,
                    waiting: 1,
                    holders,
                },
            ] => {
                assert_eq!((of.as_str(), holders.len()), ("default", 1));
                Ok(())
            }
            uses => Err(format!("{uses:?}")),
        }
    })
    .await;
    let again: LimitView = reset(&site, "bank").await.json(200);
    assert_eq!(again.set, None);
    eventually("both ask, as it is declared", || async {
        match &bank(&site).await.uses[..] {
            [
                LimitUseView {
                    held: 2,
                    waiting: 0,
                    ..
                },
            ] => Ok(()),
            uses => Err(format!("{uses:?}")),
        }
    })
    .await;
    for task in tasks {
        let cancel = site.request("DELETE", &format!("/api/tasks/{task}"));
        site.send(cancel).await.assert_status(202);
    }
    let once_more: LimitView = reset(&site, "bank").await.json(200);
    assert_eq!(once_more.set, None, "nothing was set");
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_values_are_422_and_an_unknown_limit_is_404() {
    let site = Site::start().await;
    for values in [
        "",
        r#","at_once":null"#,
        r#","at_once":0"#,
        r#","at_once":-1"#,
        r#","at_once":1000001"#,
        r#","at_once":1.5"#,
        r#","at_once":"5""#,
        r#","rate":"20/1s""#,
        r#","rate":{"starts":20}"#,
        r#","rate":{"starts":0,"per":"1s"}"#,
        r#","rate":{"starts":1000001,"per":"1s"}"#,
        r#","rate":{"starts":20,"per":"0s"}"#,
        r#","rate":{"starts":20,"per":"25h"}"#,
        r#","rate":{"starts":20,"per":"soon"}"#,
        r#","rate":{"starts":20,"per":"1s","burst":5}"#,
        r#","at_once":1,"scope":"all""#,
    ] {
        let body = format!(r#"{{"note":"x"{values}}}"#);
        let refused = set(&site, "bank", &body).await;
        refused.problem(422, "invalid-request");
    }
    set(&site, "bank", r#"{"at_once":1}"#)
        .await
        .problem(422, "invalid-request");
    for name in ["unheard-of", "bank%2Fdefault", "%00", "Bank"] {
        set(&site, name, r#"{"at_once":1,"note":"x"}"#)
            .await
            .problem(404, "no-such-limit");
        reset(&site, name).await.problem(404, "no-such-limit");
    }
    for (method, path, allow) in [
        ("POST", "/api/limits/bank", "PUT"),
        ("GET", "/api/limits/bank/reset", "POST"),
        ("DELETE", "/api/limits", "GET, HEAD"),
    ] {
        let reply = site.send(site.request(method, path)).await;
        reply.problem(405, "method-not-allowed");
        assert_eq!(reply.header("allow"), Some(allow), "{method} {path}");
    }
    assert_eq!(bank(&site).await.set, None);
}
