"""Which tables may be used where: proxy_read_maps, settings whose values are files, users and commands, types that are
no more; and tables whose text was changed."""
import os
import time
import unittest

from client import Client
from instance import Instance, mail_owner, missing
from waiting import eventually

CONTENT = b"Subject: x\r\n\r\nhello\r\n"


@unittest.skipIf(missing(), missing())
class TableTypes(unittest.TestCase):
    def setUp(self):
        self.instance = Instance(start=False)
        self.addCleanup(self.instance.close)

    def write(self, name, text):
        path = os.path.join(self.instance.dir, name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o644)
        return path

    def check(self, **settings):
        """What penstock check says of these settings."""
        self.instance.set(**settings)
        said = self.instance.tool("penstock", "check")
        return said.stdout + said.stderr

    def answers(self, sender):
        """The answers to MAIL and RCPT."""
        with Client(self.instance.port) as client:
            return [client.command(f"MAIL FROM:<{sender}>")[:3], client.command("RCPT TO:<jo@local.test.example>")[:3]]

    def test_a_table_behind_proxy_must_be_in_proxy_read_maps(self):
        table = "texthash:" + self.write("senders", "bad@example.org REJECT\n")
        said = self.check(smtpd_sender_restrictions=f"check_sender_access proxy:{table}",
                          proxy_read_maps="$smtpd_client_restrictions proxy:texthash:/etc/other")
        self.assertRegex(said, f"main.cf.*smtpd_sender_restrictions.*proxy:{table} is not in proxy_read_maps: add it")
        self.instance.start()
        self.assertEqual(self.answers("good@example.org"), ["250", "451"])
        self.assertIn("is not in proxy_read_maps", self.instance.log())
        asked = self.instance.tool("penmap", "-q", "bad@example.org", "proxy:" + table)
        self.assertEqual((asked.returncode, asked.stdout), (75, ""), asked.stderr)
        for approval in (f"proxy:{table}", "$smtpd_sender_restrictions",
                         f"proxy:unionmap:{{static:x, proxy:proxy:{table}}}", f"{{ proxy:{table} some=thing }}"):
            with self.subTest(approval):
                self.assertNotIn("is not in proxy_read_maps", self.check(proxy_read_maps=approval))
                self.instance.reload_whole()
                eventually(lambda: self.answers("bad@example.org") == ["250", "554"], self.instance.log)
                self.assertEqual(self.answers("good@example.org"), ["250", "250"])
                self.assertIn("is not in proxy_read_maps", self.check(proxy_read_maps=""))
        asked = self.instance.tool("penmap", "-q", "bad@example.org", table)
        self.assertEqual(asked.stdout, "REJECT\n")

    def test_look_ups_of_debug_are_in_the_log_of_the_program_that_asks(self):
        senders = "texthash:" + self.write("senders", "bad@example.org REJECT\n")
        approval = f"debug:proxy:{senders}"
        self.assertNotIn("senders", self.check(
            smtpd_sender_restrictions=f"check_sender_access debug:proxy:{senders}", proxy_read_maps=approval))
        self.instance.start()
        self.assertEqual(self.answers("bad@example.org"), ["250", "554"])
        self.assertEqual(self.answers("good@example.org"), ["250", "250"])
        for key, value in (("bad@example.org", "REJECT"), ("good@example.org", "not_found")):
            self.instance.wait_log(rf'penstock/smtpd\[\d+\]: proxy:{senders} lookup: "{key}" = "{value}"')

    def test_a_service_may_name_more_than_main_cf(self):
        table = "texthash:" + self.write("senders", "bad@example.org REJECT\n")
        self.instance.set(proxy_read_maps="$smtpd_sender_restrictions")
        with open(self.instance.path("etc", "master.cf")) as f:
            service = next(line.split()[0] for line in f if line.split()[7:8] == ["smtpd"])
        self.instance.set_services({service: "inet n - n - - smtpd -o smtpd_sender_restrictions=check_sender_access,"
                                             f"proxy:{table}"})
        self.assertNotIn("is not in proxy_read_maps", self.check())
        self.instance.start()
        self.assertEqual(self.answers("bad@example.org"), ["250", "554"])

    def test_proxymap_in_master_cf_is_told(self):
        with open(self.instance.path("etc", "master.cf"), "a") as f:
            f.write("proxymap unix - - n - - proxymap\nproxywrite unix - - n - 1 proxymap\n")
        said = self.check()
        for name in ("proxymap", "proxywrite"):
            self.assertRegex(said, f"{name}.*each program opens its tables itself")

    def test_types_that_are_no_more_are_named_with_what_to_use(self):
        for table, advice in (("nis:mail.aliases", "unix:passwd.byname"), ("dbm:/etc/x", "write hash: or lmdb:"),
                              ("sdbm:/etc/x", "write hash: or lmdb:")):
            self.assertIn(advice, self.check(transport_maps=table))

    def test_a_table_is_made_anew_at_start_and_reload_when_its_text_was_changed(self):
        path = self.write("senders", "bad@example.org REJECT\n")
        self.instance.set(smtpd_sender_restrictions=f"check_sender_access hash:{path}")
        self.instance.tool("penmap", f"hash:{path}", check=True)

        def change(text):
            self.write("senders", text)
            os.utime(path, (time.time() + 10, time.time() + 10))
            self.assertIn("older than its text", self.check())
        change("worse@example.org REJECT\n")
        os.utime(path, (time.time() + 10, time.time() + 10))
        said = self.instance.tool("penstock", "start", check=True)
        self.assertIn(f"{path}.lmdb was made anew", said.stdout + said.stderr)
        self.assertEqual(self.answers("bad@example.org"), ["250", "250"])
        self.assertEqual(self.answers("worse@example.org"), ["250", "554"])
        os.utime(path, (1000, 1000))
        self.assertNotIn("anew", self.instance.tool("penstock", "reload", check=True).stderr)
        os.utime(path + ".lmdb", (1000, 1000))
        change("worst@example.org REJECT\n")
        self.assertIn("made anew", self.instance.tool("penstock", "reload", check=True).stderr)
        eventually(lambda: self.answers("worst@example.org") == ["250", "554"], self.instance.log)
        os.utime(path + ".lmdb", (1000, 1000))
        change("no value\nno_value\nx y\n")  # a line without value is passed over, as penmap does
        self.assertIn("warning", self.instance.tool("penstock", "reload", check=True).stderr)

    def test_a_line_that_cannot_be_read_is_logged_when_the_running_program_reads_the_table_again(self):
        texts = {name: self.write(name, text) for name, text in
                 (("senders", "bad@example.org REJECT\n"), ("rules", "/^worse@/ REJECT\n"))}
        self.instance.set(smtpd_sender_restrictions=f"check_sender_access texthash:{texts['senders']}, "
                                                    f"check_sender_access pcre:{texts['rules']}",
                          smtpd_recipient_restrictions=f"check_sender_access texthash:{texts['senders']}, "
                                                       "permit_mynetworks, reject")
        self.instance.start()
        self.assertEqual(self.answers("bad@example.org"), ["250", "554"])
        self.assertNotIn("passed over", self.instance.log())

        def replace(name, text):
            os.rename(self.write(name + ".new", text), texts[name])

        def told(name):
            return [line for line in self.instance.log().splitlines()
                    if texts[name] + ", line" in line and "penstock/smtpd[" in line]
        replace("senders", "bad@example.org REJECT\nlonely@example.org\nnew@example.org REJECT\n")
        replace("rules", "/^worse@/ REJECT\n" + "/^open REJECT\n" * 60)
        eventually(lambda: self.answers("new@example.org") == ["250", "554"], self.instance.log)
        eventually(lambda: self.answers("any@example.org") == ["250", "250"] and told("rules"), self.instance.log)
        for _ in range(20):  # no look-up tells it again
            self.assertEqual(self.answers("any@example.org"), ["250", "250"])
        self.assertEqual(self.answers("bad@example.org"), ["250", "554"])
        said = told("senders")
        self.assertEqual(len(said), 1, said)
        self.assertRegex(said[0], r"smtpd\[\d+\]: warning: .*/senders, line 2: expected format: key whitespace value: "
                                  "the line is passed over")
        self.assertEqual(len(told("rules")), 50)
        self.assertRegex(told("rules")[0], "warning: .*/rules, line 2: no closing pattern delimiter")
        self.assertRegex(self.instance.log(), r"warning: .*/rules: and 10 more such lines")
        replace("senders", "newer@example.org REJECT\n\n\nlonely@example.org\n")
        eventually(lambda: self.answers("newer@example.org") == ["250", "554"], self.instance.log)
        eventually(lambda: len(told("senders")) == 2 and "line 4" in told("senders")[1], self.instance.log)

    # Settings whose values are files, users and commands, with a recipient whose delivery asks for each.
    CAREFUL = {"alias_maps": "jo@local.test.example", "fallback_transport_maps": "jo@local.test.example",
               "mailbox_command_maps": f"{mail_owner()}@local.test.example",
               "mailbox_transport_maps": f"{mail_owner()}@local.test.example",
               "virtual_mailbox_maps": "jo@virtual.test.example", "virtual_uid_maps": "jo@virtual.test.example",
               "virtual_gid_maps": "jo@virtual.test.example"}

    def forbidden(self):
        rules = self.write("rules", "/^(.*)$/ $1\n")
        memcache = self.write("memcache.cf", "")
        redis = self.write("redis.cf", "query = GET %s\n")
        return (f"regexp:{rules}", f"pcre:{rules}", f"proxy:regexp:{rules}", "tcp:127.0.0.1:9",
                f"socketmap:unix:{self.instance.dir}/s:t", f"memcache:{memcache}", f"redis:{redis}",
                f"unionmap:{{static:x, pcre:{rules}}}")

    def test_settings_that_name_files_users_and_commands_refuse_tables_that_strangers_could_steer(self):
        for table in self.forbidden():
            said = self.check(**{name: table for name in self.CAREFUL})
            for name in self.CAREFUL:
                self.assertRegex(said, rf"main\.cf.*\b{name}\b.*(not allowed in this|asks for no password)", table)

    def test_mail_that_needs_such_a_table_waits(self):
        """Of each setting, as the program reads it that delivers."""
        tables = self.forbidden()
        self.instance.set(smtpd_reject_unlisted_recipient="no",
                          virtual_mailbox_maps="inline:{ jo@virtual.test.example = jo/ }")
        self.instance.start()
        usual = {"virtual_mailbox_maps": "inline:{ jo@virtual.test.example = jo/ }",
                 "virtual_uid_maps": f"static:{self.instance.owner_uid}",
                 "virtual_gid_maps": f"static:{self.instance.owner_gid}"}
        for i, (name, recipient) in enumerate(self.CAREFUL.items()):
            with self.subTest(name):
                self.instance.set(**{**{n: usual.get(n, "") for n in self.CAREFUL}, name: tables[i % len(tables)]})
                self.instance.stop()
                self.instance.start()
                with Client(self.instance.port) as client:
                    client.send(f"sender{i}@example.org", [recipient], CONTENT)
                self.instance.wait_log(rf"to=<{recipient}>.*status=deferred \(.*(not safe here|not available|tables?)")
                said = [line for line in self.instance.log().splitlines() if f"<{recipient}>" in line]
                self.assertIn("status=deferred", said[-1])


if __name__ == "__main__":
    unittest.main()
