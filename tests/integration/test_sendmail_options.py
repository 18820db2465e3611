"""sendmail's options that other programs use: each has the same effect as with Postfix."""
import os
import unittest
from unittest import mock

import test_submission
from harness import *


class Options(test_submission.Submission):
    def test_t_adds_the_recipients_of_the_header_to_those_of_the_command_line(self):
        with self.instance() as mx:
            self.sendmail(mx, "-t", "ada@virtual.test.example", "bob@virtual.test.example",
                          stdin="To: Bob <bob@virtual.test.example>\nCc: eve@virtual.test.example\n\nhello\n")
            for name in ("ada", "bob", "eve"):
                mx.virtual_box(name).wait(1)
            mx.wait_empty_queue()
            self.assertEqual([len(self.box(mx, name)) for name in ("ada", "bob", "eve")], [1, 1, 1])
            self.sendmail(mx, "-t", "ada@virtual.test.example", stdin="Subject: none in the header\n\nhello\n")
            mx.virtual_box("ada").wait(2)

    def test_a_message_that_is_resent_is_completed_with_fields_of_resending(self):
        with self.instance() as mx:
            self.sendmail(mx, "-t", "-f", "me@sender.example", "-F", "Me",
                          stdin="Resent-To: ada@virtual.test.example\nFrom: first@sender.example\nTo: me\n\nhello\n")
            mx.virtual_box("ada").wait(1)
            got = self.box(mx, "ada")[0]
            self.assertEqual((got["From"], got["Resent-From"]), ("first@sender.example", "Me <me@sender.example>"))
            self.assertTrue(got["Resent-Date"] and got["Resent-Message-ID"])
            self.assertEqual((got["Date"], got["Message-ID"]), (None, None))

    def test_full_name_encoding_charset(self):
        for charset, name in (("utf-8", b"=?utf-8?Q?J=C3=BCrgen_K=2E?="), ("", "\"Jürgen K.\"".encode())):
            with self.subTest(charset), self.instance() as mx:
                mx.set(full_name_encoding_charset=charset)
                mx.reload_whole()
                self.sendmail(mx, "-f", "me@sender.example", "-F", "Jürgen K.", "ada@virtual.test.example",
                              stdin="Subject: x\n\nhello\n")
                box = mx.virtual_box("ada")
                box.wait(1)
                self.assertIn(b"From: " + name + b" <me@sender.example>", box.messages()[0])

    def test_an_empty_full_name_is_none(self):
        with self.instance() as mx, mock.patch.dict(os.environ, NAME="The User"):
            for number, (words, of) in enumerate(((["-F", ""], b"me@sender.example"),
                                                  ([], b"The User <me@sender.example>"),
                                                  (["-F", "Me"], b"Me <me@sender.example>")), 1):
                self.sendmail(mx, "-f", "me@sender.example", *words, "ada@virtual.test.example",
                              stdin=f"Subject: {number}\n\nhello\n")
                box = mx.virtual_box("ada")
                box.wait(number)
                found = next(m for m in box.messages() if b"Subject: %d\n" % number in m)
                self.assertIn(b"\nFrom: " + of + b"\n", found)

    def test_options_that_mean_nothing_here_are_taken(self):
        accepted = (
            ["-oem"],
            ["-om"],
            ["-odb"],
            ["-o7"],
            ["-o8"],
            ["-h", "10"],
            ["-U"],
            ["-B", "8BITMIME"],
            ["-X", "log"],
            ["-A", "c"],
            ["-c"],
            ["-d0"],
            ["-e", "m"],
            ["-L", "tag"],
            ["-m"],
            ["-n"],
            ["-p", "local"],
            ["-x"],
            ["-bm"],
            ["-O", "DeliveryMode=b"],
            ["-G"],
            ["-oi", "-oee"],
        )
        with self.instance() as mx:
            for words in accepted:
                with self.subTest(words):
                    self.assertEqual(self.sendmail(mx, *words, "ada@virtual.test.example"), "")
            mx.virtual_box("ada").wait(len(accepted))
            for word in ("-bh", "-bH"):
                self.assertEqual(self.sendmail(mx, word), "")

    def test_bd_starts_the_mail_system(self):
        with self.instance(start=False) as mx:
            for words, said in (
                (["-bd", "-q15m"], ""),
                (["-q15m", "-bd"], ""),
                (["-bd", "-q"], "warning: -q"),
                (["-q", "-bl"], "warning: -q"),
            ):
                with self.subTest(words):
                    self.assertIn(said, self.sendmail(mx, *words))
                    eventually(lambda: answers(mx.port), "it serves")
                    mx.tool("penstock", "stop", check=True)

    def test_a_time_for_the_queue_alone_is_taken_and_does_nothing(self):
        with self.instance(start=False) as mx:
            self.assertEqual(self.sendmail(mx, "-q30m"), "")
            self.assertFalse(answers(mx.port))

    def test_q_tries_what_is_deferred_and_qI_one_message(self):
        with Peer() as peer:
            peer.replies["RCPT"] = "450 4.2.1 later"
            with self.instance({**relay_to(peer), "minimal_backoff_time": "1h", "maximal_backoff_time": "1h"}) as mx:
                for name in ("a", "b", "c"):
                    self.sendmail(mx, f"{name}@rcpt.example")
                eventually(lambda: [e["queue_name"] for e in mx.queue()] == ["deferred"] * 3, "all are deferred")
                peer.replies.clear()
                one, = (e["queue_id"] for e in mx.queue() if e["recipients"][0]["address"] == "b@rcpt.example")
                self.sendmail(mx, f"-qI{one}")
                self.assertEqual(peer.wait_messages(1)[0].recipients, ["b@rcpt.example"])
                eventually(lambda: one not in {e["queue_id"] for e in mx.queue()}, "it has left the queue")
                self.assertEqual([e["queue_name"] for e in mx.queue()], ["deferred"] * 2)
                self.sendmail(mx, "-q")
                mx.wait_empty_queue()
                self.assertEqual(
                    sorted(m.recipients[0] for m in peer.messages),
                    ["a@rcpt.example", "b@rcpt.example", "c@rcpt.example"],
                )

    def test_options_that_do_not_go_together_are_refused(self):
        to = "ada@virtual.test.example"
        with self.instance(start=False) as mx:
            mx.tool("penstock", "start", check=True)
            mx.stop()
            for words, said in (
                *((["-t", mode], "-t") for mode in ("-bs", "-bp", "-bd", "-bi", "-q", "-qIx", "-q30m")),
                *((["-bv", *option, to], option[0]) for option in (["-N", "never"], ["-R", "full"], ["-v"], ["-t"])),
                *((["-q", option], option[:3]) for option in ("-qIx", "-qRx.example")),
                *(
                    ([option, to], "recipients")
                    for option in ("-q", "-q30m", "-qIx", "-qRx.example", "-bp", "-bi", "-bd")
                ),
            ):
                with self.subTest(words):
                    self.assertIn(said, self.sendmail(mx, *words, status=os.EX_USAGE))
            self.assertFalse(answers(mx.port))
            self.assertEqual(self.names(mx), [])

    def test_G_leaves_the_header_as_it_is(self):
        text = "From: someone\nTo: undisclosed\n\nhello\n"
        with self.instance({"canonical_maps": "inline:{ someone@mx.test.example=else@where.example }"}) as mx:
            self.sendmail(mx, "-G", "-f", "other@where.example", "ada@virtual.test.example", stdin=text)
            self.sendmail(mx, "-f", "other@where.example", "bob@virtual.test.example", stdin=text)
            for name in ("ada", "bob"):
                mx.virtual_box(name).wait(1)
            gateway, local = self.box(mx, "ada")[0], self.box(mx, "bob")[0]
            self.assertEqual((gateway["From"], gateway["Date"], gateway["Message-ID"]), ("someone", None, None))
            self.assertEqual(local["From"], "else@where.example")
            self.assertTrue(local["Date"] and local["Message-ID"])

    def test_O_requiretls_asks_every_host_on_the_way_for_it(self):
        with Peer() as peer, self.instance({**relay_to(peer), "smtp_requiretls_policy": "enforce"}) as mx:
            self.sendmail(mx, "-O", "requiretls=no", "one@rcpt.example")
            peer.wait_messages(1)
            self.sendmail(mx, "-O", "RequireTLS=yes", "-f", "ada@virtual.test.example", "two@rcpt.example")
            mx.virtual_box("ada").wait(1)
            self.assertIn("REQUIRETLS", self.box(mx, "ada")[0].as_string())
            self.assertEqual(len(peer.messages), 1)
            mx.set(requiretls_enable="no")
            self.assertIn("requiretls_enable", self.sendmail(mx, "-O", "requiretls=yes", "three@rcpt.example"))

    def test_O_smtputf8_declares_the_message_so(self):
        with self.instance() as mx:
            mx.stop()
            self.sendmail(mx, "-O", "smtputf8=yes", "ada@virtual.test.example")
            declared, = self.names(mx)
            self.assertIn("smtputf8=yes", mx.tool("pencat", "-e", declared, check=True).stdout)
            self.sendmail(mx, "-O", "smtputf8=no", "ada@virtual.test.example")
            other, = set(self.names(mx)) - {declared}
            self.assertNotIn("smtputf8", mx.tool("pencat", "-e", other, check=True).stdout)
            mx.set(smtputf8_enable="no")
            self.assertIn("smtputf8_enable", self.sendmail(mx, "-O", "smtputf8=yes", "ada@virtual.test.example"))


if __name__ == "__main__":
    unittest.main()
