"""Senders of forwarded mail are rewritten (SRS), and what comes back finds the original sender."""
import json
import os
import pwd
import re
import subprocess
import unittest

import srs_peers
from harness import *
from instance import mail_owner
from srs_peers import srs
from test_crash import system_user

BACK = "back.test.example"
LOCAL = "local.test.example"
SENDER = "ada@sender.example"


def secrets(mx, *lines):
    """Writes the file of secrets as a careful administrator leaves it."""
    path = mx.write("srs.secret", "".join(line + "\n" for line in lines))
    os.chmod(path, 0o600)
    if os.geteuid() == 0:
        os.chown(path, pwd.getpwnam(mail_owner()).pw_uid, -1)
    return path


class Rewriting(Suite):
    def instance(self, peer, settings=None, **more):
        """All domains that are not ours go to the peer."""
        mx = Instance({"relayhost": f"[127.0.0.1]:{peer.port}" if peer else "", "srs_domain": BACK,
                       "virtual_mailbox_maps": inline({"vera@virtual.test.example": "vera/"}),
                       **(settings or {})}, start=False, **more)
        mx.set(srs_secrets_file=secrets(mx, "a secret"))
        return mx

    def assertRewritten(self, sender, original=SENDER, secret="a secret"):
        """By today's day, or by yesterday's: a test may run at midnight."""
        self.assertIn(sender, [srs(original, BACK, secret, days_ago=days) for days in (0, 1)])

    def by_recipient(self, messages):
        return {tuple(sorted(m.recipients)): m.sender for m in messages}


class Forwarded(Rewriting):
    def test_only_recipients_that_aliases_lead_to_see_the_rewritten_sender(self):
        aliases = {"list@virtual.test.example": "vera@virtual.test.example one@far.example two@far.example",
                   "also@virtual.test.example": "three@far.example"}
        with Peer() as peer, self.instance(peer, {"virtual_alias_maps": inline(aliases)}) as mx:
            mx.start()
            send(mx.port, SENDER, ["list@virtual.test.example", "direct@far.example", "also@virtual.test.example"],
                 mail())
            found = self.by_recipient(peer.wait_messages(2))
            mx.wait_empty_queue()
            # One transaction for those who are forwarded, another for the one who is not, to the same host.
            self.assertEqual(set(found), {("direct@far.example",),
                                          ("one@far.example", "three@far.example", "two@far.example")})
            self.assertEqual(found.pop(("direct@far.example",)), SENDER)
            self.assertRewritten(*found.values())
            box = mx.virtual_box("vera")
            box.wait(1)
            self.assertIn(f"Return-Path: <{SENDER}>".encode(), box.messages()[0])
            log = mx.log()
            self.assertRegex(log, rf"from=<{SENDER}>, size=\d+, nrcpt=5")
            self.assertEqual(len(re.findall(rf"to=<(?:one|two|three)@far\.example>, orig_to=<\w+@virtual\.test\."
                                            rf"example>, .* status=sent \(.*\), sender=<SRS0=.*@{BACK}>", log)), 3)
            self.assertRegex(log, r"to=<direct@far\.example>, relay=.* status=sent \([^)]*\)\n")

    def test_mail_that_local_sends_on_is_forwarded(self):
        user = system_user()
        with Peer() as peer, self.instance(peer) as mx:
            file = mx.write("forward-" + user, "three@far.example\n")
            if os.geteuid() == 0:
                os.chown(file, pwd.getpwnam(user).pw_uid, -1)
            aliases = mx.write("aliases", f"team: one@far.example\nlist: two@far.example\nowner-list: ada@{LOCAL}\n")
            mx.set(forward_path=os.path.join(mx.dir, "forward-$user"), alias_maps=f"lmdb:{aliases}",
                   alias_database=f"lmdb:{aliases}")
            mx.tool("penalias", f"lmdb:{aliases}", check=True)
            mx.start()
            for number, to in enumerate(("team", "list", user), 1):
                send(mx.port, SENDER, [f"{to}@{LOCAL}"], mail())
                peer.wait_messages(number)
            found = self.by_recipient(peer.messages)
            self.assertRewritten(found[("one@far.example",)])
            self.assertRewritten(found[("three@far.example",)])
            self.assertEqual(found[("two@far.example",)], f"owner-list@{LOCAL}")  # ours: nothing to rewrite

    def test_copies_are_forwarded(self):
        with Peer() as peer, self.instance(peer, {"always_bcc": "archive@far.example"}) as mx:
            mx.start()
            send(mx.port, SENDER, ["vera@virtual.test.example"], mail())
            self.assertRewritten(peer.wait_messages(1)[0].sender)

    def test_senders_that_need_no_rewriting_stay(self):
        aliases = {"list@virtual.test.example": "one@far.example", "inner@virtual.test.example": "x@relay.example"}
        with Peer() as peer, self.instance(peer, {
                "virtual_alias_maps": inline(aliases), "relay_domains": "relay.example",
                "relay_transport": f"smtp:[127.0.0.1]:{peer.port}", "virtual_alias_domains": "va.example",
                "srs_exclude_domains": "kept.example"}) as mx:
            mx.start()
            stay = ["", f"jo@{LOCAL}", "jo@va.example", "jo@virtual.test.example", "jo@kept.example", f"jo@{BACK}"]
            for number, sender in enumerate(stay, 1):
                send(mx.port, sender, ["list@virtual.test.example"], mail())
                self.assertEqual(peer.wait_messages(number)[-1].sender, sender)
            # To a host that we relay for in any case; and a sender of such a domain, to another.
            send(mx.port, SENDER, ["inner@virtual.test.example"], mail())
            self.assertEqual(peer.wait_messages(len(stay) + 1)[-1].sender, SENDER)
            send(mx.port, "jo@relay.example", ["list@virtual.test.example"], mail())
            self.assertRewritten(peer.wait_messages(len(stay) + 2)[-1].sender, "jo@relay.example")

    def test_srs_forward_always_rewrites_what_was_sent_to_the_recipient_himself(self):
        with Peer() as peer, self.instance(peer, {"srs_forward": "always"}) as mx:
            mx.start()
            send(mx.port, SENDER, ["direct@far.example"], mail())
            self.assertRewritten(peer.wait_messages(1)[0].sender)
            send(mx.port, "", ["direct@far.example"], mail())
            self.assertEqual(peer.wait_messages(2)[1].sender, "")

    def test_an_address_of_another_forwarder_is_rewritten_once_more_and_finds_back(self):
        first = "SRS0=abcd=AB=origin.example=jo@first.example"
        with Peer() as peer, self.instance(peer, {"srs_forward": "always", "srs_separator": "+",
                                                  "srs_hash_length": "8"}) as mx:
            mx.start()
            send(mx.port, first, ["direct@far.example"], mail())
            second = peer.wait_messages(1)[0].sender
            self.assertRegex(second, rf"^SRS1\+.{{8}}=first\.example==abcd=AB=origin\.example=jo@{re.escape(BACK)}$")
            send(mx.port, "", [second], mail())
            self.assertEqual(peer.wait_messages(2)[1].recipients, [first])

    def test_srs_hash_minimum_refuses_hashes_that_were_cut_short(self):
        with Peer() as peer, self.instance(peer, {"srs_forward": "always", "srs_hash_length": "12"}) as mx:
            mx.start()
            send(mx.port, SENDER, ["direct@far.example"], mail())
            whole = peer.wait_messages(1)[0].sender
            head, hash_, rest = whole.split("=", 2)
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<>", "250")
                client.expect(f"RCPT TO:<{head}={hash_[:4]}={rest}>", "550")
                client.expect(f"RCPT TO:<{whole}>", "250")

    def test_the_queue_keeps_the_sender_whatever_dies(self):
        with Peer() as peer, self.instance(peer, {"virtual_alias_maps": inline(
                {"list@virtual.test.example": "one@far.example"})}) as mx:
            peer.replies["RCPT"] = ["451 4.2.0 later"]
            mx.start()
            send(mx.port, SENDER, ["list@virtual.test.example"], mail())
            mx.wait_log(rf"to=<one@far\.example>, .*status=deferred \(.*later.*\), sender=<SRS0=.*@{BACK}>")
            self.assertEqual([m["sender"] for m in mx.queue()], [SENDER])
            mx.kill("qmgr")
            mx.kill("trivial-rewrite")
            eventually(lambda: [m["sender"] for m in mx.queue()] == [SENDER], "it is there again")
            mx.flush()
            self.assertRewritten(peer.wait_messages(1)[0].sender)


class Reversed(Rewriting):
    def test_a_bounce_comes_back_through_a_host_that_relays_for_nobody(self):
        with Peer() as peer, self.instance(peer, {
                "mynetworks": "192.0.2.0/24",
                "virtual_alias_maps": inline({"list@virtual.test.example": "one@far.example"})}) as mx:
            mx.start()
            send(mx.port, SENDER, ["list@virtual.test.example"], mail())
            rewritten = peer.wait_messages(1)[0].sender
            for number, to in enumerate((rewritten, rewritten.lower()), 2):  # hosts on the way may change the case
                send(mx.port, "", [to], mail("returned"))
                back = peer.wait_messages(number)[-1]
                self.assertEqual((back.sender, back.recipients), ("", [SENDER]))
            # Not only notices: whoever answers the sender reaches him, in our name again.
            send(mx.port, "vacation@far.example", [rewritten], mail("away"))
            away = peer.wait_messages(4)[-1]
            self.assertRewritten(away.sender, "vacation@far.example")
            self.assertEqual(away.recipients, [SENDER])
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<>", "250")
                client.expect(f"RCPT TO:<{SENDER}>", "454")

    def test_what_was_not_made_here_is_an_unknown_user(self):
        for more in ({}, {"virtual_alias_domains": BACK, "virtual_alias_maps": inline({f"@{BACK}": "vera@virtual.test."
                                                                                       "example"})},
                     {"mydestination": BACK, "smtpd_reject_unlisted_recipient": "no"}):
            with self.subTest(more), self.instance(None, {"mynetworks": "", **more}) as mx:
                mx.start()
                with Client(mx.port) as client:
                    client.expect("MAIL FROM:<>", "250")
                    for address, why in ((srs(SENDER, BACK, "another secret"), "not rewritten here"),
                                         (srs(SENDER, BACK, "a secret", days_ago=23), "too old"),
                                         (srs(SENDER, BACK, "a secret", days_ago=-2), "too old"),
                                         (f"SRS0=x@{BACK}", "malformed"),
                                         (f"SRS1=aaaa=far.example==x@{BACK}", "not rewritten here")):
                        reply = client.expect(f"RCPT TO:<{address}>", "550")
                        self.assertIn("5.1.1", reply)
                        self.assertIn(why, reply)
                    client.expect(f"RCPT TO:<{srs(SENDER, BACK, 'a secret', days_ago=20)}>", "250")

    def test_srs_max_age_is_the_time_that_a_bounce_has(self):
        with self.instance(None, {"srs_max_age": "3d"}) as mx:
            mx.start()
            with Client(mx.port) as client:
                client.expect("MAIL FROM:<>", "250")
                client.expect(f"RCPT TO:<{srs(SENDER, BACK, 'a secret', days_ago=2)}>", "250")
                client.expect(f"RCPT TO:<{srs(SENDER, BACK, 'a secret', days_ago=5)}>", "550")

    def test_secrets_are_replaced_without_loss(self):
        with Peer() as peer, self.instance(peer, {"srs_forward": "always"}) as mx:
            mx.start()
            send(mx.port, SENDER, ["direct@far.example"], mail())
            old = peer.wait_messages(1)[0].sender
            self.assertRewritten(old)
            secrets(mx, "new secret", "a secret")
            mx.reload()

            def sender_now():
                count = len(peer.messages)
                send(mx.port, SENDER, ["direct@far.example"], mail())
                return peer.wait_messages(count + 1)[-1].sender

            new = eventually(lambda: (now := sender_now()) != old and now, "the new secret signs")
            self.assertRewritten(new, secret="new secret")

            def answers_to(*addresses):
                with Client(mx.port) as client:
                    client.expect("MAIL FROM:<>", "250")
                    return [client.command(f"RCPT TO:<{address}>")[:3] for address in addresses]

            eventually(lambda: answers_to(old, new) == ["250", "250"], "both secrets count")
            secrets(mx, "new secret")
            mx.reload()
            eventually(lambda: answers_to(old, new) == ["550", "250"], "the old secret is gone")

    def test_programs_of_this_host_reach_the_original_sender_too(self):
        with Peer() as peer, self.instance(peer) as mx:
            peer.replies["RCPT"] = lambda session, line: "550 5.1.1 gone" if "gone@" in line else None
            mx.start()
            subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, srs(SENDER, BACK, "a secret")],
                           input=b"Subject: x\n\nx\n", check=True, timeout=60)
            self.assertEqual(peer.wait_messages(1)[0].recipients, [SENDER])
            # A notice of ours to an address that we made: the mail came by way of us, and could not be delivered.
            send(mx.port, srs(SENDER, BACK, "a secret"), ["gone@far.example"], mail())
            notice = peer.wait_messages(2)[1]
            self.assertEqual((notice.sender, notice.recipients), ("", [SENDER]))

    def test_the_notice_of_a_failed_forwarding_goes_to_the_sender_as_he_was(self):
        with Peer() as peer, self.instance(peer, {"virtual_alias_maps": inline(
                {"list@virtual.test.example": "gone@far.example"})}) as mx:
            peer.replies["RCPT"] = lambda session, line: "550 5.1.1 gone" if "gone@" in line else None
            mx.start()
            send(mx.port, SENDER, ["list@virtual.test.example"], mail())
            notice = peer.wait_messages(1)[0]
            self.assertEqual((notice.sender, notice.recipients), ("", [SENDER]))
            self.assertNotIn(b"SRS0", notice.content)


class TwoSchemes(Rewriting):
    """VERP and SRS: each names its own, and a bounce goes back by both."""

    def test_mail_of_anothers_list_is_forwarded_and_its_bounce_finds_the_list(self):
        list_sender = "owner-list+team=virtual.test.example@lists.example"
        with Peer() as peer, self.instance(peer, {
                "virtual_alias_maps": inline({"team@virtual.test.example": "gone@far.example"})}) as mx:
            mx.start()
            send(mx.port, list_sender, ["team@virtual.test.example"], mail())
            forwarded = peer.wait_messages(1)[0].sender
            self.assertRewritten(forwarded, list_sender)
            send(mx.port, "", [forwarded], mail("Undelivered"))
            self.assertEqual(peer.wait_messages(2)[1].recipients, [list_sender])

    def test_mail_of_a_list_here_keeps_its_own_sender_behind_an_alias(self):
        """With srs_forward = always too: the address that comes back must name the recipient."""
        for forward in ("forwarded", "always"):
            with Peer() as peer, self.instance(peer, {
                    "srs_forward": forward, "smtpd_authorized_verp_clients": "127.0.0.1",
                    "virtual_alias_maps": inline({"team@virtual.test.example": "one@far.example"})}) as mx:
                mx.start()
                with Client(mx.port) as client:
                    client.send("owner-list@lists.example", ["team@virtual.test.example"], mail(), mail="XVERP")
                self.assertEqual(peer.wait_messages(1)[0].sender,
                                 "owner-list+team=virtual.test.example@lists.example")


class Explained(Rewriting):
    def test_the_sender_that_will_be_written_is_shown(self):
        with Peer() as peer, self.instance(peer, {
                "virtual_alias_maps": inline({"list@virtual.test.example": "one@far.example"})}) as mx:
            peer.replies["RCPT"] = lambda session, line: "450 4.2.0 later"
            mx.start()
            with Client(mx.port) as client:
                reply = client.send(SENDER, ["list@virtual.test.example", "direct@far.example"], mail())
            mx.wait_log("to=<one@far.example>.*status=deferred")
            mx.wait_log("to=<direct@far.example>.*status=deferred")
            queue_id = re.search(r"queued as (\w+)", reply)[1]
            story = json.loads(mx.tool("penstock", "explain", "--json", queue_id, check=True).stdout)
            senders = {r["address"]: r.get("rewritten_sender") for r in story["recipients"]}
            self.assertRewritten(senders.pop("one@far.example"))
            self.assertEqual(senders, {"direct@far.example": None})
            self.assertRegex(mx.tool("penstock", "explain", queue_id, check=True).stdout,
                             rf"\n  from  SRS0=.*@{BACK} \(SRS: it is forwarded\)\n")
            for running in (True, False):
                self.assertRegex(mx.tool("pendest", "explain", "x@far.example", SENDER, check=True).stdout,
                                 rf"sender       SRS0=.*@{BACK} by SRS, if the mail is forwarded from here")
                told = json.loads(mx.tool("pendest", "-j", "explain", "x@far.example", SENDER, check=True).stdout)
                self.assertRewritten(told["rewritten_sender"])
                for to, sender in (("vera@virtual.test.example", SENDER), ("x@far.example", f"jo@{LOCAL}")):
                    self.assertNotIn("by SRS", mx.tool("pendest", "explain", to, sender, check=True).stdout)
                if running:
                    mx.stop()


class Settings(Rewriting):
    def test_a_file_of_secrets_that_cannot_be_used_is_named_at_once(self):
        def empty(path):
            open(path, "w").close()

        for spoil, why in ((os.unlink, "No such file"), (empty, "no secret in the file"),
                           (lambda path: os.chmod(path, 0o644), "every user can read it")):
            with self.subTest(why), self.instance(None) as mx:
                spoil(os.path.join(mx.dir, "srs.secret"))
                checked = mx.tool("penstock", "check")
                self.assertNotEqual(checked.returncode, 0)
                self.assertRegex(checked.stdout + checked.stderr, f"srs_secrets_file: .*{why}")
        with self.instance(None) as mx:
            mx.set(srs_secrets_file="")
            self.assertIn("srs_secrets_file is not", mx.tool("penstock", "check").stdout)

    @unittest.skipIf(os.geteuid() != 0 or mail_owner() == "root", "only root can give files away")
    def test_a_file_that_root_alone_can_read_is_warned_of(self):
        with self.instance(None) as mx:
            warning = "mail_owner must be able to read it"
            self.assertNotIn(warning, mx.tool("penstock", "check").stdout)
            os.chown(os.path.join(mx.dir, "srs.secret"), 0, 0)
            self.assertIn(warning, mx.tool("penstock", "check").stdout)

    def test_pensrs(self):
        with self.instance(None, {"srs_exclude_domains": "kept.example"}) as mx:
            self.assertRewritten(mx.tool("pensrs", "forward", SENDER, check=True).stdout.strip())
            for own in (f"jo@{LOCAL}", "jo@kept.example"):
                self.assertEqual(mx.tool("pensrs", "forward", own, check=True).stdout.strip(), own)
            good, bad = srs(SENDER, BACK, "a secret"), srs(SENDER, BACK, "other")
            self.assertEqual(mx.tool("pensrs", "reverse", good, check=True).stdout.strip(), SENDER)
            self.assertEqual(json.loads(mx.tool("pensrs", "-j", "reverse", good, check=True).stdout),
                             {"address": good, "result": SENDER})
            refused = mx.tool("pensrs", "reverse", bad)
            self.assertEqual((refused.returncode, "not rewritten here" in refused.stderr), (65, True))
            self.assertEqual(mx.tool("pensrs", "reverse", SENDER).returncode, 65)
            self.assertEqual(mx.tool("pensrs", "turn", SENDER).returncode, 64)
            mx.set(srs_domain="")
            self.assertEqual(mx.tool("pensrs", "forward", SENDER).returncode, 78)


class BesideOthers(Rewriting):
    """Each reads what the other writes, with the same file of secrets."""
    SENDERS = ("jo@origin.example", "User.Name+ext@Origin.Example", "a=b=c@origin.example", "o'neil@sub.origin.example",
               "SRS0=abcd=AB=far.example=jo@first.example", "SRS1=abcd=first.example==efgh=AB=far.example=jo@x.example")

    def setUp(self):
        super().setUp()
        srs_peers.unpack()

    def pensrs(self, mx, what, address):
        return mx.tool("pensrs", what, address, check=True).stdout.strip()

    def test_mail_srs(self):
        with self.instance(None) as mx:
            for _ in range(2):  # midnight may fall between the two
                ours = [self.pensrs(mx, "forward", s) for s in self.SENDERS]
                theirs = srs_peers.mail_srs("forward", "a secret", [(s, BACK) for s in self.SENDERS])
                if ours == theirs:
                    break
            self.assertEqual(ours, theirs)
            originals = srs_peers.mail_srs("reverse", "a secret", [(a, "") for a in ours])
            self.assertEqual(originals, [self.pensrs(mx, "reverse", a) for a in theirs])
            self.assertEqual(originals[:4], list(self.SENDERS[:4]))
            self.assertEqual(srs_peers.mail_srs("reverse", "other", [(ours[0], "")]), [None])

    def test_postsrsd(self):
        with self.instance(None) as mx:
            path = secrets(mx, "a secret", "an older one")
            with srs_peers.Postsrsd(BACK, path) as postsrsd:
                for sender in self.SENDERS:
                    with self.subTest(sender):
                        theirs, ours = postsrsd.forward(sender), self.pensrs(mx, "forward", sender)
                        self.assertIn(ours, (theirs, postsrsd.forward(sender)))  # it may be midnight
                        self.assertEqual(postsrsd.reverse(ours), self.pensrs(mx, "reverse", theirs))
                before = srs(SENDER, BACK, "an older one")
                self.assertEqual((postsrsd.reverse(before), self.pensrs(mx, "reverse", before)), (SENDER, SENDER))
                self.assertIsNone(postsrsd.reverse(srs(SENDER, BACK, "unknown")))


if __name__ == "__main__":
    unittest.main()
