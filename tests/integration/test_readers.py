"""Which program reads which table setting: the column of params.def against what each program opens (--look).

Everything that lets a program have its tables goes by that column: the rules of the kernel for its files and ports, and
the process that opens root's tables for it. A program refuses to open a table whose setting does not list it, wherever
it runs. Then mail goes all ways through instances whose table settings all name tables that are hard to reach."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from certificates import Authority
from harness import *
from table_server import TableServer
from test_qmqp import Asker, request
from test_tls_server import TlsClient

# What makes a program open tables that it needs for nothing else.
SWITCHES = {
    "mail_owner": "nobody", "queue_owner": "nobody", "destdb_backend": "redis", "destdb_redis_server": "127.0.0.1:1",
    "smtp_sasl_auth_enable": "yes", "lmtp_sasl_auth_enable": "yes", "smtpd_sasl_auth_enable": "yes",
    "smtpd_sasl_type": "dovecot", "smtpd_sasl_path": "inet:127.0.0.1:1", "smtpd_tls_security_level": "may",
    "internal_mail_filter_classes": "bounce, notify", "tenant_identity": "sasl_login, header",
    "message_priority": "mt_priority, header",
    "tenant_header": "X-Tenant", "default_destination_rate_limit": "10/s", "requiretls_enable": "yes",
    "srs_domain": "srs.example", "tls_key_service_name": "nobody", "dkim_signing": "yes", "arc_seal_key": "k",
    "smtpd_restriction_classes": "a_class", "a_class": "check_client_access TABLE",
    "smtp_use_tls": "yes", "inet_protocols": "ipv4", "default_egress_pool": "",
}
# Lists whose tables stand behind a word.
RESTRICTIONS = re.compile(r"smtpd_(client|helo|sender|relay|recipient|data|end_of_data|etrn)_restrictions")
# A list of tables of others; what is written by one program, and no table.
NOT_OPENED = {"proxy_read_maps", "address_verify_map", "postscreen_cache_map", "penapi_history_map",
              "penapi_submission_map"}
# Readers that open no table of the setting; why.
MORE_READERS = {
    ("smtpd", "smtpd_restriction_classes"): "by the names of the classes",
}
TABLE = "static:no"
# Lists that a program opens only if they are set, or that other settings take the default from. Whatever else is opened
# is found with its default, an empty list too.
SET = re.compile(r".*_(maps|map|checks|reply_filter|status_filter|command_filter|mechanism_filter)|dkim_\w+_table|"
                 r"authorized_submit_users|debug_peer_list|(smtp|lmtp)_connection_cache_destinations|"
                 r"(smtp|lmtp)_requiretls_policy|milter_header_checks|local_header_rewrite_clients")


STRING = r'"(?:[^"\\]|\\.)*"'


def declared(file, side=0):
    """The text of a file of rows; side: which of PEN_BY's two counts."""
    with open(os.path.join(TOP, "lib", "config", file)) as rows_file:
        text = re.sub(r"//.*", "", rows_file.read())
    for name, value in re.findall(r'^#define (PEN_\w+) (".*")$', text, re.M):
        text = text.replace(name, value)
    return re.sub(rf"PEN_BY\(\s*({STRING}),\s*({STRING})\)", lambda by: by[side + 1], text)


def rows():
    """(name, kind, default, readers) of every setting that acts."""
    files = [("", declared("params.def"))]
    files += [(prefix, declared("params_client.def", side)) for side, prefix in enumerate(("smtp_", "lmtp_"))]
    for prefix, text in files:
        for call in re.finditer(r"^PEN_(\w+)\(((?:[^()\"]|%s)*)\)$" % STRING, text, re.M):
            parts = re.findall(r"(?:%s\s*)+|[^,\s][^,]*" % STRING, call[2])
            kind = call[1].removesuffix("_OF")
            if kind != call[1]:
                del parts[0]  # what the value names
            name = parts[1 if kind in ("CHOICE", "NAMED_TEXT") else 0].strip('"')
            yield prefix + name, kind, parts[1], "".join(re.findall(r'"(.*?)"', parts[-3])).split()


class Looking(Suite):
    # Each program with what it is called by master, and its words.
    PROGRAMS = {"smtpd": ["-S"], "smtp": [], "lmtp": [], "trivial-rewrite": [], "qmgr": [], "pickup": [], "bounce": [],
                "verify": [], "local": [], "virtual": [], "pipe": [], "anvil": [], "tlsrpt": [], "dmarcrpt": [],
                "qmqpd": [], "keys": [], "penapi": [], "penevents": []}

    def look(self, program, etc, *words):
        """What the program says: [(word, text)]."""
        command = [os.path.join(LIBEXEC, program), "--look", "-n", program, "-t", "unix", "-c", etc, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return [tuple(line.split(" ", 1)) for line in done.stdout.splitlines()], done

    def directory(self, settings, master=""):
        etc = tempfile.mkdtemp(prefix="pen-readers-")
        self.addCleanup(shutil.rmtree, etc)
        with open(os.path.join(etc, "main.cf"), "w") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        shutil.copy(os.path.join(TOP, "conf", "master.cf"), etc)
        with open(os.path.join(etc, "master.cf"), "a") as file:
            file.write(master)
        return etc


class Readers(Looking):
    maxDiff = None

    def test_the_readers_of_each_table_setting_are_those_that_open_it(self):
        secrets = tempfile.NamedTemporaryFile("w", prefix="pen-secrets-", suffix=".txt")
        self.addCleanup(secrets.close)
        secrets.write("a secret of enough length for anybody\n")
        secrets.flush()
        settings = {**SWITCHES, "srs_secrets_file": secrets.name, "a_class": f"check_client_access {TABLE}"}
        for name, kind, _, _ in rows():
            if kind in ("LIST", "TEXT") and RESTRICTIONS.fullmatch(name):
                settings[name] = f"check_client_access {TABLE}, reject"
            elif kind in ("LIST", "TEXT") and SET.fullmatch(name) and name not in NOT_OPENED:
                settings.setdefault(name, TABLE)
        etc = self.directory(settings)
        listed = {name: set(readers) for name, _, _, readers in rows()}
        faults = []
        opened = {}
        for program, words in self.PROGRAMS.items():
            said, done = self.look(program, etc, *words)
            with self.subTest(program):
                self.assertEqual([text for word, text in said if word == "error"], [], done.stderr)
            for word, text in said:
                if word == "opens":
                    opened.setdefault(text, set()).add("smtp" if program == "lmtp" else program)
        for name, programs in sorted(opened.items()):
            row = listed.get(name, set())
            for program in sorted(programs - row - {"all"} if "all" not in row else set()):
                faults.append(f"{name}: {program} opens its tables, but its row does not list it")
            for program in sorted(row - programs - {"tools", "all", "master"}):
                if (program, name) not in MORE_READERS:
                    faults.append(f"{name}: its row lists {program}, which opens no table of it")
        self.assertEqual(faults, [])


# Opened only where no other process is asked: a value decides about identities, files and keys, or is needed while mail
# passes through a filter of lines.
SERVED_BY_NOBODY = re.compile(r"alias_maps|virtual_(mailbox|uid|gid)_maps|mailbox_(command|transport)_maps|"
                              r"fallback_transport_maps|(milter_|smtp_|lmtp_)?(mime_|nested_)?(header|body)_checks|"
                              r"(smtp|lmtp)_(generic_maps|reply_filter|delivery_status_filter|tls_loglevel_maps|"
                              r"discard_\w+|connection_cache_destinations)|debug_peer_list|dkim_\w+|"
                              r"tls_server_sni_maps|delivery_limit_maps|defer_destinations|egress_pool_maps|"
                              r"destdb_unshared_networks|authorized_(mailq|flush)_users|"
                              r"(local|virtual|pipe|default)_delivery_status_filter")
# Not a list of tables, or opened only with something that this test has not: keys, a second level of TLS settings.
ELSEWHERE = re.compile(r"srs_secrets_file|dkim_\w+|tls_server_sni_maps|\w+_tls_per_site|smtpd_restriction_classes|"
                       r"destdb_\w+|postscreen_\w+|qmqpd_\w+|lmtp_\w+|proxy_read_maps")
# What OtherTables looks at, with mail by LMTP, a port with triage, a QMQP server, TLS with names, and signing.
OTHERS = re.compile(r"lmtp_\w+|dkim_(key|signing)_table|tls_server_sni_maps|qmqpd_authorized_clients|"
                    r"postscreen_(access_list|dnsbl_reply_map|command_filter|reject_footer_maps|"
                    r"discard_ehlo_keyword_address_maps)")
# Lists that take names of files with their items.
LISTS = ("mydestination", "mynetworks", "relay_domains", "virtual_alias_domains", "virtual_mailbox_domains")


def peer_answers(session, line):
    return "550 5.1.1 nobody here" if "<refused@" in line else None


class TableSettings(Looking):
    """An instance whose every table setting names a table, and all ways for mail through it."""

    least, lmtp = 60, False

    def instance(self, peer):
        """Not started yet."""
        mx = Instance({"relayhost": f"[127.0.0.1]:{peer.port}", "local_recipient_maps": "static:yes",
                       "virtual_mailbox_maps": "inline:{ { ada@virtual.test.example = ada/ } }",
                       "smtp_sasl_auth_enable": "yes", "tenant_identity": "sasl_login", "smtpd_error_sleep_time": "0",
                       "notify_classes": "", "internal_mail_filter_classes": "bounce, notify",
                       "smtpd_sender_restrictions": "permit", "a_class": "permit", "smtpd_peername_lookup": "no",
                       "smtpd_recipient_restrictions": "reject_unverified_recipient",
                       "smtpd_relay_restrictions": "permit_mynetworks, reject",
                       "unverified_recipient_reject_code": "550"}, start=False)
        self.addCleanup(mx.close)
        return mx

    def opened(self, mx):
        """Every setting whose tables some program opens, as they say it."""
        found = set()
        for program in self.PROGRAMS:
            found |= {text for word, text in self.look(program, mx.etc)[0] if word == "opens"}
        found |= {name for name, kind, _, _ in rows() if kind in ("LIST", "TEXT") and SET.fullmatch(name)}
        return sorted(name for name in found if self.is_ours(name) and name not in NOT_OPENED)

    @staticmethod
    def is_ours(name):
        return not ELSEWHERE.fullmatch(name)

    def values(self, mx, names, table):
        """table(name): the table of a setting; None: it has none."""
        now = mx.tool("penconf", "-x", *names, check=True).stdout
        usual = dict(line.split(" =", 1) for line in now.splitlines())
        out = {}
        for name in names:
            spec = table(name)
            if spec is None:
                continue
            usually = usual[name].strip()
            if RESTRICTIONS.fullmatch(name):
                spec = f"check_client_access {spec}"
            out[name] = f"{spec}, {usually}" if usually else spec
        return out

    def all_ways(self, mx, peer):
        """One message by SMTP, one by sendmail, one probe, one notice."""
        for recipient, reply in (("known@there.example", "250"), ("refused@there.example", "550")):  # a probe each
            def answered(recipient=recipient):
                with Client(mx.port) as client:
                    client.expect("MAIL FROM:<ada@virtual.test.example>", "250")
                    self.said = client.command(f"RCPT TO:<{recipient}>")
                    client.quit()
                return self.said.startswith(reply)
            eventually(answered, lambda: self.said + mx.log())
        send(mx.port, "ada@virtual.test.example", ["known@there.example"], mail(subject="by SMTP"))
        for recipient in ("known@there.example", "refused@there.example"):
            done = subprocess.run([os.path.join(BIN, "sendmail"), "-C", mx.etc, "-f", "ada@virtual.test.example",
                                   recipient], input=b"Subject: by sendmail\n\nx\n", capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 0, done)
        peer.wait_messages(2)
        (notice,) = mx.virtual_box("ada").wait()
        self.assertIn(b"refused@there.example", notice)
        mx.wait_empty_queue()

    def goes_all_ways(self, form):
        with Peer(lmtp=self.lmtp) as peer:
            peer.replies["RCPT"] = peer_answers
            mx = self.instance(peer)
            names = self.opened(mx)
            self.assertGreater(len(names), self.least)
            mx.set(**self.values(mx, names, lambda name: form(mx, name)))
            mx.start()
            self.all_ways(mx, peer)
            complaints = [line for line in mx.log().splitlines() if re.search("warning|error|fatal|must not", line) and
                          "do not see addresses in headers" not in line and "smtpd/pass is not started" not in line]
            self.assertEqual(complaints, [])

    def file(self, path, text):
        with open(path, "w") as out:
            out.write(text)
        os.chmod(path, 0o640)
        return path

    def test_tables_of_roots_alone(self):
        def form(mx, name):
            path = self.file(os.path.join(mx.etc, name), "nobody.invalid nothing\n")
            more = self.file(os.path.join(mx.etc, name + ".list"), "nobody.invalid\n")
            return f"texthash:{path}" + (f", {more}" if name in LISTS else "")
        self.goes_all_ways(form)

    def test_tables_elsewhere(self):
        place = tempfile.mkdtemp(prefix="pen-tables-", dir="/var/lib" if os.geteuid() == 0 else None)
        self.addCleanup(shutil.rmtree, place)
        os.chmod(place, 0o755)

        def form(mx, name):
            path = os.path.join(place, name)
            if not os.path.exists(path):
                self.file(path, "nobody.invalid nothing\n")
                os.chmod(path, 0o644)
                mx.tool("penmap", f"hash:{path}", check=True)
                os.chmod(self.file(path + ".list", "nobody.invalid\n"), 0o644)
            return f"hash:{path}" + (f", {path}.list" if name in LISTS else "")
        self.goes_all_ways(form)

    def test_tables_of_a_server(self):
        with TableServer() as server:
            def form(_, name):
                if SERVED_BY_NOBODY.fullmatch(name):
                    return None
                return f"socketmap:inet:127.0.0.1:{server.port}:{name}"
            self.goes_all_ways(form)


@unittest.skipIf(os.geteuid() != 0, "needs root (tables of root's alone)")
class OtherTables(TableSettings):
    """The same for the settings that need more of an instance."""

    least, lmtp = 20, True

    @staticmethod
    def is_ours(name):
        return OTHERS.fullmatch(name) is not None

    def instance(self, peer):
        mx = super().instance(peer)
        certificate = Authority(self.folder()).issue("mx.test.example")
        self.screened, self.qmqp = free_port(), free_port()
        mx.set(relayhost="", default_transport=f"lmtp:inet:127.0.0.1:{peer.port}", lmtp_sasl_auth_enable="yes",
               smtp_sasl_auth_enable="no", dkim_signing="${dkim_signing_table?{yes}:{no}}",
               smtpd_tls_security_level="may",
               smtpd_tls_cert_file=certificate.pem, smtpd_tls_key_file=certificate.key, postscreen_greet_wait="1s",
               postscreen_dnsbl_sites="", postscreen_cache_map="", qmqpd_authorized_clients="127.0.0.1")
        mx.set_services({f"127.0.0.1:{self.screened}": "inet n - n - 1 postscreen", "smtpd": "pass - - n - - smtpd",
                         f"127.0.0.1:{self.qmqp}": "inet n - n - - qmqpd"})
        return mx

    def all_ways(self, mx, peer):
        super().all_ways(mx, peer)
        before = len(peer.messages)
        send(self.screened, "ada@virtual.test.example", ["known@there.example"], mail(subject="behind triage"))
        with TlsClient(mx.port, name="nobody.example") as client:
            self.assertEqual(client.starttls().common_name(), "mx.test.example")
        said = Asker(self.qmqp, request(sender=b"ada@virtual.test.example", recipients=(b"known@there.example",)))
        with said:
            self.assertIn(b"K", said.reply())
        peer.wait_messages(before + 2)
