"""Sends many large messages slowly and at once, to a sink that compares them.

Use:     with BodySink() as sink, Instance({**relay_to(sink)}) as mx:
             figures = upload(mx, [3 << 20] * 1000)       # a size for each client; Figures: peaks while all were open
             sink.wait(1000); sink.bodies == figures.sent  # key -> digest; keys count from `first`
Every client sends more content than stays in memory before any of them sends the rest: so all uploads are open at once.
No message ends before every client is in its last slice. With a rate, in bytes a second, each client sends no
faster than that, in small parts; Figures.lasted then says how long.
"""
import asyncio
import glob
import hashlib
import os
import threading
import time

LINE = 76
LINES = 862  # of a slice: 64 KiB
PART = 16384  # bytes of a slice that a client with a rate sends at once


def slice_of(key):
    """Returns CRLF lines without leading dots, different for each key."""
    line = (f"{key:08d}".encode() + hashlib.sha256(str(key).encode()).hexdigest().encode()).ljust(
        LINE - 2, b"x"
    ) + b"\r\n"
    return line * LINES


def pieces_of(key, size):
    """Returns the content of a key: lines of exactly this many bytes in all."""
    piece = slice_of(key)
    whole = max(0, size // len(piece) - 1)
    for _ in range(whole):
        yield piece
    last = size - whole * len(piece) - 2
    yield (piece * 2)[:last].rstrip(b"\r\n").ljust(last, b"y") + b"\r\n"


class BodySink:
    """An SMTP server in a thread of its own; bodies: key -> digest of the content after the header."""

    def __init__(self):
        self.bodies, self.port, self.up = {}, None, threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self):
        self.thread.start()
        self.up.wait()
        return self

    def __exit__(self, *exc):
        self.loop.call_soon_threadsafe(self.over.set)
        self.thread.join()

    def wait(self, count, seconds):
        end = time.monotonic() + seconds
        while len(self.bodies) < count:
            if time.monotonic() > end:
                raise TimeoutError(f"the sink has {len(self.bodies)} of {count}")
            time.sleep(0.05)

    async def _serve(self):
        self.loop, self.over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._session, "127.0.0.1", 0, limit=1 << 20)
        self.port = server.sockets[0].getsockname()[1]
        self.up.set()
        await self.over.wait()
        server.close()

    async def _session(self, reader, writer):
        try:
            writer.write(b"220 sink\r\n")
            while line := await reader.readline():
                verb = line[:4].upper()
                if verb == b"DATA":
                    writer.write(b"354 go\r\n")
                    await self._content(reader)
                writer.write({b"EHLO": b"250 sink\r\n", b"QUIT": b"221 bye\r\n"}.get(verb, b"250 ok\r\n"))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # an incomplete message will be missing in the end
        finally:
            writer.close()

    async def _content(self, reader):
        header = await reader.readuntil(b"\r\n\r\n")
        key = int(header.split(b"X-Key: ")[1].split(b"\r\n")[0])
        digest, held = hashlib.sha256(), b""
        while True:
            if not (more := await reader.read(1 << 18)):
                raise ConnectionError("content without its end")
            held += more
            if held.endswith(b"\r\n.\r\n"):  # the client does not pipeline, which is not offered
                digest.update(held[:-3])
                break
            digest.update(held[:-5])
            held = held[-5:]
        self.bodies[key] = digest.hexdigest()


class Figures:
    def __init__(self):
        self.sent, self.memory, self.descriptors, self.refused = {}, {}, {}, []
        self.files = self.spool_bytes = 0
        self.seconds, self.lasted = 0.0, []  # in all; each, from its first byte to the answer to its last

    def sample(self, mx):
        for program, pids in mx.pids().items():
            try:
                total = 0
                for pid in pids:
                    with open(f"/proc/{pid}/smaps_rollup") as lines:
                        total += sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))
                most = max(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)
            except (OSError, ValueError):
                continue  # it has just ended
            self.memory[program] = max(self.memory.get(program, 0), total / 1024)
            self.descriptors[program] = max(self.descriptors.get(program, 0), most)
        self.files, self.spool_bytes = spool(mx)


def spool(mx):
    """Returns their number, and the bytes of disk they take."""
    found = [os.stat(f) for f in glob.glob(mx.path("spool", "**", "body-*"), recursive=True)]
    return len(found), sum(s.st_blocks * 512 for s in found)


class Pace:
    """Lets a client send so many bytes a second, at moments that differ between clients."""

    def __init__(self, rate, key):
        self.rate, self.key = rate, key

    async def begin(self):
        if self.rate:
            await asyncio.sleep(PART / self.rate * (self.key % 100) / 100)
        self.due = time.monotonic()

    async def send(self, writer, piece):
        if not self.rate:
            writer.write(piece)
            return await writer.drain()
        for at in range(0, len(piece), PART):
            part = piece[at:at + PART]
            writer.write(part)
            await writer.drain()
            self.due += len(part) / self.rate
            await asyncio.sleep(max(0.0, self.due - time.monotonic()))


def upload(mx, sizes, first=0, rate=0):
    return asyncio.run(_upload(mx, sizes, first, rate))


async def _upload(mx, sizes, first, rate):
    figures, began = Figures(), asyncio.Semaphore(0)
    go, started = asyncio.Event(), time.monotonic()

    async def one(key, size):
        digest, pieces = hashlib.sha256(), 0
        for piece in pieces_of(key, size):
            digest.update(piece)
            pieces += 1
        figures.sent[key] = digest.hexdigest()
        reader, writer = await asyncio.open_connection("127.0.0.1", mx.port)
        try:
            for line in (None, "EHLO client", "MAIL FROM:<a@sender.example>", f"RCPT TO:<u{key}@rcpt.example>", "DATA"):
                if line:
                    writer.write(line.encode() + b"\r\n")
                while (reply := await reader.readline())[3:4] == b"-":
                    pass
                if reply[:1] not in b"23" or not reply:
                    figures.refused.append(reply)
                    return
            writer.write(f"Subject: large\r\nX-Key: {key}\r\n\r\n".encode())
            pace, from_here = Pace(rate, key), time.monotonic()
            await pace.begin()
            for n, piece in enumerate(pieces_of(key, size)):
                await pace.send(writer, piece)
                if n == min(8, pieces - 1):
                    began.release()
                    await go.wait()
                    await pace.begin()
            writer.write(b".\r\n")
            if not (reply := await reader.readline()).startswith(b"250"):
                figures.refused.append(reply)
            figures.lasted.append(time.monotonic() - from_here)
        finally:
            began.release()
            writer.close()

    async def watch():
        while True:
            figures.sample(mx)
            await asyncio.sleep(0.5)

    async def open_all():
        for _ in sizes:
            await began.acquire()
        figures.sample(mx)
        go.set()

    watching = asyncio.create_task(watch())
    tasks = [asyncio.create_task(one(key, size)) for key, size in enumerate(sizes, first)]
    await open_all()
    await asyncio.gather(*tasks)
    watching.cancel()
    figures.seconds = time.monotonic() - started
    return figures
