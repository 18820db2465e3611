"""A message that kills its delivery program at each try is held after three deaths; other mail keeps flowing."""
import os
import re
import signal
import socket
import threading

from harness import *


class Killer:
    """An SMTP server that takes every message, but kills the given programs when a message says POISON."""

    def __init__(self, victims):
        self.victims, self.kills, self.took = victims, 0, []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=50)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            with connection, connection.makefile("rb") as lines:
                say = lambda text: connection.sendall(text.encode() + b"\r\n")
                say("220 killer.example")
                content = None
                for line in lines:
                    if content is not None:
                        if line != b".\r\n":
                            content.append(line)
                            continue
                        text, content = b"".join(content), None
                        if b"POISON" in text:
                            self.kills += 1
                            for pid in self.victims():
                                os.kill(pid, signal.SIGKILL)
                            return
                        self.took.append(re.search(rb"Subject: (\S+)", text).group(1).decode())
                        say("250 2.0.0 ok")
                    elif line.upper().startswith(b"DATA"):
                        say("354 go on")
                        content = []
                    elif line.upper().startswith(b"QUIT"):
                        say("221 bye")
                        return
                    else:
                        say("250 ok")
        except OSError:
            pass

    def close(self):
        self.listener.close()


class Poison(Suite):
    def test_a_message_that_kills_smtp_is_held_after_three_deaths(self):
        victims = []
        killer = Killer(lambda: victims[0].pids().get("smtp", []))
        self.addCleanup(killer.close)
        settings = {**relay_to(killer, "rcpt.example"), "minimal_backoff_time": "1s", "maximal_backoff_time": "2s",
                    "queue_run_delay": "1s"}
        with Instance(settings) as mx:
            victims.append(mx)
            expected = set()
            for i in range(30):
                if i == 5:
                    send(mx.port, "eve@sender.example", ["bad@rcpt.example"], mail("bad", "POISON\r\n"))
                send(mx.port, "ada@sender.example", [f"u{i}@rcpt.example"], mail(f"good{i}"))
                expected.add(f"good{i}")
            eventually(lambda: expected <= set(killer.took),
                       lambda: f"all good mail arrived, missing {sorted(expected - set(killer.took))}", 90)
            eventually(lambda: [m for m in mx.queue() if m["queue_name"] == "hold"], "the poison is on hold", 90)
            # What had arrived, and died with its program before that was recorded, arrives once more.
            eventually(lambda: [(m["queue_name"], m["sender"]) for m in mx.queue()] == [("hold", "eve@sender.example")],
                       lambda: f"only the poison is left: {mx.queue()}")
            self.assertEqual(killer.kills, 3)
            self.assertRegex(mx.log(), r"ended 3 times with it in hand; message placed on hold")
            send(mx.port, "ada@sender.example", ["after@rcpt.example"], mail("after"))
            eventually(lambda: "after" in killer.took, "mail flows afterwards")
            self.assertEqual(killer.kills, 3)


if __name__ == "__main__":
    unittest.main()
