//! Webhooks of a task: how they stand, one of them once more, and the secrets that sign those of a tenant.

use crate::{Cx, Refused, Run, load};
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::webhooks::{
    GetWebhookSecrets, ListWebhooks, SendWebhook, WebhookOfTask,
};
use counterstep_contracts::webhook::{DeliveryView, WebhookSecretsView};
use counterstep_contracts::{ProblemCode, TaskId};
use counterstep_kernel::webhooks::{self, NoSuchWebhook};

impl Run for ListWebhooks {
    async fn run(cx: Cx, task: TaskId, (): ()) -> Result<Page<DeliveryView>, Refused> {
        let (store, tenant) = (&cx.engine.ports.store, &cx.caller.tenant);
        load(&cx.engine, tenant, task).await?;
        Ok(Page::whole(webhooks::list(store, tenant, task).await?))
    }
}

impl Run for SendWebhook {
    async fn run(cx: Cx, of: WebhookOfTask, (): ()) -> Result<DeliveryView, Refused> {
        let (store, tenant) = (&cx.engine.ports.store, &cx.caller.tenant);
        load(&cx.engine, tenant, of.task).await?;
        cx.process.webhooks()?;
        Ok(webhooks::send_again(store, tenant, of.task, &of.webhook).await?)
    }
}

impl Run for GetWebhookSecrets {
    async fn run(cx: Cx, (): (), (): ()) -> Result<WebhookSecretsView, Refused> {
        let secrets = &cx.process.webhooks()?.secrets;
        Ok(WebhookSecretsView {
            secrets: secrets.expose(&cx.caller.tenant),
        })
    }
}

impl From<NoSuchWebhook> for Refused {
    fn from(error: NoSuchWebhook) -> Self {
        match error {
            NoSuchWebhook::Gone => Self::new(
                ProblemCode::NoSuchWebhook,
                "see the task's /webhooks for those that there are",
            ),
            NoSuchWebhook::Store(error) => error.into(),
        }
    }
}
