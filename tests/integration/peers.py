"""Other mail servers as test peers: Debian's Postfix, Exim and Dovecot, unpacked privately and run on loopback.

Use:   with Postfix(port=…, relay_port=…) as p: …     (also Exim, Dovecot); p.queue_ids(), p.log()
Each runs in a mount namespace of its own (tests/peers/enter), so nothing is installed or started on the machine.
Needs root; callers skip with unavailable()'s reason otherwise.
"""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from waiting import eventually

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROOTS = os.environ.get("PEN_PEERS", os.path.join(TOP, "var", "peers"))
PACKAGES = {"postfix": ["postfix", "postfix-pcre"], "exim": ["exim4-daemon-light", "exim4-base"],
            "dovecot": ["dovecot-core", "dovecot-lmtpd"], "unbound": ["unbound", "ldnsutils"],
            "rbldnsd": ["rbldnsd"], "readers": ["s-nail", "mutt"],
            "dkim": ["python3-dkim", "python3-nacl", "opendkim"], "arc": ["python3-authres"],
            "filters": ["opendkim", "opendmarc", "rspamd", "clamav-milter", "clamav-daemon",
                        "python3-milter"],
            "policy": ["postgrey", "postfix-policyd-spf-python", "postfwd"]}


def unavailable():
    """Returns why peers cannot run here, or None."""
    if os.geteuid() != 0:
        return "needs root (private mount namespaces)"
    probe = subprocess.run(["unshare", "-m", "true"], capture_output=True)
    return None if probe.returncode == 0 else "mount namespaces are not permitted here"


def wait_port(port, seconds=20, host="127.0.0.1"):
    """Waits, for a limited time, until something accepts connections on the port."""
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise TimeoutError(f"nothing listens on {host}:{port}")
            time.sleep(0.02)


PASSWD = """root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
postfix:x:5101:5101::/var/spool/postfix:/usr/sbin/nologin
Debian-exim:x:5103:5103::/var/spool/exim4:/usr/sbin/nologin
dovecot:x:5104:5104::/nonexistent:/usr/sbin/nologin
dovenull:x:5105:5105::/nonexistent:/usr/sbin/nologin
vmail:x:5106:5106::/var/lib/vmail:/usr/sbin/nologin
"""
GROUP = """root:x:0:
mail:x:8:
nogroup:x:65534:
postfix:x:5101:
postdrop:x:5102:
Debian-exim:x:5103:
dovecot:x:5104:
dovenull:x:5105:
vmail:x:5106:
"""


class Peer:
    """One private instance; subclasses write its configuration and start it."""

    package = ""

    def __init__(self, port):
        self.port = port
        self.root = os.path.join(ROOTS, self.package)
        subprocess.run([os.path.join(TOP, "scripts/unpack-peer"), self.root, *PACKAGES[self.package]], check=True)
        self.dir = tempfile.mkdtemp(prefix=f"pen-{self.package}-")
        os.chmod(self.dir, 0o755)
        for sub in ("etc", "spool", "lib", "log", "run"):
            os.makedirs(os.path.join(self.dir, sub))
        for name, text in {"passwd": PASSWD, "group": GROUP, "hosts": "127.0.0.1 localhost peer.example\n",
                           "nsswitch.conf": "hosts: files\npasswd: files\ngroup: files\n", "resolv.conf": "",
                           "mailname": "peer.example\n", "aliases": ""}.items():
            self.write("etc/" + name, text)
        for name in ("services", "protocols", "ld.so.cache", "localtime"):
            if os.path.exists("/etc/" + name):
                shutil.copy("/etc/" + name, os.path.join(self.dir, "etc"))

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as out:
            out.write(text)
        return path

    def read(self, name):
        try:
            with open(os.path.join(self.dir, name), errors="replace") as text:
                return text.read()
        except FileNotFoundError:
            return ""

    def run(self, *command, timeout=60):
        """Runs a command inside; its output goes through a file, since a daemon may keep a pipe open for ever."""
        with tempfile.TemporaryFile("w+") as out:
            done = subprocess.run([os.path.join(TOP, "tests/peers/enter"), self.root, self.dir, *command],
                                  stdout=out, stderr=out, stdin=subprocess.DEVNULL, timeout=timeout)
            out.seek(0)
            done.stdout = out.read()
        return done

    def pids(self):
        space = self.read("namespace").strip()
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    if space and os.readlink(f"/proc/{entry}/ns/mnt") == space:
                        found.append(int(entry))
                except OSError:
                    pass
        return found

    def stop(self):
        subprocess.run([os.path.join(TOP, "tests/peers/leave"), self.dir], check=True)
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind, *exc):
        if kind and not issubclass(kind, unittest.SkipTest):
            sys.stderr.write(f"---- log of {self.package} at port {self.port} (the last 200 lines)\n" +
                             "".join(self.log().splitlines(True)[-200:]) + "----\n")
        self.stop()

    def log(self):
        return ""


class Postfix(Peer):
    """Relays everything it gets from loopback to relay_port; delivers for local_domains into one mbox per address.

    services: lines of master.cf in place of the one for smtpd at the port."""

    package = "postfix"

    def __init__(self, port, relay_port=None, settings="", services=None):
        super().__init__(port)
        self.relay_port, self.settings = relay_port, settings
        self.services = services or f"127.0.0.1:{port} inet n - n - - smtpd"

    def start(self):
        shutil.copytree(os.path.join(self.root, "etc/postfix"), os.path.join(self.dir, "etc/postfix"))
        shutil.copy(os.path.join(self.root, "usr/share/postfix/dynamicmaps.cf"), os.path.join(self.dir, "etc/postfix"))
        for sub in ("spool/postfix", "lib/postfix", "spool/mail"):
            os.makedirs(os.path.join(self.dir, sub))
        os.chown(os.path.join(self.dir, "lib/postfix"), 5101, 5101)
        relay = f"[127.0.0.1]:{self.relay_port}" if self.relay_port else ""
        self.write("etc/postfix/main.cf", f"""compatibility_level = 3.6
queue_directory = /var/spool/postfix
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
data_directory = /var/lib/postfix
shlib_directory = /usr/lib/postfix
mail_owner = postfix
setgid_group = postdrop
biff = no
append_dot_mydomain = no
myhostname = peer.example
mydestination =
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
alias_maps =
maillog_file = /var/log/mail.log
relayhost = {relay}
smtpd_relay_restrictions = permit_mynetworks, reject
message_size_limit = 52428800
{self.settings}
""")
        with open(os.path.join(self.root, "usr/share/postfix/master.cf.dist")) as dist:
            lines = dist.read().splitlines()
        out = []
        for line in lines:
            if line.startswith("smtp      inet"):
                line = self.services
            fields = line.split()
            if len(fields) >= 8 and not line.startswith(("#", " ")) and fields[4] in ("y", "-"):
                fields[4] = "n"
                line = " ".join(fields)
            out.append(line)
        self.write("etc/postfix/master.cf", "\n".join(out) + "\npostlog unix-dgram n - n - 1 postlogd\n"
                   "tlsproxy unix - - n - 0 tlsproxy\n")  # with which TLS connections are reused
        started = self.run("/usr/sbin/postfix", "start")
        if started.returncode != 0:
            raise RuntimeError(started.stdout + self.log())
        wait_port(self.port)

    def log(self):
        return self.read("log/mail.log")

    def wait_log(self, pattern, since=0):
        """What it has done is in its log a moment later: a process of its own writes it. since: bytes that are passed
        over."""
        return eventually(lambda: re.search(pattern, self.log()[since:]), lambda: f"{pattern} in\n{self.log()[since:]}")

    def queued(self):
        spool = os.path.join(self.dir, "spool/postfix")
        return sum(len(files) for q in ("incoming", "active", "deferred", "maildrop", "hold")
                   for _, _, files in os.walk(os.path.join(spool, q)))

    def flush(self):
        self.run("/usr/sbin/postqueue", "-f")


class Exim(Peer):
    """Accepts from loopback for any domain and sends everything to relay_host at once, which is 127.0.0.1 by any name.

    rcpt: the ACL for recipients, data: that for content; main, out, authenticators: lines for these parts of its
    configuration. certificate and ca are to be read as /var/lib/tls.pem, tls.key and ca.pem there."""

    package = "exim"

    def __init__(
        self,
        port,
        relay_port,
        relay_host="127.0.0.1",
        certificate=None,
        ca=None,
        rcpt="accept",
        data="accept",
        main="",
        out="",
        authenticators="",
    ):
        super().__init__(port)
        self.relay_port, self.relay_host, self.rcpt = relay_port, relay_host, rcpt
        self.data = data
        self.main, self.out, self.authenticators = main, out, authenticators
        if relay_host != "127.0.0.1":
            self.write("etc/hosts", f"127.0.0.1 localhost peer.example {relay_host}\n")
        self.files = {"ca.pem": ca} if ca else {}
        if certificate:
            self.files.update({"tls.pem": certificate.pem, "tls.key": certificate.key})

    def start(self):
        for sub in ("spool/exim4", "log/exim4", "run/exim4"):
            os.makedirs(os.path.join(self.dir, sub))
            os.chown(os.path.join(self.dir, sub), 5103, 5103)
        for name, path in self.files.items():
            os.chown(shutil.copy(path, os.path.join(self.dir, "lib", name)), 5103, 5103)
        config = self.write("etc/exim4/exim4.conf", f"""primary_hostname = peer.example
exim_user = Debian-exim
exim_group = Debian-exim
spool_directory = /var/spool/exim4
log_file_path = /var/log/exim4/%slog
daemon_smtp_ports = {self.port}
local_interfaces = 127.0.0.1
disable_ipv6
accept_8bitmime = true
keep_environment =
rfc1413_query_timeout = 0s
host_lookup =
smtp_accept_queue_per_connection = 0
message_size_limit = 50M
acl_smtp_rcpt = take
acl_smtp_data = take_content
{self.main}
begin acl
take:
  {self.rcpt}
take_content:
  {self.data}
begin routers
out:
  driver = manualroute
  domains = *
  transport = out
  route_list = * {self.relay_host} byname
  self = send
  host_find_failed = defer
begin transports
out:
  driver = smtp
  port = {self.relay_port}
  allow_localhost
  hosts_try_fastopen =
{self.out}
begin retry
* * F,2h,5s
begin authenticators
{self.authenticators}
""")
        os.chmod(config, 0o644)
        self.run("/usr/bin/chown", "-R", "root:root", "/etc/exim4")
        started = self.run("/usr/sbin/exim4", "-bd", "-q1m")
        if started.returncode != 0:
            raise RuntimeError(started.stdout + self.log())
        wait_port(self.port)

    def log(self):
        return self.read("log/exim4/mainlog") + self.read("log/exim4/paniclog")

    def queued(self):
        return sum(1 for _, _, files in os.walk(os.path.join(self.dir, "spool/exim4/input"))
                   for f in files if f.endswith("-H"))


class Dovecot(Peer):
    """An LMTP server on `port` (TCP) and on self.socket (Unix); Maildirs below self.mail/USER.

    logins (name -> password) and auth_port: an authentication service too, on that port of 127.0.0.1 and on
    self.auth_socket, with the mechanisms named in self.mechanisms; introspection: the address of a server that knows
    about tokens, for XOAUTH2 too."""

    package = "dovecot"
    mechanisms = "plain login cram-md5 scram-sha-1 scram-sha-256 anonymous"

    def __init__(self, port, logins=None, auth_port=None, introspection=None):
        super().__init__(port)
        self.logins, self.auth_port, self.introspection = logins, auth_port, introspection

    def start(self):
        self.mail = os.path.join(self.dir, "lib/vmail")
        os.makedirs(self.mail)
        os.chown(self.mail, 5106, 5106)
        os.makedirs(os.path.join(self.dir, "run/dovecot"))
        os.chmod(os.path.join(self.dir, "run/dovecot"), 0o755)
        self.socket = os.path.join(self.dir, "run/dovecot/lmtp")
        self.auth_socket = os.path.join(self.dir, "run/dovecot/auth-smtp")
        passdb, auth, name = "driver = static\n  args = nopassword=y", "", "%Ln"
        if self.logins is not None:
            passdb = "driver = passwd-file\n  args = scheme=PLAIN username_format=%u /etc/dovecot/users"
            self.set_logins(self.logins)
            name = "%Lu"
            tokens = ""
            if self.introspection:
                tokens = "passdb {\n  driver = oauth2\n  mechanisms = xoauth2\n  args = /etc/dovecot/tokens\n}\n"
                self.write("etc/dovecot/tokens", f"""introspection_url = {self.introspection}
introspection_mode = post
username_attribute = username
active_attribute = active
active_value = true
""")
            auth = f"""{tokens}auth_mechanisms = {self.mechanisms}{" xoauth2" if tokens else ""}
auth_failure_delay = 0
auth_anonymous_username = anonymous
service auth {{
  inet_listener auth {{
    address = 127.0.0.1
    port = {self.auth_port}
  }}
  unix_listener auth-smtp {{
    mode = 0666
  }}
}}
"""
        self.write("etc/dovecot/dovecot.conf", f"""protocols = lmtp
base_dir = /run/dovecot
listen = 127.0.0.1
ssl = no
log_path = /var/log/dovecot.log
mail_location = maildir:/var/lib/vmail/%n
mail_uid = 5106
mail_gid = 5106
first_valid_uid = 100
postmaster_address = postmaster@peer.example
hostname = peer.example
auth_username_format = {name}
userdb {{
  driver = static
  args = uid=5106 gid=5106 home=/var/lib/vmail/%n allow_all_users=yes
}}
passdb {{
  {passdb}
}}
{auth}service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {self.port}
  }}
  unix_listener lmtp {{
    mode = 0666
  }}
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
""")
        started = self.run("/usr/sbin/dovecot", "-c", "/etc/dovecot/dovecot.conf")
        if started.returncode != 0:
            raise RuntimeError(started.stdout + self.log())
        wait_port(self.port)

    def set_logins(self, logins):
        """The user database; Dovecot reads it again when it has changed."""
        self.write(
            "etc/dovecot/users", "".join(f"{name}:{{PLAIN}}{password}::::::\n" for name, password in logins.items())
        )

    def kill_auth(self):
        """kill -9 of the authentication processes; Dovecot's master starts new ones."""
        for pid in self.pids():
            try:
                with open(f"/proc/{pid}/comm") as name:
                    if name.read().strip() == "auth":
                        os.kill(pid, 9)
            except (FileNotFoundError, ProcessLookupError):
                pass

    def log(self):
        return self.read("log/dovecot.log")

    def messages(self, user):
        """The bytes of each message delivered to a user."""
        box = os.path.join(self.mail, user, "new")
        found = []
        for name in sorted(os.listdir(box)) if os.path.isdir(box) else []:
            with open(os.path.join(box, name), "rb") as raw:
                found.append(raw.read())
        return found
