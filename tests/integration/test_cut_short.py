"""A first try cut short by a stop, a reload or the death of a program, before the peer had anything, does not count:
the next start repeats it at once, long before a retry would be due (five minutes by default)."""
import threading

from harness import *


class CutShort(Suite):
    def cut(self, verb, interrupt, reply=None):
        """Sends a message, calls `interrupt(mx)` while the peer owes its reply to `verb`, then waits for delivery."""
        reached, go_on = threading.Event(), threading.Event()

        def slow(session, line):
            if session.number == 0:
                reached.set()
                go_on.wait(60)
            return reply if session.number == 0 else None

        # Without CHUNKING the peer has nothing of the message before it answers DATA.
        with Peer(["PIPELINING", "8BITMIME"]) as peer, Instance({**relay_to(peer), "stop_drain_time": "1s"}) as mx:
            peer.replies[verb] = slow
            try:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail(verb))
                self.assertTrue(reached.wait(30), "the peer is called")
                interrupt(mx)
            finally:
                go_on.set()
            peer.wait_messages(1)
            mx.wait_empty_queue()
            self.assertEqual(len(peer.messages), 1)
            self.assertNotIn("status=deferred", mx.log())

    @staticmethod
    def restart(mx):
        mx.stop()
        mx.start()

    def test_a_stop_before_the_greeting(self):
        self.cut("GREETING", self.restart)

    def test_a_stop_before_the_answer_to_ehlo(self):
        self.cut("EHLO", self.restart)

    def test_a_stop_before_the_answer_to_mail(self):
        self.cut("MAIL", self.restart)

    def test_a_reload_before_the_greeting(self):
        self.cut("GREETING", lambda mx: mx.reload())

    def test_the_death_of_the_queue_manager_before_the_greeting(self):
        self.cut("GREETING", lambda mx: mx.kill("qmgr"))

    def test_the_death_of_the_client_before_the_greeting(self):
        self.cut("GREETING", lambda mx: mx.kill("smtp"))


if __name__ == "__main__":
    unittest.main()
