//! What the interface answers about a task. Must not show it.

use crate::failed::Failed;
use crate::page_request::PageRequest;
use crate::query::Address;
use crate::task_history::TaskHistory;
use crate::time_text;
use counterstep_contracts::TaskStatus;
use counterstep_contracts::declaration::kebab_case;
use counterstep_contracts::durations::TypeDurations;
use counterstep_contracts::groups::{DeadLetterGroup, DeadLetterGroups};
use counterstep_contracts::http::{AuditTrail, ChainView, Page, TaskView};
use counterstep_contracts::log::LogPage;
use counterstep_contracts::operator::{UndoPlan, Why};
use serde_json::Value;

/// What a page of a task is made of.
pub(crate) struct Found {
    pub(crate) task: TaskView,
    pub(crate) trail: AuditTrail,
    pub(crate) plan: Option<UndoPlan>,
    pub(crate) why: Option<Why>,
    /// Its type as this server knows it; of another version than the task's it says nothing.
    pub(crate) declaration: Option<Value>,
    pub(crate) chain: Option<ChainView>,
    /// What its steps have logged.
    pub(crate) log: Option<LogPage>,
    /// Where it is parked: the tasks that failed for the same cause, itself among them.
    pub(crate) group: Option<DeadLetterGroup>,
    /// How long tasks of its type took in the last 24 hours.
    pub(crate) typical: Option<TypeDurations>,
}

impl Found {
    pub(crate) async fn of(visit: &PageRequest, id: &str) -> Result<Self, Failed> {
        let path = format!("/api/tasks/{}", crate::query::segment(id));
        let task = visit.get::<TaskView>(&path).await?;
        let trail = visit.get::<AuditTrail>(&format!("{path}/audit")).await?;
        let plan = visit.find::<UndoPlan>(&format!("{path}/plan")).await;
        let why = visit.find::<Why>(&format!("{path}/why")).await;
        let types = visit.find::<Page<Value>>("/api/task-types").await;
        let mut types = types.into_iter().flat_map(|page| page.items);
        let declaration =
            types.find(|it| it["name"] == task.task_type && it["version"] == task.version);
        let chain = visit
            .find::<ChainView>(&format!("{path}/audit/chain"))
            .await;
        let log = visit
            .find::<LogPage>(&format!("{path}/log?limit=200"))
            .await;
        let group = why.as_ref().and_then(|why| why.group.clone());
        let group = match group {
            Some(id) => group_of(visit, &task, &id).await,
            None => None,
        };
        let typical = typical_of(visit, &task).await;
        Ok(Self {
            typical,
            task,
            trail,
            plan,
            why,
            declaration,
            chain,
            log,
            group,
        })
    }

    pub(crate) fn story(&self) -> TaskHistory {
        TaskHistory::of(
            &self.task,
            &self.trail,
            self.plan.as_ref(),
            self.declaration.as_ref(),
            time_text::now(),
        )
    }

    /// The last event that is shown.
    pub(crate) fn seen(&self) -> u64 {
        let last = self.trail.entries.last();
        last.map_or(0, |last| u64::try_from(last.seq.0).unwrap_or(0))
    }

    /// Whether something of it changes by time alone.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(
            self.task.status,
            TaskStatus::Running | TaskStatus::Compensating | TaskStatus::Waiting
        )
    }
}

/// Compared with how long this one took, where it has completed. Of one that is parked, or was undone, it says nothing.
async fn typical_of(visit: &PageRequest, task: &TaskView) -> Option<TypeDurations> {
    let ended = task.finished_at.as_deref();
    if task.status.is_parked()
        || task.status == TaskStatus::Compensating
        || (ended.is_some() && task.status != TaskStatus::Completed)
    {
        return None;
    }
    let took = ended.map(|ended| time_text::micros(ended) - time_text::micros(&task.created_at));
    let route = kebab_case(&task.task_type);
    let asked = Address::new(format!("/api/task-types/{route}/durations"));
    let asked = asked.with_some(
        "took_ms",
        took.map(|took| (took / 1_000).max(0).to_string())
            .as_deref(),
    );
    visit.find::<TypeDurations>(&asked.text()).await
}

async fn group_of(visit: &PageRequest, task: &TaskView, id: &str) -> Option<DeadLetterGroup> {
    let asked = Address::new("/api/dead-letters/groups").with("type", &task.task_type);
    let found = visit.find::<DeadLetterGroups>(&asked.text()).await?;
    found.groups.into_iter().find(|group| group.id == id)
}
