"""The form of a stream, however it is cut into pieces."""

from __future__ import annotations

import unittest

from counterstep_client._events import Lines, Message


class Pieces(unittest.TestCase):
    def test_messages_are_whole_however_they_are_cut(self) -> None:
        text = (
            'retry: 1500\n\n: still here\r\n\nid: 1\ndata: {"a":"ü"}\n\n'
            "event: progress\r\ndata:{}\r\ndata: x\r\n\r\nid: 2\ndata: y"
        ).encode()
        for size in range(1, len(text) + 1):
            lines = Lines()
            whole = [it for at in range(0, len(text), size) for it in lines.push(text[at : at + size])]
            self.assertEqual(whole, [Message("", '{"a":"ü"}'), Message("progress", "{}\nx")], size)
            self.assertEqual(lines.retry, 1.5)
