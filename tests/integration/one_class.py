"""Runs tests of one class for scripts/suite, and reports each one as a line of JSON.

Use:     one_class.py --list [FILE…]      prints {"test", "limit", "alone"} for each test of these files (default: all)
         one_class.py FD ID…              runs these tests; writes to descriptor FD {"start": ID}, then {"end": ID,
                                          "result": "passed" | "failed" | "skipped", "seconds", "text"}
Limits:  a test that takes longer than its class's `limit` (seconds; kLimit by default) fails with the place where it
         stood; if it does not end then, every thread's place is printed and the process ends.
Left:    whatever processes a test leaves behind end with the class: they become children of this process, because it
         adopts them, and are killed by it.
"""
import ctypes
import faulthandler
import glob
import json
import os
import signal
import sys
import time
import traceback
import unittest

kLimit = 600  # seconds: what takes 60 on an idle machine may take ten times as long on a busy one
kPatience = 60  # seconds that a test has to end after it was told to
PR_SET_CHILD_SUBREAPER = 36


class Hung(BaseException):
    """A test was not done in its time. No Exception: tests catch those."""


def each(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from each(item)
        else:
            yield item


def names(files):
    loader = unittest.TestLoader()
    for file in files or sorted(glob.glob("test_*.py")):
        for test in each(loader.loadTestsFromName(os.path.basename(file).removesuffix(".py"))):
            print(json.dumps({"test": test.id(), "limit": getattr(test, "limit", kLimit),
                              "alone": getattr(test, "loads_the_machine", False)}))
    for error in loader.errors:
        print(error, file=sys.stderr)
    return 1 if loader.errors else 0


class Reporter(unittest.TestResult):
    def __init__(self, out):
        super().__init__()
        self.out = out
        self.begin = 0.0
        self.failed = ""
        self.skipped_because = None

    def say(self, **words):
        self.out.write(json.dumps(words) + "\n")
        self.out.flush()

    def arm(self, limit):
        signal.setitimer(signal.ITIMER_REAL, limit)
        faulthandler.dump_traceback_later(limit + kPatience, exit=True)

    def startTest(self, test):
        super().startTest(test)
        self.say(start=test.id())
        self.begin, self.failed, self.skipped_because = time.monotonic(), "", None
        self.arm(getattr(test, "limit", kLimit))

    def stopTest(self, test):
        super().stopTest(test)
        result = "failed" if self.failed else "skipped" if self.skipped_because is not None else "passed"
        self.say(end=test.id(), result=result, seconds=round(time.monotonic() - self.begin, 2),
                 text=self.failed or self.skipped_because or "")
        self.arm(kLimit)  # what the class does before the next one

    def fail_with(self, test, error):
        text = "".join(traceback.format_exception(*error))
        if isinstance(test, unittest.TestCase):
            self.failed += text
        else:  # setUpClass and its like: no test of the class has run, or the last one has ended
            self.say(failed_class=str(test), text=text)

    def addError(self, test, error):
        super().addError(test, error)
        self.fail_with(test, error)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.fail_with(test, error)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.failed += f"{subtest}\n" + "".join(traceback.format_exception(*error))

    def addUnexpectedSuccess(self, test):
        self.failed += "passed, though it was expected to fail\n"

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if isinstance(test, unittest.TestCase):
            self.skipped_because = reason
        else:
            self.say(skipped_class=str(test), text=reason)


def run(fd, ids):
    def hung(_signal, _frame):
        raise Hung("the test was not done in its time; it stood where this was raised")

    signal.signal(signal.SIGALRM, hung)
    reporter = Reporter(os.fdopen(fd, "w"))
    reporter.arm(kLimit)
    suite = unittest.TestLoader().loadTestsFromNames(ids)
    try:
        suite.run(reporter)
    except Hung:
        reporter.say(failed_class="", text=traceback.format_exc())
        return 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return 0


def children():
    mine = os.getpid()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", "rb") as stat:
                if int(stat.read().rpartition(b")")[2].split()[1]) == mine:
                    yield int(entry)
        except OSError:
            pass


def end_what_is_left():
    while left := list(children()):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for pid in left:
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass


def main():
    if sys.argv[1:2] == ["--list"]:
        return names(sys.argv[2:])
    if len(sys.argv) < 3 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 64
    # Orphans are adopted here, by a process that waits for nothing else, so that the tests see them vanish when they
    # end, as under init.
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    child = os.fork()
    if child == 0:
        os._exit(run(int(sys.argv[1]), sys.argv[2:]))
    os.close(int(sys.argv[1]))

    def told_to_end(_signal, _frame):
        end_what_is_left()
        os._exit(1)

    signal.signal(signal.SIGTERM, told_to_end)
    while True:
        pid, status = os.wait()
        if pid == child:
            end_what_is_left()
            return os.waitstatus_to_exitcode(status) & 255


if __name__ == "__main__":
    sys.exit(main())
