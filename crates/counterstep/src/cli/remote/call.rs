//! A request of any kind, by its method and path. Must not know an operation.

use super::{ANSWER, Remote};
use crate::client::http::HttpError;
use counterstep_contracts::operation::Verb;
use counterstep_node::Exit;
use serde_json::Value;

impl Remote {
    /// What an address answers to a request of any kind; null, where it answers no body.
    pub(in crate::cli) async fn call(
        &self,
        verb: Verb,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Exit> {
        let url = format!("{}{path}", self.http.base);
        let client = &self.http.client;
        let request = match verb {
            Verb::Get => client.get(url),
            Verb::Post => client.post(url),
            Verb::Put => client.put(url),
            Verb::Delete => client.delete(url),
        };
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer = self.http.answer(request.timeout(ANSWER)).await;
        let answer = answer.map_err(|error| self.exit(error))?;
        let body = answer.bytes().await.map_err(Exit::failed)?;
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body)
            .map_err(|error| self.exit(HttpError::Unreadable(error.to_string())))
    }
}
