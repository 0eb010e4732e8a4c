//! Edges of tasks that others have submitted, and of the steps that wait for them.

use super::Stage;
use counterstep_contracts::http::{ChildSummary, Page};
use counterstep_contracts::{Host, TaskStatus};

/// A parent fails after its child has completed: the child is undone with it.
pub(super) async fn families(stage: &mut Stage) {
    let _worker = stage.site.run_host(Host::Worker);
    let script = r#"{"front":[{"act":"book"}],"fails_later":true}"#;
    let parent = stage.submit("rows", script).await;
    // Not the stage's own look: it would pass the time within which the step's tasks have to end.
    stage.site.until(parent, TaskStatus::Failed).await;
    let path = format!("/api/tasks/{parent}/children");
    let children: Page<ChildSummary> = stage.site.get(&path).await.json(200);
    for child in children.items {
        assert_eq!(child.status, TaskStatus::Cancelled);
        stage.tasks.push(child.task_id);
    }
}
