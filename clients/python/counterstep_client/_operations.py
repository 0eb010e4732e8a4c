# Generated from docs/openapi.json by a test; CONTRIBUTING.md says how. Do not edit.
"""The operations of the API, grouped as the commands of the program are."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Dict, Iterable, Iterator, List, Literal, Optional, Union, cast

from ._calls import NOT_GIVEN, Calls
from ._http import Transport
from . import _types as types


class Alerts:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def secrets(self) -> types.WebhookSecretsView:
        """Read the secrets that sign alerts.

        The newest first. Needs the role `admin` in the tenant `default`.
        """
        return cast("types.WebhookSecretsView", self._calls.json("GET", "/api/alert-secrets", ()))

    def list(self) -> Iterator[types.AlertView]:
        """List alerts of the last week, the last changed first.

        All of them. Needs the role `admin` in the tenant `default`.
        """
        return cast("Iterator[types.AlertView]", self._calls.items("GET", "/api/alerts", ()))

    def test(self) -> types.AlertView:
        """Send an alert to see whether it arrives.

        It is sent. Needs the role `admin` in the tenant `default`. `Problem`: `alerts-off`.
        """
        return cast("types.AlertView", self._calls.json("POST", "/api/alerts/test", ()))


class Breakers:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self) -> Iterator[types.BreakerView]:
        """List the breakers, and how each stands.

        Those of the task types. Without a Redis each process has its own: then those of all processes that are alive,
        as of their last refresh. Needs the role `admin` in the tenant `default`.
        """
        return cast("Iterator[types.BreakerView]", self._calls.items("GET", "/api/breakers", ()))

    def close(self, name: str, *, note: str, actor: Union[str, None] = NOT_GIVEN) -> types.BreakerView:
        """Close a breaker that is open.

        Attempts start. Without a Redis the `processes` of the answer close theirs with their next refresh, within 15
        seconds. A task that sleeps for it starts at its due time. Needs the role `admin` in the tenant `default`.
        `Problem`: `no-such-breaker`.
        """
        return cast("types.BreakerView", self._calls.json("POST", "/api/breakers/{}/close", (name,), body={"note": note, "actor": actor}))


class Bulk:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self) -> Iterator[types.BulkView]:
        """List bulk operations of the last 30 days, the last started first.

        All of them. Needs the role `read`.
        """
        return cast("Iterator[types.BulkView]", self._calls.items("GET", "/api/bulk-operations", ()))

    def start(
        self,
        *,
        action: types.BulkAction,
        note: str,
        actor: Union[str, None] = NOT_GIVEN,
        as_: Union[types.SettledAs, None] = NOT_GIVEN,
        filter: Union[types.BulkFilterInput, None] = NOT_GIVEN,
        from_: Union[str, None] = NOT_GIVEN,
        group: Union[str, None] = NOT_GIVEN,
        pace: Union[types.PaceInput, None] = NOT_GIVEN,
        patch: Any = NOT_GIVEN,
        preview: bool = NOT_GIVEN,
    ) -> Union[types.BulkPreview, types.BulkView]:
        """Redrive, resolve, cancel or run again many tasks.

        With `preview`: which tasks it would be for; nothing has changed. Started: API processes execute it. Needs the
        role `operate`. `Problem`: `no-such-view`.
        """
        return cast("Union[types.BulkPreview, types.BulkView]", self._calls.json("POST", "/api/bulk-operations", (), body={"action": action, "note": note, "actor": actor, "as": as_, "filter": filter, "from": from_, "group": group, "pace": pace, "patch": patch, "preview": preview}))

    def show(self, bulk_id: str) -> types.BulkView:
        """Look at a bulk operation.

        How it stands. Needs the role `read`. `Problem`: `no-such-bulk-operation`.
        """
        return cast("types.BulkView", self._calls.json("GET", "/api/bulk-operations/{}", (bulk_id,)))

    def pause(self, bulk_id: str) -> types.BulkView:
        """Pause a bulk operation until a person resumes it.

        How it stands: tasks that were begun are finished. One that is paused, is being stopped or has ended stays as it
        is. Needs the role `operate`. `Problem`: `no-such-bulk-operation`.
        """
        return cast("types.BulkView", self._calls.json("POST", "/api/bulk-operations/{}/pause", (bulk_id,)))

    def resume(self, bulk_id: str) -> types.BulkView:
        """Let a paused bulk operation go on; its failures are counted anew.

        How it stands. One that is not paused stays as it is. Needs the role `operate`. `Problem`:
        `no-such-bulk-operation`.
        """
        return cast("types.BulkView", self._calls.json("POST", "/api/bulk-operations/{}/resume", (bulk_id,)))

    def stop(self, bulk_id: str) -> types.BulkView:
        """Stop a bulk operation; the tasks that are left stay as they are.

        How it stands: tasks that were begun are finished. One that has ended stays as it is. Needs the role `operate`.
        `Problem`: `no-such-bulk-operation`.
        """
        return cast("types.BulkView", self._calls.json("POST", "/api/bulk-operations/{}/stop", (bulk_id,)))

    def tasks(self, bulk_id: str, *, limit: int = NOT_GIVEN) -> Iterator[types.BulkTask]:
        """List what became of each task of a bulk operation, and how it stands now.

        A page of the first 100,000, in the order in which they were decided on; it is the last one without
        `next_cursor`. Needs the role `read`. `Problem`: `no-such-bulk-operation`.
        """
        return cast("Iterator[types.BulkTask]", self._calls.items("GET", "/api/bulk-operations/{}/tasks", (bulk_id,), query={"limit": limit}))


class Caller:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def show(self) -> types.CallerView:
        """Show who sends the request: its tenant, its name, its role.

        The caller. Needs the role `read`.
        """
        return cast("types.CallerView", self._calls.json("GET", "/api/caller", ()))


class DeadLetters:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(
        self,
        *,
        type: str = NOT_GIVEN,
        status: Union[Literal["compensation_failed", "dead_lettered"], Iterable[Literal["compensation_failed", "dead_lettered"]]] = NOT_GIVEN,
        parked_since: str = NOT_GIVEN,
        order: Literal["newest", "longest_parked"] = NOT_GIVEN,
        limit: int = NOT_GIVEN,
    ) -> Iterator[types.DeadLetter]:
        """List parked tasks, the newest first.

        A page; without `next_cursor` the last one. Needs the role `read`.
        """
        return cast("Iterator[types.DeadLetter]", self._calls.items("GET", "/api/dead-letters", (), query={"type": type, "status": status, "parked_since": parked_since, "order": order, "limit": limit}))

    def groups(
        self,
        *,
        type: str = NOT_GIVEN,
        status: Union[Literal["compensation_failed", "failed", "dead_lettered"], Iterable[Literal["compensation_failed", "failed", "dead_lettered"]]] = NOT_GIVEN,
        label: Union[str, Iterable[str]] = NOT_GIVEN,
        since: Union[str, datetime] = NOT_GIVEN,
        with_: Literal["decisions"] = NOT_GIVEN,
    ) -> types.DeadLetterGroups:
        """Count parked tasks, or failed ones, by cause.

        The groups, the largest first. Needs the role `read`.
        """
        return cast("types.DeadLetterGroups", self._calls.json("GET", "/api/dead-letters/groups", (), query={"type": type, "status": status, "label": label, "since": since, "with": with_}))

    def show(self, task_id: str) -> types.DeadLetterView:
        """Look at a parked task: its request, its attempts with their errors, who ran them.

        All that there is to know of it. Needs the role `read`. `Problem`: `no-such-task`, `not-parked`.
        """
        return cast("types.DeadLetterView", self._calls.json("GET", "/api/dead-letters/{}", (task_id,)))

    def poison(self) -> types.PoisonMessages:
        """List messages that no host can read, the last kept first.

        The last 200. Needs the role `admin` in the tenant `default`.
        """
        return cast("types.PoisonMessages", self._calls.json("GET", "/api/poison-messages", ()))

    def remove_poison(self, poison_id: str) -> None:
        """Remove a message that no host can read.

        It is gone. Needs the role `admin` in the tenant `default`. `Problem`: `no-such-poison-message`.
        """
        self._calls.nothing("DELETE", "/api/poison-messages/{}", (poison_id,))


class Effects:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(
        self,
        *,
        type: str = NOT_GIVEN,
        kind: Union[Literal["in_doubt", "undo_failed", "parked", "left", "waived"], Iterable[Literal["in_doubt", "undo_failed", "parked", "left", "waived"]]] = NOT_GIVEN,
        limit: int = NOT_GIVEN,
    ) -> Iterator[types.OpenEffects]:
        """List tasks at rest that have done something outside which nothing has taken back.

        A page, the newest tasks first; it may be short or empty, and is the last one without `next_cursor`. Needs the
        role `read`.
        """
        return cast("Iterator[types.OpenEffects]", self._calls.items("GET", "/api/open-effects", (), query={"type": type, "kind": kind, "limit": limit}))

    def sums(self, *, type: str = NOT_GIVEN) -> types.OpenEffectSums:
        """Count open effects by type, step, kind and service, with the sums of their amounts.

        Of the newest 1,000 parked tasks, and of the newest 2,000 that have ended, of which the rows of 1,000 are read.
        Needs the role `read`.
        """
        return cast("types.OpenEffectSums", self._calls.json("GET", "/api/open-effects/sums", (), query={"type": type}))


class Gates:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self) -> Iterator[types.GateView]:
        """List what holds tasks back because it was paused, disabled, set by hand, or is open after failures.

        All of it, each with the command that opens it. Needs the role `admin` in the tenant `default`.
        """
        return cast("Iterator[types.GateView]", self._calls.items("GET", "/api/gates", ()))


class History:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def show(self) -> types.HistoryView:
        """Show how the installation was doing in the last hour.

        As the process that answers has looked at it since it started. Needs the role `admin` in the tenant `default`.
        """
        return cast("types.HistoryView", self._calls.json("GET", "/api/history", ()))


class Keys:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self) -> Iterator[types.KeyView]:
        """List the API keys of the tenant, without their secrets; administrators of the default tenant see all.

        Those of the tenant, or all. Needs the role `admin`.
        """
        return cast("Iterator[types.KeyView]", self._calls.items("GET", "/api/keys", ()))

    def make(
        self,
        *,
        role: types.Role,
        subject: str,
        expires_in: Union[str, None] = NOT_GIVEN,
        tenant: Union[str, None] = NOT_GIVEN,
    ) -> types.NewKey:
        """Make an API key.

        The only answer that holds the key. Needs the role `admin`.
        """
        return cast("types.NewKey", self._calls.json("POST", "/api/keys", (), body={"role": role, "subject": subject, "expires_in": expires_in, "tenant": tenant}))

    def revoke(self, key_id: str) -> types.KeyView:
        """Revoke an API key.

        The key, revoked. Needs the role `admin`. `Problem`: `no-such-key`.
        """
        return cast("types.KeyView", self._calls.json("DELETE", "/api/keys/{}", (key_id,)))


class Limits:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self) -> Iterator[types.LimitView]:
        """List the limits of steps, and what is in use of them.

        All of them. Needs the role `admin` in the tenant `default`.
        """
        return cast("Iterator[types.LimitView]", self._calls.items("GET", "/api/limits", ()))

    def set(
        self,
        name: str,
        *,
        note: str,
        actor: Union[str, None] = NOT_GIVEN,
        at_once: Union[int, None] = NOT_GIVEN,
        rate: Union[types.Rate, None] = NOT_GIVEN,
    ) -> types.LimitView:
        """Set the values of a limit in place of those that are declared.

        They hold within a few seconds, in all processes. Needs the role `admin` in the tenant `default`. `Problem`:
        `no-such-limit`.
        """
        return cast("types.LimitView", self._calls.json("PUT", "/api/limits/{}", (name,), body={"note": note, "actor": actor, "at_once": at_once, "rate": rate}))

    def reset(self, name: str, *, note: str, actor: Union[str, None] = NOT_GIVEN) -> types.LimitView:
        """Let a limit hold again as it is declared.

        It holds as it is declared. Needs the role `admin` in the tenant `default`. `Problem`: `no-such-limit`.
        """
        return cast("types.LimitView", self._calls.json("POST", "/api/limits/{}/reset", (name,), body={"note": note, "actor": actor}))


class Queues:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self) -> Iterator[types.QueueView]:
        """List the queues, what waits on them, and which are paused.

        All of them. Needs the role `admin` in the tenant `default`.
        """
        return cast("Iterator[types.QueueView]", self._calls.items("GET", "/api/queues", ()))

    def pause(self, name: str, *, note: str, actor: Union[str, None] = NOT_GIVEN) -> types.QueueView:
        """Claim no more tasks of a queue, in any process.

        Within a few seconds no task of it is claimed. What runs goes on. Needs the role `admin` in the tenant
        `default`. `Problem`: `no-such-queue`.
        """
        return cast("types.QueueView", self._calls.json("POST", "/api/queues/{}/pause", (name,), body={"note": note, "actor": actor}))

    def resume(self, name: str, *, note: str, actor: Union[str, None] = NOT_GIVEN) -> types.QueueView:
        """Claim tasks of a queue again.

        Tasks of it are claimed. Needs the role `admin` in the tenant `default`. `Problem`: `no-such-queue`.
        """
        return cast("types.QueueView", self._calls.json("POST", "/api/queues/{}/resume", (name,), body={"note": note, "actor": actor}))


class Schedules:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self, *, type: str = NOT_GIVEN, limit: int = NOT_GIVEN) -> Iterator[types.ScheduleView]:
        """List schedules, by name.

        A page; without `next_cursor` the last one. Needs the role `read`.
        """
        return cast("Iterator[types.ScheduleView]", self._calls.items("GET", "/api/schedules", (), query={"type": type, "limit": limit}))

    def delete(self, name: str) -> None:
        """Delete a schedule; its tasks stay.

        The schedule is deleted. Needs the role `operate`. `Problem`: `no-such-schedule`, `schedule-declared`.
        """
        self._calls.nothing("DELETE", "/api/schedules/{}", (name,))

    def show(self, name: str, *, next: int = NOT_GIVEN) -> types.ScheduleView:
        """Show a schedule.

        The schedule. Needs the role `read`. `Problem`: `no-such-schedule`.
        """
        return cast("types.ScheduleView", self._calls.json("GET", "/api/schedules/{}", (name,), query={"next": next}))

    def set(self, name: str, body: types.ScheduleSpec) -> types.ScheduleView:
        """Make or change a schedule.

        The schedule is changed. The schedule is made. Needs the role `operate`. `Problem`: `schedule-declared`.
        """
        return cast("types.ScheduleView", self._calls.json("PUT", "/api/schedules/{}", (name,), body=body))

    def pause(self, name: str) -> types.ScheduleView:
        """Pause a schedule.

        The schedule is paused. Needs the role `operate`. `Problem`: `no-such-schedule`.
        """
        return cast("types.ScheduleView", self._calls.json("POST", "/api/schedules/{}/pause", (name,)))

    def resume(self, name: str) -> types.ScheduleView:
        """Let a paused schedule go on.

        The schedule goes on. Needs the role `operate`. `Problem`: `no-such-schedule`.
        """
        return cast("types.ScheduleView", self._calls.json("POST", "/api/schedules/{}/resume", (name,)))

    def run(self, name: str) -> types.Accepted:
        """Submit a task of a schedule now.

        The task is accepted. Needs the role `operate`. `Problem`: `no-such-schedule`, `type-disabled`, `schedule-busy`,
        `too-many-at-once`.
        """
        return cast("types.Accepted", self._calls.json("POST", "/api/schedules/{}/run", (name,)))


class Tasks:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def suggest(self, *, q: str = NOT_GIVEN) -> Iterator[types.Suggestion]:
        """Complete a search: types, states, saved views, names and values of labels.

        At most 20, which may be none. Needs the role `read`.
        """
        return cast("Iterator[types.Suggestion]", self._calls.items("GET", "/api/searches/suggestions", (), query={"q": q}))

    def list(
        self,
        *,
        q: str = NOT_GIVEN,
        type: str = NOT_GIVEN,
        status: Union[Literal["submitted", "dispatched", "running", "waiting", "completed", "compensating", "compensation_failed", "failed", "cancelled", "dead_lettered", "resolved"], Iterable[Literal["submitted", "dispatched", "running", "waiting", "completed", "compensating", "compensation_failed", "failed", "cancelled", "dead_lettered", "resolved"]]] = NOT_GIVEN,
        label: Union[str, Iterable[str]] = NOT_GIVEN,
        since: Union[str, datetime] = NOT_GIVEN,
        until: Union[str, datetime] = NOT_GIVEN,
        failure_class: Literal["transient", "permanent", "rate_limited", "timed_out", "panicked", "cancelled", "deadline", "in_doubt", "lost", "replaced", "unreadable"] = NOT_GIVEN,
        failure_text: str = NOT_GIVEN,
        limit: int = NOT_GIVEN,
    ) -> Iterator[types.TaskSummary]:
        """List tasks, the newest first, or those that a search finds.

        A page; without `next_cursor` the last one. Needs the role `read`. `Problem`: `no-such-view`.
        """
        return cast("Iterator[types.TaskSummary]", self._calls.items("GET", "/api/tasks", (), query={"q": q, "type": type, "status": status, "label": label, "since": since, "until": until, "failure_class": failure_class, "failure_text": failure_text, "limit": limit}))

    def cancel(self, task_id: str) -> types.CancelAnswer:
        """Cancel a task: what it has done is undone.

        It had been cancelled before. It will be undone. Needs the role `submit`. `Problem`: `no-such-task`,
        `already-completed`, `already-failed`, `being-undone`, `already-resolved`, `parked`, `not-cancellable`.
        """
        return cast("types.CancelAnswer", self._calls.json("DELETE", "/api/tasks/{}", (task_id,)))

    def show(self, task_id: str, *, wait: str = NOT_GIVEN) -> types.TaskView:
        """Show a task, now or when it is at rest.

        The task. Needs the role `read`. `Problem`: `no-such-task`.
        """
        return cast("types.TaskView", self._calls.json("GET", "/api/tasks/{}", (task_id,), query={"wait": wait}))

    def at(self, task_id: str, *, seq: int = NOT_GIVEN) -> types.TaskView:
        """Show a task as it stood at an entry of its audit.

        The task behind the change that wrote the entry, without what was said of progress and without its children and
        successors. Needs the role `read`. `Problem`: `no-such-task`, `no-such-entry`.
        """
        return cast("types.TaskView", self._calls.json("GET", "/api/tasks/{}/at", (task_id,), query={"seq": seq}))

    def audit(self, task_id: str) -> types.AuditTrail:
        """Show everything that happened to a task.

        Entries and attempts, in order. Needs the role `read`. `Problem`: `no-such-task`.
        """
        return cast("types.AuditTrail", self._calls.json("GET", "/api/tasks/{}/audit", (task_id,)))

    def chain(self, task_id: str) -> types.ChainView:
        """Check that the audit of a task is as it was written.

        Whether each row is bound to the one before it. Needs the role `read`. `Problem`: `no-such-task`.
        """
        return cast("types.ChainView", self._calls.json("GET", "/api/tasks/{}/audit/chain", (task_id,)))

    def children(
        self,
        task_id: str,
        *,
        step: str = NOT_GIVEN,
        status: Union[Literal["submitted", "dispatched", "running", "waiting", "completed", "compensating", "compensation_failed", "failed", "cancelled", "dead_lettered", "resolved"], Iterable[Literal["submitted", "dispatched", "running", "waiting", "completed", "compensating", "compensation_failed", "failed", "cancelled", "dead_lettered", "resolved"]]] = NOT_GIVEN,
        limit: int = NOT_GIVEN,
    ) -> Iterator[types.ChildSummary]:
        """List the tasks that a task has submitted, by step and place.

        A page; without `next_cursor` the last one. Needs the role `read`. `Problem`: `no-such-task`.
        """
        return cast("Iterator[types.ChildSummary]", self._calls.items("GET", "/api/tasks/{}/children", (task_id,), query={"step": step, "status": status, "limit": limit}))

    def log(self, task_id: str, *, limit: int = NOT_GIVEN, cursor: str = NOT_GIVEN) -> types.LogPage:
        """Show what the steps of a task have logged, also while they run.

        Lines in the order in which they were written; `cursor` is for those behind them. Needs the role `read`.
        `Problem`: `no-such-task`.
        """
        return cast("types.LogPage", self._calls.json("GET", "/api/tasks/{}/log", (task_id,), query={"limit": limit, "cursor": cursor}))

    def payloads(self, task_id: str) -> types.Payloads:
        """Show what was handed in with a task, and what its steps have put out.

        The request and the outputs. Needs the role `read`. `Problem`: `no-such-task`.
        """
        return cast("types.Payloads", self._calls.json("GET", "/api/tasks/{}/payloads", (task_id,)))

    def plan(self, task_id: str) -> types.UndoPlan:
        """Show what an undo of a task would do now.

        The undos, stage by stage. Needs the role `read`. `Problem`: `no-such-task`.
        """
        return cast("types.UndoPlan", self._calls.json("GET", "/api/tasks/{}/plan", (task_id,)))

    def recoveries(
        self,
        task_id: str,
        *,
        note: str,
        recovery_attempts: int,
        actor: Union[str, None] = NOT_GIVEN,
    ) -> types.RecoveriesAnswer:
        """Set how many lost hosts count against a task.

        What counts now. Needs the role `operate`. `Problem`: `no-such-task`, `already-ended`.
        """
        return cast("types.RecoveriesAnswer", self._calls.json("POST", "/api/tasks/{}/recoveries", (task_id,), body={"note": note, "recovery_attempts": recovery_attempts, "actor": actor}))

    def resolve(
        self,
        task_id: str,
        *,
        as_: types.SettledAs,
        note: str,
        actor: Union[str, None] = NOT_GIVEN,
        output: Any = NOT_GIVEN,
        step: Union[str, None] = NOT_GIVEN,
        task: Union[types.TaskId, None] = NOT_GIVEN,
    ) -> types.OperatorAnswer:
        """Settle a parked task, or a step of it, by hand.

        What waits for a decision still, and what will be undone. Needs the role `operate`. `Problem`: `no-such-task`,
        `no-such-step`, `already-resolved`, `not-parked`, `not-settleable`.
        """
        return cast("types.OperatorAnswer", self._calls.json("POST", "/api/tasks/{}/resolve", (task_id,), body={"as": as_, "note": note, "actor": actor, "output": output, "step": step, "task": task}))

    def retry(
        self,
        task_id: str,
        *,
        note: str,
        actor: Union[str, None] = NOT_GIVEN,
        direction: Union[types.Direction, None] = NOT_GIVEN,
        patch: Any = NOT_GIVEN,
        request: Any = NOT_GIVEN,
    ) -> types.OperatorAnswer:
        """Let a parked task go on.

        What will be undone. Needs the role `operate`. `Problem`: `no-such-task`, `already-resolved`, `not-parked`,
        `no-way-forward`, `request-not-changeable`.
        """
        return cast("types.OperatorAnswer", self._calls.json("POST", "/api/tasks/{}/retry", (task_id,), body={"note": note, "actor": actor, "direction": direction, "patch": patch, "request": request}))

    def run_again(
        self,
        task_id: str,
        *,
        note: str,
        actor: Union[str, None] = NOT_GIVEN,
        from_: Union[str, None] = NOT_GIVEN,
        patch: Any = NOT_GIVEN,
        request: Any = NOT_GIVEN,
        key: Optional[str] = None,
    ) -> types.Accepted:
        """Run a task that has ended again, as a new task.

        The new task is accepted. Needs the role `operate`. `Problem`: `no-such-task`, `no-such-step`, `in-progress`,
        `not-ended`, `declaration-changed`, `effects-undone`, `step-not-completed`, `scratch-read`, `tasks-submitted`,
        `payload-erased`, `files-gone`, `type-disabled`.
        """
        return cast("types.Accepted", self._calls.json("POST", "/api/tasks/{}/run-again", (task_id,), body={"note": note, "actor": actor, "from": from_, "patch": patch, "request": request}, key=key))

    def signal(self, task_id: str, name: str, body: Any) -> types.SignalAnswer:
        """Answer a step that waits for a signal.

        The signal is accepted; the same for each repetition. Needs the role `submit`. `Problem`: `no-such-task`,
        `no-such-signal`, `signal-too-late`, `signal-taken`.
        """
        return cast("types.SignalAnswer", self._calls.json("POST", "/api/tasks/{}/signals/{}", (task_id, name,), body=body))

    def webhooks(self, task_id: str) -> Iterator[types.DeliveryView]:
        """Show how the webhooks of a task stand.

        All of them. Needs the role `read`. `Problem`: `no-such-task`.
        """
        return cast("Iterator[types.DeliveryView]", self._calls.items("GET", "/api/tasks/{}/webhooks", (task_id,)))

    def send_webhook(self, task_id: str, webhook: str) -> types.DeliveryView:
        """Send a webhook of a task again.

        It is sent again. Needs the role `operate`. `Problem`: `no-such-task`, `no-such-webhook`.
        """
        return cast("types.DeliveryView", self._calls.json("POST", "/api/tasks/{}/webhooks/{}/send", (task_id, webhook,)))

    def why(self, task_id: str) -> types.Why:
        """Show what a task waits for, and what an operator can do.

        The reasons, what matters most first. Needs the role `read`. `Problem`: `no-such-task`.
        """
        return cast("types.Why", self._calls.json("GET", "/api/tasks/{}/why", (task_id,)))


class Types:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self) -> Iterator[types.TaskTypeView]:
        """List the declarations that this process knows.

        All of them. Needs the role `read`.
        """
        return cast("Iterator[types.TaskTypeView]", self._calls.items("GET", "/api/task-types", ()))

    def disable(self, type: str, *, note: str, actor: Union[str, None] = NOT_GIVEN) -> types.SwitchView:
        """Take no more submissions of a type.

        The type takes none. Needs the role `admin` in the tenant `default`. `Problem`: `no-such-task-type`.
        """
        return cast("types.SwitchView", self._calls.json("POST", "/api/task-types/{}/disable", (type,), body={"note": note, "actor": actor}))

    def durations(
        self,
        type: str,
        *,
        since: Union[str, datetime] = NOT_GIVEN,
        until: Union[str, datetime] = NOT_GIVEN,
        took_ms: int = NOT_GIVEN,
        label: str = NOT_GIVEN,
    ) -> types.TypeDurations:
        """Look at how long the tasks of a type and their steps took, by the hour.

        Of the last 30 days at most. Needs the role `read`. `Problem`: `no-such-task-type`.
        """
        return cast("types.TypeDurations", self._calls.json("GET", "/api/task-types/{}/durations", (type,), query={"since": since, "until": until, "took_ms": took_ms, "label": label}))

    def enable(self, type: str, *, note: str, actor: Union[str, None] = NOT_GIVEN) -> types.SwitchView:
        """Take submissions of a type again.

        The type takes them. Needs the role `admin` in the tenant `default`. `Problem`: `no-such-task-type`.
        """
        return cast("types.SwitchView", self._calls.json("POST", "/api/task-types/{}/enable", (type,), body={"note": note, "actor": actor}))


class Views:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self) -> Iterator[types.SavedView]:
        """List the saved views of the list of tasks, by name.

        All of them, at most 50. Needs the role `read`.
        """
        return cast("Iterator[types.SavedView]", self._calls.items("GET", "/api/views", ()))

    def delete(self, name: str) -> None:
        """Delete a saved view; the tasks stay.

        It is deleted. Needs the role `operate`. `Problem`: `no-such-view`.
        """
        self._calls.nothing("DELETE", "/api/views/{}", (name,))

    def set(self, name: str, *, q: str, columns: Union[str, None] = NOT_GIVEN) -> types.SavedView:
        """Save a search under a name, for all who see these tasks.

        It is saved. Needs the role `operate`.
        """
        return cast("types.SavedView", self._calls.json("PUT", "/api/views/{}", (name,), body={"q": q, "columns": columns}))


class WebhookSecrets:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def show(self) -> types.WebhookSecretsView:
        """Show the secrets that sign the webhooks of the caller's tenant.

        Each webhook is signed with all of them. Needs the role `operate`.
        """
        return cast("types.WebhookSecretsView", self._calls.json("GET", "/api/webhook-secrets", ()))


class Workers:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self, *, state: Literal["alive", "lost", "stopped"] = NOT_GIVEN) -> types.WorkersView:
        """Show what is under way, and the processes.

        The processes, the last seen first. Needs the role `admin` in the tenant `default`.
        """
        return cast("types.WorkersView", self._calls.json("GET", "/api/workers", (), query={"state": state}))

    def pause(
        self,
        machine: str,
        *,
        note: str,
        actor: Union[str, None] = NOT_GIVEN,
        role: str = NOT_GIVEN,
    ) -> types.MachineView:
        """Let the processes of a machine take no more tasks, until they are resumed.

        Within a few seconds they claim no task. What runs there goes on. Needs the role `admin` in the tenant
        `default`. `Problem`: `no-such-workers`.
        """
        return cast("types.MachineView", self._calls.json("POST", "/api/workers/{}/pause", (machine,), body={"note": note, "actor": actor, "role": role}))

    def resume(
        self,
        machine: str,
        *,
        note: str,
        actor: Union[str, None] = NOT_GIVEN,
        role: str = NOT_GIVEN,
    ) -> types.MachineView:
        """Let the processes of a machine take tasks again.

        They claim tasks. Needs the role `admin` in the tenant `default`. `Problem`: `no-such-workers`.
        """
        return cast("types.MachineView", self._calls.json("POST", "/api/workers/{}/resume", (machine,), body={"note": note, "actor": actor, "role": role}))

    def show(self, worker_id: str) -> types.WorkerDetails:
        """Look at a process: what it runs, what it ran last, and how often attempts failed there and elsewhere.

        The process, as it was seen last. Needs the role `admin` in the tenant `default`. `Problem`: `no-such-workers`.
        """
        return cast("types.WorkerDetails", self._calls.json("GET", "/api/workers/{}", (worker_id,)))


class Operations:
    def __init__(self, http: Transport) -> None:
        calls = Calls(http)
        self.alerts = Alerts(calls)
        self.breakers = Breakers(calls)
        self.bulk = Bulk(calls)
        self.caller = Caller(calls)
        self.dead_letters = DeadLetters(calls)
        self.effects = Effects(calls)
        self.gates = Gates(calls)
        self.history = History(calls)
        self.keys = Keys(calls)
        self.limits = Limits(calls)
        self.queues = Queues(calls)
        self.schedules = Schedules(calls)
        self.tasks = Tasks(calls)
        self.types = Types(calls)
        self.views = Views(calls)
        self.webhook_secrets = WebhookSecrets(calls)
        self.workers = Workers(calls)
