"""Webhooks: the published test vector of Standard Webhooks, and what must not pass."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import unittest

from counterstep_client import InvalidWebhook, verify_webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(b"another secret of a rotation").decode()
SENT_AT = 1614265330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
HEADERS = {
    "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": str(SENT_AT),
    "WEBHOOK-SIGNATURE": SIGNATURE,
}


def with_header(name: str, value: str) -> dict:
    return {**{key.lower(): it for key, it in HEADERS.items()}, name: value}


class Webhooks(unittest.TestCase):
    def test_the_published_vector_is_valid(self) -> None:
        for body in (BODY, BODY.decode()):
            self.assertEqual(verify_webhook(SECRET, HEADERS, body, now=SENT_AT), {"test": 2432232314})

    def test_one_of_several_secrets_and_one_of_several_signatures_are_enough(self) -> None:
        for secrets in ([OTHER, SECRET], (SECRET, OTHER)):
            self.assertTrue(verify_webhook(secrets, HEADERS, BODY, now=SENT_AT))
        headers = with_header("webhook-signature", f"v1a,AAAA v1,AAAA {SIGNATURE}")
        self.assertTrue(verify_webhook(SECRET, headers, BODY, now=SENT_AT))

    def test_what_was_changed_or_signed_otherwise_is_refused(self) -> None:
        message = f"{HEADERS['Webhook-Id']}.{SENT_AT}.".encode() + BODY
        empty = base64.b64encode(hmac.new(b"", message, hashlib.sha256).digest()).decode()
        for secrets, headers, body in (
            (SECRET, HEADERS, BODY + b" "),
            (OTHER, HEADERS, BODY),
            ([], HEADERS, BODY),
            (SECRET, with_header("webhook-id", "msg_other"), BODY),
            (SECRET, with_header("webhook-timestamp", str(SENT_AT + 1)), BODY),
            (SECRET, with_header("webhook-timestamp", f" {SENT_AT}"), BODY),
            (SECRET, with_header("webhook-timestamp", "nan"), BODY),
            (SECRET, with_header("webhook-signature", ""), BODY),
            (SECRET, with_header("webhook-signature", "v1,"), BODY),
            (SECRET, with_header("webhook-signature", "v1,ü"), BODY),
            (SECRET, with_header("webhook-signature", SIGNATURE.replace("v1", "v2")), BODY),
            (SECRET, with_header("webhook-signature", f"v1,{empty}"), BODY),
            (SECRET, {"webhook-id": "a", "webhook-timestamp": "1"}, BODY),
        ):
            with self.subTest(headers=headers), self.assertRaises(InvalidWebhook):
                verify_webhook(secrets, headers, body, now=SENT_AT)

    def test_the_time_may_differ_by_five_minutes_in_both_directions(self) -> None:
        for now in (SENT_AT - 300, SENT_AT + 300):
            self.assertTrue(verify_webhook(SECRET, HEADERS, BODY, now=now))
        for now in (SENT_AT - 301, SENT_AT + 301, float("nan")):
            with self.assertRaises(InvalidWebhook):
                verify_webhook(SECRET, HEADERS, BODY, now=now)
        with self.assertRaises(InvalidWebhook):
            verify_webhook(SECRET, HEADERS, BODY)

    def test_a_secret_that_is_no_base64_or_empty_is_refused(self) -> None:
        for secret in ("whsec_", "", "whsec_!!!"):
            with self.assertRaises(ValueError):
                verify_webhook(secret, HEADERS, BODY, now=SENT_AT)

    def test_the_json_is_that_of_the_body(self) -> None:
        body = json.dumps({"type": "task.completed"}).encode()
        message = f"m.{SENT_AT}.".encode() + body
        key = base64.b64decode(SECRET[len("whsec_") :])
        signature = base64.b64encode(hmac.new(key, message, hashlib.sha256).digest()).decode()
        headers = {"webhook-id": "m", "webhook-timestamp": str(SENT_AT), "webhook-signature": f"v1,{signature}"}
        self.assertEqual(verify_webhook(SECRET, headers, body, now=SENT_AT)["type"], "task.completed")
