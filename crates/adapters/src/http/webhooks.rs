//! Requests to the receivers of webhooks, whose addresses clients have named. Must not connect to an
//! address that the operator's rules forbid, whatever a name resolves to; follows no redirect, uses no
//! proxy of the environment, and reads no more of an answer than its head needs.

use async_trait::async_trait;
use counterstep_kernel::webhooks::{AllowedNets, NoAnswer, WebhookSender, WebhookUrl};
use counterstep_steps::error::chain;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time limit of a request with its answer.
const LIMIT: Duration = Duration::from_secs(10);

/// Timeout of the connection, within `LIMIT`.
const CONNECTS: Duration = Duration::from_secs(5);

/// Bytes of an answer's body that are read, so that its connection can be used again.
const LONGEST_ANSWER: usize = 64 << 10;

/// Sends webhooks.
#[derive(Debug, Clone)]
pub struct ReqwestWebhooks {
    /// To public addresses and those that are allowed.
    secure: Client,
    /// Without TLS: to those that are allowed.
    in_clear: Client,
    allowed: AllowedNets,
}

impl ReqwestWebhooks {
    /// To public addresses, and to these networks.
    ///
    /// # Errors
    /// When no client can be made, as text.
    pub fn open(allowed: AllowedNets) -> Result<Self, String> {
        let client = |in_clear: bool| {
            let resolver = Guarded {
                allowed: allowed.clone(),
                in_clear,
            };
            let client = Client::builder()
                .redirect(Policy::none())
                .no_proxy()
                .referer(false)
                .user_agent(concat!("counterstep/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECTS)
                .dns_resolver(resolver);
            client.build().map_err(|error| chain(&error))
        };
        Ok(Self {
            secure: client(false)?,
            in_clear: client(true)?,
            allowed,
        })
    }
}

#[async_trait]
impl WebhookSender for ReqwestWebhooks {
    async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Result<u16, NoAnswer> {
        // The rules may be others than when it was submitted; and of an address that is no name no
        // resolver is asked.
        let url = WebhookUrl::parse(url, &self.allowed)
            .map_err(|error| NoAnswer::Failed(error.to_string()))?;
        let client = if url.as_str().starts_with("https:") {
            &self.secure
        } else {
            &self.in_clear
        };
        let request = client
            .post(url.as_str())
            .header("content-type", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, value)
        });
        let until = Instant::now() + LIMIT;
        let sent = timeout_at(until, request.body(body).send()).await;
        let sent = sent.map_err(|_| NoAnswer::Hung(LIMIT))?;
        let response = sent.map_err(|error| match error.is_timeout() {
            true => NoAnswer::Hung(CONNECTS),
            false => NoAnswer::Failed(chain(&error.without_url())),
        })?;
        let status = response.status().as_u16();
        // The answer is given: what comes of its body changes nothing.
        let _ = timeout_at(until, read(response)).await;
        Ok(status)
    }
}

/// Reads a body up to the limit.
async fn read(mut response: Response) {
    let mut bytes = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        bytes += chunk.len();
        if bytes > LONGEST_ANSWER {
            return;
        }
    }
}

/// Gives the addresses of a name only where all of them are admitted: one among others could be the one
/// that is connected to.
#[derive(Debug, Clone)]
struct Guarded {
    allowed: AllowedNets,
    in_clear: bool,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let this = self.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            // One text for all names that are not connected to: a client learns nothing of which names
            // there are in this network.
            let found: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
            let admitted = |address: &SocketAddr| this.allowed.admits(address.ip(), this.in_clear);
            if found.is_empty() || !found.iter().all(admitted) {
                return Err("the name leads to no address that webhooks may go to".into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}
