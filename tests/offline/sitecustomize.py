"""On the path of a Python process: only this machine can be reached, and other attempts are noted."""

import os
import sys

LOCAL = ("", "None", "localhost", "::1", "::", "0.0.0.0")


def refuse(event, arguments):
    """What Python calls before each audited event. A socket that is a file has no tuple as address."""
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        host = arguments[1][0] if isinstance(arguments[1], tuple) else None
    else:
        return
    host = host.decode() if isinstance(host, bytes) else str(host)
    if host not in LOCAL and not host.startswith("127."):
        with open(os.environ["ASKED_OF_THE_NETWORK"], "a") as log:
            log.write(f"{host!r}\n")
        raise OSError(f"the network is not there: {host!r}")


sys.addaudithook(refuse)
