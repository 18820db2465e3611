#!/usr/bin/env python3
"""A Debian 12 machine in qemu, without KVM: its own kernel with AppArmor, systemd, a disk that loses at a power cut
what was not flushed, and the packages of build/packages beside it.

Use:     machine = Machine(); machine.boot(); print(machine.run("systemctl is-system-running"))
By hand: tests/vm/machine.py make|share|boot|run 'SCRIPT'|cut|off      (root; one machine at a time)
The root file system is made once by mmdebstrap from the host's own list of Debian archives. All of it is below
PEN_VM_DIR (/var/tmp/penstock-vm, 3 GB). PEN_VM_PACKAGES: another directory of package files. There is no way out of the
machine; its port 25 is a free port of 127.0.0.1.
"""
import glob
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "peers"))
from debian_root import apt_options, archives  # noqa: E402

DIRECTORY = os.environ.get("PEN_VM_DIR", "/var/tmp/penstock-vm")
PACKAGES = os.environ.get("PEN_VM_PACKAGES", os.path.join(TOP, "build", "packages"))
HERE = os.path.join(TOP, "tests", "vm")
PATIENCE = float(os.environ.get("PEN_VM_PATIENCE", "3"))  # how much longer than on a quiet machine is waited
INCLUDE = ("linux-image-cloud-amd64 initramfs-tools systemd-sysv systemd dbus udev kmod libnss-systemd "
           "apparmor apparmor-utils needrestart ufw logrotate "
           "ca-certificates cron debconf init-system-helpers mailutils netbase passwd procps publicsuffix python3 "
           "ssl-cert iproute2 e2fsprogs zstd less "
           "libcurl4 libfmt9 libhiredis0.14 libidn2-0 libldns3 liblmdb0 libncursesw6 libpcre2-8-0 "
           "libseccomp2 libssl3 libunistring2 libuv1 libxxhash0 zlib1g").split()
UNIT = """[Unit]
Description=What the host of this machine says
DefaultDependencies=no
After=systemd-tmpfiles-setup-dev.service sysinit.target
[Service]
ExecStart=/usr/local/sbin/agent
Restart=always
# Whoever runs here is not of this unit's processes, and does not end with them.
KillMode=process
[Install]
WantedBy=sysinit.target
"""
NETWORK = """[Match]
Name=e*
[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
"""
FILES = {
    "etc/hostname": "mx.test.example\n",
    "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 mx.test.example mx\n",
    "etc/resolv.conf": "nameserver 127.0.0.1\n",  # where nobody answers: every lookup fails at once
    "etc/fstab": "/dev/vda / ext4 defaults 0 1\nLABEL=packages /mnt ext4 ro,nofail,x-systemd.device-timeout=600 0 0\n",
    "etc/systemd/network/10-net.network": NETWORK,
    "etc/systemd/system/agent.service": UNIT,
    "etc/systemd/journald.conf.d/vm.conf": "[Journal]\nStorage=persistent\nRateLimitIntervalSec=0\n",
    "etc/sysctl.d/vm.conf": "kernel.printk_ratelimit=0\n",  # no message of AppArmor is left out
}


class Machine:
    def __init__(self, directory=DIRECTORY):
        self.dir = directory
        self.ids = itertools.count(int(time.time() * 1000))
        self.answers, self.changed = {}, threading.Condition()
        self.socket = None
        self.said_boot = None

    def path(self, name):
        return os.path.join(self.dir, name)

    # What it is made of.

    def make(self):
        """The root file system, once."""
        if os.path.exists(self.path("base.img")):
            return
        os.makedirs(self.dir, exist_ok=True)
        root = self.path("root")
        shutil.rmtree(root, ignore_errors=True)
        modules = r"virtio_blk\nvirtio_pci\nvirtio_console\nvirtio_net\next4\n"
        hook = ("cd \"$1/etc\" && mkdir -p initramfs-tools/conf.d && echo MODULES=list >initramfs-tools/conf.d/vm && "
                f"printf '{modules}' >initramfs-tools/modules")
        made = ["mmdebstrap", "--mode=root", "--variant=apt", "--quiet", *apt_options(), "--essential-hook=" + hook,
                "--include=" + ",".join(INCLUDE), "bookworm", root, *archives()]
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", *made], capture_output=True,
                              text=True)
        if done.returncode != 0:
            raise AssertionError("mmdebstrap: " + done.stderr[-3000:])
        for name, text in FILES.items():
            os.makedirs(os.path.join(root, os.path.dirname(name)), exist_ok=True)
            if os.path.islink(os.path.join(root, name)):
                os.remove(os.path.join(root, name))
            with open(os.path.join(root, name), "w") as out:
                out.write(text)
        shutil.copy(os.path.join(HERE, "agent.py"), os.path.join(root, "usr/local/sbin/agent"))
        os.chmod(os.path.join(root, "usr/local/sbin/agent"), 0o755)
        subprocess.run(["chroot", root, "systemctl", "enable", "--quiet", "agent.service", "systemd-networkd.service"],
                       check=True)
        # What nobody waits for in a machine of a test. (The timers of apt would be busy when a test is.)
        subprocess.run(["chroot", root, "systemctl", "mask", "--quiet", "apt-daily.timer", "apt-daily-upgrade.timer",
                        "e2scrub_all.timer", "e2scrub_reap.service"], check=True)
        subprocess.run(["chroot", root, "useradd", "-m", "-s", "/bin/bash", "anna"], check=True)
        for kind in ("vmlinuz", "initrd.img"):
            shutil.copy(glob.glob(os.path.join(root, "boot", kind + "-*"))[0], self.path(kind))
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, self.path("base.part"), "4G"], check=True)
        shutil.rmtree(root)
        os.rename(self.path("base.part"), self.path("base.img"))

    def fresh(self):
        """A new disk."""
        self.make()
        self.make_share()
        subprocess.run(["cp", "--sparse=always", self.path("base.img"), self.path("disk.img")], check=True)

    def make_share(self):
        """Another disk with the packages and the files that tests use, which is /mnt."""
        share = self.path("share")
        shutil.rmtree(share, ignore_errors=True)
        os.makedirs(share)
        for name in glob.glob(os.path.join(PACKAGES, "*.deb")) + glob.glob(os.path.join(HERE, "guest_*")):
            shutil.copy(name, share)
        self.repack("penstock", "+next", share)
        subprocess.run(["rm", "-f", self.path("share.img")], check=True)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-L", "packages", "-d", share, self.path("share.img"), "600M"],
                       check=True)
        shutil.rmtree(share)

    def repack(self, name, suffix, share):
        """The same package with a later version."""
        tree = self.path("repack")
        shutil.rmtree(tree, ignore_errors=True)
        package = glob.glob(os.path.join(PACKAGES, name + "_*.deb"))[0]
        subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
        control = os.path.join(tree, "DEBIAN", "control")
        with open(control) as text:
            lines = [l.rstrip("\n") + suffix if l.startswith("Version:") else l.rstrip("\n") for l in text]
        with open(control, "w") as out:
            out.write("\n".join(lines) + "\n")
        made = os.path.join(share, name + "-next.deb")
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, made], check=True,
                       stdout=subprocess.DEVNULL)
        shutil.rmtree(tree)

    # Power.

    def boot(self, wait=True):
        """Power on, and whoever speaks for the machine answers."""
        if not os.path.exists(self.path("disk.img")):
            self.fresh()
        for name in ("disk.sock", "agent.sock", "monitor.sock"):
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))
        # A disk with a cache that a flush empties, and that a power cut loses.
        with open(self.path("disk.log"), "a") as log:
            disk = subprocess.Popen([sys.executable, os.path.join(HERE, "disk.py"), self.path("disk.img"),
                                     self.path("disk.sock")], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    start_new_session=True)
        while not os.path.exists(self.path("disk.sock")):
            if disk.poll() is not None:
                raise AssertionError("disk.py ended")
            time.sleep(0.05)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        arguments = [
            "nice", "-n", "5", "qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "1",
            "-m", "1024", "-nodefaults", "-display", "none", "-no-user-config",
            "-kernel", self.path("vmlinuz"), "-initrd", self.path("initrd.img"),
            "-append", "root=/dev/vda rw console=ttyS0 apparmor=1 security=apparmor log_buf_len=4M panic=5",
            "-serial", "file:" + self.path("console.log"),
            "-drive", f"file=nbd:unix:{self.path('disk.sock')},format=raw,if=none,id=root,cache=none",
            "-device", "virtio-blk-pci,drive=root",
            "-drive", f"file={self.path('share.img')},format=raw,if=none,id=share,readonly=on",
            "-device", "virtio-blk-pci,drive=share", "-device", "virtio-rng-pci",
            "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=penstock.agent",
            "-chardev", f"socket,id=agent,path={self.path('agent.sock')},server=on,wait=off",
            "-monitor", f"unix:{self.path('monitor.sock')},server=on,wait=off",
            "-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:25",
            "-device", "virtio-net-pci,netdev=net"]
        with open(self.path("qemu.log"), "w") as log:
            qemu = subprocess.Popen(arguments, stdout=log, stderr=log, start_new_session=True)
        with open(self.path("state.json"), "w") as out:
            json.dump({"qemu": qemu.pid, "disk": disk.pid, "port": port}, out)
        while not os.path.exists(self.path("agent.sock")):
            if qemu.poll() is not None:
                raise AssertionError("qemu: " + open(self.path("qemu.log")).read())
            time.sleep(0.05)
        self.attach()
        if wait:
            self.await_boot()

    def attach(self):
        """To the machine that runs, whoever started it."""
        if self.socket:
            self.socket.close()
        with open(self.path("state.json")) as text:
            self.state = json.load(text)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(self.path("agent.sock"))
        threading.Thread(target=self.listen, args=(self.socket,), daemon=True).start()

    @property
    def port(self):
        return self.state["port"]

    def listen(self, connection):
        kept = b""
        while True:
            try:
                data = connection.recv(65536)
            except OSError:
                return
            if not data:
                return
            kept += data
            while b"\n" in kept:
                line, kept = kept.split(b"\n", 1)
                try:
                    answer = json.loads(line)
                except ValueError:
                    continue
                with self.changed:
                    self.answers[answer["id"]] = answer
                    self.changed.notify_all()

    def await_boot(self, former=None, timeout=900):
        """Until the agent of another boot than the former one answers."""
        deadline = time.time() + timeout * PATIENCE
        while time.time() < deadline:
            try:
                answer = self.ask("true", 5)
            except TimeoutError:
                continue
            if answer["boot"] != former:
                self.said_boot = answer["boot"]
                return
            time.sleep(1)
        raise AssertionError("the machine did not boot:\n" + self.console()[-3000:])

    def cut(self, kept=False):
        """A power cut: of what was not flushed the disk has nothing, or, kept, what chance has chosen."""
        self.end(self.state["disk"], signal.SIGUSR1 if kept else signal.SIGKILL)
        self.end(self.state["qemu"], signal.SIGKILL)

    @staticmethod
    def end(pid, how):
        try:
            os.kill(pid, how)
        except ProcessLookupError:
            return
        for _ in range(100):
            try:
                if os.waitpid(pid, os.WNOHANG)[0] == pid:
                    return
            except ChildProcessError:  # somebody else's child
                if not os.path.exists(f"/proc/{pid}"):
                    return
            time.sleep(0.05)

    def off(self, timeout=300):
        """As by its button: systemd stops everything. The seconds that it took."""
        begin = time.time()
        self.send("systemctl poweroff", 30)
        for _ in range(int(timeout * 5)):
            try:
                gone = os.waitpid(self.state["qemu"], os.WNOHANG)[0] != 0
            except ChildProcessError:
                gone = not os.path.exists(f"/proc/{self.state['qemu']}")
            if gone:
                break
            time.sleep(0.2)
        else:
            raise AssertionError("the machine does not end:\n" + self.console()[-3000:])
        os.kill(self.state["disk"], signal.SIGTERM)  # the guest has flushed
        self.end_of(self.state["disk"])
        return time.time() - begin

    @staticmethod
    def end_of(pid):
        for _ in range(600):
            try:
                if os.waitpid(pid, os.WNOHANG)[0] == pid:
                    return
            except ChildProcessError:
                if not os.path.exists(f"/proc/{pid}"):
                    return
            time.sleep(0.1)

    def reboot(self, timeout=900):
        former = self.ask("true", 60)["boot"]
        self.send("systemctl reboot", 30)
        self.await_boot(former, timeout)

    def console(self):
        with open(self.path("console.log"), errors="replace") as text:
            return text.read()

    # Work.

    def send(self, script, timeout):
        number = next(self.ids)
        self.socket.sendall(json.dumps({"id": number, "script": script, "timeout": timeout}).encode() + b"\n")
        return number

    def result(self, number, timeout):
        with self.changed:
            if not self.changed.wait_for(lambda: number in self.answers, timeout):
                raise TimeoutError(f"no answer from the machine in {timeout} s")
            return self.answers.pop(number)

    def ask(self, script, timeout):
        return self.result(self.send(script, timeout), timeout + 5)

    def run(self, script, check=True, timeout=120):
        """What a script prints that root runs."""
        answer = self.ask(script, timeout * PATIENCE)
        if check and answer["status"] != 0:
            raise AssertionError(f"exit {answer['status']} of: {script}\n{answer['printed']}")
        return answer["printed"]

    def until(self, script, timeout=120, every=0.5):
        """Until the script ends with 0, asked again in the machine itself. What it printed."""
        timeout = int(timeout * PATIENCE)
        return self.run(f"end=$(($(date +%s) + {timeout})); while :; do printed=$({script}) && break; "
                        f"[ $(date +%s) -lt $end ] || {{ echo \"$printed\"; exit 1; }}; sleep {every}; done; "
                        "echo \"$printed\"", timeout=timeout + 60)


def main():
    machine = Machine()
    action = sys.argv[1] if len(sys.argv) > 1 else ""
    if action == "make":
        machine.make()
    elif action == "share":
        machine.make_share()
    elif action == "boot":
        machine.boot()
    elif action in ("run", "cut", "off"):
        machine.attach()
        if action == "run":
            answer = machine.ask(sys.argv[2], int(os.environ.get("PEN_VM_TIMEOUT", "300")))
            sys.stdout.write(answer["printed"])
            return answer["status"]
        getattr(machine, action)()
    else:
        print(__doc__)
        return 64
    return 0


if __name__ == "__main__":
    sys.exit(main())
