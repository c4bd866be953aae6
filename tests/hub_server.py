"""A loopback server that speaks the hub's endpoints for small repositories, with faults on demand.

It answers what huggingface_hub 2, transformers 5 and datasets 5 ask: HEAD and GET of
``resolve/REVISION/FILE`` (with ranges), ``api/{models,datasets}/ID[/revision/REVISION]`` and
``tree``; the headers and codes are those that these clients read.
"""

import hashlib
import json
import re
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import unquote, urlsplit


@dataclass
class Repository:
    """Commits, the oldest first, each the whole content by file name; tags name some of them."""

    commits: list[dict[str, bytes]]
    tags: dict[str, int] = field(default_factory=dict)
    token: str = ""  # gated, if there is one

    def hashes(self) -> list[str]:
        return [hashlib.sha1(repr(c).encode()).hexdigest() for c in self.commits]

    def find(self, revision: str) -> int | None:
        named = {commit: at for at, commit in enumerate(self.hashes())} | self.tags
        return len(self.commits) - 1 if revision == "main" else named.get(revision)


@dataclass
class Hub:
    """The server's address, what it holds, what it was asked, and what goes wrong with it.

    Repositories are called `models/ORG/NAME` or `datasets/ORG/NAME`.
    ``faults`` gives a method and file (`GET a.json`, `HEAD *`, or `api`) a fault, how many requests
    it strikes, and after how many others: "drop" ends the connection in the middle of the content,
    "cut" sends half of it as if it were all, "silent" says nothing, "page" answers like a page that
    is no hub's, and a number is answered as a status code.
    """

    url: str
    repositories: dict[str, Repository] = field(default_factory=dict)
    asked: Counter = field(default_factory=Counter)
    faults: dict[str, tuple] = field(default_factory=dict)
    closing: Event = field(default_factory=Event)

    def fault(self, *names: str) -> str | int | None:
        for name in names:
            kind, left, after = self.faults.get(name, (None, 0, 0))
            if after:
                self.faults[name] = (kind, left, after - 1)
            elif left:
                self.faults[name] = (kind, left - 1, 0)
                return kind
        return None


@contextmanager
def serve() -> Iterator[Hub]:
    """Run an empty hub on a free port of 127.0.0.1."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.hub = hub = Hub(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield hub
    finally:
        hub.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def oid(content: bytes) -> str:
    """The name that git gives to a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


NAME = "(?:models|datasets)/[^/]+/[^/]+"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        """Tests read what was asked from the hub's counter."""

    def do_GET(self):
        path = urlsplit(self.path).path  # a revision's slashes are quoted
        self.server.hub.asked[f"{self.command} {unquote(path)}"] += 1
        if found := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            kind, name, revision, file = (unquote(part or "models/") for part in found.groups())
            self.file(kind + name, revision, file)
        elif found := re.fullmatch(f"/api/({NAME})(?:/(tree|revision)/([^/]+)(?:/(.*))?)?", path):
            name, what, revision, inside = (unquote(part or "") for part in found.groups())
            self.api(name, what, revision or "main", inside)
        else:
            self.refuse(404, "EntryNotFound")

    do_HEAD = do_GET

    def commit(self, name: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """A commit's hash and content, or a refusal in the hub's words."""
        repository = self.server.hub.repositories.get(name)
        if repository is None:  # the hub does not tell strangers whether there is one
            return self.refuse(401, "RepoNotFound", "Repository not found")
        if repository.token and self.headers.get("Authorization") != f"Bearer {repository.token}":
            known = "Authorization" in self.headers
            said = "is not in the authorized list" if known else "must be authenticated"
            return self.refuse(403 if known else 401, "GatedRepo", f"Access is restricted: {said}")
        at = repository.find(revision)
        if at is None:
            return self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return repository.hashes()[at], repository.commits[at]

    def file(self, name: str, revision: str, file: str):
        if (found := self.commit(name, revision)) is None:
            return
        commit, files = found
        if file not in files:
            self.refuse(404, "EntryNotFound", "Entry not found", **{"X-Repo-Commit": commit})
            return
        content = files[file]
        headers = {"ETag": f'"{oid(content)}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        status, start, end = 200, 0, len(content)
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, end = int(asked[1]), min(int(asked[2] or end) + bool(asked[2]), end)
            status = 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
        fault = self.server.hub.fault(f"{self.command} {file}", f"{self.command} *")
        self.send(status, content[start:end], headers, fault)

    def api(self, name: str, what: str, revision: str, inside: str):
        if (found := self.commit(name, revision)) is None:
            return
        commit, files = found
        if what == "tree":
            start, answer = f"{inside}/" if inside else "", []
            below = (file.removeprefix(start) for file in files if file.startswith(start))
            for path in sorted({start + rest.partition("/")[0] for rest in below}):
                content = files.get(path, b"")
                kind = "file" if path in files else "directory"
                known = {"type": kind, "path": path, "size": len(content), "oid": oid(content)}
                answer.append(known)
        else:
            listed = [{"rfilename": file} for file in files]
            answer = {"id": name.partition("/")[2], "sha": commit, "private": False}
            answer |= {"siblings": listed, "tags": [], "downloads": 0, "likes": 0, "gated": False}
        headers = {"Content-Type": "application/json", "X-Repo-Commit": commit}
        self.send(200, json.dumps(answer).encode(), headers, self.server.hub.fault("api"))

    def refuse(self, status: int, code: str, said: str = "", **headers: str) -> None:
        self.send(status, b"", {"X-Error-Code": code, "X-Error-Message": said} | headers)

    def send(self, status: int, content: bytes, headers: dict, fault=None):
        if fault == "silent":
            self.server.hub.closing.wait(30)
            self.close_connection = True
            return
        if isinstance(fault, int):
            status, content, headers = fault, b"", {}
        if fault == "page":
            status, content, headers = 200, b"<html></html>", {"Content-Type": "text/html"}
        if fault == "cut":
            content = content[: len(content) // 2]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if fault == "drop" else content)
        if fault == "drop":
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
