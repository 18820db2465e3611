#include "lib/mail/delivery_line.h"

#include <boost/test/unit_test.hpp>

#include "lib/mail/logged.h"

using namespace pen;
using namespace pen::mail;

namespace {
/// The log's form while it lives.
struct InForm {
  explicit InForm(LogForm form) { set_log_form(form); }
  ~InForm() { set_log_form({}); }
};
}  // namespace

BOOST_AUTO_TEST_SUITE(delivery_line_format)

BOOST_AUTO_TEST_CASE(delays_show_two_digits) {
  BOOST_TEST(delay_text(microseconds(0)) == "0");
  BOOST_TEST(delay_text(microseconds(1200)) == "0");
  BOOST_TEST(delay_text(microseconds(56'000)) == "0.06");
  BOOST_TEST(delay_text(microseconds(500'000)) == "0.5");
  BOOST_TEST(delay_text(microseconds(1'230'000)) == "1.2");
  BOOST_TEST(delay_text(microseconds(12'300'000)) == "12");
  BOOST_TEST(delay_text(microseconds(86'400'000'000)) == "86400");
  BOOST_TEST(delay_text(microseconds(9'960'000)) == "10");
  BOOST_TEST(delay_text(microseconds(1'050'000)) == "1.1");
  BOOST_TEST(delay_text(microseconds(12'500'000)) == "13");
  BOOST_TEST(delay_text(microseconds(2'000'000)) == "2");
  BOOST_TEST(delay_text(seconds(123456)) == "123456");
  BOOST_TEST(delay_text(microseconds(-5)) == "0");
}
BOOST_AUTO_TEST_CASE(two_digits_count_but_no_more_stand_after_the_point_than_the_setting_permits) {
  const auto texts = [](int digits) {
    const InForm form({.internal = false, .delay_digits = digits});
    std::string out;
    for (const int us : {3, 56, 1'234, 56'789, 456'789, 1'260'000, 12'300'000})
      out += (out.empty() ? "" : " ") + delay_text(microseconds(us));
    return out;
  };
  BOOST_TEST(texts(6) == "0.000003 0.000056 0.0012 0.057 0.46 1.3 12");
  BOOST_TEST(texts(3) == "0 0 0.001 0.057 0.46 1.3 12");
  BOOST_TEST(texts(0) == "0 0 0 0 0 1 12");
}

BOOST_AUTO_TEST_CASE(addresses_have_quotes_or_none_as_the_form_says) {
  const std::string quoted = R"("a b"@c.example)";
  BOOST_TEST(logged(quoted) == quoted);
  Recipient to{.address = quoted, .original = R"("d e"@c.example)", .orcpt = {}, .notify = 0};
  const InForm form({.internal = true, .delay_digits = 2});
  BOOST_TEST(logged(quoted) == "a b@c.example");
  BOOST_TEST(logged("") == "");
  BOOST_TEST(delivery_line("4F", to, "none", 1, {}, {Action::failed, "5.1.1", "x", {}, {}}, Wording::usual, quoted)
                 .starts_with("4F: to=<a b@c.example>, orig_to=<d e@c.example>, relay=none,"));
}

BOOST_AUTO_TEST_CASE(the_line_reads_as_postfix_writes_it) {
  Recipient to{.address = "a@b.example", .original = {}, .orcpt = {}, .notify = 0};
  const Delays delays{microseconds(20'000), microseconds(0), microseconds(10'000), microseconds(1'500'000)};
  const DeliveryStatus sent{Action::delivered, "2.0.0", "250 2.0.0 Ok: queued as 1", {}, {}};
  BOOST_TEST(delivery_line("4F", to, "mx.b.example[192.0.2.1]:25", 1, delays, sent) ==
             "4F: to=<a@b.example>, relay=mx.b.example[192.0.2.1]:25, delay=1.5, "
             "delays=0.02/0/0.01/1.5, dsn=2.0.0, "
             "status=sent (250 2.0.0 Ok: queued as 1)");
  to.original = "alias@b.example";
  const DeliveryStatus bounced{Action::failed, "5.1.1", "host x said: 550", {}, {}};
  BOOST_TEST(delivery_line("4F", to, "mx[::1]:25", 3, {}, bounced) ==
             "4F: to=<a@b.example>, orig_to=<alias@b.example>, relay=mx[::1]:25, conn_use=3, delay=0, "
             "delays=0/0/0/0, dsn=5.1.1, status=bounced (host x said: 550)");
}

BOOST_AUTO_TEST_CASE(the_word_says_what_became_of_it_or_would) {
  const auto word = [](Action action, Wording wording) {
    const std::string line = delivery_line("4F", {}, "none", 1, {}, {action, "2.0.0", "x", {}, {}}, wording);
    const auto at = line.find("status=") + 7;
    return line.substr(at, line.find(' ', at) - at);
  };
  BOOST_TEST((wording_of(Purpose::traced, false) == Wording::usual));
  BOOST_TEST((wording_of(Purpose::probe, true) == Wording::probe));
  BOOST_TEST(word(Action::failed, wording_of(Purpose::mail, true)) == "SOFTBOUNCE");
  BOOST_TEST(word(Action::failed, Wording::usual) == "bounced");
  BOOST_TEST(word(Action::failed, Wording::probe) == "undeliverable");
  BOOST_TEST(word(Action::deferred, Wording::probe) == "undeliverable");
  BOOST_TEST(word(Action::delivered, Wording::probe) == "deliverable");
}

BOOST_AUTO_TEST_CASE(a_sender_that_only_the_peer_sees_comes_last) {
  const DeliveryStatus sent{Action::relayed, "2.0.0", "250 ok", {}, {}};
  BOOST_TEST(delivery_line("4F", {}, "mx", 1, {}, sent, Wording::usual, "SRS0=x@a.example")
                 .ends_with("status=sent (250 ok), sender=<SRS0=x@a.example>"));
}

BOOST_AUTO_TEST_CASE(a_delivery_without_a_connection_has_no_set_up_delay) {
  Recipient r;
  r.address = "bob@example.org";
  r.original = "sales@example.org";
  const WallTime t(seconds(100));
  const Delays delays = delays_between(t, t + milliseconds(50), t + milliseconds(50), t + milliseconds(80));
  BOOST_TEST(
      delivery_line("4ABC", r, "local", 1, delays, {Action::delivered, "2.0.0", "delivered to maildir", "", ""}) ==
      "4ABC: to=<bob@example.org>, orig_to=<sales@example.org>, relay=local, delay=0.08, "
      "delays=0.05/0/0/0.03, dsn=2.0.0, status=sent (delivered to maildir)");
}

BOOST_AUTO_TEST_SUITE_END()
