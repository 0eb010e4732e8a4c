//! Alerts of the installation: which were sent, one more to see whether it arrives, and the secrets that sign them.

use crate::{Cx, Refused, Run};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::alert::AlertView;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::alerts::{ListAlertSecrets, ListAlerts, SendTestAlert};
use counterstep_contracts::webhook::WebhookSecretsView;
use counterstep_kernel::webhooks::alerts;

impl Run for ListAlerts {
    async fn run(cx: Cx, (): (), (): ()) -> Result<Page<AlertView>, Refused> {
        Ok(Page::whole(alerts::list(&cx.engine.ports.store).await?))
    }
}

impl Run for SendTestAlert {
    async fn run(cx: Cx, (): (), (): ()) -> Result<AlertView, Refused> {
        let webhooks = cx.process.webhooks();
        if webhooks.is_ok_and(|webhooks| webhooks.alerts.is_some()) {
            return Ok(alerts::test(&cx.engine, &cx.actor::<Self>()).await?);
        }
        let detail = "the settings of the API have no `alert_webhook`";
        Err(Refused::new(ProblemCode::AlertsOff, detail))
    }
}

impl Run for ListAlertSecrets {
    async fn run(cx: Cx, (): (), (): ()) -> Result<WebhookSecretsView, Refused> {
        let secrets = &cx.process.webhooks()?.secrets;
        Ok(WebhookSecretsView {
            secrets: secrets.expose(&alerts::installation()),
        })
    }
}
