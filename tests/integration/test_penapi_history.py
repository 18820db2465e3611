"""The history of the status page on the disk: penapi killed while it writes, and files that a disk has changed."""
import os
import re

from harness import *
from test_penapi import UNIX, Api

SETTINGS = {"penapi_history_interval": "1s"}


class History(Suite):
    def setUp(self):
        self.mx = Instance(SETTINGS, dict([UNIX]))
        self.enterContext(self.mx)
        self.api = Api(self.mx)

    def points(self):
        """The ends of the points of the hour; [] while penapi does not answer."""
        try:
            return [p[0] for p in self.api.get("/api/v1/history?range=hour")["points"]]
        except (OSError, AssertionError):
            return []

    def file(self):
        return os.path.join(self.mx.path("data"), "penapi", "history", "data.mdb")

    def begun(self):
        """Waits until a point is on the disk."""
        return eventually(self.points, lambda: f"a point\n{self.mx.log()}", 60)

    def damage(self, change):
        """Changes the file while penapi is stopped; it is started again."""
        self.mx.stop()
        with open(self.file(), "r+b") as data:
            change(data)
        self.mx.start()
        self.points()  # penapi is started when somebody asks

    def test_points_outlive_kills_at_any_moment(self):
        known = self.begun()
        for _ in range(5):
            self.assertEqual(self.mx.kill("penapi"), 1)
            now = eventually(self.points, lambda: f"points after a kill\n{self.mx.log()}", 60)
            self.assertEqual(now[:len(known)], known)
            known = now
        self.assertNotIn("begin", re.sub("begins to", "", "".join(
            line for line in self.mx.log().splitlines() if "penapi_history_map" in line)))

    def test_a_file_that_is_no_database_is_set_aside_with_a_line(self):
        old = self.begun()

        def garbage(data):
            data.write(b"x" * 8192)
        self.damage(garbage)
        self.mx.wait_log(r"penapi\[\d+\]: warning: .*history.*set aside as .*history/damaged; the plots of the status "
                         "page begin anew")
        self.assertTrue(os.path.isdir(os.path.dirname(self.file()) + "/damaged"))
        self.assertTrue(all(end not in old for end in self.begun()))

    def test_a_file_that_was_cut_is_set_aside(self):
        self.begun()
        self.damage(lambda data: data.truncate(os.fstat(data.fileno()).st_size - 4096 - 100))
        self.mx.wait_log("set aside as .*history/damaged")

    def test_a_record_with_a_changed_byte_is_not_believed(self):
        self.begun()
        self.mx.stop()
        with open(self.file(), "r+b") as data:
            content = bytearray(data.read())
            places = [m.start() for m in re.finditer(b"hour", content)]
            self.assertTrue(places)
            for at in places:  # an old page may have it as well
                content[at + 14] ^= 0x55
            data.seek(0)
            data.write(content)
        self.mx.start()
        self.points()
        self.mx.wait_log("the points of the last hour are damaged: that plot begins anew|"
                         "set aside as .*history/damaged")


if __name__ == "__main__":
    unittest.main()
