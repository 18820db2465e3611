#include "penapi/exposition.h"

#include <boost/test/unit_test.hpp>

using namespace pen;
using namespace pen::api;
using metrics::Id;

namespace {

struct Fixture {
  metrics::Sums sums = metrics::Sums(metrics::kSlots);
  Seen seen;
  Fixture() { seen.queue = std::make_shared<QueueView>(); }
  template <class... L>
  std::uint64_t& count(Id id, L... labels) {
    return sums[metrics::family(id).first + metrics::detail::index_of(labels...)];
  }
  std::string text() const {
    Exposition out;
    write_counts(out, sums);
    write_states(out, seen, WallTime(seconds(1000)));
    return out.take();
  }
  std::string compat() const {
    Exposition out;
    write_as_postfix(out, sums, seen);
    return out.take();
  }
};

bool has(const std::string& text, const std::string& line) { return ("\n" + text).contains("\n" + line + "\n"); }

}  // namespace

BOOST_FIXTURE_TEST_SUITE(exposition, Fixture)

BOOST_AUTO_TEST_CASE(a_counter_has_help_type_and_value) {
  count(Id::smtpd_connections) = 7;
  count(Id::smtpd_rejects, metrics::Stage::rcpt, metrics::Code::c554, metrics::Reason::relay) = 2;
  BOOST_CHECK(has(text(), "# TYPE penstock_smtpd_connections_total counter"));
  BOOST_CHECK(has(text(), "# HELP penstock_smtpd_connections_total Connections of clients to the SMTP server."));
  BOOST_CHECK(has(text(), "penstock_smtpd_connections_total 7"));
  BOOST_CHECK(has(text(), R"(penstock_smtpd_rejects_total{stage="rcpt",code="554",reason="relay"} 2)"));
  BOOST_CHECK(has(text(), R"(penstock_deliveries_total{result="bounced"} 0)"));
}

BOOST_AUTO_TEST_CASE(a_histogram_is_cumulative_and_in_seconds) {
  const auto& f = metrics::family(Id::queue_sync);
  sums[f.first] = 3;                    // up to 100 us
  sums[f.first + 1] = 2;                // up to 250 us
  sums[f.first + f.bounds.size()] = 1;  // above all
  sums[f.first + f.bounds.size() + 1] = 40'000'500;
  BOOST_CHECK(has(text(), R"(penstock_queue_sync_seconds_bucket{le="0.0001"} 3)"));
  BOOST_CHECK(has(text(), R"(penstock_queue_sync_seconds_bucket{le="0.00025"} 5)"));
  BOOST_CHECK(has(text(), R"(penstock_queue_sync_seconds_bucket{le="30"} 5)"));
  BOOST_CHECK(has(text(), R"(penstock_queue_sync_seconds_bucket{le="+Inf"} 6)"));
  BOOST_CHECK(has(text(), "penstock_queue_sync_seconds_sum 40.0005"));
  BOOST_CHECK(has(text(), "penstock_queue_sync_seconds_count 6"));
}

BOOST_AUTO_TEST_CASE(ages_reach_over_days) {
  BOOST_CHECK(text().contains(R"(penstock_delivery_age_seconds_bucket{result="delivered",le="432000"} 0)"));
}

BOOST_AUTO_TEST_CASE(labels_from_outside_cannot_break_a_line) {
  auto queue = std::make_shared<QueueView>();
  queue->looked = WallTime(seconds(990));
  queue->destinations.push_back({.shown = "a\"} 1\nb\\\x01\xff[192.0.2.1]:25", .transport = "smtp"});
  seen.queue = queue;
  BOOST_CHECK(text().contains(R"({destination="a\"} 1\nb\\??[192.0.2.1]:25",transport="smtp"} 0)"));
}

BOOST_AUTO_TEST_CASE(limits_of_providers_are_shown_in_messages_a_minute) {
  auto queue = std::make_shared<QueueView>();
  queue->looked = WallTime(seconds(990));
  queue->limits.insert({"google", "", "a.example", 7.5});
  queue->quotas.insert({"google", "", "", "5000/h", 2500, 2500, 61.5});
  seen.queue = queue;
  BOOST_CHECK(has(text(), R"(penstock_destination_rate_limit{group="google",source="",scope="a.example"} 7.5)"));
  const std::string labels = R"({group="google",source="",scope="",rate="5000/h"} )";
  BOOST_CHECK(has(text(), "penstock_destination_quota" + labels + "2500"));
  BOOST_CHECK(has(text(), "penstock_destination_quota_used" + labels + "2500"));
  BOOST_CHECK(has(text(), "penstock_destination_quota_opens_seconds" + labels + "61.5"));
}

BOOST_AUTO_TEST_CASE(the_queue_is_shown_by_state_with_the_oldest_age) {
  BOOST_CHECK(!text().contains("penstock_queue_messages{"));  // not looked at yet: no zeros that are not known
  auto queue = std::make_shared<QueueView>();
  queue->looked = WallTime(seconds(990));
  const auto deferred = static_cast<std::size_t>(ipc::queue::Place::deferred);
  queue->states[deferred].add(WallTime(seconds(990)), WallTime(seconds(100)), 5000);
  queue->states[deferred].add(WallTime(seconds(990)), WallTime(seconds(900)), 20'000);
  seen.queue = queue;
  BOOST_CHECK(has(text(), R"(penstock_queue_messages{state="deferred"} 2)"));
  BOOST_CHECK(has(text(), R"(penstock_queue_messages{state="hold"} 0)"));
  BOOST_CHECK(has(text(), R"(penstock_queue_bytes{state="deferred"} 25000)"));
  BOOST_CHECK(has(text(), R"(penstock_queue_oldest_age_seconds{state="deferred"} 900)"));
  BOOST_CHECK(has(text(), "penstock_queue_survey_age_seconds 10"));
  BOOST_CHECK(has(compat(), R"(postfix_showq_message_size_bytes_bucket{queue="deferred",le="10000"} 1)"));
  BOOST_CHECK(has(compat(), R"(postfix_showq_message_age_seconds_bucket{queue="deferred",le="300"} 1)"));
  BOOST_CHECK(has(compat(), R"(postfix_showq_message_age_seconds_bucket{queue="deferred",le="900"} 2)"));
  BOOST_CHECK(has(compat(), R"(postfix_showq_message_size_bytes_count{queue="deferred"} 2)"));
}

BOOST_AUTO_TEST_CASE(old_mail_that_is_tried_again_does_not_wait_for_us) {
  using ipc::queue::Entry, ipc::queue::Place;
  auto queue = std::make_shared<QueueView>();
  const WallTime now = queue->looked = WallTime(seconds(990));
  const auto add = [&](Place place, int arrival, std::uint32_t attempt, int next_try = 0) {
    Entry e;
    e.place = place;
    e.arrival = WallTime(seconds(arrival));
    e.attempt = attempt;
    e.next_try = WallTime(seconds(next_try));
    queue->add(now, e);
  };
  seen.queue = queue;
  add(Place::active, 10, 7);
  add(Place::active, 20, 0);  // of an older queue manager, which does not say
  add(Place::deferred, 30, 2, 991);
  add(Place::hold, 40, 1);
  BOOST_CHECK(has(text(), R"(penstock_queue_oldest_age_seconds{state="active"} 990)"));
  BOOST_CHECK(has(text(), "penstock_queue_first_try_age_seconds 0"));
  BOOST_CHECK(has(text(), "penstock_queue_overdue_seconds 0"));
  add(Place::incoming, 600, 1);
  add(Place::active, 500, 1);
  add(Place::deferred, 30, 2, 700);
  add(Place::deferred, 30, 2, 800);
  BOOST_CHECK(has(text(), "penstock_queue_first_try_age_seconds 500"));
  BOOST_CHECK(has(text(), "penstock_queue_overdue_seconds 300"));
}

BOOST_AUTO_TEST_CASE(the_names_of_postfix_exporters_count_what_they_count) {
  using metrics::Stage, metrics::Code, metrics::Reason;
  count(Id::smtpd_rejects, Stage::rcpt, Code::c554, Reason::relay) = 2;
  count(Id::smtpd_rejects, Stage::rcpt, Code::c554, Reason::rbl) = 3;
  count(Id::smtpd_rejects, Stage::auth, Code::c535, Reason::sasl) = 9;       // not logged as reject:
  count(Id::smtpd_rejects, Stage::other, Code::c554, Reason::protocol) = 9;  // the same
  count(Id::delivery_attempts, metrics::Agent::smtp, metrics::Fate::deferred) = 4;
  count(Id::delivery_attempts, metrics::Agent::local, metrics::Fate::deferred) = 9;
  BOOST_CHECK(has(compat(), R"(postfix_smtpd_messages_rejected_total{code="554"} 5)"));
  BOOST_CHECK(!compat().contains(R"(code="535")"));
  BOOST_CHECK(has(compat(), R"(postfix_smtp_messages_processed_total{status="deferred"} 4)"));
  BOOST_CHECK(has(compat(), "postfix_smtp_deferred_messages_total 4"));
  BOOST_CHECK(has(compat(), "postfix_smtp_status_deferred 4"));
  count(Id::smtpd_unconfirmed_names) = 6;
  BOOST_CHECK(has(compat(), "postfix_smtpd_forward_confirmed_reverse_dns_errors_total 6"));
}

BOOST_AUTO_TEST_CASE(sizes_are_shown_as_they_are_counted) {
  const auto& f = metrics::family(Id::queue_activated_bytes);
  sums[f.first] = 3;                    // up to 1,000
  sums[f.first + f.bounds.size()] = 1;  // above all
  sums[f.first + f.bounds.size() + 1] = 2'000'000'512;
  BOOST_CHECK(has(text(), "# TYPE penstock_queue_activated_bytes histogram"));
  BOOST_CHECK(has(text(), R"(penstock_queue_activated_bytes_bucket{le="1000"} 3)"));
  BOOST_CHECK(has(text(), "penstock_queue_activated_bytes_sum 2000000512"));
  BOOST_CHECK(has(text(), "penstock_queue_activated_bytes_count 4"));
  BOOST_CHECK(has(compat(), R"(postfix_qmgr_messages_inserted_size_bytes_bucket{le="1000"} 3)"));
  BOOST_CHECK(has(compat(), "postfix_qmgr_messages_inserted_size_bytes_sum 2000000512"));
  BOOST_CHECK(has(compat(), "postfix_qmgr_messages_inserted_receipients_count 0"));
}

BOOST_AUTO_TEST_CASE(the_busiest_destinations_are_kept_and_the_rest_is_summed) {
  Busiest busiest(2);
  for (const std::uint64_t n : {5U, 1U, 9U, 3U})
    busiest.add({.shown = "d" + std::to_string(n), .transport = "smtp", .connections = n, .jobs = 0, .failures = 0});
  BOOST_CHECK_EQUAL(busiest.other().connections, 4U);
  const auto kept = busiest.take();
  BOOST_REQUIRE_EQUAL(kept.size(), 2U);
  BOOST_CHECK_EQUAL(kept[0].shown, "d9");
  BOOST_CHECK_EQUAL(kept[1].shown, "d5");
  Busiest none(0);
  none.add({.shown = "d", .transport = "smtp", .connections = 1, .jobs = 0, .failures = 0});
  BOOST_CHECK(none.take().empty());
  BOOST_CHECK_EQUAL(none.other().connections, 1U);
}

BOOST_AUTO_TEST_CASE(destinations_that_fail_keep_half_of_the_places) {
  Busiest busiest(4);
  const auto add = [&](const char* name, std::uint64_t jobs, std::uint64_t failures) {
    busiest.add({.shown = name, .transport = "smtp", .connections = 0, .jobs = jobs, .failures = failures});
  };
  // A dead host has neither connections nor jobs while it is closed.
  add("dead9", 0, 9);
  for (const char* name : {"busy5", "busy6", "busy7", "busy8"}) add(name, static_cast<std::uint64_t>(name[4] - '0'), 0);
  add("dead1", 0, 1);
  add("dead4", 0, 4);
  const auto kept = busiest.take();
  BOOST_REQUIRE_EQUAL(kept.size(), 4U);
  BOOST_CHECK_EQUAL(kept[0].shown, "busy8");
  BOOST_CHECK_EQUAL(kept[1].shown, "busy7");
  BOOST_CHECK_EQUAL(kept[2].shown, "dead9");
  BOOST_CHECK_EQUAL(kept[3].shown, "dead4");
  BOOST_CHECK_EQUAL(busiest.other().jobs, 11U);
  BOOST_CHECK_EQUAL(busiest.other().failures, 1U);
  Busiest one(1);
  one.add({.shown = "busy", .transport = "smtp", .connections = 5, .jobs = 0, .failures = 0});
  one.add({.shown = "dead", .transport = "smtp", .connections = 0, .jobs = 0, .failures = 1});
  BOOST_CHECK_EQUAL(one.take().front().shown, "dead");
  BOOST_CHECK_EQUAL(one.other().connections, 5U);
}

BOOST_AUTO_TEST_SUITE_END()
