"""The client for asyncio against a real API."""

from __future__ import annotations

import asyncio
import inspect
import io
import os
import subprocess
import sys
import tracemalloc
import unittest
import zipfile
from pathlib import Path
from typing import Any, Awaitable, Callable, List

from counterstep_client import Client, Event, Problem, Unreachable
from counterstep_client.aio import AsyncClient

from . import support
from .test_client import LARGE, ORDER, SMALL, ZIP, WithDev


class Async(WithDev):
    def run_with(self, work: Callable[[AsyncClient], Awaitable[Any]], url: str = "", **options: Any) -> Any:
        async def whole() -> Any:
            async with AsyncClient(url or self.served.url, **options) as client:
                return await work(client)

        return asyncio.run(whole())

    def test_tasks_run_side_by_side_and_a_list_goes_on_over_its_pages(self) -> None:
        async def work(client: AsyncClient) -> None:
            submitted = [client.submit(ORDER, SMALL, labels={"test": "side"}) for _ in range(5)]
            ids = [it.task_id for it in await asyncio.gather(*submitted)]
            views = await asyncio.gather(*(client.wait(it, 30) for it in ids))
            self.assertEqual({it["status"] for it in views}, {"completed"})
            listed = [it["task_id"] async for it in client.tasks.list(label="test=side", limit=2)]
            self.assertEqual(sorted(listed), sorted(ids))
            entries = (await client.tasks.audit(ids[0]))["entries"]
            self.assertEqual([it["seq"] for it in entries], list(range(1, len(entries) + 1)))

        self.run_with(work)

    def test_files_come_back_as_the_archive_of_the_task(self) -> None:
        folder, size = Path(self.folder()), 20_000_000
        (folder / "large.bin").write_bytes(os.urandom(size))

        async def work(client: AsyncClient) -> None:
            files = {"files": [folder / "large.bin", ("ü.txt", b"by its content")]}
            accepted = await client.submit(ZIP, {"output_file_name": "both.zip"}, files=files, key="async-files")
            view = await client.wait(accepted.task_id, 60)
            self.assertEqual(view["response"]["file_count"], 2, view)
            size = await client.download(accepted.task_id, "zip", folder / "both.zip")
            self.assertEqual(sorted(os.listdir(folder)), ["both.zip", "large.bin"])
            self.assertEqual((folder / "both.zip").stat().st_size, size)
            copy = io.BytesIO()
            await client.download(accepted.task_id, "zip", copy)
            self.assertEqual(copy.getvalue(), (folder / "both.zip").read_bytes())
            link = await client.link(accepted.task_id, "zip", "30m")
            self.assertTrue(link["url"].startswith(self.served.url), link)

        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        self.run_with(work)
        with zipfile.ZipFile(folder / "both.zip") as archive:
            self.assertEqual(archive.getinfo("large.bin").file_size, size)
        # The copy above is in memory; the form is not.
        self.assertLess(tracemalloc.get_traced_memory()[1], 3 * size)

    def test_a_submission_with_a_key_is_repeated_after_a_cut_and_one_without_is_sent_once(self) -> None:
        async def with_key(client: AsyncClient) -> Any:
            return await client.submit(ORDER, SMALL, key="async-cut", labels={"test": "async-cut"})

        proxy = self.proxy([1, 40])
        accepted = self.run_with(with_key, proxy.url)
        self.assertTrue(accepted.replayed)
        self.assertEqual((proxy.cut, self.labelled("test", "async-cut")), (2, [accepted.task_id]))

        async def without(client: AsyncClient) -> None:
            with self.assertRaises(Unreachable):
                await client.submit(ORDER, SMALL, labels={"test": "async-once"})

        proxy = self.proxy([1])
        self.run_with(without, proxy.url)
        self.assertEqual((proxy.cut, len(self.labelled("test", "async-once"))), (1, 1))

    def test_events_that_are_cut_come_once_and_in_order(self) -> None:
        async def work(client: AsyncClient) -> List[Event]:
            task = (await client.submit(ORDER, LARGE, key="async-events")).task_id
            seen: List[Event] = []
            async for event in client.events(task):
                if event.type == "entry":
                    seen.append(event)
                    if event.data["status"] == "waiting" and event.data["event"] == "waits":
                        # Beside the proxy: its cuts are those of the stream.
                        approve = {"approved": True, "by": "kim"}
                        await asyncio.to_thread(self.client.tasks.signal, task, "approval", approve)
            self.assertEqual([it async for it in client.events(task, seen[-1].id or 0)], [])
            entries = self.client.tasks.audit(task)["entries"]
            self.assertEqual([it.id for it in seen], [it["seq"] for it in entries])
            return seen

        proxy = self.proxy([1, 50, 500, 900])
        seen = self.run_with(work, proxy.url)
        self.assertEqual(seen[-1].data["status"], "completed")
        # The submission, the head of the stream, and behind its first event. How much is left for another cut, the machine decides.
        self.assertGreaterEqual(proxy.cut, 3)

    def test_a_download_that_breaks_off_is_an_error_and_leaves_no_file(self) -> None:
        folder = Path(self.folder())
        accepted = self.client.submit(ZIP, {}, files={"files": ("a.bin", os.urandom(300_000))})
        self.client.wait(accepted.task_id, 30)

        async def work(client: AsyncClient) -> None:
            with self.assertRaises(Unreachable):
                await client.download(accepted.task_id, "zip", folder / "a.zip")

        self.run_with(work, self.proxy([100_000]).url)
        self.assertEqual(os.listdir(folder), [])

    def test_a_refusal_is_a_problem_and_a_wait_ends_with_its_time(self) -> None:
        async def work(client: AsyncClient) -> None:
            with self.assertRaises(Problem) as refused:
                await client.submit(ORDER, {**SMALL, "nope": 1})
            problem = refused.exception
            self.assertEqual((problem.status, problem.code, problem.pointer), (422, "invalid-request", "nope"))
            with self.assertRaises(Problem) as unknown:
                await client.tasks.show("../workers?x")
            self.assertEqual(unknown.exception.status, 400)
            accepted = await client.submit(ORDER, LARGE)
            with self.assertRaises(TimeoutError):
                await client.wait(accepted.task_id, 0.3)
            # What is given up is closed: the loop would name a task that was never awaited.
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(client.wait(accepted.task_id), 0.2)
            self.assertEqual((await client.tasks.cancel(accepted.task_id))["outcome"], "undoing")

        self.run_with(work)

    def test_an_api_that_is_away_is_unreachable_and_the_key_goes_with_each_request(self) -> None:
        came: List[Any] = []

        def answer(request: Any) -> Any:
            came.append(request.headers.get("Authorization"))
            return 503, {"Retry-After": "3600"}, b"{}"

        stub = support.Stub(answer)

        async def work(client: AsyncClient) -> None:
            with self.assertRaises(Problem) as refused:
                await client.wait("t")
            self.assertEqual(refused.exception.retry_after, 3600)
            await asyncio.to_thread(stub.stop)
            with self.assertRaises(Unreachable):
                await client.queues.pause("orders", note="a test")

        self.run_with(work, stub.url, api_key="cs_a_b", retry_for=30)
        self.assertEqual(came, ["Bearer cs_a_b"])

    def test_it_has_all_that_the_other_client_has(self) -> None:
        async def work(client: AsyncClient) -> None:
            for name, group in vars(self.client).items():
                if name.startswith("_"):
                    continue
                words = {it for it in dir(group) if not it.startswith("_")}
                own = getattr(client, name)
                self.assertEqual(words, {it for it in dir(own) if not it.startswith("_")}, name)
            for name in dir(Client):
                if not name.startswith("_"):
                    parameters = inspect.signature(getattr(Client, name)).parameters
                    self.assertEqual(parameters, inspect.signature(getattr(AsyncClient, name)).parameters, name)

        self.run_with(work)

    def test_the_other_client_needs_no_package(self) -> None:
        said = subprocess.run(
            [sys.executable, "-c", "import sys, counterstep_client; print('httpx' in sys.modules)"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        self.assertEqual(said.stdout, "False\n")


if __name__ == "__main__":
    unittest.main()
