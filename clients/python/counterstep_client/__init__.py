"""Client of the HTTP interface of Counterstep. Standard library only."""

from .bodies import (
    Accepted,
    AttemptView,
    AuditEntry,
    AuditTrail,
    BlockView,
    CancelAnswer,
    Event,
    FailureView,
    ResultLink,
    SignalAnswer,
    StepView,
    TaskSummary,
    TaskView,
)
from .client import Client
from .errors import InvalidWebhook, Problem, Unreachable
from .webhooks import verify_webhook

__all__ = [
    "Accepted",
    "AttemptView",
    "AuditEntry",
    "AuditTrail",
    "BlockView",
    "CancelAnswer",
    "Client",
    "Event",
    "FailureView",
    "InvalidWebhook",
    "Problem",
    "ResultLink",
    "SignalAnswer",
    "StepView",
    "TaskSummary",
    "TaskView",
    "Unreachable",
    "verify_webhook",
]
