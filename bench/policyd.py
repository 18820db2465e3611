#!/usr/bin/env python3
"""A policy server that says DUNNO to everything, for compare.py: bench/policyd.py PORT. Prints "ready" when it
listens."""
import asyncio
import sys


class Policy(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.rest = transport, b""

    def data_received(self, data):
        requests = (self.rest + data).split(b"\n\n")
        self.rest = requests.pop()
        self.transport.write(b"action=DUNNO\n\n" * len(requests))


async def main(port):
    server = await asyncio.get_running_loop().create_server(Policy, "127.0.0.1", port, backlog=1000)
    print("ready", flush=True)
    await server.serve_forever()


if sys.argv[1:] in ([], ["-h"], ["--help"]):
    sys.exit(print(__doc__))
asyncio.run(main(int(sys.argv[1])))
