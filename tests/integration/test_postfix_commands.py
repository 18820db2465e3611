"""Commands of Postfix by their own names, for software that calls them; compared with Debian's where it has them."""
import fcntl
import os
import re
import shlex
import shutil
import ssl
import subprocess

import peers
from harness import *

LINKS = {"postconf": "penconf", "postcat": "pencat", "postlock": "penlock", "postkick": "penkick",
         "postdrop": "pendrop", "postfix": "penstock", "postqueue": "penqueue", "postmap": "penmap",
         "postalias": "penalias", "postsuper": "pensuper", "postmulti": "penstock", "postlog": "penlog",
         "sendmail": "sendmail", "mailq": "mailq", "newaliases": "newaliases"}
TEMPLATES = """# for tests
failure_template = <<END
Charset: us-ascii
From: MAILER-DAEMON (Mail)
Subject: It did not work
Postmaster-Subject: A copy

This is $myhostname ($mail_name), after ${delay_warning_time_hours} h; $$5.
It is tried for $maximal_queue_lifetime_days d.
END

delay_template = <<EOF
Subject: later

$myhostname
EOF
"""


class Named(Suite):
    """An instance, and its commands under the names of Postfix."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.links = cls.folder()
        for name, own in LINKS.items():
            os.symlink(os.path.join(BIN, own), os.path.join(cls.links, name))
        cls.mx = Instance()
        cls.addClassCleanup(cls.mx.close)

    def run_it(self, name, *words, stdin=None, text=True, timeout=60, **more):
        return subprocess.run([os.path.join(self.links, name), *words], capture_output=True, text=text, input=stdin,
                              timeout=timeout, env={**os.environ, "MAIL_CONFIG": self.mx.etc}, **more)

    def ok(self, name, *words, **more):
        done = self.run_it(name, *words, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def texts(self, output):
        """{"failure": text} of what -b and -t print."""
        found = re.findall(r"(?m)^(?:expanded_)?(\w+)_(?:template|text) = <<(\w+)\n((?:.*\n)*?)\2\n", output)
        return {name: text for name, _, text in found}


class Commands(Named):
    def test_postconf_shows_the_texts_of_notices(self):
        path = self.mx.write("templates", TEMPLATES)
        shown = self.texts(self.ok("postconf", "-b", path))
        self.assertEqual(list(shown), ["failure", "delay", "success", "verify"])
        self.assertEqual(shown["failure"], "This is mx.test.example (Penstock), after 0 h; $5.\nIt is tried for 5 d.\n")
        self.assertEqual(shown["delay"], "mx.test.example\n")
        written = self.ok("postconf", "-t", path)
        self.assertIn("Subject: It did not work\nPostmaster-Subject: A copy\n\nThis is $myhostname ", written)
        with self.subTest("what -t prints is a template file"):
            again = self.mx.write("again", written)
            self.assertEqual(self.ok("postconf", "-t", again), written)
            self.assertEqual(self.texts(self.ok("postconf", "-b", again)), shown)
        with self.subTest("built-in ones, and those of main.cf"):
            builtin = self.texts(self.ok("postconf", "-b"))
            self.assertIn("mx.test.example", builtin["verify"])
            self.assertNotIn("$", builtin["delay"])
            self.mx.set(bounce_template_file=path)
            self.assertEqual(self.texts(self.ok("postconf", "-b")), shown)
            self.mx.set(bounce_template_file="")
        with self.subTest("mistakes"):
            wrong = self.mx.write("wrong", "failure_template = <<EOF\nSubject: x\n\n$nonsense_name\nEOF\n")
            for words, status, said in ((("-b", wrong), 1, "nonsense_name"), (("-t", wrong), 0, ""),
                                        (("-b", path + "-missing"), 1, "No such file"),
                                        (("-t", self.mx.write("worse", "bad\n")), 1, "line 1"),
                                        (("-b", "-t"), 1, "only one of"), (("-b", "-n"), 1, "go alone")):
                done = self.run_it("postconf", *words)
                self.assertEqual((words, done.returncode), (words, status), done.stderr)
                self.assertIn(said, done.stderr)

    def test_postconf_tells_of_the_tls_library(self):
        for mode in ("compile-version", "run-version"):
            self.assertRegex(self.ok("postconf", "-T", mode), r"^OpenSSL 3\.\d+\.\d+ .*\n$")
        self.assertLessEqual({"ecdsa", "rsa"}, set(self.ok("postconf", "-T", "public-key-algorithms").split()))
        self.assertEqual(self.run_it("postconf", "-T", "nonsense").returncode, 1)

    def test_postlock_runs_a_command_under_the_locks(self):
        box = os.path.join(self.folder(), "box")
        out = self.ok("postlock", box, "sh", "-c", 'ls "$0.lock"; echo "$@"', box, "-l", "two words")
        self.assertEqual(out, f"{box}.lock\n-l two words\n")
        self.assertTrue(os.path.exists(box))
        self.assertFalse(os.path.exists(box + ".lock"))
        with self.subTest("the command's own status"):
            self.assertEqual(self.run_it("postlock", box, "sh", "-c", "exit 7").returncode, 7)
            self.assertEqual(self.run_it("postlock", box, "/nonexistent/command").returncode, 1)
            self.assertEqual(self.run_it("postlock", box, "sh", "-c", "kill -9 $$").returncode, 1)
            self.assertEqual(self.run_it("postlock", box, "sh", "-c", "exit 65").returncode, 65)
            self.assertFalse(os.path.exists(box + ".lock"))
        with self.subTest("no lock, no command"):
            self.mx.set(deliver_lock_attempts="1")
            with open(box, "r+") as held:
                fcntl.lockf(held, fcntl.LOCK_EX)
                done = self.run_it("postlock", "-l", "fcntl", box, "echo", "it runs")
                self.assertEqual((done.returncode, done.stdout), (75, ""))
                self.assertIn("unable to lock for exclusive access", done.stderr)
                self.assertEqual(self.ok("postlock", "-l", "dotlock", box, "echo", "it runs"), "it runs\n")
            open(box + ".lock", "w").close()
            done = self.run_it("postlock", box, "echo", "it runs")
            self.assertEqual((done.returncode, done.stdout), (75, ""))
            self.assertEqual(self.ok("postlock", "-l", "flock,fcntl", box, "echo", "it runs"), "it runs\n")
            os.remove(box + ".lock")
        with self.subTest("what ends postlock ends the command, and not the lock before it"):
            process = subprocess.Popen([os.path.join(self.links, "postlock"), "-c", self.mx.etc, box, "sh", "-c",
                                        "trap 'echo ended; exit 3' TERM; echo begun; while :; do sleep 0.1; done"],
                                       stdout=subprocess.PIPE, text=True)
            self.assertEqual(process.stdout.readline(), "begun\n")
            process.terminate()
            self.assertEqual((process.stdout.read(), process.wait(timeout=60)), ("ended\n", 3))
            process.stdout.close()
            self.assertFalse(os.path.exists(box + ".lock"))
        with self.subTest("wrong words"):
            for words in ((), (box,), ("-l", "nonsense", box, "true"), ("-x", box, "true"),
                          (os.path.join(box, "below"), "true"), (self.links, "true")):
                self.assertEqual((words, self.run_it("postlock", *words).returncode), (words, 75))
            link = box + "-link"
            os.symlink(box, link)
            self.assertEqual(self.run_it("postlock", link, "true").returncode, 75)

    def test_postkick_wakes_services(self):
        peer = self.enterContext(Peer())
        peer.replies["RCPT"] = lambda session, line: "450 4.2.0 later"
        self.mx.set(default_transport=f"smtp:[127.0.0.1]:{peer.port}", minimal_backoff_time="4000s")
        self.mx.reload_whole()
        send(self.mx.port, "a@local.test.example", ["b@far.example"], mail("waits"))
        eventually(lambda: [m["queue_name"] for m in self.mx.queue()] == ["deferred"], "a message that waits")
        del peer.replies["RCPT"]
        self.assertEqual(self.ok("postkick", "public", "qmgr", "I"), "")
        self.assertEqual(self.ok("postkick", "public", "qmgr", "FA"), "")
        self.mx.wait_empty_queue()
        self.ok("postkick", "public", "pickup", "W")
        with self.subTest("a service that sleeps is started"):
            self.mx.set_services({"kicked": "unix - - n - - error"})
            self.mx.reload_whole()
            serving = lambda: {s["service"]: s["state"] for s in self.mx.status()["services"]}["kicked/unix"]
            self.assertEqual(serving(), "asleep")
            self.ok("postkick", "private", "kicked", "W")
            eventually(lambda: serving() == "serving", lambda: f"it serves\n{self.mx.log()}")
        for words in (("public", "nosuch", "W"), ("weird", "qmgr", "W"), ("public", "qmgr"),
                      ("private", "../public/qmgr", "W")):
            self.assertEqual((words, self.run_it("postkick", *words).returncode), (words, 1))

    def test_postdrop_takes_what_sendmail_of_postfix_writes(self):
        record = lambda kind, data="": kind.encode() + bytes([len(data)]) + data.encode()
        long = "x" * 3000
        long_record = b"N" + bytes([(len(long) & 127) | 128, len(long) >> 7]) + long.encode()
        message = b"".join((record("A", "envelope_id=env1"), record("A", "ret_flags=2"),
                            record("A", "rewrite_context=local"), record("F", "Full Name"),
                            record("S", "ada@sender.example"), record("A", "notify_flags=4"),
                            record("R", "u@virtual.test.example"), record("M"), record("N", "Subject: dropped"),
                            record("N"), long_record, record("N", ".")))
        self.mx.set(virtual_mailbox_maps=inline({"u@virtual.test.example": "u/", "v@virtual.test.example": "v/"}))
        self.mx.reload_whole()
        out = self.ok("postdrop", "-r", stdin=message + record("X") + record("R", "v@virtual.test.example") +
                      record("E"), text=False)
        said = re.fullmatch(rb"protocol\0postdrop_protocol\0queue_id\0(\w+)\0\0status\x000\0reason\0\0\0", out)
        self.assertTrue(said, out)
        for name in "uv":
            content, = self.mx.virtual_box(name).wait()
            self.assertIn(b"Subject: dropped\n", content)
            self.assertTrue(content.endswith(f"\n\n{long}\n.\n".encode()), content[-100:])
            self.assertRegex(content, rb"(?m)^From: Full Name <ada@sender.example>$")
        self.mx.wait_log(rf"pickup\[\d+\]: {said[1].decode()}: uid=\d+ from=<ada@sender.example>")
        with self.subTest("nothing is left of what is not whole, not for users, or too large"):
            for bad in (b"garbage", b"", message, message + record("X"),
                        record("L", "smtp:[192.0.2.1]") + message + record("X") + record("E")):
                done = self.run_it("postdrop", "-r", stdin=bad, text=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertNotIn(b"status", done.stdout)
            self.mx.set(message_size_limit="2000")
            done = self.run_it("postdrop", stdin=message + record("X") + record("E"), text=False)
            self.assertEqual((done.returncode, done.stdout.split(b"\0\0", 1)[1]), (1, b"status\x004\0reason\0\0\0"))
            self.mx.set(message_size_limit="10240000")
            self.assertEqual(os.listdir(self.mx.path("spool", "maildrop")), [])

    def test_postfix_tls_and_non_bdb(self):
        tls = lambda *words: self.run_it("postfix", "tls", *words)
        self.assertEqual([tls("all-default-client").returncode, tls("all-default-server").returncode], [0, 0])
        self.assertIn("smtp_tls_security_level = may", self.ok("postfix", "tls", "enable-client"))
        self.assertEqual(self.ok("postconf", "-h", "smtp_tls_security_level", "smtp_tls_loglevel"), "may\n1\n")
        self.assertEqual([tls("all-default-client").returncode, tls("all-default-server").returncode], [1, 0])
        self.assertIn("nothing is changed", self.ok("postfix", "tls", "enable-client"))
        out = self.ok("postfix", "tls", "enable-server", "-a", "ecdsa", "mx.test.example", "mail.test.example")
        self.assertIn("smtpd_tls_security_level = may\n", out)
        certificate, key = self.ok("postconf", "-h", "smtpd_tls_cert_file", "smtpd_tls_key_file").split()
        self.assertEqual(os.stat(key).st_mode & 0o777, 0o600)
        before = os.listdir(self.mx.etc)
        self.assertIn("nothing is changed", self.ok("postfix", "tls", "enable-server"))
        self.assertEqual(os.listdir(self.mx.etc), before)
        self.mx.reload_whole()
        with self.subTest("clients that know the certificate are served"):
            context = ssl.create_default_context(cafile=certificate)
            with Client(self.mx.port) as client:
                client.expect("EHLO client.example", "250")
                client.expect("STARTTLS", "220")
                client.socket = context.wrap_socket(client.socket, server_hostname="mail.test.example")
                der = client.socket.getpeercert(True)
            with open(certificate) as text:
                self.assertEqual(ssl.PEM_cert_to_DER_cert(text.read()), der)
        with self.subTest("what DNS and authorities get"):
            said = self.ok("postfix", "tls", "output-server-tlsa", "-h", "other.example")
            self.assertRegex(said, rf"^; {re.escape(key)}\n_25\._tcp\.other\.example\. IN TLSA 3 1 1 [0-9a-f]{{64}}\n$")
            self.assertTrue(self.ok("postfix", "tls", "output-server-csr").startswith("-----BEGIN CERTIFICATE REQUEST"))
        with self.subTest("a new key, put to use"):
            new = re.findall(r"(?m)^    (/\S+)$", self.ok("postfix", "tls", "new-server-key"))
            self.assertEqual([os.path.basename(p)[:4] for p in new], ["cert", "key-"])
            self.assertEqual(self.ok("postconf", "-h", "smtpd_tls_cert_file"), certificate + "\n")
            self.assertEqual(tls("deploy-server-cert", new[0], key).returncode, 1)
            self.assertEqual(tls("deploy-server-cert", new[0], new[0] + "-missing").returncode, 1)
            self.ok("postfix", "tls", "deploy-server-cert", *new)
            self.assertEqual(self.ok("postconf", "-h", "smtpd_tls_cert_file", "smtpd_tls_key_file").split(), new)
            again, = re.findall(r"in use: (\S+)$", self.ok("postfix", "tls", "new-server-cert").splitlines()[0])
            self.ok("postfix", "tls", "deploy-server-cert", again, new[1])
        self.assertEqual([tls().returncode, tls("nonsense").returncode], [1, 1])
        with self.subTest("non-bdb"):
            self.assertIn("LMDB", self.ok("postfix", "non-bdb", "status"))
            for word in ("enable-redirect", "enable-reindex"):
                self.assertEqual(self.ok("postfix", "non-bdb", word), "")
            done = self.run_it("postfix", "non-bdb", "disable")
            self.assertEqual(done.returncode, 1)
            self.assertIn("penmap", done.stderr)
            self.assertEqual(self.run_it("postfix", "non-bdb").returncode, 1)


# What postconf is asked for and told to change; words with blanks between them, | in place of blanks within one.
EDITS = """
-M; -M submission/inet; -M */unix; -Mf; -Mf submission/inet; -Mx; -F; -F smtp/inet; -F */*/chroot; -Fx smtp/inet
-P; -P submission/inet; -P submission/inet/syslog_name; -Ph submission/inet; -FH smtp/inet; -Px
-Me new/unix=new|unix|-|-|n|-|-|smtp; -M new/unix=new|unix|-|-|n|-|-|pipe|-o|a=b|flags=F|user=u|argv=/a/long/command|x|y
-MX submission/inet; -MX nosuch/inet; -M# uucp/unix; -F smtp/inet/process_limit=5; -F smtp/inet/command=smtpd|-o|x=y
-F uucp/unix/chroot=y; -F smtp/inet/nosuch=1; -F nosuch/inet/chroot=y; -P smtp/inet/smtpd_banner=hello
-e mydestination=a,|b; mydestination=c; -# mydestination; -X mydestination; -X nosuch; -e newname=v; -e nonsense
-h mydestination; -hx mydestination; -x mydestination; -p myhostname; -o myhostname=o.example myhostname
-C service -n; -l; -d -n; -M -d; -e -X a=b
"""
EDITED = {"main.cf": """# first
compatibility_level = 3.6
myhostname = mx.example
# comment on mydestination
mydestination = $myhostname,
    localhost
smtpd_recipient_restrictions = permit_mynetworks,
  reject
""", "master.cf": """# services
smtp      inet  n       -       y       -       -       smtpd
submission inet n       -       y       -       -       smtpd
  -o syslog_name=postfix/submission
  -o smtpd_tls_security_level=encrypt
pickup    unix  n       -       y       60      1       pickup
smtp      unix  -       -       y       -       -       smtp
uucp      unix  -       n       n       -       -       pipe
  flags=Fqhu user=uucp argv=uux -r -n -z -a$sender - $nexthop!rmail ($recipient)
"""}

# Calls of the other commands, written in the same way; < gives standard input, with its \n. t, case and al are made
# into tables beforehand where they are asked, listed or changed. What ends in another way, on purpose: what is not
# there, is named twice or is no call (postqueue -i of no message, postmulti -i of no instance, postfix status x) is an
# error here; and sendmail, mailq and newaliases fail with a code of sysexits.h, where Postfix always has 75.
CALLS = r"""
postmap; postmap hash:t; postmap -q a hash:t; postmap -q zz hash:t; postmap -q - hash:t <a\nzz\nb
postmap -d a hash:t; postmap -d zz hash:t; postmap -d - hash:t <a\nzz; postmap nosuch:t; postmap hash:missing
postmap -q a hash:missing; postmap -q a nosuch:t; postmap -q a texthash:t; postmap texthash:t
postmap -d a texthash:t
postmap -q a static:x; postmap -q a inline:{a=b}; postmap -X; postmap -q; postmap -i hash:t <x y
postmap -in hash:t <x y
postmap -w hash:dup; postmap hash:dup; postmap -r hash:dup; postmap -q A hash:case
postmap -b -q - pcre:p <Subject: x\n\nbody
postmap -h -q - pcre:p <Subject: x\n\nbody; postmap -bm -q - pcre:p <x; postmap -h -q a pcre:p; postmap -b hash:t
postmap -q a -d b hash:t; postmap -q a -s hash:t; postmap -d a -s hash:t; postmap -N hash:t; postmap -n hash:t
postmap -p hash:t
postmap -o hash:t; postmap hash:t hash:dup; postmap -q a hash:t hash:dup; postmap -q key cidr:badcidr
postmap -q 1.2.3.4 cidr:c
postmap -u hash:t; postmap -U -q a hash:t; postmap t
postalias; postalias hash:al; postalias -q root hash:al; postalias -q ROOT hash:al; postalias -q zz hash:al
postalias -d root hash:al; postalias -d zz hash:al; postalias -w hash:al; postalias -X; postalias hash:missing
postalias -i hash:al <x: y; postalias -f hash:al; postalias -q - hash:al <root\nzz; postalias al
postqueue; postqueue -p; postqueue -j; postqueue -f; postqueue -i; postqueue -s; postqueue -p extra; postqueue -pf
postqueue -X
postqueue -c /nonexistent -p; postqueue -f -i ABC; postqueue -i BAD!; postqueue -s bad|site
mailq; mailq -v; mailq -q; mailq -i; mailq -Ac; mailq -OQueueDirectory=/x; mailq extra; mailq -X
sendmail -bp; sendmail -bp -v; sendmail -bp -q; sendmail -q -bp; sendmail -bp x@y.example
sendmail -bp -qRx.example; sendmail -t -bp; newaliases -bp; newaliases -q
postsuper; postsuper deferred; postsuper -d BAD!; postsuper -h 4A*; postsuper -d ABCDEF0 -d ABCDEF1
postsuper -d - -h - <ABCDEF0\n; postsuper -c /nonexistent; postsuper -c /nonexistent -d ALL; postsuper -S
postcat nosuch; postcat -q ABCDEF0; postcat -q BAD!; postcat -X; postcat -c /nonexistent -q ABCDEF0
postconf -X; postconf -e a; postconf -c /nonexistent; postconf -d -n; postconf -T nonsense; postconf -C nonsense
postconf -F smtp/inet/nosuch; postconf -b nosuch; postconf -t nosuch; postconf -Me x; postconf -MX a
postkick; postkick public qmgr; postkick public nosuch W; postkick weird qmgr W; postkick -c /nonexistent public qmgr W
postlock; postlock box; postlock box false; postlock box nosuchcommand; postlock -l nosuch box true; postlock -X
postlock /nonexistent/x true; postlock -c /nonexistent box true; postlock box sh -c exit|7; postlock box sh -c exit|65
postlock box sh -c kill|-9|$$
postdrop -X; postdrop -r <x; postdrop -c /nonexistent; postdrop <x
postsuper -s; postsuper -p; postsuper -d ABCDEF0; postsuper -d ALL; postsuper -d; postsuper -h ABCDEF0
postsuper -H ABCDEF0
postsuper -r ABCDEF0; postsuper -e ABCDEF0; postsuper -f ABCDEF0; postsuper -r ALL; postsuper -h ALL
postsuper -H ALL
postsuper -X; postsuper -d - <ABCDEF0\n; postsuper -d ALL deferred; postsuper -d ALL nosuchqueue; postsuper -sp
postmulti; postmulti -X; postmulti -x true; postmulti -x false; postmulti -x; postmulti -p; postmulti -e
postmulti -e nosuch
postmulti -e enable; postmulti -e enable -i nosuch; postmulti -l -p status; postmulti -e destroy -i -
postmulti -l extra
postmulti -x sh -c exit|7; postmulti -x nosuchcommand; postfix tls nosuch; postlog -p debug x
postfix; postfix nosuch; postfix -X; postfix start; postfix -c /nonexistent status; postfix tls
sendmail -bx; sendmail -q; sendmail -qI; sendmail -N bad; sendmail -R bad; sendmail -B 9BIT a@b.example <x
sendmail -B 8BITMIME a@b.example <x; sendmail -F Name x@y.example <x; sendmail -h 5 x@y.example <x
sendmail -O smtputf8=yes x@y.example <x; sendmail -oi -oem x@y.example <x; sendmail -A; sendmail -f
sendmail -i x@y.example <x; sendmail -L tag x@y.example <x; sendmail -U x@y.example <x; sendmail -G x@y.example <x
sendmail -m x@y.example <x; sendmail -r a@b.example x@y.example <x; sendmail -XVxx -f o@b.example a@b.example <x
newaliases -X; newaliases extra; postlog hello; postlog -p nosuch x; postlog -t tag x; postlog -i x; postlog -X
"""
TEXTS = {"t": "a 1\nb two words\n# c\nd 4\n", "dup": "a 1\na 2\n", "case": "A upper\na lower\n",
         "p": "/^Subject: x/ OK\n/body/ REJECT\n", "c": "1.2.3.0/24 ok\n", "badcidr": "1.2.3.4/24 ok\n",
         "al": "root: admin\nlist: a, b\n"}


@unittest.skipIf(peers.unavailable(), peers.unavailable())
class BesidePostfix(Named):
    """The same words for Debian's commands."""

    def test_postconf_shows_and_changes_both_files_alike(self):
        peer = peers.Postfix(free_port())
        self.addCleanup(peer.stop)
        calls = [[word.replace("|", " ") for word in call.split()] for call in re.split(r"[;\n]\s*", EDITS.strip())]
        script, own = "cd /etc\n", self.folder()
        for number, words in enumerate(calls):
            for name, text in EDITED.items():
                peer.write(f"etc/edited{number}/{name}", text)
            script += f"postconf -c /etc/edited{number} {shlex.join(words)} >edited{number}/said 2>/dev/null; " + (
                f"echo $? >edited{number}/status\n")
        peer.run("/bin/sh", "-c", "PATH=/usr/sbin:$PATH\n" + script)
        for number, words in enumerate(calls):
            with self.subTest(words):
                theirs = {name: peer.read(f"etc/edited{number}/{name}") for name in ("said", "status", *EDITED)}
                for name, text in EDITED.items():
                    with open(os.path.join(own, name), "w") as out:
                        out.write(text)
                ours = subprocess.run([os.path.join(self.links, "postconf"), "-c", own, *words], capture_output=True,
                                      text=True, timeout=60)
                self.assertEqual((ours.returncode == 0, ours.stdout), (theirs["status"] == "0\n", theirs["said"]),
                                 ours.stderr)
                for name in EDITED:
                    with open(os.path.join(own, name)) as text:
                        self.assertEqual(text.read(), theirs[name])

    def test_the_other_commands_end_alike_and_print_the_same(self):
        calls = []
        for call in re.split(r"[;\n]\s*", CALLS.strip()):
            line, _, given = call.partition(" <")
            calls.append(([word.replace("|", " ") for word in line.split()], given.replace("\\n", "\n")))
        peer = peers.Postfix(free_port(), settings="mail_name = Penstock\n")
        self.addCleanup(peer.stop)
        peer.start()
        self.mx.set(myhostname="peer.example")
        script = "PATH=/usr/sbin:/usr/bin:/bin\n"
        own = self.folder()

        def before(words):
            if any(word[:2] in ("-q", "-s", "-d", "-i") for word in words) and words[0] in ("postmap", "postalias"):
                return [("postmap", "hash:t"), ("postmap", "hash:case"), ("postalias", "hash:al")]
            return []
        for number, (words, given) in enumerate(calls):
            os.mkdir(os.path.join(own, str(number)))
            for name, text in {**TEXTS, "in": given}.items():
                peer.write(f"etc/c{number}/{name}", text)
                with open(os.path.join(own, str(number), name), "w") as out:
                    out.write(text)
            made = "".join(f"{shlex.join(one)} >/dev/null 2>&1;" for one in before(words))
            script += f"(cd /etc/c{number}; {made} {shlex.join(words)} <in >out 2>err; echo $? >status) &\n"
            if number % 8 == 7:  # what fails there sleeps for a second
                script += "wait\n"
        peer.run("/bin/sh", "-c", script + "wait\n", timeout=240)
        for number, (words, given) in enumerate(calls):
            with self.subTest(words):
                where = os.path.join(own, str(number))
                for one in before(words):
                    self.run_it(*one, cwd=where)
                ours = self.run_it(*words, stdin=given, cwd=where)
                theirs = {name: peer.read(f"etc/c{number}/{name}") for name in ("status", "out", "err")}
                of_sendmail = words[0] in ("sendmail", "mailq", "newaliases")
                ends = lambda status: status != 0 if of_sendmail else status
                given_out = re.sub(r"(queue_id\0)\w+", r"\1ID", theirs["out"])
                self.assertEqual((ends(ours.returncode), re.sub(r"(queue_id\0)\w+", r"\1ID", ours.stdout)),
                                 (ends(int(theirs["status"])), given_out), (ours.stderr, theirs))

    def test_both_say_the_same(self):
        peer = peers.Postfix(free_port(), settings="mail_name = Penstock\n")
        self.addCleanup(peer.stop)
        peer.start()
        self.mx.set(myhostname="peer.example")

        def theirs(*words):
            done = peer.run(*words)
            return done.returncode, done.stdout
        path = self.mx.write("templates", TEMPLATES)
        peer.write("etc/postfix/templates", TEMPLATES)
        for option in ("-b", "-t"):
            with self.subTest(option):
                status, out = theirs("/usr/sbin/postconf", option, "/etc/postfix/templates")
                self.assertEqual(status, 0, out)
                own = self.texts(self.ok("postconf", option, path))
                self.assertEqual(list(own), list(self.texts(out)))
                self.assertEqual(own["failure"], self.texts(out)["failure"])  # the others are in words of their own
        for mode in ("public-key-algorithms",):
            self.assertLessEqual(set(theirs("/usr/sbin/postconf", "-T", mode)[1].split()),
                                 set(self.ok("postconf", "-T", mode).split()))
        box = os.path.join(self.folder(), "box")
        for words in (("BOX", "true"), ("BOX", "sh", "-c", "exit 7"), ("-l", "nosuch", "BOX", "true"), (),
                      ("/nonexistent/x", "true"), ("BOX", "/nonexistent"), ("-l", "dotlock", "BOX", "ls", "BOX.lock")):
            with self.subTest(f"postlock {words}"):
                at = lambda place: [w.replace("BOX", place) for w in words]
                status, out = theirs("/usr/sbin/postlock", *at("/tmp/box"))
                done = self.run_it("postlock", *at(box))
                self.assertEqual(done.returncode, status, out + done.stderr)
        with self.subTest("postdrop: their sendmail, our maildrop"):
            # Their sendmail runs this postdrop, which keeps what it is given and hands it to the real one.
            peer.write("etc/cmd/postdrop",
                       "#!/bin/sh\ntee /var/log/given | /usr/sbin/postdrop \"$@\" | tee /var/log/said\n")
            os.chmod(os.path.join(peer.dir, "etc/cmd/postdrop"), 0o755)
            os.symlink("/usr/sbin/postlog", os.path.join(peer.dir, "etc/cmd/postlog"))
            shutil.copytree(os.path.join(peer.dir, "etc/postfix"), os.path.join(peer.dir, "etc/other"), symlinks=True)
            with open(os.path.join(peer.dir, "etc/other/main.cf"), "a") as main:
                main.write("command_directory = /etc/cmd\n")
            with open(os.path.join(peer.dir, "etc/postfix/main.cf"), "a") as main:
                main.write("alternate_config_directories = /etc/other\n")
            self.mx.set(virtual_mailbox_maps=inline({"w@virtual.test.example": "w/"}))
            self.mx.reload_whole()
            for n, (words, headers) in enumerate(((("-f", "a@sender.example", "w@virtual.test.example"), ""),
                                                  (("-t", "-B", "8BITMIME"), "To: w@virtual.test.example\\n"))):
                text = f"{headers}Subject: by Debian {n}\\n\\nbody\\n"
                status, out = theirs("/bin/sh", "-c", f"printf '{text}' | /usr/sbin/sendmail -C /etc/other " +
                                     " ".join(words))
                self.assertEqual(status, 0, out)
                with open(os.path.join(peer.dir, "log/given"), "rb") as given:
                    out = self.ok("postdrop", "-r", stdin=given.read(), text=False)
                with open(os.path.join(peer.dir, "log/said"), "rb") as said:
                    without_id = lambda answer: re.sub(rb"queue_id\0\w+\0", b"queue_id\0ID\0", answer)
                    self.assertEqual(without_id(out), without_id(said.read()))
            found = self.mx.virtual_box("w").wait(2)
            self.assertEqual({m for content in found for m in re.findall(rb"Subject: by Debian \d", content)},
                             {b"Subject: by Debian 0", b"Subject: by Debian 1"})


if __name__ == "__main__":
    unittest.main()
