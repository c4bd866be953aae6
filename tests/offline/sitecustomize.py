"""On the path of a Python process: only this machine can be reached, and other attempts are noted."""

import os
import socket


def is_local(address):
    host = address[0] if isinstance(address, tuple) else address
    host = host.decode() if isinstance(host, bytes) else host
    return host in (None, "", "localhost", "::1", "::", "0.0.0.0") or host.startswith("127.")


def guarded(original, where):
    """A function of the socket module whose argument at `where` is an address."""

    def call(*args, **options):
        unix = where and args[0].family == getattr(socket, "AF_UNIX", None)
        if not unix and not is_local(args[where]):
            with open(os.environ["ASKED_OF_THE_NETWORK"], "a") as log:
                log.write(f"{args[where]!r}\n")
            raise OSError(f"the network is not there: {args[where]!r}")
        return original(*args, **options)

    return call


class Socket(socket.socket):
    connect = guarded(socket.socket.connect, 1)
    connect_ex = guarded(socket.socket.connect_ex, 1)

    def sendto(self, data, *rest):
        return guarded(lambda _, address: super(Socket, self).sendto(data, *rest), 1)(
            self, rest[-1]
        )


socket.socket = Socket
for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
    setattr(socket, name, guarded(getattr(socket, name), 0))
