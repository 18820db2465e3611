"""The image of Containerfile: made step by step in a Debian root of its own, and run as a container engine runs it: its
own namespaces, a root that cannot be written, few capabilities, no new privileges, volumes for what is kept.

The engine itself stays outside: it would have to load its base from the network. `buildah` has been tried by hand
(docs/container.md)."""
import glob
import json
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

from debian_root import TOP, DebianRoot

# What podman gives a container: docs/container.md.
CAPABILITIES = "chown,dac_override,fowner,fsetid,kill,net_bind_service,setfcap,setgid,setpcap,setuid,sys_chroot"
SUBMIT = ["sendmail", "-f", "anna@mx.test.example", "anna@mx.test.example"]


def steps():
    """The instructions of Containerfile, as (WORD, text)."""
    with open(os.path.join(TOP, "Containerfile")) as text:
        lines = [line for line in text.read().replace("\\\n", " ").split("\n") if line and not line.startswith("#")]
    return [tuple(line.split(None, 1)) for line in lines]


class Image:
    """What the instructions of Containerfile make."""

    def __init__(self):
        self.debian = DebianRoot()
        self.volumes, self.start, self.health, self.stop = [], None, None, None
        for word, text in steps():
            if word == "COPY":
                *sources, target = text.split()
                os.makedirs(self.debian.path(target.strip("/")), exist_ok=True)
                for source in sources:
                    for name in glob.glob(os.path.join(TOP, source)):
                        shutil.copy(name, self.debian.path(target.strip("/")))
            elif word == "RUN":
                # publicsuffix is a download; the rest of what is installed is in the root already.
                self.debian.run(re.sub(r"^apt-get -q update &&", "", text.replace(" publicsuffix", "")))
            elif word == "VOLUME":
                self.volumes = json.loads(text)
            elif word == "ENTRYPOINT":
                self.start = json.loads(text)
            elif word == "HEALTHCHECK":
                self.health = json.loads(text[text.index("["):])
            elif word == "STOPSIGNAL":
                self.stop = getattr(signal, text)
            elif word not in ("FROM", "EXPOSE"):
                raise AssertionError(f"Containerfile: the test does not know {word}")
        self.debian.run("useradd -m anna")

    def close(self):
        self.debian.__exit__()


class Container:
    """The image at work, with volumes in `kept`."""

    def __init__(self, image, kept):
        self.image = image
        binds = ""
        for volume in image.volumes:
            place = os.path.join(kept, volume.strip("/").replace("/", "_"))
            if not os.path.isdir(place):  # a new volume begins with what the image has there
                subprocess.run(["cp", "-a", image.debian.path(volume.strip("/")), place], check=True)
            binds += f"mount --bind {shlex.quote(place)} \"$1{volume}\"\n"
        script = ("mount --make-rprivate / && mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\"\n"
                  "mount -t proc proc \"$1/proc\"; mount -t tmpfs -o mode=755 run \"$1/run\"\n"
                  "mount -t tmpfs tmp \"$1/tmp\"; mount --bind /dev \"$1/dev\"\n" + binds +
                  "hostname mx.test.example; "
                  "python3 -c 'import fcntl,socket,struct;"
                  "fcntl.ioctl(socket.socket(),0x8914,struct.pack(\"16sh14x\",b\"lo\",0x49))'\n"
                  "root=$1; shift; rights=$1; shift; "
                  "exec chroot \"$root\" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "
                  "setpriv --bounding-set \"-all,$rights\" --inh-caps=-all --no-new-privs \"$@\"")
        rights = ",".join("+" + name for name in CAPABILITIES.split(","))
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "sh", "-ec", script,
             "sh", image.debian.root, rights, *image.start],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self.said, self.lines = [], queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def await_line(self, pattern):
        """The first line of its output that matches and was not seen before."""
        while True:
            line = self.lines.get(timeout=120)
            if line is None:
                raise AssertionError(f"ended without {pattern!r}:\n" + "".join(self.said))
            self.said.append(line)
            if re.search(pattern, line):
                return line

    def first(self):
        """Process 1 of the container, as the host numbers it."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as children:
            return int(children.read().split()[0])

    def run(self, command, text=None, check=True):
        """As `podman exec`."""
        inside = ["nsenter", "-t", str(self.first()), "-a", "-r", "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin",
                  "setpriv", "--no-new-privs"]
        done = subprocess.run([*inside, *command], input=text, capture_output=True, text=True, timeout=120)
        if check and done.returncode != 0:
            raise AssertionError(f"{command}: exit {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def end(self, signal_number):
        os.kill(self.first(), signal_number)
        status = self.process.wait(timeout=120)
        while self.said[-1:] != [None] and (line := self.lines.get(timeout=60)) is not None:
            self.said.append(line)
        return status

    def __enter__(self):
        return self

    def __exit__(self, *what):
        if self.process.poll() is None:  # the end of process 1 ends them all
            os.kill(self.first(), signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()


class TheImage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root: a root file system of its own")
        done = subprocess.run([os.path.join(TOP, "scripts", "build-packages")], capture_output=True, text=True,
                              env={**os.environ, "PEN_PACKAGE_LEVEL": "0"})
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        cls.image = Image()
        cls.addClassCleanup(cls.image.close)

    def setUp(self):
        self.kept = tempfile.mkdtemp(prefix="pen-volumes-")
        self.addCleanup(shutil.rmtree, self.kept, ignore_errors=True)

    def test_mail_goes_through_and_the_queue_is_kept(self):
        with Container(self.image, self.kept) as container:
            container.await_line(r"master\[\d+\]: .*start")
            # Inside, only the socket of pickup takes submissions: no program may gain a group.
            container.run(SUBMIT, "Subject: first\n\nhello\n")
            container.await_line(r"to=<anna@mx\.test\.example>.*status=sent")
            self.assertEqual(container.run(self.image.health).returncode, 0)
            with open(os.path.join(self.kept, "var_mail", "anna")) as box:
                self.assertIn("Subject: first\n", box.read())
            container.run(["penconf", "-e", "default_transport=retry:later"])  # the configuration is a volume too
            container.run(["penstock", "reload"])
            container.run(["sendmail", "-f", "anna@mx.test.example", "x@elsewhere.example"], "Subject: waits\n\n.\n")
            container.await_line(r"to=<x@elsewhere\.example>.*status=deferred")
            self.assertEqual(container.end(self.image.stop), 0, "".join(container.said))
        # Another container with the same volumes.
        with Container(self.image, self.kept) as container:
            container.await_line(r"master\[\d+\]: .*start")
            self.assertIn("x@elsewhere.example", container.run(["penqueue", "-p"]).stdout)
            container.run(["penconf", "-e", "default_transport=local"])
            container.run(["penconf", "-e", "mydestination=mx.test.example, elsewhere.example", "luser_relay=anna"])
            container.run(["penstock", "reload"])
            container.run(["penqueue", "-f"])
            container.await_line(r"orig_to=<x@elsewhere\.example>.*status=sent|to=<x@elsewhere\.example>.*status=sent")
            self.assertEqual(container.end(self.image.stop), 0)

    def test_the_health_check_fails_when_nothing_runs(self):
        with Container(self.image, self.kept) as container:
            container.await_line(r"master\[\d+\]: .*start")
            container.run(["penconf", "-e", "master_service_disable=inet"])
            self.assertEqual(container.run(self.image.health).returncode, 0)
        done = self.image.debian.run(shlex.join(self.image.health) + "; echo health $?")
        self.assertRegex(done, r"health [1-9]")

    def test_a_container_that_is_killed_loses_nothing(self):
        with Container(self.image, self.kept) as container:
            container.await_line(r"master\[\d+\]: .*start")
            container.run(["penconf", "-e", "defer_transports=local"])
            container.run(["penstock", "reload"])
            container.run(SUBMIT, "Subject: survives\n\n.\n")
            container.end(signal.SIGKILL)
        with Container(self.image, self.kept) as container:
            container.await_line(r"master\[\d+\]: .*start")
            container.run(["penconf", "-e", "defer_transports="])
            container.run(["penstock", "reload"])
            container.run(["penqueue", "-f"])
            container.await_line(r"to=<anna@mx\.test\.example>.*status=sent")
            with open(os.path.join(self.kept, "var_mail", "anna")) as box:
                self.assertEqual(box.read().count("Subject: survives\n"), 1)

    def test_a_configuration_error_ends_the_container_with_the_reason(self):
        with Container(self.image, self.kept) as container:
            container.await_line(r"master\[\d+\]: .*start")
            container.end(self.image.stop)
        with open(os.path.join(self.kept, "etc_penstock", "main.cf"), "a") as main_cf:
            main_cf.write("message_size_limit = many\n")
        with Container(self.image, self.kept) as container:
            container.await_line(r"message_size_limit")
            self.assertNotEqual(container.process.wait(timeout=120), 0)


if __name__ == "__main__":
    unittest.main()
