#include "smtp/domains.h"

#include <boost/test/unit_test.hpp>

namespace pen::smtp {
namespace {

struct Outcome {
  const char* recipient;
  const char* reply;
};

/// A letter per recipient: whether the recipient needs a transaction of its own.
std::string apart(std::initializer_list<Outcome> outcomes) {
  Job job;
  JobDone done;
  for (const auto& o : outcomes) {
    job.recipients.emplace_back().recipient.address = o.recipient;
    const std::string text = o.reply;
    const auto action = text[0] == '2'   ? mail::Action::relayed
                        : text[0] == '4' ? mail::Action::deferred
                                         : mail::Action::failed;
    done.results.push_back({action, text.substr(0, 1) + ".0.0", text, {}, {}});
  }
  std::string out;
  const auto wanted = want_one_domain(job, done);
  for (std::size_t i = 0; i < outcomes.size(); ++i) out += !wanted.empty() && wanted[i] ? 'y' : 'n';
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(smtp_domains)

BOOST_AUTO_TEST_CASE(a_host_that_takes_one_domain_is_known_by_its_words) {
  for (const char* reply :
       {"451-4.3.0 Multiple destination domains per transaction is "
        "unsupported. Please 451 4.3.0 try again.",
        "452 4.5.3 Recipients belong to multiple regions ATTR38", "451 4.5.0 only one domain per message, please"}) {
    BOOST_TEST(apart({{"a@x", "250 ok"}, {"b@y", reply}}) == "ny");
    BOOST_TEST(apart({{"a@x", reply}, {"b@y", reply}}) == "yy");  // to DATA
    BOOST_TEST(apart({{"a@x", "250 ok"}, {"b@x", reply}}) == "nn");
  }
}

BOOST_AUTO_TEST_CASE(or_by_taking_one_and_putting_off_the_others) {
  BOOST_TEST(apart({{"a@x", "250 ok"}, {"b@X", "250 ok"}, {"c@y", "450 no"}, {"d@z", "450 no"}}) == "nnyy");
  BOOST_TEST(apart({{"a@x", "250 ok"}, {"b@y", "250 ok"}, {"c@y", "450 later"}}) == "nnn");
  BOOST_TEST(apart({{"a@x", "450 later"}, {"b@y", "450 later"}}) == "nn");
  BOOST_TEST(apart({{"a@x", "550 no"}, {"b@y", "450 later"}}) == "nn");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::smtp
