"""Other software around mailboxes, submission and the queue: Dovecot reads delivered mail, mutt and s-nail submit by
sendmail, and readers of `postqueue -j` find the same in `penqueue -j`."""
import email
import json
import os
import subprocess

import peers
from harness import *

BODIES = {
    "plain": b"hello\r\n",
    "empty": b"",
    "from": b"From here on\r\n\r\nFrom there\r\n>From where\r\n",
    "dots": b".\r\n..\r\n",
    "long": b"x" * 990 + b"\r\n" + "Gr\u00fc\u00dfe\r\n".encode(),
    "many": b"line\r\n" * 20000,
}


class Readers(Suite):
    def setUp(self):
        reason = peers.unavailable()
        if reason:
            self.skipTest(reason)

    def fetched(self, dovecot, user, location):
        """Returns subject -> text, with LF line ends, of each message that Dovecot finds."""
        done = dovecot.run(
            "/usr/bin/doveadm", "-f", "json", "-o", "mail_location=" + location, "fetch", "-u", user, "text", "ALL"
        )
        self.assertEqual(done.returncode, 0, done.stdout + dovecot.log())
        found = {}
        for one in json.loads(done.stdout[done.stdout.index("["):]):
            text = one["text"].replace("\r\n", "\n")
            subject = email.message_from_string(text)["Subject"]
            self.assertNotIn(subject, found)
            found[subject] = text
        return found

    def test_dovecot_reads_the_maildir_and_the_mbox_that_were_written(self):
        with peers.Dovecot(port=free_port()) as dovecot:
            settings = {
                "virtual_mailbox_base": dovecot.mail,
                "virtual_uid_maps": "static:5106",
                "virtual_gid_maps": "static:5106",
                "virtual_mailbox_maps": inline(
                    {"ada@virtual.test.example": "ada/", "ben@virtual.test.example": "ben.mbox"}
                ),
            }
            with Instance(settings) as mx:
                with Client(mx.port) as client:
                    for subject, body in BODIES.items():
                        client.send("ada@sender.example", ["ada@virtual.test.example", "ben@virtual.test.example"],
                                    mail(subject).split(b"\r\n\r\n")[0] + b"\r\n\r\n" + body, mail="BODY=8BITMIME")
                mx.wait_empty_queue()
            for user, location in (("ada", "maildir:/var/lib/vmail/ada"),
                                   ("ben", "mbox:/var/lib/vmail/ben-folders:INBOX=/var/lib/vmail/ben.mbox")):
                found = self.fetched(dovecot, user, location)
                self.assertEqual(sorted(found), sorted(BODIES))
                for subject, body in BODIES.items():
                    wanted = body.decode().replace("\r\n", "\n")
                    if user == "ben":  # as an mbox quotes
                        wanted = "".join(
                            ">" * line.startswith("From ") + line for line in wanted.splitlines(keepends=True)
                        )
                    header, _, text = found[subject].partition("\n\n")
                    self.assertEqual(text, wanted, (user, subject))
                    self.assertIn("Return-Path: <ada@sender.example>", header)
                    self.assertIn(f"Delivered-To: {user}@virtual.test.example", header)

    def submit_by(self, program, words, wanted):
        """Runs a mail program of another system, with an instance's sendmail command."""
        root = os.path.join(peers.ROOTS, "readers")
        subprocess.run([os.path.join(TOP, "scripts", "unpack-peer"), root, *peers.PACKAGES["readers"]], check=True)
        with Instance(
            {"virtual_mailbox_maps": inline({"ada@virtual.test.example": "ada/", "ben@virtual.test.example": "ben/"})}
        ) as mx:
            command = mx.write(
                "sendmail",
                "#!/bin/sh\nunset LD_LIBRARY_PATH\n" f'exec {os.path.join(BIN, "sendmail")} -C {mx.etc} "$@"\n',
            )
            os.chmod(command, 0o755)
            extra = mx.write("note.txt", "From the file\n")
            home = os.path.join(mx.dir, "home")
            os.makedirs(home)
            libraries = [
                os.path.join(root, "usr/lib", d)
                for d in sorted(os.listdir(os.path.join(root, "usr/lib")))
                if d.endswith("-linux-gnu")
            ]
            done = subprocess.run(
                [os.path.join(root, "usr/bin", program), *[w.format(sendmail=command, file=extra) for w in words]],
                input="line one\n.\nFrom me\n",
                text=True,
                capture_output=True,
                timeout=60,
                cwd=home,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": home,
                    "USER": "root",
                    "LC_ALL": "C.UTF-8",
                    "EMAIL": "me@sender.example",
                    "TERM": "dumb",
                    "LD_LIBRARY_PATH": ":".join(libraries),
                },
            )
            self.assertEqual(done.returncode, 0, done)
            for name in ("ada", "ben"):
                mx.virtual_box(name).wait(1)
            mx.wait_empty_queue()
            message = email.message_from_bytes(mx.virtual_box("ada").messages()[0])
            self.assertEqual(message["Subject"], "a word")
            self.assertIn("ada@virtual.test.example", message["To"])
            self.assertIn("ben@virtual.test.example", message["Cc"])
            self.assertIsNone(message["Bcc"])
            wanted(message)

    def test_mutt_sends_a_message_with_a_file_through_sendmail(self):
        def wanted(message):
            text, file = message.get_payload()
            self.assertEqual(text.get_payload().replace("\r\n", "\n"), "line one\n.\nFrom me\n")
            self.assertEqual(file.get_filename(), "note.txt")
            self.assertIn("From the file", file.get_payload(decode=True).decode())

        self.submit_by(
            "mutt",
            [
                "-n",
                "-F",
                "/dev/null",
                "-e",
                'set sendmail="{sendmail} -oem -oi"',
                "-e",
                "set copy=no",
                "-s",
                "a word",
                "-c",
                "ben@virtual.test.example",
                "-a",
                "{file}",
                "--",
                "ada@virtual.test.example",
            ],
            wanted,
        )

    def test_mailx_sends_a_message_through_sendmail(self):
        def wanted(message):
            self.assertEqual(message.get_payload(decode=True).decode().replace("\r\n", "\n"), "line one\n.\nFrom me\n")

        self.submit_by(
            "s-nail",
            [
                "-:/",
                "-S",
                "v15-compat",
                "-S",
                "mta=file://{sendmail}",
                "-S",
                "sendwait",
                "-s",
                "a word",
                "-c",
                "ben@virtual.test.example",
                "ada@virtual.test.example",
            ],
            wanted,
        )

    def test_tinycdb_and_penmap_read_what_the_other_has_made(self):
        root = os.path.join(peers.ROOTS, "tinycdb")
        subprocess.run([os.path.join(TOP, "scripts", "unpack-peer"), root, "tinycdb"], check=True)
        libraries = ":".join(os.path.join(root, "usr/lib", d) for d in os.listdir(os.path.join(root, "usr/lib")))

        def cdb(*words, text=""):
            return subprocess.run(
                [os.path.join(root, "usr/bin/cdb"), *words],
                input=text,
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
                env={"LD_LIBRARY_PATH": libraries},
            ).stdout

        with Peer() as peer, Instance({"relay_domains": "rcpt.example"}, start=False) as mx:
            pairs = {f"key{i}.example": f"smtp:[127.0.0.1]:{i}" for i in range(500)}
            table = mx.write("ours", "".join(f"{k} {v}\n" for k, v in pairs.items()))
            mx.tool("penmap", "cdb:" + table, check=True)
            self.assertEqual(
                dict(line.split(" ", 1) for line in cdb("-d", "-m", table + ".cdb").splitlines() if line), pairs
            )
            self.assertEqual(cdb("-q", table + ".cdb", "key7.example"), pairs["key7.example"])
            theirs = mx.write("theirs", "")
            cdb(
                "-c", "-m", theirs + ".cdb", text=f"rcpt.example smtp:[127.0.0.1]:{peer.port}\nother.example discard:\n"
            )
            self.assertEqual(mx.tool("penmap", "-q", "other.example", "cdb:" + theirs, check=True).stdout, "discard:\n")
            self.assertEqual(mx.tool("penmap", "-s", "cdb:" + theirs, check=True).stdout,
                             f"rcpt.example\tsmtp:[127.0.0.1]:{peer.port}\nother.example\tdiscard:\n")
            mx.set(transport_maps="cdb:" + theirs)
            mx.start()
            send(mx.port, "ada@sender.example", ["a@rcpt.example"], mail())
            peer.wait_messages(1)

    def shape(self, entry):
        """Returns the fields of an entry in order, with the types of their values."""
        return [(name, [[(n, type(v)) for n, v in r.items()] for r in value] if name == "recipients" else type(value))
                for name, value in entry.items()]

    def test_the_queue_as_json_has_the_fields_of_postqueue(self):
        closed = free_port()
        listed = {}
        with peers.Postfix(port=free_port(), relay_port=closed) as postfix:
            send(postfix.port, "ada@sender.example", ["ben@there.example"], mail("x"))
            eventually(lambda: "delay_reason" in postfix.run("/usr/sbin/postqueue", "-j").stdout,
                       lambda: "Postfix has deferred it\n" + postfix.log())
            listed["postqueue"] = json.loads(postfix.run("/usr/sbin/postqueue", "-j").stdout.strip())
        with Instance({"relay_domains": "there.example", "minimal_backoff_time": "1h", "maximal_backoff_time": "1h",
                       "transport_maps": inline({"there.example": f"smtp:[127.0.0.1]:{closed}"})}) as mx:
            send(mx.port, "ada@sender.example", ["ben@there.example"], mail("x"))
            mx.wait_log("status=deferred")
            eventually(lambda: "delay_reason" in mx.tool("penqueue", "-j").stdout, "it is deferred")
            listed["penqueue"] = json.loads(mx.tool("penqueue", "-j").stdout.strip())
        # postqueue has this since Postfix 3.11; an older one may lack it, but nothing else may be missing.
        for recipient, theirs in zip(listed["penqueue"]["recipients"], listed["postqueue"]["recipients"]):
            for name in ("orig_address", "bounce_reason"):
                if name not in theirs:
                    recipient.pop(name, None)
        self.assertEqual(self.shape(listed["penqueue"]), self.shape(listed["postqueue"]))
        for name in ("queue_name", "sender", "forced_expire"):
            self.assertEqual(listed["penqueue"][name], listed["postqueue"][name])
        for one in listed.values():
            self.assertIn("refused", one["recipients"][0]["delay_reason"])


if __name__ == "__main__":
    unittest.main()
