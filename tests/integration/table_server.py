"""A table server (socketmap) that answers, waits, hangs or dies as the key asks.

Use:     with TableServer(path, {"jo@there.example": "OK jo"}) as server:
             … socketmap:unix:PATH:NAME …
             server.wait_held(3); server.release()
         with TableServer() as server:
             … socketmap:inet:127.0.0.1:PORT:NAME …        # server.port
Keys that begin with "hang" are held until release(), "slowN" takes N milliseconds, and "die" closes the connection.
Other keys have the dictionary's values, which are whole answers, else NOTFOUND.
"""
import asyncio
import os
import re
import threading


class TableServer:
    def __init__(self, path=None, answers=None, delay=0.0):
        self.path, self.answers, self.delay = path, answers or {}, delay
        self.asked, self.answered, self.connections = [], 0, 0
        self.loop = asyncio.new_event_loop()
        self.held = 0
        self.changed = threading.Condition()
        self.let_go = asyncio.Event()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self.start(), self.loop).result()
        return self

    def __exit__(self, *exc):
        asyncio.run_coroutine_threadsafe(self.stop(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    async def start(self):
        if self.path is None:
            self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=1000)
            self.port = self.server.sockets[0].getsockname()[1]
            return
        self.server = await asyncio.start_unix_server(self.serve, self.path, backlog=1000)
        os.chmod(self.path, 0o666)

    async def stop(self):
        self.server.close()
        self.let_go.set()
        tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def release(self):
        """Answers the held keys, and holds none from now on."""
        self.loop.call_soon_threadsafe(self.let_go.set)

    def wait_held(self, count, patience=60):
        """Waits until so many keys are held."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.held >= count, patience):
                raise TimeoutError(f"{self.held} of {count} questions came")

    async def answer(self, key):
        if key.startswith("hang"):
            with self.changed:
                self.held += 1
                self.changed.notify_all()
            await self.let_go.wait()
        elif slow := re.match(r"slow(\d+)", key):
            await asyncio.sleep(int(slow.group(1)) / 1000)
        elif key.startswith("die"):
            return None
        elif self.delay:
            await asyncio.sleep(self.delay)
        return self.answers.get(key, "NOTFOUND ")

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                size = (await reader.readuntil(b":"))[:-1]
                request = (await reader.readexactly(int(size) + 1))[:-1].decode()
                key = request.split(" ", 1)[1]
                self.asked.append(key)
                answer = await self.answer(key)
                if answer is None:
                    break
                data = answer.encode()
                writer.write(str(len(data)).encode() + b":" + data + b",")
                await writer.drain()
                self.answered += 1
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()
