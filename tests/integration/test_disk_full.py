"""A full disk: new mail is put off with 452 4.3.1, nothing accepted is lost, and it goes on when there is room."""
import os
import subprocess
import tempfile

from harness import *


class DiskFull(Suite):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root: mounts a small tmpfs")
        self.where = tempfile.mkdtemp(prefix="pen-full-")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m,mode=755", "tmpfs", self.where],
                              capture_output=True, text=True)
        if done.returncode != 0:
            os.rmdir(self.where)
            self.skipTest("mount is not permitted here: " + done.stderr.strip())

    def tearDown(self):
        subprocess.run(["umount", "-l", self.where], check=False)
        os.rmdir(self.where)

    def test_new_mail_waits_and_old_mail_survives(self):
        with Peer() as peer:
            port = peer.port
            settings = relay_to(peer)
            peer.close()  # nothing leaves for now
            settings.update({"minimal_backoff_time": "1s", "maximal_backoff_time": "2s", "queue_run_delay": "1s"})
            with Instance(settings, directory=self.where) as mx:
                accepted, refusal = [], None
                body = "x" * 70 + "\r\n"
                for i in range(2000):
                    try:
                        send(mx.port, "ada@sender.example", [f"u{i}@rcpt.example"], mail(str(i), body * 1000))
                        accepted.append(f"u{i}@rcpt.example")
                    except Refused as e:
                        refusal = e.reply
                        break
                self.assertIsNotNone(refusal, "the disk never got full")
                self.assertRegex(refusal, r"^4\d\d 4\.3\.\d")
                self.assertGreater(len(accepted), 5)
                with Peer(port=port) as up:
                    mx.flush()
                    up.wait_messages(len(accepted), seconds=120)
                    self.assertEqual(sorted({m.recipients[0] for m in up.messages}), sorted(accepted))
                    mx.wait_empty_queue(60)
                    send_again = lambda: self.try_send(mx)
                    eventually(send_again, "mail is taken again", 60)

    def try_send(self, mx):
        try:
            return send(mx.port, "ada@sender.example", ["again@rcpt.example"], mail("again"))
        except Refused:
            return None


if __name__ == "__main__":
    unittest.main()
