"""Webhooks as https://www.standardwebhooks.com describes them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any, Iterable, Mapping, Optional, Union

from .errors import InvalidWebhook


def verify_webhook(
    secrets: Union[str, Iterable[str]],
    headers: Mapping[str, str],
    body: Union[bytes, str],
    *,
    tolerance: float = 300.0,
    now: Optional[float] = None,
) -> Any:
    """The JSON of a webhook, once one of the secrets (`whsec_…`) has been found to have signed it.

    `body` is the body as it arrived, before any parsing. Several secrets are for the time of a rotation. `now` is the
    time in seconds since 1970; the clock of the machine unless given. `tolerance` is in seconds.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, sent_at, signatures = (
            lower[f"webhook-{it}"] for it in ("id", "timestamp", "signature")
        )
    except KeyError as missing:
        raise InvalidWebhook(f"missing header {missing}") from None
    if not (sent_at.isascii() and sent_at.isdigit()):
        raise InvalidWebhook("invalid webhook-timestamp; expected seconds since 1970")
    age = (time.time() if now is None else now) - int(sent_at)
    if not abs(age) <= tolerance:
        raise InvalidWebhook("webhook-timestamp is too far from the clock of this machine")
    content = body.encode() if isinstance(body, str) else bytes(body)
    signed = f"{message_id}.{sent_at}.".encode() + content
    sent = [it[3:].encode() for it in signatures.split(" ") if it.startswith("v1,")]
    keys = [_key(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
    matches = False
    for key in keys:
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
        for signature in sent:
            matches |= hmac.compare_digest(expected, signature)
    if not matches:
        raise InvalidWebhook("no signature matches")
    return json.loads(content)


def _key(secret: str) -> bytes:
    text = secret[len("whsec_") :] if secret.startswith("whsec_") else secret
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    if not key:
        raise ValueError("invalid secret; expected whsec_ and base64")
    return key
