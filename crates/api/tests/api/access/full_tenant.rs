//! A tenant with something of its own behind each route. Must not know what is asked about it.

use super::sweeps::Credential;
use crate::reply::Reply;
use crate::site::{Site, eventually, file_head};
use counterstep_api::RouteView;
use counterstep_contracts::access::NewKey;
use counterstep_contracts::bulk::BulkView;
use counterstep_contracts::http::{Accepted, Page};
use counterstep_contracts::webhook::DeliveryView;
use serde_json::{Value, json};

/// A tenant with one of everything, by the credential of its administrator.
pub(crate) struct FullTenant<'a> {
    pub(crate) site: &'a Site,
    pub(crate) admin: &'a Credential,
    /// Where its tasks send webhooks.
    pub(crate) webhook: String,
    /// The ids of all that it has.
    pub(crate) ids: Vec<String>,
}

/// In texts that it hands in, and in names that it gives.
pub(crate) const PLANTED: &str = "planted-text";

impl FullTenant<'_> {
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &str) -> Reply {
        let request = self.admin.on(self.site.request(method, path));
        let request = request.header("content-type", "application/json");
        self.site.send(request.body(body.to_owned())).await
    }

    pub(crate) async fn task(&mut self, task_type: &str) -> String {
        self.submit(task_type, &json!({"text": PLANTED})).await
    }

    pub(crate) async fn submit(&mut self, task_type: &str, body: &Value) -> String {
        let path = format!("/api/tasks/{task_type}");
        let request = self.admin.on(self.site.request("POST", &path));
        let request = request
            .header("content-type", "application/json")
            .header("counterstep-webhook", &self.webhook)
            .body(body.to_string());
        let accepted: Accepted = self.site.send(request).await.json(202);
        let id = accepted.task_id.to_string();
        self.ids.push(id.clone());
        id
    }

    pub(crate) async fn task_in(&mut self, task_type: &str, status: &str) -> String {
        let id = self.task(task_type).await;
        self.until(&id, status).await;
        id
    }

    /// Waits until a task is in a state.
    pub(crate) async fn until(&self, id: &str, status: &str) {
        let path = format!("/api/tasks/{id}");
        eventually(status, || async {
            let view: Value = self.ask("GET", &path, "").await.json(200);
            if view["status"] == status {
                Ok(())
            } else {
                Err(view)
            }
        })
        .await;
    }

    async fn file(&mut self) -> String {
        let head = file_head(&format!("filename=\"{PLANTED}\""));
        let request = self
            .admin
            .on(self.site.request("POST", "/api/tasks/keep-files"));
        let request = request
            .header("content-type", "multipart/form-data; boundary=XX")
            .body(format!("{head}{PLANTED}\r\n--XX--\r\n"));
        let accepted: Accepted = self.site.send(request).await.json(202);
        let id = accepted.task_id.to_string();
        self.ids.push(id.clone());
        id
    }

    pub(crate) async fn webhook(&mut self) -> (String, String) {
        let task = self.task_in("write-note", "completed").await;
        let path = format!("/api/tasks/{task}/webhooks");
        let page: Page<DeliveryView> = self.ask("GET", &path, "").await.json(200);
        (task, page.items[0].id.clone())
    }

    pub(crate) async fn schedule(&mut self) {
        let schedule =
            json!({"type": "WriteNote", "request": {"text": PLANTED}, "cron": "30 2 * * *"});
        let path = format!("/api/schedules/{PLANTED}");
        self.ask("PUT", &path, &schedule.to_string())
            .await
            .assert_status(201);
    }

    pub(crate) async fn view(&self) {
        let view = json!({"q": PLANTED.to_owned() + " since:1h"});
        let path = format!("/api/views/{PLANTED}");
        self.ask("PUT", &path, &view.to_string())
            .await
            .assert_status(200);
    }

    pub(crate) async fn forget_schedule(&self) {
        let path = format!("/api/schedules/{PLANTED}");
        self.ask("DELETE", &path, "").await.assert_status(204);
    }

    pub(crate) async fn bulk(&mut self) -> String {
        let body = json!({"action": "redrive", "filter": {}, "note": PLANTED});
        let started = self
            .ask("POST", "/api/bulk-operations", &body.to_string())
            .await;
        let started: BulkView = started.json(202);
        self.ids.push(started.id.clone());
        started.id
    }

    pub(crate) async fn key(&mut self) -> String {
        let body = json!({"subject": PLANTED, "role": "read"});
        let made: NewKey = self
            .ask("POST", "/api/keys", &body.to_string())
            .await
            .json(201);
        self.ids.push(made.view.id.clone());
        made.view.id
    }

    /// The address of something of its own, newly made, to which a route leads, and the body of a request that it
    /// may send there; `None`: the route leads to nothing of a tenant.
    pub(crate) async fn target(&mut self, route: RouteView) -> Option<(String, Value)> {
        let note = json!({"note": "x"});
        let of_task = |id: String| route.path.replace("{id}", &id);
        let found = match (route.method, route.path) {
            // A task type's.
            ("POST", "/api/tasks/{id}" | "/api/tasks/{id}/batch")
            | ("GET", "/api/task-types/{id}/durations") => return None,
            ("POST", "/api/tasks/{id}/signals/{name}") => {
                let id = self.task_in("ask-first", "waiting").await;
                let path = of_task(id).replace("{name}", "permission");
                (path, json!({"by": "anna", "level": 3}))
            }
            ("DELETE", "/api/tasks/{id}") => {
                (of_task(self.task_in("ask-first", "waiting").await), note)
            }
            (_, "/api/tasks/{id}/resolve") => {
                let id = self.task_in("asks-a-person", "dead_lettered").await;
                (of_task(id), json!({"as": "skipped", "note": "x"}))
            }
            (_, "/api/tasks/{id}/retry") => {
                let id = self.task_in("asks-a-person", "dead_lettered").await;
                (of_task(id), note)
            }
            (_, "/api/tasks/{id}/recoveries") => {
                let id = self.task_in("asks-a-person", "dead_lettered").await;
                (of_task(id), json!({"recovery_attempts": 0, "note": "x"}))
            }
            (_, "/api/tasks/{id}/webhooks/{webhook}/send") => {
                let (task, webhook) = self.webhook().await;
                (of_task(task).replace("{webhook}", &webhook), note)
            }
            (_, path) if path.starts_with("/api/dead-letters/{id}") => {
                let id = self.task_in("asks-a-person", "dead_lettered").await;
                (of_task(id), note)
            }
            (_, path) if path.contains("/result/") => {
                let name = if path.contains("{index}") {
                    "files"
                } else {
                    "first"
                };
                let path = of_task(self.file().await).replace("{index}", "0");
                (path.replace("{name}", name), json!({}))
            }
            ("GET", "/api/tasks/{id}/at") => {
                let path = of_task(self.task_in("write-note", "completed").await);
                (path + "?seq=1", note)
            }
            (_, path) if path.starts_with("/api/tasks/{id}") => {
                (of_task(self.task_in("write-note", "completed").await), note)
            }
            (_, path) if path.starts_with("/api/bulk-operations/") => {
                (of_task(self.bulk().await), note)
            }
            (_, path) if path.starts_with("/api/schedules/") => {
                self.schedule().await;
                (path.replace("{name}", PLANTED), note)
            }
            (_, path) if path.starts_with("/api/views/") => {
                self.view().await;
                (path.replace("{name}", PLANTED), note)
            }
            ("DELETE", "/api/keys/{id}") => (of_task(self.key().await), note),
            (method, path) => panic!("this sweep plants nothing for {method} {path}"),
        };
        Some(found)
    }

    pub(crate) async fn trail(&self, path: &str) -> Value {
        let Some(rest) = path.strip_prefix("/api/tasks/") else {
            return Value::Null;
        };
        let path = format!("/api/tasks/{}/audit", &rest[..36]);
        self.ask("GET", &path, "").await.json(200)
    }
}
