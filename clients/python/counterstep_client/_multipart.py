"""A form with files, read from the disk while it is sent."""

from __future__ import annotations

import json
import os
import secrets
from typing import Any, Iterator, List, Mapping, Sequence, Tuple, Union, cast

#: A path, or the name and the content of a file.
File = Union[str, "os.PathLike[str]", Tuple[str, bytes]]
#: One file or several, by the field of the request.
Files = Mapping[str, Union[File, Sequence[File]]]

_CHUNK = 64 * 1024


class Form:
    """`multipart/form-data`: the fields of the request, then the files."""

    def __init__(self, request: Any, files: Files) -> None:
        if not isinstance(request, Mapping):
            raise TypeError("a request with files is a mapping of fields")
        boundary = f"counterstep-{secrets.token_hex(16)}"
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self._parts: List[Tuple[bytes, Union[bytes, str]]] = []
        for field, value in request.items():
            content = json.dumps(value, allow_nan=False).encode()
            self._parts.append((_head(boundary, field, None), content))
        for field, of_field in files.items():
            for file in _several(of_field):
                if isinstance(file, tuple):
                    name, data = file
                    self._parts.append((_head(boundary, field, name), data))
                else:
                    path = os.fspath(file)
                    self._parts.append((_head(boundary, field, os.path.basename(path)), path))
        self._end = f"--{boundary}--\r\n".encode()

    def length(self) -> int:
        """Bytes of the whole form. Opens each path: what cannot be read is refused before anything is sent."""
        contents = (_size(it) if isinstance(it, str) else len(it) for _, it in self._parts)
        return sum(len(head) + 2 for head, _ in self._parts) + sum(contents) + len(self._end)

    def __iter__(self) -> Iterator[bytes]:
        for head, content in self._parts:
            yield head
            if isinstance(content, bytes):
                yield content
            else:
                yield from _content(content)
            yield b"\r\n"
        yield self._end


def _size(path: str) -> int:
    with open(path, "rb") as file:
        return os.fstat(file.fileno()).st_size


def _content(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while True:
            try:
                chunk = file.read(_CHUNK)
            except OSError as error:
                # A read, unlike an open, has no name in its error.
                raise OSError(error.errno, error.strerror, path) from error
            if not chunk:
                return
            yield chunk


def _several(files: Union[File, Sequence[File]]) -> Sequence[File]:
    if isinstance(files, (str, os.PathLike)):
        return [files]
    if isinstance(files, tuple) and len(files) == 2 and isinstance(files[1], bytes):
        return [cast(File, files)]
    return cast(Sequence[File], files)


def _head(boundary: str, field: str, file_name: Union[str, None]) -> bytes:
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{_quoted(field)}"'
    if file_name is None:
        return f"{head}\r\nContent-Type: application/json\r\n\r\n".encode()
    return f'{head}; filename="{_quoted(file_name)}"\r\nContent-Type: application/octet-stream\r\n\r\n'.encode()


def _quoted(name: str) -> str:
    # The form of browsers.
    return name.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")
