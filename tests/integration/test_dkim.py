"""DKIM: what the running suite signs is verified by python3-dkim, by OpenDKIM and by pendkim; what those sign is
verified by pendkim."""
import email
import os
import re
import shutil
import subprocess
import time

import dkim_peers
import milter
from harness import *
from instance import mail_owner

FROM = "anna@sender.example"
HEADER = (f"From: Anna <{FROM}>\r\nTo: b@rcpt.example\r\nSubject: one\r\n"
          "Date: Sat, 21 Nov 2026 08:00:00 +0000\r\nMessage-ID: <1@sender.example>\r\n").encode()
FORMS = [(header, body) for header in ("simple", "relaxed") for body in ("simple", "relaxed")]


def message(body, extra=b""):
    return HEADER + extra + b"\r\n" + body


MESSAGES = {
    "plain": message(b"hello\r\n"),
    "no body": message(b""),
    "header alone": HEADER,
    "empty lines": message(b"\r\n\r\n"),
    "blank lines at the end": message(b"a \r\n\t\r\n b  c\r\n \r\n\r\n\r\n"),
    "dots": message(b".\r\n..\r\n.a\r\n...\r\n"),
    "8-bit": message("Gr\u00fc\u00dfe \U0001f600\r\n\xa0\r\n".encode() + b"\xff\xfe\r\n",
                     b"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
                     b"Content-Transfer-Encoding: 8bit\r\n"),
    "long folded fields": message(b"x\r\n", b"References:" + b"".join(b"\r\n\t<%d@x.example>" % i for i in range(300))
                                  + b"\r\nIn-Reply-To:\r\n  <1@x.example>  \r\n"),
    "fields twice and empty": message(b"x\r\n", b"Cc:\r\nReply-To: \r\nList-Id: \t a  <b>\r\nX-A: 1\r\n"),
    "a long line": message(b"x" * 5000 + b" \r\n"),
    "large": message(b"".join(b"line  %d \t of many\r\n" % i for i in range(60000))),
}


def body_of(content):
    """The decoded body of a message of one part."""
    return email.message_from_bytes(content).get_payload(decode=True)


def pendkim(*arguments, stdin=None):
    return subprocess.run([os.path.join(BIN, "pendkim"), *arguments], input=stdin, capture_output=True, timeout=120)


def record_of(zone):
    """Returns the name and the text of a zone line."""
    return re.match(r"\S+", zone)[0].rstrip("."), "".join(re.findall(r'"([^"]*)"', zone))


def generate(folder, domain, selector, *kind):
    """Makes a key; returns its file, the name of its record, and the record."""
    made = pendkim("generate", "-d", domain, "-s", selector, "--dir", folder, *kind)
    if made.returncode != 0:
        raise AssertionError(made.stderr)
    file = os.path.join(folder, f"{domain}.{selector}.private")
    return file, *record_of(made.stdout.decode())


class Keys:
    """Keys of sender.example, with OpenDKIM's tables, for an instance to use."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, "keys")
        os.makedirs(self.folder)
        self.records = {}
        lines = []
        for selector, *kind in (("r1", "--rsa", "2048"), ("e1", "--ed25519")):
            file, name, text = generate(self.folder, "sender.example", selector, *kind)
            self.records[name] = text
            lines.append(f"{selector} sender.example:{selector}:{file}\n")
        self.table = self.write("key.table", "".join(lines) + "gone gone.example:g:/nowhere/gone.private\n")
        self.senders = self.write("signing.table", "*@sender.example r1,e1\n*@*.sender.example e1\n"
                                                   "*@gone.example gone\n")
        for name in os.listdir(self.folder):
            shutil.chown(os.path.join(self.folder, name), mail_owner())
        self.file = self.write("records", "".join(f"{n} {t}\n" for n, t in self.records.items()))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as out:
            out.write(text)
        return path

    def settings(self):
        return {"dkim_signing": "yes", "dkim_key_table": self.table, "dkim_signing_table": "refile:" + self.senders}

    def verify(self, content):
        """Returns pendkim's words, one for each signature."""
        done = pendkim("verify", "--key-file", self.file, stdin=content)
        words = [line.split()[0] for line in done.stdout.decode().splitlines()]
        assert (done.returncode == 0) == ("pass" in words), done
        return words


class Signing(Suite):
    """Mail through the running suite."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dkim_peers.unpack()
        cls.peer = Peer()
        cls.addClassCleanup(cls.peer.close)
        cls.keys = Keys(cls.folder())
        cls.instance = Instance({**relay_to(cls.peer), **cls.keys.settings(), "queue_inline_limit": "16k",
                                 "message_size_limit": "0", "smtpd_authorized_xclient_hosts": "127.0.0.1",
                                 "smtpd_authorized_xforward_hosts": "127.0.0.1", "smtpd_peername_lookup": "no",
                                 "notify_classes": "bounce", "bounce_notice_recipient": "p@rcpt.example",
                                 "myorigin": "sender.example"})
        cls.addClassCleanup(cls.instance.close)

    def setUp(self):
        self.peer.messages.clear()

    def sent(self, count=1):
        self.peer.wait_messages(count)
        return [m.content for m in self.peer.messages]

    def check(self, contents, signatures=2):
        for content, good in zip(contents, dkim_peers.python_verify(contents, self.keys.records), strict=True):
            self.assertEqual(good, [True] * signatures, content[:3000])
            self.assertEqual(self.keys.verify(content), ["pass"] * signatures)
            if len(content) < 100000:
                self.assertEqual(dkim_peers.opendkim_verify(content, self.keys.records, self.keys.folder),
                                 ["pass"] * signatures)

    def test_every_kind_of_content_verifies_everywhere(self):
        for via in ("DATA", "BDAT"):
            self.peer.messages.clear()
            with Client(self.instance.port) as client:  # one session
                for content in MESSAGES.values():
                    client.send(FROM, ["b@rcpt.example"], content, via=via, mail="BODY=8BITMIME")
                client.quit()
            contents = self.sent(len(MESSAGES))
            for content in contents:
                self.assertTrue(content.startswith(b"DKIM-Signature: v=1; a=rsa-sha256;"), content[:200])
                self.assertNotIn(b"l=", content[:content.index(b"Received:")].replace(b"relaxed", b""))
            self.check(contents)

    def test_a_mailboxs_line_on_top_keeps_no_mail_from_being_signed(self):
        for via in ("DATA", "BDAT"):
            self.peer.messages.clear()
            with Client(self.instance.port) as client:
                client.send(FROM, ["b@rcpt.example"], b"From anna@sender.example Sat\r\n" + MESSAGES["plain"], via=via)
            self.check(self.sent())

    def test_an_author_before_a_blank_and_a_colon_is_signed_for(self):
        send(self.instance.port, FROM, ["b@rcpt.example"], MESSAGES["plain"].replace(b"From:", b"From :", 1))
        (content,) = self.sent()  # python3-dkim does not find such a field
        self.assertEqual(self.keys.verify(content), ["pass"] * 2)

    def test_a_header_whose_author_comes_too_late_is_put_off(self):
        long = b"".join(b"X-%d: " % i + b"y" * 900 + b"\r\n" for i in range(1300)) + MESSAGES["plain"]
        with Client(self.instance.port) as client, self.assertRaises(Refused) as refused:
            client.send(FROM, ["b@rcpt.example"], long)
        self.assertTrue(refused.exception.reply.startswith("451 4.7.5"), refused.exception.reply)

    def test_a_message_that_is_changed_on_the_way_fails(self):
        send(self.instance.port, FROM, ["b@rcpt.example"], MESSAGES["plain"])
        (content,) = self.sent()
        for what, into in ((b"hello", b"hallo"), (b"Subject: one", b"Subject: two"),
                           (b"Subject: one", b"From: x@else.example\r\nSubject: one")):
            changed = content.replace(what, into)
            self.assertEqual(dkim_peers.python_verify([changed], self.keys.records), [[False, False]])
            self.assertEqual(self.keys.verify(changed), ["fail", "fail"])

    def test_the_from_field_chooses_the_keys(self):
        for address, words in (("x@sub.sender.example", ["pass"]), ("x@else.example", ["none"])):
            self.peer.messages.clear()
            send(self.instance.port, FROM, ["b@rcpt.example"], MESSAGES["plain"].replace(FROM.encode(),
                                                                                        address.encode()))
            self.assertEqual(self.keys.verify(self.sent()[0]), words)

    def test_mail_of_strangers_is_not_signed_and_that_of_users_is(self):
        for xclient, words in (("ADDR=192.0.2.1 NAME=a.example", ["none"]),
                               ("ADDR=192.0.2.1 NAME=a.example LOGIN=anna", ["pass", "pass"])):
            self.peer.messages.clear()
            self.instance.set(smtpd_relay_restrictions="permit")
            with Client(self.instance.port) as client:
                client.expect("XCLIENT " + xclient, "220")
                client.expect("EHLO a.example", "250")
                client.send(FROM, ["b@rcpt.example"], MESSAGES["plain"])
                client.quit()
            self.assertEqual(self.keys.verify(self.sent()[0]), words)

    def test_mail_from_a_filter_is_its_clients(self):
        for client_of, words in (("192.0.2.1", ["none"]), ("127.0.0.1", ["pass", "pass"])):
            self.peer.messages.clear()
            with Client(self.instance.port) as client:
                client.expect(f"XFORWARD NAME=a.example ADDR={client_of}", "250")
                client.send(FROM, ["b@rcpt.example"], MESSAGES["plain"])
                client.quit()
            self.assertEqual(self.keys.verify(self.sent()[0]), words)

    def test_mail_of_sendmail_is_signed_with_what_is_completed(self):
        done = subprocess.run([os.path.join(BIN, "sendmail"), "-C", self.instance.etc, "-i", "-f", FROM,
                               "b@rcpt.example"], input=b"Subject: x\n\nbody\n.x\n", capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        (content,) = self.sent()
        self.check([content])
        self.assertIn(b":Message-ID;", content[:content.index(b"Received:")])

    def test_notices_are_signed(self):
        self.peer.replies["RCPT"] = lambda session, line: "550 5.1.1 no" if "nobody" in line else None
        self.addCleanup(self.peer.replies.clear)
        send(self.instance.port, "c@rcpt.example", ["nobody@rcpt.example"], MESSAGES["plain"])
        notices = self.sent(2)  # the sender's and the postmaster's
        for content in notices:
            self.assertRegex(content, rb"\r\nFrom: [^\r]*@sender\.example")
        self.check(notices)

    def test_without_its_key_mail_waits_and_the_log_says_what_to_do(self):
        content = MESSAGES["plain"].replace(FROM.encode(), b"x@gone.example")
        with self.assertRaises(Refused) as refused:
            send(self.instance.port, FROM, ["b@rcpt.example"], content)
        self.assertTrue(refused.exception.reply.startswith("451 4.7.5"), refused.exception.reply)
        self.instance.wait_log(r"key\.table:3: dkim.*/nowhere/gone\.private.*mail_owner|"
                               r"/nowhere/gone\.private: cannot be read: .*mail_owner")


class OtherSettings(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dkim_peers.unpack()

    def sent_with(self, settings, content=MESSAGES["blank lines at the end"]):
        keys = Keys(self.folder())
        with Peer() as peer, Instance({**relay_to(peer), **keys.settings(), **settings(keys)}) as instance:
            send(instance.port, FROM, ["b@rcpt.example"], content)
            peer.wait_messages(1)
            return peer.messages[0].content, keys

    def test_every_setting_is_seen_in_the_signature(self):
        content, keys = self.sent_with(lambda _: {
            "dkim_canonicalization": "simple/simple", "dkim_sign_headers": "From, Subject, To",
            "dkim_oversign_headers": "Subject, Cc", "dkim_signature_ttl": "1h"})
        signature = re.sub(rb"\s", b"", content[:content.index(b"Received:")])
        self.assertIn(b"c=simple/simple;", signature)
        self.assertIn(b"h=From:Subject:Subject:To:Cc;", signature)
        begin, end = re.search(rb"t=(\d+);x=(\d+);", signature).groups()
        self.assertEqual(int(end) - int(begin), 3600)
        self.assertEqual(dkim_peers.python_verify([content], keys.records), [[True, True]])

    def test_trusted_hosts_can_be_others_than_mynetworks(self):
        content, keys = self.sent_with(lambda _: {"dkim_trusted_hosts": "192.0.2.0/24"})
        self.assertEqual(keys.verify(content), ["none"])

    def test_an_opendkim_conf_takes_the_place_of_the_settings(self):
        def conf(keys):
            hosts = keys.write("TrustedHosts", "::1\n127.0.0.1\nlocalhost\n")
            return {"dkim_key_table": "", "dkim_opendkim_conf": keys.write(
                "opendkim.conf", "Syslog yes\nMode sv\nCanonicalization relaxed/simple\nOversignHeaders From\n"
                f"KeyTable {keys.table}\nSigningTable refile:{keys.senders}\nInternalHosts {hosts}\n")}
        content, keys = self.sent_with(conf)
        self.assertIn(b"c=relaxed/simple;", content)
        self.assertEqual(keys.verify(content), ["pass", "pass"])

    def test_mail_for_a_content_filter_is_signed_when_it_comes_back(self):
        keys = Keys(self.folder())
        with Peer() as peer, Peer() as scan:
            settings = {**relay_to(peer), **keys.settings(), "content_filter": f"smtp:[127.0.0.1]:{scan.port}"}
            with Instance(settings) as instance:
                send(instance.port, FROM, ["b@rcpt.example"], MESSAGES["plain"])
                scan.wait_messages(1)
                self.assertEqual(keys.verify(scan.messages[0].content), ["none"])

    def test_what_filters_change_is_signed_and_they_see_no_signature(self):
        keys = Keys(self.folder())
        changes = [milter.change(1, "Subject", "two"), milter.add("X-Scanned", "yes"), milter.CONTINUE]
        for answers in ({"E": changes}, {}):
            with Peer() as peer, milter.Milter(answers) as filter:
                settings = {**relay_to(peer), **keys.settings(), "smtpd_milters": f"inet:127.0.0.1:{filter.port}"}
                with Instance(settings) as instance:
                    for content in (MESSAGES["plain"], MESSAGES["large"]):
                        send(instance.port, FROM, ["b@rcpt.example"], content)
                    peer.wait_messages(2)
                    contents = [m.content for m in peer.messages]
                    self.assertEqual([b"X-Scanned: yes" in c for c in contents], [bool(answers)] * 2)
                    self.assertEqual(dkim_peers.python_verify(contents, keys.records), [[True, True]] * 2)
                    self.assertNotIn("DKIM-Signature", repr(filter.events))

    def test_content_is_converted_to_7_bit_before_it_is_signed(self):
        keys = Keys(self.folder())
        with Peer(features=("PIPELINING",)) as peer:
            settings = {**relay_to(peer), **keys.settings(), "force_mime_input_conversion": "yes"}
            with Instance(settings) as instance:
                send(instance.port, FROM, ["b@rcpt.example"], MESSAGES["8-bit"], mail="BODY=8BITMIME")
                peer.wait_messages(1)
                content = peer.messages[0].content
                self.assertTrue(content.isascii())
                self.assertEqual(dkim_peers.python_verify([content], keys.records), [[True, True]])

    def test_8_bit_content_is_converted_before_it_is_signed_unless_hosts_get_it_as_it_is(self):
        """Without any other setting, whatever the next host takes."""
        keys = Keys(self.folder())
        large = message("Gr\u00fc\u00dfe\r\n".encode() * 60000, b"MIME-Version: 1.0\r\nContent-Type: text/plain; "
                        b"charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n")
        for output, ascii in (("no", True), ("yes", False)):
            for features in (("PIPELINING",), ("PIPELINING", "8BITMIME", "CHUNKING")):
                with self.subTest(output=output, features=features), Peer(features=features) as peer, Instance(
                    {**relay_to(peer), **keys.settings(), "disable_mime_output_conversion": output}
                ) as instance:
                    for content in (MESSAGES["8-bit"], large):
                        send(instance.port, FROM, ["b@rcpt.example"], content, mail="BODY=8BITMIME")
                    peer.wait_messages(2)
                    contents = sorted((m.content for m in peer.messages), key=len)  # they may overtake each other
                    self.assertEqual([c.isascii() for c in contents], [ascii] * 2)
                    self.assertEqual(dkim_peers.python_verify(contents, keys.records), [[True, True]] * 2)
                    for sent, content in zip((MESSAGES["8-bit"], large), contents, strict=True):
                        self.assertEqual(body_of(content).replace(b"\r\n", b"\n"),
                                         body_of(sent).replace(b"\r\n", b"\n"))

    def test_what_is_signed_elsewhere_is_not_converted(self):
        keys = Keys(self.folder())
        signed = message("--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
                         "Gr\u00fc\u00dfe\r\n--b--\r\n".encode(),
                         b"MIME-Version: 1.0\r\nContent-Type: multipart/signed; boundary=b\r\n")
        with Peer() as peer, Instance({**relay_to(peer), **keys.settings()}) as instance:
            send(instance.port, FROM, ["b@rcpt.example"], signed, mail="BODY=8BITMIME")
            peer.wait_messages(1)
            self.assertIn("Gr\u00fc\u00dfe".encode(), peer.messages[0].content)
            self.assertEqual(dkim_peers.python_verify([peer.messages[0].content], keys.records), [[True, True]])

    def test_long_lines_are_broken_before_they_are_signed(self):
        keys = Keys(self.folder())
        people = [b"user%03d@some.example" % n for n in range(120)]
        long = message(b"x" * 3000 + b"\r\n" + b"line\r\n" * 60000 + b"y" * 3000 + b"\r\n", b"References: " + b" ".join(
            b"<%d.some.long.message.id@ids.example>" % n for n in range(80)) + b"\r\n")
        long = long.replace(b"To: b@rcpt.example", b"To: " + b", ".join(people))
        short = long.replace(b"line\r\n" * 60000, b"line\r\n")
        for form in ("relaxed/relaxed", "simple/simple"):
            for features in (("PIPELINING",), ("PIPELINING", "8BITMIME", "CHUNKING"), ("CHUNKING",)):
                with self.subTest(form=form, features=features), Peer(features=features) as peer, Instance(
                    {**relay_to(peer), **keys.settings(), "dkim_canonicalization": form}
                ) as instance:
                    for content in (short, long):
                        send(instance.port, FROM, ["b@rcpt.example"], content)
                    peer.wait_messages(2)
                    contents = [m.content for m in peer.messages]
                    self.assertEqual(dkim_peers.python_verify(contents, keys.records), [[True, True]] * 2)
                    for content in contents:
                        self.assertEqual(keys.verify(content), ["pass"] * 2)
                        self.assertLessEqual(max(map(len, content.split(b"\r\n"))), 998)
                        header = content[:content.index(b"\r\n\r\n")].replace(b"\r\n", b"")
                        self.assertIn(b"To: " + b", ".join(people), header)
                    instance.wait_log(r"breaking line > 998 bytes with <CR><LF>SPACE before it is signed")


class OpenDkimConf(Suite):
    """The same opendkim.conf for OpenDKIM and for the suite: who is signed, by which key, over which fields."""

    # Clients: name, address.
    CLIENTS = (("mail.example.com", "192.168.0.7"), ("example.com", "10.0.0.1"), ("[192.168.1.1]", "192.168.1.1"),
               ("a.b.example.com", "10.0.0.2"), ("localhost", "127.0.0.1"), ("v6.example", "2001:db8::5"))
    HOSTS = ("*.example.com", "192.168.0.1/24", "192.168.0.0/24", ".example.com", "!192.168.1.0/24\n192.168.1.1",
             "192.168.*", "*", "MAIL.Example.COM\n2001:DB8::/32",
             "!mail.example.com\n.example.com", "192.168.0.0/255.255.255.0\n127.0.0.1", "")
    # Of an address in brackets in a plain file, OpenDKIM says now this and now that.
    KINDS = (("refile:", (*HOSTS, "[10.0.0.1]\n10.0.0.2/32")), ("file:", (*HOSTS, "10.0.0.2/32")))
    # What differs of the fields that are signed is the list by default.
    OPTIONS = ("Domain sender.example", "Domain *", "Domain *.example", "Domain refile:%d/domains",
               "Domain file:%d/domains", "Domain other.example, sender.example", "Domain EXAMPLE\nSubDomains yes",
               "Domain sender.example\nSignHeaders From,X-Foo,Keywords",
               "Domain sender.example\nSignHeaders *,+X-Foo,-Subject",
               "Domain sender.example\nSignHeaders file:%d/names",
               "Domain sender.example\nSignHeaders Subject,X-Foo,To\nOmitHeaders X-Foo",
               "Domain sender.example\nSignHeaders *\nOmitHeaders *,+Subject",
               "Domain sender.example\nSignHeaders *\nOversignHeaders From,List-Id",
               "Include %d/more", "Domain sender.example\nSenderHeaders Sender,From",
               "Domain other.example\nSenderHeaders Sender,From")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dkim_peers.unpack()
        cls.dir = cls.folder()
        cls.key, name, text = generate(cls.dir, "sender.example", "s")
        shutil.chown(cls.key, mail_owner())
        for name, text in (("domains", "*.example\n"), ("names", "X-Foo\nSubject\n"),
                           ("more", "Domain sender.example\n")):
            with open(os.path.join(cls.dir, name), "w") as file:
                file.write(text)

    def conf(self, options):
        path = os.path.join(self.dir, "opendkim.conf")
        with open(path, "w") as file:
            file.write(f"KeyFile {self.key}\nSelector s\nMode s\nRequireSafeKeys no\n" +
                       options.replace("%d", self.dir) + "\n")
        return path

    def ours(self, instance, peer, conf, content, client=None):
        """What the suite puts in front: the value of DKIM-Signature, unfolded; None: nothing."""
        peer.messages.clear()
        if client in (None, self.CLIENTS[0]):  # the others have the same conf
            instance.set(dkim_opendkim_conf=conf)
            instance.reload_whole()
        with Client(instance.port) as smtp:
            if client:
                smtp.expect(f"XCLIENT NAME={client[0] if not client[0].startswith('[') else '[UNAVAILABLE]'} ADDR="
                            f"{'IPV6:' if ':' in client[1] else ''}{client[1]}", "220")
                smtp.expect("EHLO a.example", "250")
            smtp.send(FROM, ["b@rcpt.example"], content)
            smtp.quit()
        peer.wait_messages(1)
        return dkim_peers.signature_of(peer.messages[0].content)

    def test_its_options_mean_the_same(self):
        content = message(b"x\r\n", b"X-Foo: 1\r\nKeywords: a\r\nReply-To: c@d.example\r\nSender: s@other.example\r\n")
        with Peer() as peer, Instance({**relay_to(peer)}) as instance:
            for options in self.OPTIONS:
                with self.subTest(options=options):
                    conf = self.conf(options)
                    theirs = dkim_peers.opendkim_signature(content, conf)
                    ours = self.ours(instance, peer, conf, content)
                    self.assertEqual(theirs is None, ours is None, (theirs, ours))
                    if theirs is None:
                        continue
                    for tag in ("d", "s", "a"):
                        self.assertEqual(ours[tag], theirs[tag], tag)
                    if "SignHeaders" in options:
                        self.assertEqual(sorted(ours["h"].lower().split(":")), sorted(theirs["h"].lower().split(":")))

    def test_its_hosts_are_the_same(self):
        with Peer() as peer, Instance({**relay_to(peer), "smtpd_authorized_xclient_hosts": "127.0.0.1"}) as instance:
            for kind, lists in self.KINDS:
                for hosts in lists:
                    with open(os.path.join(self.dir, "hosts"), "w") as file:
                        file.write(hosts + "\n")
                    conf = self.conf(f"Domain sender.example\nInternalHosts {kind}%d/hosts")
                    with dkim_peers.OpenDkim(conf, self.dir) as theirs:
                        for client in self.CLIENTS:
                            with self.subTest(kind=kind, hosts=hosts, client=client):
                                ours = self.ours(instance, peer, conf, MESSAGES["plain"], client)
                                self.assertEqual(ours is not None, theirs.signs(*client, FROM))

    def test_nothing_is_left_unsigned_in_silence(self):
        with open(os.path.join(self.dir, "hosts"), "w") as file:
            file.write("127.0.0.1\n192.168.0.1/24\n*.example.com\n")
        with open(os.path.join(self.dir, "ignored"), "w") as file:
            file.write("192.0.2.9\n")
        conf = self.conf("Domain sender.example\nInternalHosts refile:%d/hosts\nExternalIgnoreList %d/ignored\nOdd 1")
        with Peer() as peer, Instance({**relay_to(peer), "smtpd_authorized_xclient_hosts": "127.0.0.1",
                                       "dkim_opendkim_conf": conf}) as instance:
            for words in ("192.168.0.1/24.* matches no client: .*the network is 192.168.0.0/24",
                          r"\*.example.com.* matches no client", "Odd has no effect here"):
                instance.wait_log("warning: .*" + words)
            for address, author in (("192.0.2.9", FROM), ("192.0.2.1", FROM), ("192.0.2.1", FROM),
                                    ("127.0.0.1", "x@else.example")):
                with Client(instance.port) as smtp:
                    smtp.expect(f"XCLIENT NAME=c.example ADDR={address}", "220")
                    smtp.expect("EHLO a.example", "250")
                    smtp.send(FROM, ["b@rcpt.example"], MESSAGES["plain"].replace(FROM.encode(), author.encode()))
                    smtp.quit()
            instance.wait_log(r"external host c\.example\[192\.0\.2\.1\] sends mail as sender\.example")
            instance.wait_log(r"mail of else\.example is not signed: no table of DKIM keys names x@else\.example")
            self.assertEqual(len(re.findall("external host ", instance.log())), 1)
            self.assertEqual([dkim_peers.signature_of(m.content) for m in peer.wait_messages(4)], [None] * 4)
        conf = self.conf("Domain sender.example\nMode v")
        with Peer() as peer, Instance({**relay_to(peer), "dkim_opendkim_conf": conf}) as instance:
            instance.wait_log("warning: .*opendkim.conf: Mode is not to sign: no mail is signed")


class Tool(Suite):
    """pendkim beside the other implementations, without an instance's mail."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dkim_peers.unpack()
        cls.keys = Keys(cls.folder())
        cls.instance = Instance(cls.keys.settings(), start=False)
        cls.addClassCleanup(cls.instance.close)

    def key(self, selector):
        return os.path.join(self.keys.folder, f"sender.example.{selector}.private")

    def test_what_python3_dkim_and_opendkim_sign_verifies(self):
        for name, content in MESSAGES.items():
            if name == "header alone":
                continue  # no empty line: python3-dkim does not read it as a message
            for forms in FORMS:
                signed = dkim_peers.python_sign(content, self.key("r1"), "sender.example", "r1", forms=forms)
                self.assertEqual(self.keys.verify(signed), ["pass"], (name, forms))
                signed = dkim_peers.opendkim_sign(
                    content, self.keys.folder, Domain="sender.example", Selector="r1", KeyFile=self.key("r1"),
                    Canonicalization="/".join(forms))
                # As a filter OpenDKIM does not see blanks around a value, and signs another text: python3-dkim says so.
                lost = name in ("long folded fields", "fields twice and empty") and forms[0] == "simple"
                self.assertEqual(self.keys.verify(signed), ["fail" if lost else "pass"], (name, forms))
                self.assertEqual(dkim_peers.python_verify([signed], self.keys.records), [[not lost]])

    def test_sign_writes_what_others_verify(self):
        for selector in ("r1", "e1"):
            for forms in FORMS:
                signed = []
                for content in MESSAGES.values():
                    done = pendkim("-c", self.instance.etc, "sign", "-d", "sender.example", "-s", selector, "--key",
                                   self.key(selector), "--canon", "/".join(forms), stdin=content)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertTrue(done.stdout.endswith(content))
                    signed.append(done.stdout)
                self.assertEqual(dkim_peers.python_verify(signed, self.keys.records), [[True]] * len(signed), forms)

    def test_sign_by_the_tables_of_the_instance_and_lines_with_lf_stay_so(self):
        done = pendkim("-c", self.instance.etc, "sign", stdin=MESSAGES["plain"].replace(b"\r\n", b"\n"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(b"\r", done.stdout)
        self.assertEqual(self.keys.verify(done.stdout), ["pass", "pass"])
        done = pendkim("-c", self.instance.etc, "sign", stdin=b"From: x@else.example\n\nx\n")
        self.assertEqual((done.returncode, done.stdout), (67, b""))

    def test_verify_asks_dns_and_check_compares_the_keys_with_it(self):
        records = {(name, "TXT"): [[text[i:i + 255] for i in range(0, len(text), 255)]]
                   for name, text in self.keys.records.items()}
        with Dns(records) as dns:
            self.instance.set(dns_resolver_port=str(dns.port), dns_resolver_timeout="1s")
            signed = pendkim("-c", self.instance.etc, "sign", stdin=MESSAGES["plain"]).stdout
            done = pendkim("-c", self.instance.etc, "verify", stdin=signed)
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(done.stdout.count(b"pass header.d=sender.example"), 2)
            done = pendkim("-c", self.instance.etc, "check")
            self.assertEqual(done.returncode, 1)  # the key that is gone
            lines = done.stdout.decode().splitlines()
            self.assertEqual([line.rsplit(": ", 1)[1] for line in lines[:2]], ["ok", "ok"])
            self.assertIn("/nowhere/gone.private", lines[2])
            name = "r1._domainkey.sender.example"
            dns.records[(name, "TXT")] = [self.keys.records["e1._domainkey.sender.example"]]
            self.assertIn("r1 " + name + ": DNS has another key", self.check())
            del dns.records[(name, "TXT")]
            self.assertIn("r1 " + name + ": not in DNS", self.check())
            dns.trouble[name] = SERVFAIL
            self.assertIn("r1 " + name + ": DNS does not answer now", self.check())
            done = pendkim("-c", self.instance.etc, "verify", stdin=signed.replace(b"hello", b"hallo"))
            self.assertEqual(done.returncode, 75)
            self.assertIn(b"temperror", done.stdout)

    def check(self):
        return pendkim("-c", self.instance.etc, "check").stdout.decode()

    def test_generate_keeps_its_key_private_and_never_replaces_one(self):
        folder = self.folder()
        file, name, text = generate(folder, "new.example", "s", "--ed25519")
        self.assertEqual(os.stat(file).st_mode & 0o777, 0o600)
        self.assertEqual(name, "s._domainkey.new.example")
        self.assertTrue(text.startswith("v=DKIM1; k=ed25519; p="))
        shown = pendkim("dns", "-d", "new.example", "-s", "s", "--key", file).stdout.decode()
        self.assertEqual(record_of(shown), (name, text))
        with open(os.path.join(folder, "new.example.s.txt")) as kept:
            self.assertEqual(kept.read(), shown)
        self.assertEqual(pendkim("generate", "-d", "new.example", "-s", "s", "--dir", folder).returncode, 73)

    def test_wrong_words_are_told(self):
        for arguments in ((), ("nothing",), ("generate",), ("generate", "-d", "a b", "-s", "x"),
                          ("generate", "-d", "a.example", "-s", "x", "--rsa", "512"),
                          ("dns", "-d", "a.example", "-s", "x"), ("sign", "--canon", "nofws")):
            done = pendkim(*arguments, stdin=b"")
            self.assertEqual(done.returncode, 64, arguments)
            self.assertTrue(done.stderr, arguments)
        self.assertEqual(pendkim("--help").returncode, 0)


if __name__ == "__main__":
    unittest.main()


class Rotation(Suite):
    """A change of keys by date, without a reload: before, during and after it everybody can verify what was signed."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dkim_peers.unpack()

    def test_the_next_key_signs_from_its_date_on_if_dns_has_it(self):
        keys = Keys(self.folder())
        # A directory of their own: beside key files what replaces a table would be closed until a reload.
        tables = os.path.join(keys.folder, "..", "tables")
        os.makedirs(tables)
        with open(keys.table) as table:
            lines = [line for line in table if not line.startswith("gone")]
        keys.table = keys.write(os.path.join(tables, "key.table"), "".join(lines))
        senders = keys.senders = keys.write(os.path.join(tables, "signing.table"), "*@sender.example r1,e1\n")
        dates = keys.write(os.path.join(tables, "dates"), "")
        with Dns(ttl=1) as dns, Peer() as peer:
            for name, text in keys.records.items():
                dns.set(name, "TXT", [text])
            settings = {**relay_to(peer), **dns.settings(), **keys.settings(), "dkim_key_dates": dates}
            with Instance(settings, start=False) as instance:
                def sent():
                    peer.messages.clear()
                    send(instance.port, FROM, ["b@rcpt.example"], MESSAGES["plain"])
                    peer.wait_messages(1)
                    content = peer.messages[0].content
                    (good,) = dkim_peers.python_verify([content], keys.records)
                    self.assertEqual(good, [True, True], content)  # by what DNS has
                    return sorted(re.findall(r"[ \t]s=(\w+);", content.split(b"\r\n\r\n")[0].decode()))

                at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 12))
                made = instance.tool("pendkim", "rotate", "-d", "sender.example", "-s", "next", "--rsa", "1024",
                                     "--from", at, check=True)
                instance.start()
                name, record = record_of(made.stdout)
                self.assertEqual(name, "next._domainkey.sender.example")
                with open(senders) as table:
                    self.assertEqual(table.read(), "*@sender.example r1,sender.example.next,e1\n")
                self.assertEqual(sent(), ["e1", "r1"])
                # The date comes, and DNS does not have it.
                instance.wait_log("dkim: key sender.example.next should sign since .*, but DNS has no record "
                                  "next._domainkey.sender.example: the key before it goes on", seconds=120)
                self.assertEqual(sent(), ["e1", "r1"])
                self.assertRegex(instance.tool("pendkim", "check").stdout,
                                 r"sender.example.next next._domainkey.sender.example: not in DNS")
                dns.set(name, "TXT", [record])
                keys.records[name] = record
                # Each program asks for itself: that of the mail to come.
                instance.wait_log(r"smtpd\[\d+\]: dkim: DNS has the record of key sender.example.next, which signs",
                                  seconds=150)
                self.assertEqual(sent(), ["e1", "next"])
                self.assertRegex(instance.tool("pendkim", "check").stdout,
                                 r"r1 r1._domainkey.sender.example: ok, over since .*: its record stays until ")
                again = instance.tool("pendkim", "rotate", "-d", "sender.example", "-s", "next")
                self.assertEqual(again.returncode, 73)
                instance.reload()
                self.assertIn(sent(), (["e1", "next"], ["e1", "r1"]))  # DNS is asked anew

    def test_a_key_that_seals_is_kept_when_it_signs_no_more(self):
        keys = Keys(self.folder())
        dates = keys.write("dates", "")
        with Dns(ttl=1) as dns, Instance({**dns.settings(), **keys.settings(), "dkim_key_dates": dates,
                                          "arc_seal_key": "R1"}, start=False) as instance:
            for name, text in keys.records.items():
                dns.set(name, "TXT", [text])
            made = instance.tool("pendkim", "rotate", "-d", "sender.example", "-s", "next", "--rsa", "1024", check=True)
            self.assertIn("; r1 goes on to seal (ARC): set arc_seal_key to sender.example.next once DNS", made.stdout)
            keys.write("dates", "r1 - 2000-01-01\ne1 - 2000-01-01\n")
            said = instance.tool("pendkim", "check").stdout
            self.assertRegex(said, r"r1 \S+: ok, over since 2000\S+, and goes on to seal: set arc_seal_key to the key "
                                   r"after it")
            self.assertRegex(said, r"e1 \S+: over since 2000\S+: take its record out of DNS")

    def test_beside_key_files_a_reload_makes_the_new_tables_known(self):
        keys = Keys(self.folder())
        dates = keys.write("dates", "")
        with Dns(ttl=1) as dns, Peer() as peer, \
                Instance({**relay_to(peer), **dns.settings(), **keys.settings(), "dkim_key_dates": dates}) as instance:
            made = instance.tool("pendkim", "rotate", "-d", "sender.example", "-s", "next", "--rsa", "1024",
                                 "--from", "2100-01-01", check=True)
            if os.geteuid() == 0:  # only then key files are the key process's alone
                self.assertIn("; now: penstock reload.", made.stdout)
            with open(keys.senders) as table:
                self.assertIn("*@sender.example r1,sender.example.next,e1\n", table.read())
            os.rename(keys.write("dates.new", "r1 - 2000-01-01\nsender.example.next 2000-01-01 -\n"), dates)
            instance.reload()
            send(instance.port, FROM, ["b@rcpt.example"], MESSAGES["plain"])
            peer.wait_messages(1)
            head = peer.messages[0].content.split(b"\r\n\r\n")[0].decode()
            # DNS has no record of the new key: the old one may have gone on already.
            self.assertIn(sorted(re.findall(r"[ \t]s=(\w+);", head)), (["e1", "next"], ["e1", "r1"]))
