"""penstock import: a configuration of Postfix or of Debian's Exim, taken over by one command, runs and delivers."""
import json
import os
import shutil

from harness import *

# As Debian's package writes them for an "Internet Site", with what an administrator adds.
MAIN = """# See /usr/share/postfix/main.cf.dist for a commented, more complete version
smtpd_banner = $myhostname ESMTP $mail_name (Debian/GNU)
biff = no
append_dot_mydomain = no
readme_directory = no
compatibility_level = 3.6
# TLS parameters
smtp_tls_security_level = may
smtp_tls_session_cache_database = btree:${data_directory}/smtp_scache
smtpd_relay_restrictions = permit_mynetworks permit_sasl_authenticated defer_unauth_destination
myhostname = old.example
alias_maps = hash:/etc/postfix/aliases
alias_database = hash:/etc/postfix/aliases
myorigin = $myhostname
mydestination = $myhostname, localhost
relayhost =
mynetworks = 127.0.0.0/8 [::ffff:127.0.0.0]/104 [::1]/128
mailbox_size_limit = 0
recipient_delimiter = +
inet_interfaces = loopback-only
inet_protocols = ipv4
queue_directory = /var/spool/postfix
daemon_directory = /usr/lib/postfix/sbin
data_directory = /var/lib/postfix
mail_owner = postfix
setgid_group = postdrop
# virtual domains
virtual_alias_domains = hash:/etc/postfix/virtual_domains
virtual_alias_maps =
    hash:/etc/postfix/virtual,
    # by pattern
    regexp:/etc/postfix/virtual.regexp
transport_maps = hash:/etc/postfix/transport
header_checks = regexp:/etc/postfix/header_checks
local_recipient_maps =
"""
MASTER = """# service type  private unpriv  chroot  wakeup  maxproc command + args
127.0.0.1:%d      inet  n       -       y       -       -       smtpd
pickup    unix  n       -       y       60      1       pickup
cleanup   unix  n       -       y       -       0       cleanup
qmgr      unix  n       -       n       300     1       qmgr
tlsmgr    unix  -       -       y       1000?   1       tlsmgr
rewrite   unix  -       -       y       -       -       trivial-rewrite
bounce    unix  -       -       y       -       0       bounce
defer     unix  -       -       y       -       0       bounce
trace     unix  -       -       y       -       0       bounce
flush     unix  n       -       y       1000?   0       flush
proxymap  unix  -       -       n       -       -       proxymap
smtp      unix  -       -       y       -       -       smtp
relay     unix  -       -       y       -       -       smtp
        -o syslog_name=postfix/$service_name
showq     unix  n       -       y       -       -       showq
error     unix  -       -       y       -       -       error
retry     unix  -       -       y       -       -       error
discard   unix  -       -       y       -       -       discard
local     unix  -       n       n       -       -       local
virtual   unix  -       n       n       -       -       virtual
lmtp      unix  -       -       y       -       -       lmtp
anvil     unix  -       -       y       -       1       anvil
scache    unix  -       -       y       -       1       scache
postlog   unix-dgram n  -       n       -       1       postlogd
uucp      unix  -       n       n       -       -       pipe
  flags=Fqhu user=uucp argv=uux -r -n -z -a$sender - $nexthop!rmail ($recipient)
"""


class Import(Suite):
    def target(self):
        """A private instance whose configuration the import replaces; its directories and account stay."""
        mx = Instance({"maillog_file_prefixes": "/"}, start=False)
        self.addCleanup(mx.close)
        return mx

    def postfix(self, peer, port, main=""):
        folder = os.path.join(self.folder(), "postfix")
        os.makedirs(os.path.join(folder, "sub"))
        for name, text in {
            "main.cf": MAIN + main,
            "master.cf": MASTER % port,
            "aliases": "postmaster: root\nteam: ann@virtual.example\n",
            "virtual_domains": "virtual.example x\n",
            "virtual": "ann@virtual.example  bob@far.example\n# none\n",
            "virtual.regexp": "/^any-(.*)@virtual\\.example$/ $1@far.example\n",
            "transport": f"far.example smtp:[127.0.0.1]:{peer.port}\n",
            "header_checks": "/^X-Drop:/ IGNORE\n",
            "virtual.db": "Berkeley",
            "sub/note": "kept\n",
        }.items():
            with open(os.path.join(folder, name), "w") as out:
                out.write(text)
        return folder

    @staticmethod
    def tree(path):
        found = {}
        for folder, _, names in os.walk(path):
            for name in names:
                with open(os.path.join(folder, name)) as text:
                    found[os.path.join(folder, name)] = text.read()
        return found

    def take(self, mx, *options, status=0):
        done = mx.tool("penstock", "import", *options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def test_a_directory_of_postfix_runs_after_one_command(self):
        with Peer() as peer:
            mx, port = self.target(), free_port()
            source = self.postfix(peer, port)
            before = self.tree(source)
            said = json.loads(self.take(mx, "--from", source, "--force", "--json").stdout)
            self.assertTrue(said["mail_will_flow"])
            self.assertEqual(said["could_not"], [])
            self.assertIn("virtual_alias_maps", said["acts"])
            left_out = {d["name"] for d in said["left_out"]}
            self.assertLessEqual({"queue_directory", "daemon_directory", "scache/unix", "tlsmgr/unix"}, left_out)
            self.assertEqual(self.tree(source), before)
            with open(os.path.join(mx.etc, "main.cf")) as text:
                main = text.read()
            self.assertIn("    # by pattern\n    regexp:" + mx.etc + "/virtual.regexp", main)
            self.assertIn("# TLS parameters\nsmtp_tls_security_level = may", main)
            self.assertTrue(os.path.exists(os.path.join(mx.etc, "main.cf.before-import")))
            self.assertFalse(os.path.exists(os.path.join(mx.etc, "virtual.db")))
            self.assertTrue(os.path.exists(os.path.join(mx.etc, "sub/note")))
            shutil.rmtree(source)  # nothing leads back
            mx.port = port
            mx.start()
            send(port, "x@one.example", ["ann@virtual.example", "any-zed@virtual.example", "team@old.example"],
                 b"Subject: a\r\nX-Drop: y\r\n\r\nbody\r\n")
            got = peer.wait_messages(2)
            self.assertEqual({r for m in got for r in m.recipients}, {"bob@far.example", "zed@far.example"})
            self.assertNotIn(b"X-Drop", got[0].content)
            self.assertRaises(Refused, send, port, "x@one.example", ["nobody@virtual.example"], b"x\r\n")

    def test_a_directory_with_a_configuration_is_left_alone(self):
        with Peer() as peer:
            mx = self.target()
            with open(os.path.join(mx.etc, "main.cf")) as text:
                before = text.read()
            done = self.take(mx, "--from", self.postfix(peer, free_port()), status=os.EX_CANTCREAT)
            self.assertIn("--force", done.stderr)
            with open(os.path.join(mx.etc, "main.cf")) as text:
                self.assertEqual(text.read(), before)

    def test_a_dry_run_says_the_same_and_writes_nothing(self):
        with Peer() as peer:
            mx, target = self.target(), os.path.join(self.folder(), "new")
            done = self.take(mx, "--from", self.postfix(peer, free_port()), "--to", target, "-n")
            self.assertIn("left out: scache/unix", done.stdout)
            self.assertFalse(os.path.exists(target))

    def test_what_would_lose_mail_is_said_by_the_exit_status(self):
        with Peer() as peer:
            mx = self.target()
            source = self.postfix(peer, free_port(), "relay_domains = hash:/etc/postfix/lost\n")
            with open(os.path.join(source, "lost.db"), "w") as out:
                out.write("Berkeley")
            shutil.copy(os.path.join(source, "lost.db"), os.path.join(mx.etc, "lost.db"))
            done = self.take(mx, "--from", source, "--force", "--json", status=1)
            said = json.loads(done.stdout)
            self.assertFalse(said["mail_will_flow"])
            self.assertTrue(any("lost" in p["text"] and p.get("line") for p in said["differs"]), said["differs"])

    def test_a_host_with_debians_exim_sends_through_its_smart_host(self):
        with Peer() as peer:
            mx = self.target()
            etc = self.folder()
            os.makedirs(os.path.join(etc, "exim4"))
            for name, text in {
                "mailname": "mail.one.example\n",
                "aliases": "team: zoe@far.example\n",
                "email-addresses": "ada: ada.l@public.example\n",
                "exim4/update-exim4.conf.conf": f"""# /etc/exim4/update-exim4.conf.conf
dc_eximconfig_configtype='smarthost'
dc_other_hostnames='here.example'
dc_local_interfaces='127.0.0.1'
dc_readhost=''
dc_relay_domains=''
dc_minimaldns='false'
dc_relay_nets=''
dc_smarthost='127.0.0.1::{peer.port}'
CFILEMODE='644'
dc_use_split_config='false'
dc_hide_mailname=''
dc_mailname_in_oh='true'
dc_localdelivery='mail_spool'
""",
            }.items():
                with open(os.path.join(etc, name), "w") as out:
                    out.write(text)
            done = self.take(mx, "--from", os.path.join(etc, "exim4"), "--force")
            self.assertIn("Mail will flow", done.stdout)
            port = free_port()
            mx.set_services({"smtp": None, f"127.0.0.1:{port}": "inet n - n - - smtpd", "relay": "unix - - n - - smtp"})
            with open(os.path.join(mx.etc, "master.cf"), "a") as out:
                out.write("smtp unix - - n - - smtp\n")
            mx.port = port
            mx.set(local_recipient_maps="", myhostname="mail.one.example")
            mx.start()
            send(port, "ada@mail.one.example", ["zed@far.example"], b"From: ada@mail.one.example\r\n\r\nx\r\n")
            got = peer.wait_messages(1)[0]
            self.assertEqual((got.sender, got.recipients), ("ada.l@public.example", ["zed@far.example"]))
            send(port, "x@far.example", ["team@here.example"], b"Subject: alias\r\n\r\nx\r\n")
            self.assertEqual(peer.wait_messages(2)[1].recipients, ["zoe@far.example"])


if __name__ == "__main__":
    unittest.main()
