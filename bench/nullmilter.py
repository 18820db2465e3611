#!/usr/bin/env python3
"""A filter that lets everything pass, for filters.py: bench/nullmilter.py PORT [MILLISECONDS].
It answers each step; the end of a message after that time. Prints "ready" when it listens."""
import asyncio
import struct
import sys

CONTINUE = b"\0\0\0\1c"
SILENT = b"DAQK"  # macros, abort and quit have no answer
OPTIONS = struct.pack(">IcIII", 13, b"O", 6, 0, 0)  # version 6, changes nothing, wants every step


class Filter(asyncio.Protocol):
    def __init__(self, delay):
        self.delay, self.rest = delay, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        data, at, out = self.rest + data, 0, []
        while len(data) - at >= 5:
            size, command = struct.unpack_from(">IB", data, at)
            if len(data) - at < 4 + size:
                break
            at += 4 + size
            if command == ord("O"):
                out.append(OPTIONS)
            elif command == ord("E") and self.delay:
                asyncio.get_running_loop().call_later(self.delay, self.transport.write, CONTINUE)
            elif command not in SILENT:
                out.append(CONTINUE)
        self.rest = data[at:]
        if out:
            self.transport.write(b"".join(out))


async def main(port, delay):
    server = await asyncio.get_running_loop().create_server(lambda: Filter(delay), "127.0.0.1", port, backlog=1000)
    print("ready", flush=True)
    await server.serve_forever()


if sys.argv[1:] in ([], ["-h"], ["--help"]):
    sys.exit(print(__doc__))
asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 0))
