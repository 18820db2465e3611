#!/usr/bin/env python3
"""Forwards TCP connections and holds every byte back by a fixed time each way: a long round trip on one machine.

    delayproxy.py LISTEN_PORT TARGET_PORT ONE_WAY_MS      127.0.0.1 only; also delays the handshake by one round trip
"""
import asyncio
import sys


async def pump(reader, writer, delay):
    loop = asyncio.get_running_loop()
    waiting = asyncio.Queue(4096)

    async def deliver():
        while (item := await waiting.get()) is not None:
            due, data = item
            await asyncio.sleep(max(0, due - loop.time()))
            writer.write(data)
            await writer.drain()
        writer.close()

    sender = asyncio.create_task(deliver())
    try:
        while data := await reader.read(65536):
            await waiting.put((loop.time() + delay, data))
    except ConnectionError:
        pass  # the other side ends the same way below
    await waiting.put(None)
    await sender


async def main(listen, target, delay):
    async def serve(reader, writer):
        await asyncio.sleep(2 * delay)
        try:
            there = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, there[1], delay), pump(there[0], writer, delay), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", listen)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000))
