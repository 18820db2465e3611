"""Debian's filters and virus scanner for tests: OpenDKIM, OpenDMARC, rspamd, clamav-milter with clamd, each a private
instance on a port of its own, in a namespace of its own (tests/integration/peers.py).

Use:   with OpenDmarc(port, resolver=ADDRESS) as dmarc: … smtpd_milters = inet:127.0.0.1:PORT …
resolver: an address with a DNS server on port 53. Nothing of these programs asks the world: rspamd has no resolver, and
clamd has a database of one signature, which matches VIRUS.
"""
import os
import shutil
import signal

import peers
from waiting import eventually

VIRUS = "PENSTOCK-TEST-VIRUS-0123456789"
SPAM = "{}JS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X"  # X: reject, Y: mark, Z: subject


class Filter(peers.Peer):
    package = "filters"

    def __init__(self, port, resolver=None):
        super().__init__(port)
        if resolver:
            self.write("etc/resolv.conf", f"nameserver {resolver}\n")
            self.write("etc/nsswitch.conf", "hosts: files dns\npasswd: files\ngroup: files\n")

    def launch(self, *command, good=(0,)):
        started = self.run(*command)
        if started.returncode not in good:
            logs = "".join(self.read(f"log/{name}.log") for name in ("rspamd", "clamd", "clamav-milter"))
            raise RuntimeError(f"{command[0]}: status {started.returncode}: {started.stdout}{logs}")
        peers.wait_port(self.port, 60)


class Script(Filter):
    """actions.py, by libmilter."""

    def start(self):
        here = os.path.dirname(os.path.abspath(__file__))
        shutil.copy(os.path.join(here, "actions.py"), os.path.join(self.dir, "etc"))
        self.launch("/bin/sh", "-c", f"setsid /usr/bin/python3 /etc/actions.py {self.port} >/var/log/actions 2>&1 &")


class OpenDkim(Filter):
    """Verifies, with these keys: name of the record -> text. Or signs, with this key file and canonical forms."""

    def __init__(self, port, keys=(), sign_with=None, forms="relaxed/relaxed"):
        super().__init__(port)
        self.keys, self.key_file, self.forms = dict(keys), sign_with, forms

    def start(self):
        self.write("etc/keys", "".join(f"{name} {text}\n" for name, text in self.keys.items()))
        if self.key_file:
            shutil.copy(self.key_file, os.path.join(self.dir, "etc/key"))
            self.write("etc/opendkim.conf", f"Socket inet:{self.port}@127.0.0.1\nMode s\nDomain sender.example\n"
                       f"Selector s\nKeyFile /etc/key\nRequireSafeKeys no\nCanonicalization {self.forms}\n"
                       "Syslog no\nPidFile /run/opendkim.pid\n")
            return self.launch("/usr/sbin/opendkim", "-x", "/etc/opendkim.conf")
        self.write("etc/nobody", "192.0.2.255\n")  # else mail from this host would not be looked at
        self.write("etc/opendkim.conf", f"Socket inet:{self.port}@127.0.0.1\nMode v\nInternalHosts /etc/nobody\n"
                   "AuthservID mx.test.example\nSyslog no\nPidFile /run/opendkim.pid\nUserID nobody\n"
                   "TestPublicKeys /etc/keys\n")
        self.launch("/usr/sbin/opendkim", "-x", "/etc/opendkim.conf")


class OpenDmarc(Filter):
    """Believes OpenDKIM."""

    def start(self):
        self.write("etc/nobody", "192.0.2.255\n")
        self.write("etc/opendmarc.conf", f"Socket inet:{self.port}@127.0.0.1\nAuthservID mx.test.example\n"
                   "TrustedAuthservIDs mx.test.example\nRejectFailures true\nIgnoreHosts /etc/nobody\nSyslog false\n"
                   "PidFile /run/opendmarc.pid\nUserID nobody\nSoftwareHeader false\n")
        self.launch("/usr/sbin/opendmarc", "-c", "/etc/opendmarc.conf")


class Rspamd(Filter):
    """With its test patterns and without rules, whose compilation would take half a minute."""

    def start(self):
        self.write("etc/tld", "example\n")
        self.write("etc/rspamd/rspamd.conf", f"""
options {{
  pidfile = "/run/rspamd.pid"; filters = ""; enable_test_patterns = true; gtube_patterns = "all";
  local_addrs = ["192.0.2.0/24"]; dns {{ nameserver = ["127.0.0.1:9:1"]; timeout = 0.1s; retransmits = 1; }}
  url_tld = "/etc/tld"; disable_hyperscan = true; tempdir = "/tmp"; cache_file = "/tmp/symbols.cache";
}}
logging {{ type = "file"; filename = "/var/log/rspamd.log"; level = "notice"; }}
worker "rspamd_proxy" {{
  bind_socket = "127.0.0.1:{self.port}"; milter = yes; timeout = 60s; count = 1;
  upstream "local" {{ default = yes; self_scan = yes; }}
}}
actions {{ reject = 15; add_header = 6; rewrite_subject = 8; subject = "[spam] %s"; }}
modules {{ path = "/usr/share/rspamd/plugins/milter_headers.lua"; }}
milter_headers {{ use = ["x-spam-level", "x-spam-status"]; extended_spam_headers = false; skip_local = false;
  skip_authenticated = false; }}
""")
        self.launch("/usr/bin/rspamd", "-c", "/etc/rspamd/rspamd.conf", "-u", "nobody", "-g", "nogroup")


class ClamAv(Filter):
    def start(self):
        self.write("lib/clamav/test.ndb", f"Penstock.Test:0:*:{VIRUS.encode().hex()}\n")
        self.write("etc/clamd.conf", "DatabaseDirectory /var/lib/clamav\nLocalSocket /run/clamd.sock\n"
                   "LogFile /var/log/clamd.log\nMaxThreads 4\nConcurrentDatabaseReload no\n")
        self.write("etc/clamav-milter.conf", f"MilterSocket inet:{self.port}@127.0.0.1\nOnInfected Reject\n"
                   "ClamdSocket unix:/run/clamd.sock\nRejectMsg rejected due to virus: %v\nAddHeader Replace\n"
                   "ReportHostname av.example\nLogFile /var/log/clamav-milter.log\n")
        started = self.run("/usr/sbin/clamd", "--config-file=/etc/clamd.conf")
        if started.returncode != 0:
            raise RuntimeError(f"clamd: {started.stdout}{self.read('log/clamd.log')}")
        # It goes into the background before it has read its signatures; the filter ends where nobody answers.
        eventually(lambda: os.path.exists(os.path.join(self.dir, "run/clamd.sock")), "clamd serves", 60)
        # When it serves it sends its parent SIGINT, which may not wait for that yet, and then ends by the signal.
        self.launch("/usr/sbin/clamav-milter", "--config-file=/etc/clamav-milter.conf", good=(0, -signal.SIGINT))
