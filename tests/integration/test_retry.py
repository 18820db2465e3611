"""What a peer defers is retried, and retried mail is neither lost nor doubled."""
from harness import *

SOON = {"minimal_backoff_time": "1s", "maximal_backoff_time": "4s", "queue_run_delay": "1s"}


class Retry(Suite):
    def settings(self, peer):
        settings = relay_to(peer)
        settings.update(SOON)
        return settings

    def test_a_4xx_to_one_recipient_delays_that_one_only(self):
        with Peer() as peer, Instance(self.settings(peer)) as mx:
            late = ["451 4.2.1 later"]
            peer.replies["RCPT"] = lambda s, line: late.pop() if "late@" in line and late else None
            send(mx.port, "ada@sender.example", ["late@rcpt.example", "now@rcpt.example"], mail())
            got = peer.wait_messages(2, seconds=60)
            self.assertEqual([m.recipients for m in got], [["now@rcpt.example"], ["late@rcpt.example"]])
            mx.wait_log(r"to=<late@rcpt\.example>, .*dsn=4\.2\.1, status=deferred \(host .* said: 451 4\.2\.1 later")
            mx.wait_empty_queue()

    def at_stage(self, stage, reply):
        with Peer() as peer, Instance(self.settings(peer)) as mx:
            peer.replies[stage] = [reply]
            content = mail(stage)
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], content)
            got = peer.wait_messages(1, seconds=60)
            mx.wait_empty_queue(60)
            self.assertIsNone(without_trace(got[0].content, content))
            # At most the attempt whose reply was lost may have arrived as well.
            self.assertLessEqual(len(peer.messages), 2 if reply is DROP and stage == "DOT" else 1)

    def test_a_421_or_a_drop_at_any_stage_loses_nothing(self):
        for stage in ("GREETING", "EHLO", "MAIL", "RCPT", "DATA", "DOT"):
            for reply in ("421 4.3.2 going down", DROP):
                if stage == "DATA":
                    continue  # CHUNKING has no such stage
                with self.subTest(stage=stage, reply="drop" if reply is DROP else reply):
                    self.at_stage(stage, reply)

    def test_a_peer_that_is_down_gets_its_mail_when_it_is_up(self):
        peer = Peer()
        settings = self.settings(peer)
        port = peer.port
        peer.close()
        with Instance(settings) as mx:
            for i in range(5):
                send(mx.port, "ada@sender.example", [f"u{i}@rcpt.example"], mail(str(i)))
            mx.wait_log("status=deferred")
            with Peer(port=port) as up:
                mx.flush()
                up.wait_messages(5, seconds=60)
                mx.wait_empty_queue(60)
                self.assertEqual(len(up.messages), 5)

    def test_a_message_too_old_comes_back(self):
        with Peer() as back:
            settings = relay_to(back, "sender.example")
            settings.update(SOON)
            settings["relay_domains"] += ", rcpt.example"
            settings["transport_maps"] = inline({"sender.example": f"smtp:[127.0.0.1]:{back.port}",
                                                 "rcpt.example": f"smtp:[127.0.0.1]:{free_port()}"})
            settings["maximal_queue_lifetime"] = "3s"
            with Instance(settings) as mx:
                send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
                report = back.wait_messages(1, seconds=60)[0]
                self.assertEqual(report.sender, "")
                self.assertIn(b"Final-Recipient: rfc822; a@rcpt.example\r\n", report.content)


if __name__ == "__main__":
    unittest.main()
