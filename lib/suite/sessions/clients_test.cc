#include "lib/suite/sessions/clients.h"
#include "lib/testing/suite.h"

#include <boost/test/unit_test.hpp>

namespace pen::sessions {
BOOST_AUTO_TEST_SUITE(clients_of_anvil)

namespace {

using Event = Clients::Event;
constexpr SteadyTime kStart{seconds(1000)};
const WallTime kNoon{seconds(1795348800)};

struct Fixture {
  std::uint32_t count(Event event, const std::string& client, SteadyTime at = kStart) {
    return clients.count(event, client, false, at, kNoon).rate;
  }
  std::uint32_t live(const std::string& client) {
    return clients.count(Event::connection, client, true, kStart, kNoon).live;
  }
  Clients clients{seconds(60)};
};

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(a_window_begins_with_the_first_event_and_ends_whatever_happened_since) {
  BOOST_TEST(count(Event::message, "a") == 1u);
  BOOST_TEST(count(Event::message, "a", kStart + seconds(59)) == 2u);
  BOOST_TEST(count(Event::recipient, "a", kStart + seconds(59)) == 1u);
  BOOST_TEST(count(Event::message, "b", kStart + seconds(59)) == 1u);
  BOOST_TEST(count(Event::message, "a", kStart + seconds(60)) == 1u);
  BOOST_TEST(count(Event::message, "b", kStart + seconds(60)) == 2u);
  BOOST_TEST(clients.size() == 2u);
  count(Event::auth, "c", kStart + seconds(500));
  BOOST_TEST(clients.size() == 1u);
}

BOOST_AUTO_TEST_CASE(looking_counts_nothing_and_remembers_nobody) {
  BOOST_TEST(clients.count(Event::tls, "a", true, kStart, kNoon).rate == 0u);
  BOOST_TEST(clients.size() == 0u);
  count(Event::tls, "a");
  BOOST_TEST(clients.count(Event::tls, "a", true, kStart, kNoon).rate == 1u);
  BOOST_TEST(clients.count(Event::tls, "a", true, kStart + seconds(60), kNoon).rate == 0u);
}

BOOST_AUTO_TEST_CASE(what_is_no_event_counts_nowhere) {
  const auto none = static_cast<Event>(200);
  count(Event::message, "a");
  BOOST_TEST(count(none, "a") == 0u);
  BOOST_TEST(count(none, "b") == 0u);
  BOOST_TEST(clients.count(none, "a", true, kStart, kNoon).rate == 0u);
  BOOST_TEST(clients.size() == 1u);
}

BOOST_AUTO_TEST_CASE(sessions_are_counted_over_all_holders_and_end_with_theirs) {
  const auto one = clients.begin(), two = clients.begin();
  clients.enter(one, "a", 1, kNoon);
  clients.enter(two, "a", 3, kNoon);
  BOOST_TEST(live("a") == 4u);
  clients.leave(one, "a");
  clients.leave(one, "a");  // it holds none: nothing of the other's goes
  BOOST_TEST(live("a") == 3u);
  clients.enter(one, "b", 1, kNoon);
  clients.end(two);
  BOOST_TEST(live("a") == 0u);
  BOOST_TEST(live("b") == 1u);
  clients.end(one);
  BOOST_TEST(clients.size() == 0u);
}

BOOST_AUTO_TEST_CASE(a_client_with_sessions_is_remembered_beyond_its_window) {
  const auto holder = clients.begin();
  clients.enter(holder, "a", 1, kNoon);
  BOOST_TEST(count(Event::connection, "a") == 1u);
  BOOST_TEST(count(Event::connection, "b", kStart + seconds(61)) == 1u);
  BOOST_TEST(live("a") == 1u);
  BOOST_TEST(count(Event::connection, "a", kStart + seconds(62)) == 1u);
  clients.leave(holder, "a");
  BOOST_TEST(clients.size() == 2u);  // the windows are open
}

BOOST_AUTO_TEST_CASE(the_number_of_clients_is_bounded) {
  const auto holder = clients.begin();
  for (std::size_t i = 0; i < Clients::kMaxClients; ++i) count(Event::message, std::to_string(i));
  BOOST_TEST(count(Event::message, "one more") == 0u);
  clients.enter(holder, "one more", 1, kNoon);
  clients.leave(holder, "one more");
  BOOST_TEST(count(Event::message, "7") == 2u);
  BOOST_TEST(clients.take_uncounted() == 2u);
  BOOST_TEST(count(Event::message, "one more", kStart + seconds(60)) == 1u);
  BOOST_TEST(count(Event::message, std::string(Clients::kMaxName + 1, 'x')) == 0u);
}

BOOST_AUTO_TEST_CASE(statistics_name_who_did_most_in_postfixs_words) {
  const auto holder = clients.begin();
  clients.enter(holder, "smtp:192.0.2.7", 2, kNoon);
  for (int i = 0; i < 3; ++i) count(Event::connection, "smtp:192.0.2.7");
  for (int i = 0; i < 2; ++i) count(Event::tls, "smtp:192.0.2.8");
  count(Event::message, "smtp:192.0.2.7");
  const auto lines = clients.take_statistics();
  const auto begins = [&](std::size_t i, std::string_view text) {
    return lines.size() > i && lines[i].starts_with(text) &&
           lines[i].size() == text.size() + std::string_view("Nov 22 12:00:00").size();
  };
  BOOST_TEST(lines.size() == 4u);
  BOOST_TEST(begins(0, "statistics: max connection rate 3/60s for (smtp:192.0.2.7) at "));
  BOOST_TEST(begins(1, "statistics: max connection count 2 for (smtp:192.0.2.7) at "));
  BOOST_TEST(begins(2, "statistics: max newtls rate 2/60s for (smtp:192.0.2.8) at "));
  BOOST_TEST(begins(3, "statistics: max cache size 2 at "));
  BOOST_TEST(clients.take_statistics().empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::sessions
