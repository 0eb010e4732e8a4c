"""The examples of the README, one after the other beside a `counterstep dev`."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import io
import os
import re
import time
import unittest
from pathlib import Path
from typing import Any, Dict

from .test_client import WithDev

README = Path(__file__).parent.parent / "README.md"


class Readme(WithDev):
    def test_its_examples_run(self) -> None:
        blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.M | re.S)
        self.assertEqual(len(blocks), 6)
        folder = Path(self.folder())
        (folder / "a.txt").write_text("the content of a")
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder)
        names: Dict[str, Any] = {}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for block in blocks:
                exec(block.replace("http://127.0.0.1:8080", self.served.url), names)
            self.assertTrue((folder / "notes.zip").is_file())
            sent_at, body = str(int(time.time())), b'{"type":"task.completed"}'
            key = base64.b64decode(names["SECRETS"][0][len("whsec_") :])
            digest = hmac.new(key, f"m.{sent_at}.".encode() + body, hashlib.sha256).digest()
            signature = f"v1,{base64.b64encode(digest).decode()}"
            headers = {"webhook-id": "m", "webhook-timestamp": sent_at, "webhook-signature": signature}
            self.assertEqual(names["receive"](headers, body), 204)
            self.assertEqual(names["receive"](headers, body + b" "), 401)
        for part in ("1 submitted", "completed", "422 invalid-request", "{'type': 'task.completed'}"):
            self.assertIn(part, printed.getvalue())


if __name__ == "__main__":
    unittest.main()
