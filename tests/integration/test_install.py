"""The installed tree: every program has a manual page, the pages are clean, and a new instance works."""
import glob
import os
import shutil
import subprocess
import tempfile

from harness import *

BUILD = os.path.dirname(BIN)


class Install(Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not shutil.which("cmake") or not os.path.exists(os.path.join(BUILD, "cmake_install.cmake")):
            raise unittest.SkipTest("no cmake, or not a build directory")
        cls.prefix = tempfile.mkdtemp(prefix="pen-install-")
        os.chmod(cls.prefix, 0o755)
        done = subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.prefix, ignore_errors=True)

    def test_every_program_and_file_has_a_page(self):
        man = os.path.join(self.prefix, "share/man")
        wanted = [f"man1/{p}.1" for p in os.listdir(os.path.join(self.prefix, "bin"))]
        wanted += [f"man8/{p}.8" for p in os.listdir(os.path.join(self.prefix, "libexec/penstock"))
                   if p not in ("tables", "shaping.rules")]  # modules of penstock-tables(5), and what qmgr reads
        wanted += [f"man5/{p}.5" for p in ("main.cf", "master.cf", "aliases", "penstock-tables", "pcre_table",
                                           "regexp_table", "cidr_table", "header_checks", "body_checks", "generic",
                                           "bounce", "relocated", "shaping.rules")]
        self.assertEqual([w for w in wanted if not os.path.exists(os.path.join(man, w))], [])

    def test_pages_give_no_warning(self):
        if not shutil.which("groff"):
            self.skipTest("no groff")
        pages = glob.glob(os.path.join(self.prefix, "share/man/man*/*"))
        self.assertGreater(len(pages), 20)
        for page in pages:
            done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-s", "-I", os.path.join(self.prefix, "share/man"),
                                   page], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), page)
            self.assertGreater(len(done.stdout), 200, page)

    def test_an_instance_of_the_installed_tree_delivers(self):
        tool = os.path.join(self.prefix, "bin/penstock")
        with Peer() as peer, Instance(start=False) as mx:
            root, port = os.path.join(mx.dir, "installed"), free_port()
            subprocess.run([tool, "init", root, "--port", str(port)], check=True, capture_output=True)
            with open(os.path.join(root, "etc/main.cf"), "a") as out:
                for name, value in relay_to(peer).items():
                    out.write(f"{name} = {value}\n")
            done = subprocess.run([tool, "-c", os.path.join(root, "etc"), "start"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            try:
                send(port, "ada@sender.example", ["a@rcpt.example"], mail())
                peer.wait_messages(1)
            finally:
                subprocess.run([tool, "-c", os.path.join(root, "etc"), "stop"], check=True, capture_output=True)


if __name__ == "__main__":
    unittest.main()
