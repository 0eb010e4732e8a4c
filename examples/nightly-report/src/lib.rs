//! A report on the sales of each shop, every night: summed up on a worker, stored as an object, and
//! kept for a month.

mod sales;

use counterstep::contracts::Keep;
use counterstep::prelude::*;
pub use sales::Sales;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Serialize, Deserialize)]
pub struct Shop {
    pub shop: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    pub sales: u64,
    pub cents: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub sum: Sum,
    /// `GET /api/tasks/{id}/result/file` downloads it.
    pub file: StoredFile,
}

const PATIENT: RetryPolicy = RetryPolicy::exponential("1s").max_retries(8).cap("10m");

pub struct NightlyReport;

#[distributed_task(timeout = "6h")]
impl NightlyReport {
    type Request = Shop;
    type Response = Report;

    /// Reads only: nothing to undo, and nothing to tell about it.
    #[step(1, host = "worker", retry = PATIENT)]
    #[pure]
    async fn sum_up(shop: &Shop, sales: &State<Sales>) -> StepResult<Sum> {
        sales.sum_of(&shop.shop).await
    }

    #[step(2, host = "worker", retry = PATIENT, undo = discard)]
    async fn write(ctx: &StepContext, shop: &Shop, sum: &Sum) -> StepResult<StoredFile> {
        let Shop { shop } = shop;
        let text = format!("shop,sales,cents\n{shop},{},{}\n", sum.sales, sum.cents);
        let name = FileName::parse("report.csv").permanent("naming the report")?;
        let body = futures::stream::once(async move { Ok(text.into()) });
        ctx.objects()
            .put("reports", &name, "text/csv", Box::pin(body))
            .await
    }

    async fn discard(ctx: &StepContext) -> UndoResult {
        ctx.objects().delete_all_of_step().await?;
        Ok(())
    }

    fn respond(sum: &Sum, file: &StoredFile) -> Report {
        Report {
            sum: Sum {
                sales: sum.sales,
                cents: sum.cents,
            },
            file: file.clone(),
        }
    }
}

pub fn tasks(sales: Sales) -> Registry {
    Registry::new()
        .provide(sales)
        .with::<NightlyReport>()
        .schedule::<NightlyReport>(
            Schedule::cron("nightly", "0 3 * * *", "Europe/Berlin")
                .request(json!({ "shop": "berlin" }))
                // Nights on which no reconciler ran.
                .misfire(Misfire::CatchUp)
                .overlap(Overlap::Queue),
        )
        .retention::<NightlyReport>(Retention {
            completed: Some(Keep::delete_after("30d")),
            ..Retention::default()
        })
}
