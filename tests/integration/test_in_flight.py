"""The judge of the crash tests finds each kind of fault, and accepts what a kill excuses."""
import unittest

from in_flight import Arrival, Kill, judge, synced

SMTP = Kill("smtp", 10.0, 10.1, 1000, 1100)
SMTPD = Kill("smtpd", 10.0, 10.1, 1000, 1100)


def arrival(at, queue_id="Q1", key="k1", damage=None):
    return Arrival(key, "a@b", queue_id, at, "smtp", damage)


class Judge(unittest.TestCase):
    def faults(self, arrivals, kills=(), results=None, acknowledged=(("k1", "a@b"),)):
        return [f.split(":")[0] for f in judge(set(acknowledged), arrivals, kills, results).faults]

    def test_one_arrival_is_right(self):
        self.assertEqual(self.faults([arrival(5)]), [])

    def test_lost(self):
        self.assertEqual(self.faults([]), ["lost"])

    def test_arrived_without_having_been_acknowledged_is_no_fault(self):
        self.assertEqual(self.faults([arrival(5)], acknowledged=()), [])

    def test_damaged(self):
        self.assertEqual(self.faults([arrival(5, damage="checksum")]), ["damaged"])

    def test_twice_around_a_kill_is_excused(self):
        self.assertEqual(self.faults([arrival(9.9), arrival(11)], [SMTP]), [])

    def test_twice_before_a_kill(self):
        self.assertEqual(self.faults([arrival(9), arrival(9.5)], [SMTP]), ["doubled without a kill"])

    def test_twice_after_a_kill(self):
        self.assertEqual(self.faults([arrival(11), arrival(12)], [SMTP]), ["doubled without a kill"])

    def test_twice_around_the_death_of_a_program_that_delivers_nothing(self):
        self.assertEqual(self.faults([arrival(9.9), arrival(11)], [SMTPD]), ["doubled without a kill"])

    def test_twice_though_the_result_was_on_disk(self):
        self.assertEqual(self.faults([arrival(9.9), arrival(11)], [SMTP], {("Q1", "a@b"): [999]}),
                         ["doubled though its result was on disk"])

    def test_a_result_of_the_second_arrival_excuses(self):
        self.assertEqual(self.faults([arrival(9.9), arrival(11)], [SMTP], {("Q1", "a@b"): [1001, 1200]}), [])

    def test_two_messages_of_one(self):
        twice = [arrival(9.9), arrival(11, queue_id="Q2")]
        self.assertEqual(self.faults(twice, [SMTP]), ["two messages where qmgr never died"])
        self.assertEqual(self.faults(twice, [SMTP._replace(name="qmgr")]), [])

    def test_the_places_of_synced_results_are_read_from_the_log(self):
        line = b"Nov 21 08:46:56 mx penstock/qmgr[12]: debug: Q1: to=<a@b>, result synced\n"
        self.assertEqual(synced(b"other\n" + line), {("Q1", "a@b"): [len(line) + 6]})


if __name__ == "__main__":
    unittest.main()
