"""A form with files, read from the disk while it is sent."""

from __future__ import annotations

import errno
import json
import math
import os
import secrets
import stat
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Tuple, Union, cast

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

    @property
    def is_read_once(self) -> bool:
        """Whether a path of it is no file, a pipe say, whose content is gone once it has been read."""
        return any(isinstance(it, str) and not stat.S_ISREG(os.stat(it).st_mode) for _, it in self._parts)

    def opened(self) -> Tuple[Optional[int], Iterator[bytes]]:
        """Bytes of the whole form, and the form.

        Opens each file: what cannot be read is refused before anything is sent. The size is `None` with a path that has
        none: a pipe, a file of `/proc`.
        """
        sizes = [_size(it) if isinstance(it, str) else len(it) for _, it in self._parts]
        around = sum(len(head) + 2 for head, _ in self._parts) + len(self._end)
        known = [size for size in sizes if size is not None]
        return around + sum(known) if len(known) == len(sizes) else None, self._pieces(sizes)

    def _pieces(self, sizes: Sequence[Optional[int]]) -> Iterator[bytes]:
        for (head, content), size in zip(self._parts, sizes):
            yield head
            if isinstance(content, bytes):
                yield content
            else:
                yield from _content(content, size)
            yield b"\r\n"
        yield self._end


def _size(path: str) -> Optional[int]:
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        # Opened once only: who writes into a pipe would be told that its reader has gone.
        return None
    with open(path, "rb") as file:
        # A file of `/proc` says 0.
        return os.fstat(file.fileno()).st_size or None


def _content(path: str, size: Optional[int]) -> Iterator[bytes]:
    """Of a file with a size exactly that many bytes, also where it grows meanwhile."""
    left = math.inf if size is None else size
    with open(path, "rb") as file:
        while left:
            try:
                chunk = file.read(int(min(left, _CHUNK)))
            except OSError as error:
                # A read, unlike an open, has no name in its error.
                raise OSError(error.errno, error.strerror, path) from error
            if not chunk and size is not None:
                raise OSError(errno.EIO, f"it had {size} bytes when it was opened, and {size - int(left)} when it was sent", path)
            if not chunk:
                return
            left -= len(chunk)
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
