"""The client against a real API."""

from __future__ import annotations

import errno
import io
import json
import os
import socket
import tempfile
import threading
import time
import tracemalloc
import unittest
import urllib.request
import zipfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, List

from counterstep_client import Client, Event, InvalidWebhook, Problem, Unreachable, types, verify_webhook
from counterstep_client._multipart import Form

from . import support

ZIP = "create-zip-from-files"
ORDER = "place-order"
SMALL = {"account": "a-1", "item": "milk", "quantity": 2, "amount_cents": 300}
LARGE = {**SMALL, "amount_cents": 100_000}


class WithDev(unittest.TestCase):
    served: support.Served
    client: Client

    @classmethod
    def setUpClass(cls) -> None:
        cls.served = support.Dev()
        cls.addClassCleanup(cls.served.stop)
        cls.client = Client(cls.served.url)

    @classmethod
    def folder(cls) -> str:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        return folder.name

    def proxy(self, cuts: List[int]) -> support.CuttingProxy:
        proxy = support.CuttingProxy(self.served.url, cuts)
        self.addCleanup(proxy.stop)
        return proxy

    def labelled(self, name: str, value: str) -> List[str]:
        return [it["task_id"] for it in self.client.tasks.list(label=f"{name}={value}")]


class Webhooks(unittest.TestCase):
    def test_a_webhook_of_a_real_api_is_verified(self) -> None:
        received: List[Any] = []

        def receive(request: Any) -> Any:
            received.append((dict(request.headers.items()), request.body))
            # The first attempt fails, and the second has the same id.
            return (503 if len(received) == 1 else 204), {}, b""

        receiver = support.Stub(receive)
        self.addCleanup(receiver.stop)
        served = support.Dev("--webhook-allow", "127.0.0.0/8")
        self.addCleanup(served.stop)
        client = Client(served.url)
        accepted = client.submit(ORDER, SMALL, webhook=f"{receiver.url}/hook")
        self.assertEqual(client.wait(accepted.task_id, 30)["status"], "completed")
        end = time.monotonic() + 60
        while len(received) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        secrets = client.webhook_secrets.show()["secrets"]
        ids = set()
        for headers, body in received:
            event = verify_webhook(secrets, headers, body)
            self.assertEqual(event["type"], "task.completed")
            self.assertEqual(event["data"]["task_id"], accepted.task_id)
            with self.assertRaises(InvalidWebhook):
                verify_webhook(secrets, headers, body + b" ")
            ids.add({name.lower(): it for name, it in headers.items()}["webhook-id"])
        self.assertEqual((len(received), len(ids)), (2, 1))
        with self.assertRaises(Problem) as refused:
            client.submit(ORDER, SMALL, webhook="https://169.254.169.254/")
        self.assertEqual(refused.exception.code, "invalid-webhook")


class Submissions(WithDev):
    def test_a_request_is_a_task_that_completes(self) -> None:
        accepted = self.client.submit(ORDER, SMALL)
        view = self.client.wait(accepted.task_id, 30)
        self.assertEqual(view["status"], "completed", view)
        self.assertEqual(view["response"]["tracking"], "t-1")
        self.assertEqual(self.client.tasks.show(accepted.task_id)["revision"], view["revision"])
        entries = self.client.tasks.audit(accepted.task_id)["entries"]
        self.assertEqual([it["seq"] for it in entries], list(range(1, len(entries) + 1)))

    def test_files_come_back_as_the_archive_of_the_task(self) -> None:
        folder = Path(self.folder())
        large = os.urandom(3_000_000)
        (folder / "large.bin").write_bytes(large)
        files = {"files": [folder / "large.bin", ("ü \"quoted\".txt", b"by its content")]}
        accepted = self.client.submit(ZIP, {"output_file_name": "both.zip"}, files=files)
        view = self.client.wait(accepted.task_id, 60)
        self.assertEqual(view["response"]["file_count"], 2, view)
        size = self.client.download(accepted.task_id, "zip", folder / "both.zip")
        self.assertEqual(sorted(os.listdir(folder)), ["both.zip", "large.bin"])
        self.assertEqual((folder / "both.zip").stat().st_size, size)
        with zipfile.ZipFile(folder / "both.zip") as archive:
            contents = sorted(len(archive.read(name)) for name in archive.namelist())
            self.assertEqual(contents, [len(b"by its content"), len(large)])
        copy = io.BytesIO()
        self.client.download(accepted.task_id, "zip", copy)
        self.assertEqual(copy.getvalue(), (folder / "both.zip").read_bytes())
        link = self.client.link(accepted.task_id, "zip", "30m")
        with urllib.request.urlopen(link["url"]) as answer:
            self.assertEqual(answer.read(), copy.getvalue())
        self.assertIn("expires_at", link)
        with self.assertRaises(Problem) as refused:
            self.client.link(accepted.task_id, "zip", "8d")
        self.assertEqual(refused.exception.pointer, "valid_for")
        self.client.link(accepted.task_id, "zip")

    def test_what_has_no_size_is_sent_to_its_end(self) -> None:
        folder = Path(self.folder())
        os.mkfifo(folder / "pipe")
        writer = threading.Thread(target=(folder / "pipe").write_bytes, args=(b"through a pipe",), daemon=True)
        writer.start()
        paths = [folder / "pipe", "/proc/self/status"]
        accepted = self.client.submit(ZIP, {"output_file_name": "of.zip"}, key="no-size", files={"files": paths})
        view = self.client.wait(accepted.task_id, timeout=60)
        self.assertEqual(view["response"]["file_count"], 2, view)
        self.client.download(accepted.task_id, "zip", folder / "of.zip")
        with zipfile.ZipFile(folder / "of.zip") as archive:
            self.assertEqual(archive.read("pipe"), b"through a pipe")
            self.assertIn(b"Name:", archive.read("status"))

    def test_a_large_file_takes_little_memory_in_both_directions(self) -> None:
        folder, size = Path(self.folder()), 64_000_000
        with open(folder / "large.bin", "wb") as file:
            for _ in range(size // 1_000_000):
                file.write(os.urandom(1_000_000))
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        accepted = self.client.submit(ZIP, {}, files={"files": str(folder / "large.bin")})
        self.assertEqual(self.client.wait(accepted.task_id, 120)["status"], "completed")
        self.assertGreater(self.client.download(accepted.task_id, "zip", folder / "a.zip"), size)
        self.assertLess(tracemalloc.get_traced_memory()[1], 8_000_000)

    def test_a_download_that_breaks_off_is_an_error_and_leaves_no_file(self) -> None:
        folder = Path(self.folder())
        accepted = self.client.submit(ZIP, {}, files={"files": ("a.bin", os.urandom(300_000))})
        self.client.wait(accepted.task_id, 30)
        through = Client(self.proxy([100_000]).url)
        with self.assertRaises(Unreachable):
            through.download(accepted.task_id, "zip", folder / "a.zip")
        self.assertEqual(os.listdir(folder), [])

    def test_a_key_that_is_repeated_makes_one_task(self) -> None:
        first = self.client.submit(ORDER, SMALL, key="order-1")
        again = self.client.submit(ORDER, SMALL, key="order-1")
        self.assertEqual((first.replayed, again.replayed), (False, True))
        self.assertEqual(first.task_id, again.task_id)
        with self.assertRaises(Problem) as refused:
            self.client.submit(ORDER, LARGE, key="order-1")
        self.assertEqual((refused.exception.status, refused.exception.code), (422, "idempotency-mismatch"))

    def test_a_submission_with_a_key_is_repeated_after_a_cut_and_makes_one_task(self) -> None:
        proxy = self.proxy([1, 40])
        accepted = Client(proxy.url).submit(ORDER, SMALL, key="cut", labels={"test": "cut"})
        self.assertTrue(accepted.replayed)
        self.assertEqual((proxy.cut, self.labelled("test", "cut")), (2, [accepted.task_id]))

    def test_a_submission_without_a_key_is_sent_once(self) -> None:
        proxy = self.proxy([1])
        with self.assertRaises(Unreachable):
            Client(proxy.url).submit(ORDER, SMALL, labels={"test": "once"})
        self.assertEqual((proxy.cut, len(self.labelled("test", "once"))), (1, 1))

    def test_a_key_whose_first_request_is_still_arriving_is_waited_for(self) -> None:
        host, port = self.served.url.split("//")[1].split(":")
        head = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nslow'
        end = b"\r\n--b--\r\n"
        objects = self.served.folder / "data" / "objects"
        before = set(objects.rglob("*"))
        slow = socket.create_connection((host, int(port)))
        self.addCleanup(slow.close)
        slow.sendall(
            f"POST /api/tasks/{ZIP} HTTP/1.1\r\nHost: {host}\r\nIdempotency-Key: slow\r\nConnection: close\r\n"
            f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {len(head + end)}\r\n\r\n".encode()
            + head
        )
        # It holds the key once its file is being stored.
        end_of_wait = time.monotonic() + 30
        while set(objects.rglob("*")) == before:
            self.assertLess(time.monotonic(), end_of_wait, "the first request has not arrived")
        files = {"files": ("a.txt", b"slow")}
        with self.assertRaises(Problem) as refused:
            Client(self.served.url, retry_for=0).submit(ZIP, {}, key="slow", files=files)
        self.assertEqual((refused.exception.status, refused.exception.code), (409, "in-progress"))
        timer = threading.Timer(1.5, slow.sendall, [end])
        timer.start()
        accepted = self.client.submit(ZIP, {}, key="slow", files=files)
        self.assertTrue(accepted.replayed)
        answer = slow.makefile("rb").read()
        self.assertIn(accepted.task_id.encode(), answer)

    def test_retry_after_is_honoured_where_there_is_a_key(self) -> None:
        came: List[float] = []

        def answer(request: Any) -> Any:
            came.append(time.monotonic())
            if len(came) == 3:
                return 202, {}, b'{"task_id":"t","status":"dispatched"}'
            status = 429 if len(came) == 1 else 503
            document = {"code": "unavailable", "status": status, "detail": "later"}
            return status, {"Retry-After": "1"}, json.dumps(document).encode()

        stub = support.Stub(answer)
        self.addCleanup(stub.stop)
        client = Client(stub.url)
        self.assertEqual(client.submit(ORDER, SMALL, key="k").task_id, "t")
        self.assertTrue(all(later - sooner >= 1 for sooner, later in zip(came, came[1:])), came)
        came.clear()
        with self.assertRaises(Problem) as refused:
            client.submit(ORDER, SMALL)
        self.assertEqual((refused.exception.status, refused.exception.retry_after, len(came)), (429, 1.0, 1))
        came.clear()
        with self.assertRaises(Problem):
            Client(stub.url, retry_for=0.5).submit(ORDER, SMALL, key="k")
        self.assertEqual(len(came), 1, "a pause beyond `retry_for` is not begun")


class Files(unittest.TestCase):
    def refused(self, files: List[Any], client: Client) -> OSError:
        with self.assertRaises(OSError) as refused:
            client.submit(ZIP, {}, key="k", files={"files": files})
        self.assertNotIsInstance(refused.exception, Unreachable)
        return refused.exception

    def test_a_file_that_cannot_be_read_is_an_error_of_its_own_and_nothing_is_sent(self) -> None:
        came: List[Any] = []

        def answer(request: Any) -> Any:
            came.append(request)
            return 500, {}, b""

        stub = support.Stub(answer)
        self.addCleanup(stub.stop)
        with tempfile.TemporaryDirectory() as folder:
            locked = Path(folder) / "locked"
            locked.write_text("x")
            locked.chmod(0)
            paths = [str(Path(folder) / "missing"), folder]
            # Root reads it all the same.
            paths += [] if os.access(locked, os.R_OK) else [str(locked)]
            for path in paths:
                # Behind a file that can be read.
                error = self.refused([("a.txt", b"a"), path], Client(stub.url))
                self.assertEqual(error.filename, path)
        self.assertEqual(came, [])

    def test_a_file_is_sent_as_long_as_it_was_when_it_was_opened(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log"
            path.write_bytes(b"x" * 100_000)
            form = Form({}, {"files": path})
            length, pieces = form.opened()
            with path.open("ab") as file:
                file.write(b"y")
            sent = b"".join(pieces)
            self.assertEqual(len(sent), length)
            self.assertNotIn(b"y\r\n", sent)
            _, pieces = form.opened()
            path.write_bytes(b"x" * 70_000)
            with self.assertRaises(OSError) as short:
                b"".join(pieces)
            self.assertEqual(short.exception.filename, str(path))
            self.assertIn("100001 bytes", str(short.exception))

    def test_a_file_that_fails_while_it_is_sent_is_an_error_of_its_own_and_not_sent_again(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            came: List[bytes] = []

            def receive() -> None:
                while True:
                    try:
                        connection, _ = server.accept()
                    except OSError:
                        return
                    with connection:
                        came.append(connection.recv(100))
                        while connection.recv(65536):
                            pass

            threading.Thread(target=receive, daemon=True).start()
            # Linux opens this, and refuses to read its first byte.
            error = self.refused(["/proc/self/mem"], Client(f"http://127.0.0.1:{server.getsockname()[1]}"))
            self.assertEqual((error.errno, error.filename), (errno.EIO, "/proc/self/mem"))
            self.assertLessEqual(len(came), 1)


class Pauses(unittest.TestCase):
    def test_a_wait_does_not_begin_a_pause_beyond_its_limit(self) -> None:
        came: List[Any] = []

        def answer(request: Any) -> Any:
            came.append(request)
            return 503, {"Retry-After": "3600"}, b"{}"

        stub = support.Stub(answer)
        self.addCleanup(stub.stop)
        with self.assertRaises(Problem) as refused:
            Client(stub.url, retry_for=30).wait("t")
        self.assertEqual(refused.exception.status, 503)
        self.assertEqual(len(came), 1)
        with self.assertRaises(TimeoutError):
            Client(stub.url, retry_for=30).wait("t", 0.5)


class Following(WithDev):
    def test_events_that_are_cut_come_once_and_in_order(self) -> None:
        accepted = self.client.submit(ORDER, LARGE)
        # In the head, within the first event, behind some.
        proxy = self.proxy([50, 500, 900, 1500, 1100, 1300])
        seen: List[Event] = []
        for event in Client(proxy.url).events(accepted.task_id):
            if event.type == "entry":
                seen.append(event)
                if event.data["status"] == "waiting" and event.data["event"] == "waits":
                    self.client.tasks.signal(accepted.task_id, "approval", {"approved": True, "by": "kim"})
        self.assertEqual(proxy.cut, 6)
        entries = self.client.tasks.audit(accepted.task_id)["entries"]
        self.assertEqual([it.id for it in seen], [it["seq"] for it in entries])
        shown = [{name: value for name, value in it.data.items() if name != "status"} for it in seen]
        self.assertEqual(shown, entries)
        self.assertEqual(seen[-1].data["status"], "completed")
        last = seen[-1].id
        assert last is not None
        self.assertEqual([it.id for it in self.client.events(accepted.task_id, last - 2)], [last - 1, last])
        self.assertEqual(list(self.client.events(accepted.task_id, last)), [])

    def test_a_stream_that_the_api_has_no_room_for_is_waited_for(self) -> None:
        small = support.Dev("--streams-per-caller", "1")
        self.addCleanup(small.stop)
        client = Client(small.url)
        accepted = client.submit(ORDER, LARGE)
        first = client.events(accepted.task_id)
        next(first)
        with self.assertRaises(Problem) as refused:
            next(Client(small.url, retry_for=0).events(accepted.task_id))
        self.assertEqual(refused.exception.code, "too-many-requests")
        self.assertIsNotNone(refused.exception.retry_after)
        threading.Timer(0.5, client.tasks.cancel, [accepted.task_id]).start()
        threading.Thread(target=lambda: list(first)).start()
        seen = [it.id for it in client.events(accepted.task_id) if it.type == "entry"]
        self.assertEqual(seen, list(range(1, len(seen) + 1)))

    def test_a_wait_ends_with_its_time_and_a_cancel_is_undone(self) -> None:
        accepted = self.client.submit(ORDER, LARGE)
        for event in self.client.events(accepted.task_id):
            if event.type == "entry" and event.data["status"] == "waiting":
                break
        with self.assertRaises(TimeoutError):
            self.client.wait(accepted.task_id, 0.3)
        answer = self.client.tasks.cancel(accepted.task_id)
        self.assertEqual((answer["outcome"], "charge" in answer["will_undo"]), ("undoing", True))
        self.assertEqual(self.client.wait(accepted.task_id, 30)["status"], "cancelled")

    def test_a_wait_goes_on_after_a_cut(self) -> None:
        accepted = self.client.submit(ORDER, SMALL)
        proxy = self.proxy([1, 60])
        self.assertEqual(Client(proxy.url).wait(accepted.task_id, 30)["status"], "completed")
        self.assertEqual(proxy.cut, 2)

    def test_a_list_goes_on_over_its_pages_with_all_filters(self) -> None:
        label = 'Smith, "Bö" \\ & = +'
        begun = datetime.now(timezone.utc) - timedelta(seconds=5)
        made = [self.client.submit(ORDER, SMALL, labels={"who": label, "n": str(n)}).task_id for n in range(5)]
        for task in made:
            self.client.wait(task, 30)
        fits = {"type": ORDER, "label": [f"who={label}"], "since": begun, "limit": 2}
        listed = list(self.client.tasks.list(status=["completed", "failed"], **fits))
        self.assertEqual([it["task_id"] for it in listed], made[::-1])
        self.assertEqual(listed[0]["labels"], {"who": label, "n": "4"})
        self.assertEqual(list(self.client.tasks.list(status="cancelled", **fits)), [])


class Refusals(WithDev):
    def test_a_refusal_is_a_problem_with_code_and_pointer(self) -> None:
        with self.assertRaises(Problem) as refused:
            self.client.submit(ORDER, {**SMALL, "nope": 1})
        problem = refused.exception
        self.assertEqual((problem.status, problem.code, problem.pointer), (422, "invalid-request", "nope"))
        self.assertIn("no field of this name", problem.detail)
        self.assertIsNone(problem.retry_after)
        self.assertIn("422 invalid-request", str(problem))

    def test_ids_and_names_are_one_segment_each(self) -> None:
        task = self.client.submit(ORDER, SMALL).task_id
        with self.assertRaises(Problem) as refused:
            self.client.tasks.show("../workers?x")
        self.assertEqual(refused.exception.status, 400)
        for name in ("..", "a/../../x", ""):
            with self.assertRaises(ValueError):
                self.client.download(task, name, io.BytesIO())
        with self.assertRaises(Problem) as unknown:
            self.client.download(task, "files/0", io.BytesIO())
        self.assertIn(unknown.exception.code, ("not-completed", "no-such-result"))

    def test_an_answer_that_is_no_document_is_a_problem_without_a_code(self) -> None:
        stub = support.Stub(lambda _: (502, {"Content-Type": "text/html"}, b"<h1>Bad gateway</h1>"))
        self.addCleanup(stub.stop)
        with self.assertRaises(Problem) as refused:
            Client(stub.url).tasks.show("t")
        self.assertEqual((refused.exception.status, refused.exception.code), (502, None))

    def test_no_answer_is_an_error_of_its_own(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with self.assertRaises(Unreachable):
            Client(f"http://127.0.0.1:{port}").tasks.show("t")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            with self.assertRaises(Unreachable):
                Client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.2).tasks.show("t")

    def test_addresses_and_keys_that_cannot_be_sent_are_refused(self) -> None:
        for address in ("127.0.0.1:8080", "ftp://a", "http://", "http://a/?b"):
            with self.assertRaises(ValueError):
                Client(address)
        for key in ("", "a b", "a\r\nX: y", "ü"):
            with self.assertRaises(ValueError):
                Client("http://a", api_key=key)


class Operations(WithDev):
    def test_they_are_called_by_the_words_of_the_commands(self) -> None:
        task_id = self.client.submit(ORDER, LARGE).task_id
        for event in self.client.events(task_id):
            if event.data.get("status") == "waiting":
                break
        self.assertTrue(self.client.tasks.why(task_id)["because"])
        self.assertTrue(self.client.tasks.plan(task_id)["stages"])
        self.assertEqual(self.client.tasks.chain(task_id)["task_id"], task_id)
        self.assertIn("PlaceOrder", [it["name"] for it in self.client.types.list()])
        self.assertEqual(list(self.client.dead_letters.list(limit=1)), [])
        self.assertEqual(self.client.caller.show()["tenant"], "default")
        self.client.tasks.cancel(task_id)
        self.assertEqual(self.client.wait(task_id)["status"], "cancelled")
        again = self.client.tasks.run_again(task_id, note="once more", key="again")
        self.assertEqual(self.client.tasks.run_again(task_id, note="once more", key="again"), again)
        self.client.tasks.cancel(again["task_id"])

    def test_a_change_has_its_note_and_a_list_is_read_page_by_page(self) -> None:
        name = next(self.client.queues.list())["name"]
        paused = self.client.queues.pause(name, note="the bank moves", actor="kim")["paused"]
        self.assertIsNotNone(paused)
        self.assertEqual(paused and paused["note"], "the bank moves (by kim)")
        self.assertNotIn("paused", self.client.queues.resume(name, note="it has moved"))
        made = []
        for n in (1, 2, 3):
            schedule: types.ScheduleSpec = {"type": ORDER, "request": SMALL, "run_at": f"203{n}-01-01T00:00:00Z"}
            made.append(self.client.schedules.set(f"s-{n}", schedule)["name"])
        self.assertEqual([it["name"] for it in self.client.schedules.list(limit=2)], made)
        self.assertIs(self.client.schedules.pause("s-1")["paused"], True)
        for name in made:
            self.client.schedules.delete(name)
        self.assertEqual(list(self.client.schedules.list()), [])

    def test_a_refusal_is_a_problem_with_its_code(self) -> None:
        for call, status, code in (
            (lambda: self.client.queues.pause("none", note="x"), 404, "no-such-queue"),
            (lambda: self.client.queues.pause("none", note=""), 422, "invalid-request"),
            (lambda: self.client.limits.reset("none", note="x"), 404, "no-such-limit"),
        ):
            with self.assertRaises(Problem) as refused:
                call()
            self.assertEqual((refused.exception.status, refused.exception.code), (status, code))


class Keys(unittest.TestCase):
    def test_a_key_of_the_command_line_lets_in_and_others_do_not(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data"
            key = support.run("keys", "create", "--subject", "shop", "--role", "submit", "--data-dir", str(data)).strip()
            served = support.api(data, "--auth", "keys")
            self.addCleanup(served.stop)
            for wrong in (None, "cs_wrong"):
                with self.assertRaises(Problem) as refused:
                    Client(served.url, api_key=wrong).submit(ORDER, SMALL)
                self.assertEqual((refused.exception.status, refused.exception.code), (401, "unauthenticated"))
            client = Client(served.url, api_key=key)
            accepted = client.submit(ORDER, SMALL)
            entries = client.tasks.audit(accepted.task_id)["entries"]
            self.assertEqual(entries[0]["actor"], "client:shop")
            served.stop()


if __name__ == "__main__":
    unittest.main()
