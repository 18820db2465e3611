"""pentop and pentrace in a terminal: what they show of a mail system whose state is known."""
import os
import re

from harness import *
from terminal import TMUX, Terminal

SETTINGS = {"smtpd_peername_lookup": "no", "smtpd_error_sleep_time": "0", "minimal_backoff_time": "1000s",
            "maximal_backoff_time": "4000s", "session_classes": ""}


class Top(Suite):
    """One instance for all: three messages that a host puts off, two for a host that is closed, one on hold."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.peer = Peer()
        cls.addClassCleanup(cls.peer.close)
        cls.peer.replies["RCPT"] = lambda session, line: "450 4.7.1 Greylisted"
        cls.closed = free_port()
        hops = {"slow.example": f"smtp:[127.0.0.1]:{cls.peer.port}", "down.example": f"smtp:[127.0.0.2]:{cls.closed}",
                "held.example": "discard:", "good.example": "discard:"}
        cls.mx = Instance({**SETTINGS, "transport_maps": inline(hops),
                           "smtpd_recipient_restrictions":
                               "check_recipient_access inline:{held.example=HOLD}, permit"})
        cls.addClassCleanup(cls.mx.close)
        with Client(cls.mx.port) as client:
            for n in range(3):
                client.send("ada@a.example", [f"u{n}@slow.example"], mail())
            for n in range(2):
                client.send("ada@a.example", [f"u{n}@down.example"], mail())
            client.send("ada@a.example", ["u@held.example"], mail())
            client.quit()
        eventually(lambda: len([m for m in cls.mx.queue() if m["queue_name"] == "deferred"]) == 5,
                   lambda: f"five wait: {cls.mx.queue()}")

    def top(self, *words, **size):
        terminal = Terminal([os.path.join(BIN, "pentop"), "-c", self.mx.etc, "-d", "1", *words], **size)
        self.addCleanup(terminal.close)
        return terminal

    def test_text_for_scripts_has_what_is_known(self):
        done = self.mx.tool("pentop", "--once", "-d", "1", check=True)
        text = done.stdout
        self.assertRegex(text, r"(?m)^deferred +5 ")
        self.assertRegex(text, r"(?m)^hold +1 ")
        self.assertRegex(text, rf"(?m)^failing .* 127\.0\.0\.2\[127\.0\.0\.2\]:{self.closed}  connect to .*Connection "
                               "refused")
        self.assertIn(f"127.0.0.1[127.0.0.1]:{self.peer.port}", text)
        self.assertIn("sync", text)
        if os.geteuid() == 0:
            self.assertIn("refused 0.0/s", text)
        narrow = self.mx.tool("pentop", "--batch", "2", "-d", "1", "-w", "40", check=True).stdout
        self.assertEqual(narrow.count("penstock  "), 2)
        self.assertLessEqual(max(map(len, narrow.split("\n"))), 40)
        found = self.mx.tool("pentop", "--once", "-d", "1", "--filter", "REFUSED", check=True).stdout
        self.assertNotIn(f":{self.peer.port}", found)
        oldest = self.mx.tool("pentop", "--once", "-d", "1", "--messages", check=True).stdout
        for message in self.mx.queue():
            self.assertIn(message["queue_id"], oldest)

    @unittest.skipUnless(TMUX, "tmux is not installed")
    def test_keys_lead_to_one_destination_and_one_message_and_back(self):
        terminal = self.top(width=120, height=30)
        terminal.wait("WHY IT WAITS")
        terminal.wait(re.compile(r"deferred +5 "))
        terminal.press("f")
        terminal.wait("failures first")
        terminal.press("Home")
        terminal.press("Enter")
        screen = terminal.wait("failures in a row")
        self.assertIn(f"127.0.0.2[127.0.0.2]:{self.closed}", screen)
        self.assertIn("Connection refused", screen)
        terminal.press("Escape")
        terminal.wait("WHY IT WAITS")
        terminal.press("/")
        terminal.type("refused")
        terminal.press("Enter")
        self.assertNotIn(f"127.0.0.1[127.0.0.1]:{self.peer.port}", terminal.wait('with "refused"'))
        terminal.press("Escape")
        terminal.press("m")
        terminal.wait("6 oldest messages")
        held = next(m["queue_id"] for m in self.mx.queue() if m["queue_name"] == "hold")
        terminal.press("/")
        terminal.type("held.example")
        terminal.press("Enter")
        terminal.wait("1 oldest messages")
        terminal.press("Enter")
        screen = terminal.wait("The message is on hold.")
        self.assertIn(f"pensuper -H {held}", screen)
        terminal.press("q")
        terminal.wait("1 oldest messages")
        terminal.press("?")
        terminal.wait("slowest first")
        terminal.press("q")
        terminal.press("q")
        self.assertEqual(terminal.ended(), 0)

    @unittest.skipUnless(TMUX, "tmux is not installed")
    def test_it_fits_every_terminal_and_follows_its_size(self):
        terminal = self.top(width=40, height=12)
        self.assertRegex(terminal.wait("deferred 5"), "hold 1")
        terminal.resize(160, 40)
        terminal.wait("WHY IT WAITS")
        terminal.wait("LIMIT")
        terminal.resize(50, 16)
        def small():
            screen = terminal.screen()
            return "DESTINATION" in screen and "WHY IT WAITS" not in screen
        eventually(small, lambda: terminal.screen())

    @unittest.skipUnless(TMUX, "tmux is not installed")
    def test_colours_are_left_out_where_nobody_wants_them(self):
        coloured = re.compile(r"\x1b\[[0-9;]*3[123]m")
        with self.top(width=120, height=30) as terminal:
            terminal.wait("failing ")
            self.assertRegex(terminal.screen(colours=True), coloured)
        with Terminal([os.path.join(BIN, "pentop"), "-c", self.mx.etc], width=120, height=30,
                      environment={"NO_COLOR": "1"}) as terminal:
            terminal.wait("failing ")
            self.assertNotRegex(terminal.screen(colours=True), coloured)

    @unittest.skipUnless(TMUX, "tmux is not installed")
    def test_it_goes_on_without_a_queue_manager_and_with_the_next_one(self):
        with Instance(SETTINGS) as mx:
            terminal = Terminal([os.path.join(BIN, "pentop"), "-c", mx.etc, "-d", "1"], width=100, height=30)
            self.addCleanup(terminal.close)
            terminal.wait("destinations")
            mx.stop()
            terminal.wait("no answer:")
            mx.start()
            eventually(lambda: "no answer:" not in terminal.screen(), lambda: terminal.screen())
            terminal.press("q")
            self.assertEqual(terminal.ended(), 0)
            mx.stop()
            self.assertEqual(mx.tool("pentop", "--once", "-d", "1").returncode, 69)

    @unittest.skipUnless(TMUX, "tmux is not installed")
    def test_pentrace_shows_a_session_on_the_screen(self):
        terminal = Terminal([os.path.join(BIN, "pentrace"), "-c", self.mx.etc, "in", "--count", "1"], width=140,
                            height=40)
        self.addCleanup(terminal.close)
        terminal.wait("following")
        with Client(self.mx.port) as client:
            client.send("ada@a.example", ["u@good.example"], mail())
            client.quit()
        screen = terminal.wait("| disconnect from")
        for text in ("< EHLO client.example", "< RCPT TO:<u@good.example>", "> 221 2.0.0 Bye"):
            self.assertIn(text, screen)
        self.assertEqual(terminal.ended(), 0)

    def test_without_a_terminal_it_says_so(self):
        done = self.mx.tool("pentop")
        self.assertEqual(done.returncode, 64)
        self.assertIn("--once", done.stderr)


if __name__ == "__main__":
    unittest.main()
