#include "lib/mail/stated_delay.h"

#include <boost/test/unit_test.hpp>

namespace pen::mail {
namespace {
long stated(std::string_view text) {
  const auto t = stated_delay(text);
  return t ? static_cast<long>(t->count()) : -1;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(stated_delays)

BOOST_AUTO_TEST_CASE(a_time_to_come_back_is_understood) {
  BOOST_TEST(stated("421 4.7.0 Too many connections, try again in 5 minutes") == 300);
  BOOST_TEST(stated("450 4.2.0 <a@b.example>: Recipient address rejected: Greylisted, try again in "
                    "297 seconds") == 297);
  BOOST_TEST(stated("451 4.7.1 Greylisting in action, please come back in 00:04:59") == 299);
  BOOST_TEST(stated("451 Please retry after 120s") == 120);
  BOOST_TEST(stated("421 Service busy. Wait at least 1 hour and 30 minutes.") == 5400);
  BOOST_TEST(stated("421 Resend in 2 hrs, 5 min please") == 7500);
  BOOST_TEST(stated("450 4.7.1 GREYLISTED FOR 5 MINUTES") == 300);
  BOOST_TEST(stated("450 too many messages (100 in 60 seconds), try again in 10m") == 600);
  BOOST_TEST(stated("451 try a 5-minute pause") == 300);
}

BOOST_AUTO_TEST_CASE(what_names_no_time_to_come_back_is_not_taken_for_one) {
  BOOST_TEST(stated("421 4.3.2 not now") == -1);
  BOOST_TEST(stated("451 4.7.1 try again later") == -1);
  BOOST_TEST(stated("450 too many messages (100 in 60 seconds), try again later") == -1);
  BOOST_TEST(stated("450 try again at 12:30:00") == -1);
  BOOST_TEST(stated("450 try again, see http://x.example/450-4.7.1#5min2") == -1);
  BOOST_TEST(stated("timed out after 30 seconds") == -1);
  BOOST_TEST(stated("450 try again in 0 seconds") == -1);
  BOOST_TEST(stated("450 try again after 10 messages") == -1);
  BOOST_TEST(stated("450 try again 192.0.2.1 s") == -1);
  BOOST_TEST(stated("") == -1);
}

BOOST_AUTO_TEST_CASE(it_is_bounded) {
  BOOST_TEST(stated("450 retry in 99999999999999999999 hours") == -1);
  BOOST_TEST(stated("450 retry in 9999999999 hours") == kMaxStatedDelay.count());
  BOOST_TEST(stated("450 retry " + std::string(3000, ' ') + "5 minutes") == -1);
}

BOOST_AUTO_TEST_CASE(the_peers_words_count_before_ours) {
  DeliveryStatus s{Action::deferred, "4.7.1", "host x said: 450 try again in 5 minutes (in reply to RCPT)",
                   "smtp; 450 try again in 7 minutes", "x"};
  BOOST_TEST(stated_delay(s)->count() == 420);
  s.diagnostic.clear();
  BOOST_TEST(stated_delay(s)->count() == 300);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::mail
