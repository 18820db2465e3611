// Which messages a tool's request is about.
#include "qmgr/queue_filter.h"

#include <boost/test/unit_test.hpp>

namespace pen::qmgr {
BOOST_AUTO_TEST_SUITE(queue_filter)

namespace {

using Answer = QueueFilter::Answer;
using ipc::queue::Filter;
using ipc::queue::Place;

const WallTime kNow = WallTime(seconds(1700000000));

/// A filter in words.
struct With : Filter {
  With& sender_is(std::string v) {
    sender = std::move(v);
    return *this;
  }
  With& recipient_is(std::string v) {
    recipient = std::move(v);
    return *this;
  }
  With& domain_is(std::string v) {
    domain = std::move(v);
    return *this;
  }
  With& older_is(seconds v) {
    older = v;
    return *this;
  }
  With& reply_is(std::string v) {
    reply = std::move(v);
    return *this;
  }
  With& places_is(std::uint8_t v) {
    places = v;
    return *this;
  }
};

/// A message in a retry log that arrived an hour ago.
struct Message {
  queue_log::Listed listed;
  Active active;

  Message(const std::string& sender, const std::vector<std::string>& recipients,
          const std::string& reply = "connection refused") {
    listed.place = {queue_log::kFirstRetry, {1, 1024}};
    mail::Envelope envelope;
    listed.queue_id = envelope.queue_id = "id";
    listed.sender = envelope.sender = sender;
    listed.arrived = envelope.arrival = kNow - seconds(3600);
    for (const auto& address : recipients) {
      const auto ordinal = static_cast<std::uint32_t>(envelope.recipients.size());
      envelope.recipients.push_back({.address = address, .original = {}, .orcpt = {}, .notify = 0});
      listed.domains.push_back(address.substr(address.find('@') + 1));
      active.notes[ordinal].status.text = reply;
    }
    active.set_envelope(std::move(envelope));
    left(0, static_cast<std::uint32_t>(recipients.size()));
  }
  Message& left(std::uint32_t first, std::uint32_t end) {
    active.remaining = queue_log::OrdinalSet::span(first, end);
    listed.remaining = end - first;
    return *this;
  }
};

/// What is decided in the end; footer and envelope must not contradict each other.
bool meant(const Filter& filter, const Message& m, const std::string& site = {}) {
  const QueueFilter f(filter, site, kNow);
  const bool envelope = f.envelope(m.active);
  switch (f.footer(m.listed)) {
    case Answer::no:
      BOOST_TEST(!(envelope && filter.places == 0), "the footer rules out what the envelope affirms");
      return false;
    case Answer::yes:
      BOOST_TEST(envelope, "the footer affirms what the envelope rules out");
      return true;
    case Answer::ask:
      break;
  }
  return envelope;
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_conditions_every_message_is_meant) {
  BOOST_TEST(meant({}, Message("", {"b@x.example"})));
  BOOST_TEST(QueueFilter({}, {}, kNow).empty());
  BOOST_TEST(!QueueFilter(With().older_is(seconds(1)), {}, kNow).empty());
}

BOOST_AUTO_TEST_CASE(senders_are_compared_whole_by_domain_or_as_the_null_sender) {
  const Message m("Ada@Sender.Example", {"b@x.example"});
  BOOST_TEST(meant(With().sender_is("ada@sender.example"), m));
  BOOST_TEST(meant(With().sender_is("@sender.EXAMPLE"), m));
  BOOST_TEST(!meant(With().sender_is("da@sender.example"), m));
  BOOST_TEST(!meant(With().sender_is("@example"), m));
  BOOST_TEST(!meant(With().sender_is("<>"), m));
  const Message null("", {"b@x.example"});
  BOOST_TEST(meant(With().sender_is("<>"), null));
  BOOST_TEST(!meant(With().sender_is("@"), null));
}

BOOST_AUTO_TEST_CASE(a_sender_that_a_footer_holds_a_part_of_is_looked_up) {
  const std::string sender = std::string(70, 'a') + "@sender.example";
  Message m(sender, {"b@x.example"});
  m.listed.sender.resize(64);
  BOOST_TEST(meant(With().sender_is(sender), m));
  BOOST_TEST(!meant(With().sender_is("@other.example"), m));
}

BOOST_AUTO_TEST_CASE(recipients_count_while_they_are_left) {
  Message m("a@s.example", {"b@x.example", "c@y.example"});
  BOOST_TEST(meant(With().recipient_is("B@X.example"), m));
  BOOST_TEST(meant(With().recipient_is("@y.example"), m));
  BOOST_TEST(meant(With().domain_is("Y.example"), m));
  BOOST_TEST(meant({}, m, "x.example"));
  BOOST_TEST(!meant(With().recipient_is("b@y.example"), m));
  BOOST_TEST(!meant(With().domain_is("z.example"), m));
  m.left(0, 1);
  m.listed.domains = {"x.example"};
  BOOST_TEST(!meant(With().recipient_is("c@y.example"), m));
  BOOST_TEST(!meant(With().domain_is("y.example"), m));
  // A footer made by recovery may still name domains that are done with.
  m.listed.domains = {"x.example", "y.example"};
  m.listed.place.log = queue_log::kJournal;
  m.listed.generation = 1;
  BOOST_TEST(!meant(With().domain_is("y.example"), m));
}

BOOST_AUTO_TEST_CASE(a_footer_with_too_many_domains_leaves_it_to_the_envelope) {
  std::vector<std::string> many;
  for (int i = 0; i < 40; ++i) many.push_back("b@d" + std::to_string(i) + ".example");
  Message m("a@s.example", many);
  m.listed.domains.resize(queue_log::kMaxDomains);
  BOOST_TEST(meant(With().domain_is("d39.example"), m));
  BOOST_TEST(!meant(With().domain_is("d40.example"), m));
}

BOOST_AUTO_TEST_CASE(age_is_that_of_the_message_not_of_its_last_try) {
  Message m("a@s.example", {"b@x.example"});
  m.listed.appended = kNow;
  BOOST_TEST(meant(With().older_is(seconds(3600)), m));
  BOOST_TEST(!meant(With().older_is(seconds(3601)), m));
}

BOOST_AUTO_TEST_CASE(the_reply_is_searched_for_its_part) {
  Message m("a@s.example", {"b@x.example"}, "host mx[192.0.2.1] said: 450 4.2.0 Greylisted, try again");
  BOOST_TEST(meant(With().reply_is("greylisted"), m));
  BOOST_TEST(!meant(With().reply_is("mailbox full"), m));
}

BOOST_AUTO_TEST_CASE(conditions_on_a_recipient_hold_for_one_and_the_same) {
  Message m("a@s.example", {"b@x.example", "c@y.example"}, "refused");
  m.active.notes[1].status.text = "greylisted";
  BOOST_TEST(meant(With().domain_is("y.example").reply_is("greylisted"), m));
  BOOST_TEST(!meant(With().domain_is("x.example").reply_is("greylisted"), m));
  BOOST_TEST(!meant(With().recipient_is("b@x.example"), m, "y.example"));
  BOOST_TEST(!meant(With().sender_is("a@other.example").domain_is("y.example"), m));
  BOOST_TEST(
      meant(With().sender_is("a@s.example").recipient_is("@x.example").older_is(seconds(60)).reply_is("refused"), m));
}

BOOST_AUTO_TEST_CASE(places_are_a_choice) {
  Message m("a@s.example", {"b@x.example"});
  const auto bit = [](Place p) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(p)); };
  BOOST_TEST(meant(With().places_is(bit(Place::deferred)), m));
  BOOST_TEST(!meant(With().places_is(bit(Place::hold)), m));
  m.listed.place.log = queue_log::kHold;
  BOOST_TEST(meant(With().places_is(bit(Place::hold)), m));
  m.listed.active = true;
  BOOST_TEST(meant(With().places_is(bit(Place::active)), m));
}

BOOST_AUTO_TEST_CASE(a_message_in_maildrop_is_chosen_by_its_envelope_and_no_message_by_its_time_alone) {
  submission::Dropped d;
  d.arrival = kNow - seconds(3600);
  d.submission.emplace().sender = "ada@one.example";
  for (const char* address : {"x@rcpt.example", "y@other.example"})
    d.submission->recipients.push_back({.address = address, .original = {}, .orcpt = {}, .notify = 0});
  const auto chosen = [&](const Filter& f) { return QueueFilter(f, {}, kNow).dropped(d); };
  BOOST_TEST(chosen({}));
  BOOST_TEST(chosen(With().sender_is("@one.example").older_is(seconds(3600))));
  BOOST_TEST(!chosen(With().older_is(seconds(3601))));
  BOOST_TEST(!chosen(With().sender_is("<>")));
  BOOST_TEST(chosen(With().recipient_is("X@rcpt.example").domain_is("rcpt.example")));
  BOOST_TEST(!chosen(With().recipient_is("x@rcpt.example").domain_is("other.example")));
  BOOST_TEST(!chosen(With().reply_is("refused")));
  d.submission.reset();
  BOOST_TEST(chosen(With().older_is(seconds(60))));
  BOOST_TEST(!chosen(With().sender_is("<>")));
  BOOST_TEST(!chosen(With().domain_is("rcpt.example")));
}

BOOST_AUTO_TEST_CASE(maildrop_is_covered_where_all_is_or_it_is_named) {
  const auto of = [](std::uint8_t places) { return QueueFilter(With().places_is(places), {}, kNow); };
  const auto maildrop = ipc::queue::bit_of(Place::maildrop), hold = ipc::queue::bit_of(Place::hold);
  BOOST_TEST((of(0).covers(Place::maildrop) && of(0).covers_queue()));
  BOOST_TEST((of(maildrop).covers(Place::maildrop) && !of(maildrop).covers_queue()));
  BOOST_TEST((!of(hold).covers(Place::maildrop) && of(hold).covers_queue()));
  BOOST_TEST(of(hold | maildrop).covers_queue());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
