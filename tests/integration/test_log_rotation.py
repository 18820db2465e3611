"""penstock logrotate: a new log file under load, no line lost, nobody left in the former file."""
import gzip
import os
import re
import stat

from harness import *
from tools import Load, Sink, missing_tools


def former_logs(mx):
    folder = mx.path("log")
    return sorted(os.path.join(folder, n) for n in os.listdir(folder) if n.startswith("mail.log."))


def text_of(path):
    opened = gzip.open(path, "rt", errors="replace") if path.endswith(".gz") else open(path, errors="replace")
    with opened as text:
        return text.read()


def files_open(pid):
    found = set()
    for entry in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.add(os.readlink(f"/proc/{pid}/fd/{entry}"))
        except OSError:
            pass  # closed meanwhile
    return found


class LogRotation(Suite):
    def rotate(self, mx):
        """By a suffix of whole seconds there is a new name once in a second."""
        def done():
            tool = mx.tool("penstock", "logrotate")
            self.assertIn("rotated" if tool.returncode == 0 else "exists already", tool.stdout + tool.stderr)
            return tool.returncode == 0
        eventually(done, "rotated")

    def test_no_line_is_lost_under_load(self):
        if missing_tools():
            self.skipTest(missing_tools())
        settings = {"maillog_file_rotate_suffix": "%s-%H", "maillog_file_permissions": "0640"}
        with Sink() as sink, Instance({**relay_to(sink), **settings}) as mx:
            with Load(mx.port, "-n", "1000000", "-c", "10", "-m", "50", "--rate", "300", "--domain", "rcpt.example",
                      "--from", "ada@sender.example", "--limit", "600") as load:
                for done in range(3):
                    eventually(lambda: "status=sent" in text_of(mx.path("log", "mail.log")),
                               "the present file has deliveries")
                    self.rotate(mx)
                status, figures = load.stop()
                self.assertEqual((status, figures["refused"]), (0, 0), figures)
            mx.wait_empty_queue()
            former = former_logs(mx)
            self.assertEqual(len(former), 3)
            for path in former:
                self.assertTrue(path.endswith(".gz"), path)
                self.assertIn("status=sent", text_of(path))
            present = mx.path("log", "mail.log")
            self.assertEqual(stat.S_IMODE(os.stat(present).st_mode), 0o640)
            lines = "".join(map(text_of, former + [present]))
            sent = re.findall(r"/smtp\[\d+\]: ([0-9A-Za-z]+): to=.*status=sent", lines)
            self.assertEqual(len(sent), figures["taken"], "a line for each delivery")
            self.assertEqual(len(set(sent)), figures["taken"])
            removed = re.findall(r": ([0-9A-Za-z]+): removed", lines)
            self.assertEqual(set(removed), set(sent))
            self.assertEqual(re.findall(r".*(?:error|panic|fatal):.*", lines), [])
            for program, pids in mx.pids().items():
                for pid in pids:
                    logs = {f for f in files_open(pid) if "mail.log" in f}
                    self.assertLessEqual(logs, {present}, program)

    def test_without_a_running_system_and_without_a_compressor(self):
        with Instance({"maillog_file_compressor": ""}, start=False) as mx:
            mx.start()
            mx.stop()
            before = text_of(mx.path("log", "mail.log"))
            done = mx.tool("penstock", "logrotate", check=True)
            former = former_logs(mx)
            self.assertEqual(done.stdout, f"rotated: {former[0]}\n")
            self.assertEqual(text_of(former[0]), before)
            self.assertFalse(os.path.exists(mx.path("log", "mail.log")))
            nothing = mx.tool("penstock", "logrotate")
            self.assertEqual(nothing.returncode, 73)
            self.assertIn("No such file", nothing.stderr)

    def test_what_cannot_be_rotated_is_said(self):
        with Instance({"maillog_file_rotate_suffix": "former"}) as mx:
            self.assertEqual(mx.tool("penstock", "logrotate").returncode, 0)
            self.assertTrue(os.path.exists(mx.path("log", "mail.log.former.gz")))
            mx.set(maillog_file_rotate_suffix="a/b")
            done = mx.tool("penstock", "logrotate")
            self.assertEqual(done.returncode, 78)
            self.assertIn("maillog_file_rotate_suffix = a/b gives no usable name", done.stderr)
            mx.set(maillog_file_rotate_suffix="%s", maillog_file_compressor="no-such-command")
            done = mx.tool("penstock", "logrotate")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("the former log stays as it is", done.stderr)
            mx.set(maillog_file="/dev/stdout")
            self.assertIn("is not a file to be rotated", mx.tool("penstock", "logrotate").stderr)
            mx.set(maillog_file="")
            self.assertIn("maillog_file is not set", mx.tool("penstock", "logrotate").stderr)

    def test_a_former_log_is_never_written_over(self):
        with Instance({"maillog_file_rotate_suffix": "former", "maillog_file_compressor": ""}) as mx:
            mx.tool("penstock", "logrotate", check=True)
            before = text_of(mx.path("log", "mail.log.former"))
            done = mx.tool("penstock", "logrotate")
            self.assertEqual(done.returncode, 75)
            self.assertIn("exists already", done.stderr)
            self.assertEqual(text_of(mx.path("log", "mail.log.former")), before)

    def test_a_wrong_mode_is_told_at_the_start(self):
        with Instance({"maillog_file_permissions": "0777"}, start=False) as mx:
            done = mx.tool("penstock", "start")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("maillog_file_permissions = 0777 (use 0600, 0640 or 0644)", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
