"""A Debian root file system of its own for a test: packages are installed there, and programs run there in their own
network, mount and process namespaces.

Use:     with DebianRoot() as debian:
             debian.install("penstock_0.1.0_amd64.deb", answers={"penstock/main_mailer_type": "Local only"})
             print(debian.run("penconf -n"))
The base is made once by mmdebstrap (var/peers/debian) from the host's own list of Debian archives, with what the
packages depend on; each DebianRoot is a copy. Needs root.
"""
import fcntl
import glob
import os
import re
import shutil
import subprocess
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BASE = os.path.join(TOP, "var", "peers", "debian")
PACKAGES = os.path.join(TOP, "build", "packages")
# What the packages depend on, and what the tests call.
INCLUDE = ("ca-certificates debconf init-system-helpers mailutils netbase procps python3-minimal systemd "
           "libcurl4 libfmt9 libhiredis0.14 libidn2-0 libldap-2.5-0 libldns3 liblmdb0 libmariadb3 libmongoc-1.0-0 "
           "libpcre2-8-0 libpq5 libsqlite3-0 libssl3 libunistring2 libuv1 libxxhash0 zlib1g "
           "cron dovecot-core dovecot-lmtpd libseccomp2 passwd publicsuffix s-nail "
           "cpio e2fsprogs libdb5.3 libicu72 libnsl2 libsasl2-2 ssl-cert").split()  # the last ones: of postfix


def archives():
    """The host's lists of Debian's own archives; other archives have nothing to do here."""
    found = []
    for path in glob.glob("/etc/apt/sources.list") + sorted(glob.glob("/etc/apt/sources.list.d/*")):
        with open(path) as text:
            if path.endswith((".list", ".sources")) and "bookworm" in text.read():
                found.append(path)
    return found


def apt_options():
    """The host's settings for downloads (a proxy, credentials) hold for the base too."""
    found = []
    for path in sorted(glob.glob("/etc/apt/apt.conf.d/*")):
        with open(path) as text:
            lines = [l.strip() for l in text if l.strip() and not l.lstrip().startswith(("#", "//"))]
        if lines and all(re.match(r"Acquire::(Check|http|https|ftp|Retries)", l) for l in lines):
            found.append("--aptopt=" + path)
    return found


def make_base():
    os.makedirs(os.path.dirname(BASE), exist_ok=True)
    with open(BASE + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(os.path.join(BASE, ".complete")):
            return
        shutil.rmtree(BASE, ignore_errors=True)
        # In namespaces of its own: what it mounts is gone with it, however it ends.
        made = ["mmdebstrap", "--mode=root", "--variant=apt", "--quiet", *apt_options(),
                "--include=" + ",".join(INCLUDE), "bookworm", BASE, *archives()]
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", *made], capture_output=True,
                              text=True)
        if done.returncode != 0:
            raise AssertionError("mmdebstrap: " + done.stderr[-3000:])
        # As in any root file system that is not a running host.
        with open(os.path.join(BASE, "usr/sbin/policy-rc.d"), "w") as policy:
            policy.write("#!/bin/sh\nexit 101\n")
        os.chmod(os.path.join(BASE, "usr/sbin/policy-rc.d"), 0o755)
        # Not installed: that is for a test to do.
        subprocess.run(["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "postfix"],
                       cwd=os.path.join(BASE, "var/cache/apt/archives"), check=True)
        with open(os.path.join(BASE, ".complete"), "w"):
            pass


def built(name):
    """The package file of that name."""
    found = glob.glob(os.path.join(PACKAGES, f"{name}_*.deb"))
    if len(found) != 1:
        raise AssertionError(f"{name}: {found}, one package file expected")
    return found[0]


class DebianRoot:
    def __init__(self):
        make_base()
        self.dir = tempfile.mkdtemp(prefix="pen-debian-")
        self.root = os.path.join(self.dir, "root")
        subprocess.run(["cp", "-a", BASE, self.root], check=True)
        with open(self.path("etc/hostname"), "w") as name:
            name.write("mx.test.example\n")
        with open(self.path("etc/hosts"), "w") as hosts:
            hosts.write("127.0.0.1 localhost\n127.0.1.1 mx.test.example mx\n")

    def __enter__(self):
        return self

    def __exit__(self, *what):
        if not os.environ.get("PEN_KEEP"):
            shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.root, name)

    def read(self, name):
        with open(self.path(name), errors="replace") as text:
            return text.read()

    def run(self, script, check=True, timeout=300):
        """Runs a shell script as root in there. Everything that it started ends with it."""
        inside = ("ip link set lo up 2>/dev/null || python3 -c 'import fcntl,socket,struct;"
                  "fcntl.ioctl(socket.socket(),0x8914,struct.pack(\"16sh14x\",b\"lo\",0x49))'\n"
                  "mount -t proc proc \"$1/proc\" && mount --bind /dev \"$1/dev\" && hostname mx.test.example &&\n"
                  "exec chroot \"$1\" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C HOME=/root "
                  "DEBIAN_FRONTEND=noninteractive sh -c \"$2\"")
        done = subprocess.run(["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "sh", "-ec",
                               inside, "sh", self.root, script],
                              capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
                              errors="replace")
        if check and done.returncode != 0:
            raise AssertionError(f"exit {done.returncode} of: {script}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def answer(self, answers):
        """What debconf is told before it asks."""
        said = "".join(f"{name.split('/')[0]} {name} string {value}\n" for name, value in answers.items())
        with open(self.path("tmp/answers"), "w") as out:
            out.write(said)
        self.run("debconf-set-selections /tmp/answers")

    def install_postfix(self, answers):
        """Debian's Postfix, which was downloaded with the base."""
        self.answer(answers)
        return self.run("dpkg -i /var/cache/apt/archives/postfix_*.deb 2>&1")

    def install(self, *names, answers=None):
        """Installs package files by dpkg."""
        for name in names:
            shutil.copy(built(name), self.path("tmp"))
        self.answer(answers or {})
        files = " ".join("/tmp/" + os.path.basename(built(name)) for name in names)
        return self.run(f"dpkg --auto-deconfigure -i {files} 2>&1")

    def reconfigure(self, answers):
        """dpkg-reconfigure, with an administrator who answers these questions so and takes the rest as it is offered.
        An editor is the dialogue: it is shown what debconf offers, and that is what is asked of the configuration."""
        with open(self.path("tmp/editor"), "w") as out:
            out.write("#!/bin/sh\n" + "".join(
                f"sed -i 's|^{name}=.*|{name}=\"{value}\"|' \"$1\"\n" for name, value in answers.items()))
        os.chmod(self.path("tmp/editor"), 0o755)
        return self.run("mount -t devpts devpts /dev/pts && export DEBIAN_FRONTEND=editor TERM=dumb EDITOR=/tmp/editor "
                        "VISUAL=/tmp/editor && script -qec 'dpkg-reconfigure -p low penstock' /dev/null 2>&1")

    def autopkgtest(self):
        """Runs debian/tests by autopkgtest, beside what is installed. Returns test -> result, and what was printed."""
        source = os.path.join(self.dir, "source")
        shutil.copytree(os.path.join(TOP, "debian"), os.path.join(source, "debian"))
        open(os.path.join(source, "debian", "files"), "w").close()  # the mark of a tree that was built
        inside = ("ip link set lo up && mount -t proc proc \"$1/proc\" && mount --bind /dev \"$1/dev\" && "
                  "mount --bind /dev/pts \"$1/dev/pts\" && hostname mx.test.example\n"
                  # The root is a container that is not used for anything else.
                  "exec env -u TMPDIR autopkgtest --no-built-binaries --ignore-restrictions=isolation-container "
                  "--timeout-test=600 -o \"$2/results\" \"$2/source/\" -- chroot \"$1\"")
        done = subprocess.run(["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "sh", "-ec",
                               inside, "sh", self.root, self.dir], capture_output=True, text=True, timeout=1500,
                              stdin=subprocess.DEVNULL, errors="replace")
        printed = done.stdout + done.stderr
        summary = os.path.join(self.dir, "results", "summary")
        if not os.path.exists(summary):
            raise AssertionError(f"autopkgtest: exit {done.returncode}\n{printed}")
        with open(summary) as text:
            return dict(line.split(None, 1) for line in text.read().splitlines()), printed
