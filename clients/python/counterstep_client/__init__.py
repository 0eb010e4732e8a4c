"""Client of the HTTP interface of Counterstep. Standard library only."""

from . import _types as types
from .bodies import Accepted, Event
from .client import Client
from .errors import InvalidWebhook, Problem, Unreachable
from .webhooks import verify_webhook

__all__ = [
    "Accepted",
    "Client",
    "Event",
    "InvalidWebhook",
    "Problem",
    "Unreachable",
    "types",
    "verify_webhook",
]
