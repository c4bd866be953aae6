"""A hub of small repositories that the hub's real clients ask in place of the network, with faults.

It answers what huggingface_hub 2, transformers 5 and datasets 5 ask: HEAD and GET of
``resolve/REVISION/FILE`` (with ranges), ``api/{models,datasets}/ID[/revision/REVISION]`` and
``tree``; the headers and codes are those that these clients read.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from httpx2 import ConnectError, ReadTimeout, RemoteProtocolError, Request, Response


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


NAME = "((?:models|datasets)/[^/]+/[^/]+)"


@dataclass
class Hub:
    """What it holds, what it was asked, and what goes wrong with it.

    Repositories are called `models/ORG/NAME` or `datasets/ORG/NAME`.
    ``faults`` gives a method and file (`GET a.json`, `HEAD *`, or `api`) a fault, how many requests
    it strikes, and after how many others: "drop" ends the connection in the middle of the content,
    "cut" sends half of it as if it were all, "silent" says nothing, "page" answers like a page that
    is no hub's, and a number is answered as a status code.
    """

    repositories: dict[str, Repository] = field(default_factory=dict)
    asked: Counter = field(default_factory=Counter)
    faults: dict[str, tuple] = field(default_factory=dict)

    def fault(self, *names: str) -> str | int | None:
        for name in names:
            kind, left, after = self.faults.get(name, (None, 0, 0))
            if after:
                self.faults[name] = (kind, left, after - 1)
            elif left:
                self.faults[name] = (kind, left - 1, 0)
                return kind
        return None

    def answer(self, request: Request) -> Response:
        """Answer as the hub does; any other host cannot be reached."""
        if request.url.host != "huggingface.co":
            raise ConnectError(f"{request.url.host} is not the hub")
        path = request.url.raw_path.decode().partition("?")[0]  # a revision's slashes are quoted
        self.asked[f"{request.method} {unquote(path)}"] += 1
        if found := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            kind, name, revision, file = (unquote(part or "models/") for part in found.groups())
            return self.commit(request, kind + name, revision, file)
        if found := re.fullmatch(f"/api/{NAME}(?:/(tree|revision)/([^/]+)(?:/(.*))?)?", path):
            name, what, revision, inside = (unquote(part or "") for part in found.groups())
            start = inside and f"{inside}/"
            return self.commit(request, name, revision or "main", "", start, what == "tree")
        return refusal(404, "EntryNotFound")

    def commit(self, request, name, revision, file, start="", is_tree=False) -> Response:
        """A file of a commit, a folder of its tree, or what is known of it, if one may see it."""
        repository = self.repositories.get(name)
        if repository is None:  # the hub does not tell strangers whether there is one
            return refusal(401, "RepoNotFound", "Repository not found")
        given = request.headers.get("Authorization")
        if repository.token and given != f"Bearer {repository.token}":
            said = "is not in the authorized list" if given else "must be authenticated"
            return refusal(403 if given else 401, "GatedRepo", f"Access is restricted: {said}")
        at = repository.find(revision)
        if at is None:
            return refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        commit, files = repository.hashes()[at], repository.commits[at]
        headers = {"X-Repo-Commit": commit}
        if file and file not in files:
            return refusal(404, "EntryNotFound", "Entry not found", **headers)
        if file:
            fault = self.fault(f"{request.method} {file}", f"{request.method} *")
            return sent(request, files[file], headers, fault)
        if is_tree:
            known = list(folder(files, start))
        else:
            known = {"id": name.partition("/")[2], "sha": commit, "private": False, "tags": []}
            known["siblings"] = [{"rfilename": file} for file in files]
        fault = self.fault("api")
        return Response(fault) if fault else Response(200, headers=headers, json=known)


def oid(content: bytes) -> str:
    """The name that git gives to a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def folder(files: dict[str, bytes], start: str) -> Iterator[dict]:
    """What stands in a folder of a commit."""
    below = (file.removeprefix(start) for file in files if file.startswith(start))
    for path in sorted({start + rest.partition("/")[0] for rest in below}):
        content, kind = files.get(path, b""), "file" if path in files else "directory"
        yield {"type": kind, "path": path, "size": len(content), "oid": oid(content)}


def refusal(status: int, code: str, said: str = "", **headers: str) -> Response:
    return Response(status, headers={"X-Error-Code": code, "X-Error-Message": said} | headers)


def sent(request: Request, content: bytes, headers: dict, fault) -> Response:
    """A file's content, or the asked part of it, as far as nothing goes wrong."""
    if fault == "silent":
        raise ReadTimeout("timed out")
    if fault == "page":
        return Response(200, html="<html></html>")
    if isinstance(fault, int):
        return Response(fault)
    headers |= {"ETag": f'"{oid(content)}"', "Accept-Ranges": "bytes"}
    status = 200
    if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", "")):
        start, end = int(asked[1]), min(int(asked[2] or len(content)) + 1, len(content))
        status, headers["Content-Range"] = 206, f"bytes {start}-{end - 1}/{len(content)}"
        content = content[start:end]
    half = content[: len(content) // 2]
    content = half if fault == "cut" else content
    headers["Content-Length"] = str(len(content))
    if request.method == "HEAD":
        content = b""
    return Response(status, headers=headers, content=broken(half) if fault == "drop" else content)


def broken(content: bytes) -> Iterator[bytes]:
    """Content in the middle of which the connection ends."""
    yield content
    raise RemoteProtocolError("peer closed connection")
