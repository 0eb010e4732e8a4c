"""The program under test, the services that its orders call, and a proxy that cuts connections."""

from __future__ import annotations

import json
import os
import re
import select
import socket
import struct
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple


def program() -> str:
    path = os.environ.get("COUNTERSTEP_PROGRAM")
    if not path:
        raise RuntimeError("set COUNTERSTEP_PROGRAM to the path of the program `counterstep`")
    return path


def _environment() -> Dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("COUNTERSTEP_")}


def run(*arguments: str) -> str:
    """A command that ends, and its output."""
    done = subprocess.run(
        [program(), *arguments], env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"{arguments} ended with {done.returncode}: {done.stderr}")
    return done.stdout


class Served:
    """A process that serves the API, with its data in a temporary folder."""

    def __init__(self, role: str, address: str, *flags: str, data: Optional[Path] = None) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        data = data or self.folder / "data"
        self._process = subprocess.Popen(
            [program(), role, "--listen", "127.0.0.1:0", "--data-dir", str(data), *flags],
            cwd=self.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        said = ""
        for line in self._process.stdout:
            said += line
            found = re.search(address, line)
            if found:
                self.url = f"http://{found[1]}"
                break
        else:
            raise RuntimeError(f"`counterstep {role}` did not start: {said}")
        # What is written later must not fill the pipe.
        self._reader = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._reader.start()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._folder.cleanup()


def api(data: Path, *flags: str) -> Served:
    return Served("api", r"address=(\S+)", *flags, data=data)


class Stub:
    """An HTTP server that answers each request with what a function returns: status, headers, body."""

    def __init__(self, answer: Any) -> None:
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def _answer(self) -> None:
                self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, headers, body = answer(self)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = _answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def services() -> Stub:
    """The shop, the bank and the carrier of `place-order`."""
    answers = {
        "/reservations": {"reservation_id": "r-1"},
        "/charges": {"charge_id": "c-1", "amount_cents": 100_000},
        "/shipments": {"tracking": "t-1"},
    }

    def answer(request: BaseHTTPRequestHandler) -> Tuple[int, Dict[str, str], bytes]:
        body = answers.get(request.path) if request.command == "POST" else None
        content = json.dumps(body or {}).encode()
        return (200 if body else 404), {"Content-Type": "application/json"}, content

    return Stub(answer)


class Dev(Served):
    """`counterstep dev`, and the services that its orders call."""

    def __init__(self, *flags: str) -> None:
        self._services = services()
        with tempfile.TemporaryDirectory() as folder:
            settings = Path(folder) / "counterstep.toml"
            names = ("bank", "inventory", "shipping")
            settings.write_text("".join(f'[services.{it}]\nurl = "{self._services.url}"\n' for it in names))
            flags = ("--config", str(settings), "--drain", "500ms", *flags)
            super().__init__("dev", r"submit to http://([^/]+)/", *flags)

    def stop(self) -> None:
        super().stop()
        self._services.stop()


class CuttingProxy:
    """A TCP proxy that resets the first connections, each after a number of bytes of the server's answer."""

    def __init__(self, url: str, cuts: List[int]) -> None:
        host, port = url.split("//")[1].split(":")
        self._to = (host, int(port))
        self._left = list(cuts)
        #: How many connections have been cut.
        self.cut = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            limit = self._left.pop(0) if self._left else None
            threading.Thread(target=self._serve, args=(client, limit), daemon=True).start()

    def _serve(self, client: socket.socket, limit: Optional[int]) -> None:
        # One thread for both directions: a socket that another thread reads would not be closed at once.
        with client, socket.create_connection(self._to) as server:
            sent = 0
            while True:
                try:
                    for source in select.select([client, server], [], [])[0]:
                        to = server if source is client else client
                        data = source.recv(65536 if limit is None or to is server else limit - sent)
                        if not data:
                            return
                        to.sendall(data)
                        sent += len(data) if to is client else 0
                except OSError:
                    return
                if sent == limit:
                    self.cut += 1
                    # A reset in place of an orderly end.
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
