#include "lib/trust/dmarc/check.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/async/testing/run.h"
#include "lib/net/testing/zone.h"

using namespace pen;
using namespace pen::dmarc;

namespace {

struct World {
  async::Loop loop;
  net::testing::Zone zone;
  std::shared_ptr<const Suffixes> suffixes = *Suffixes::parse("example\nco.example\n");
  Outcome check(Facts facts, unsigned chance = 0) {
    const Records records = zone.records();
    return async::testing::run(loop, dmarc::check(records, suffixes.get(), std::move(facts), chance, {}));
  }
  void record(const std::string& domain, const std::string& tags) {
    zone.add("_dmarc." + domain, "TXT", "v=DMARC1; " + tags);
  }
};

Facts from(std::vector<std::string> domains) {
  Facts facts;
  facts.authors.domains = std::move(domains);
  return facts;
}
Facts with_spf(std::string author, std::string domain) {
  Facts facts = from({std::move(author)});
  facts.spf = Identity{.domain = std::move(domain), .passed = true};
  return facts;
}
Facts with_dkim(std::string author, std::string domain) {
  Facts facts = from({std::move(author)});
  facts.dkim.push_back({.domain = "other.example", .passed = true});
  facts.dkim.push_back({.domain = std::move(domain), .passed = true});
  return facts;
}
std::string shown(const Outcome& o) {
  return std::string(verdict_word(o.verdict)) + " " + std::string(policy_word(o.policy)) + " " +
         std::string(policy_word(o.disposition));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dmarc_check)

BOOST_AUTO_TEST_CASE(alignment_by_the_list_and_by_the_walk_is_the_same) {
  struct Row {
    const char *tags, *author, *identity;
    bool pass;
  };
  const Row rows[] = {
      {"p=reject", "x.example", "x.example", true},
      {"p=reject", "x.example", "X.EXAMPLE", true},
      {"p=reject", "a.x.example", "x.example", true},
      {"p=reject", "x.example", "a.x.example", true},
      {"p=reject", "a.x.example", "b.c.x.example", true},
      {"p=reject", "x.example", "y.example", false},
      {"p=reject", "x.example", "ax.example", false},
      {"p=reject", "x.example", "example", false},
      {"p=reject; adkim=s; aspf=s", "x.example", "x.example", true},
      {"p=reject; adkim=s; aspf=s", "x.example", "a.x.example", false},
      {"p=reject; adkim=s; aspf=s", "a.x.example", "x.example", false},
  };
  for (const bool walk : {false, true})
    for (const auto& row : rows) {
      World w;
      w.record("x.example", row.tags);
      if (walk) w.suffixes = nullptr;
      for (const auto& facts : {with_spf(row.author, row.identity), with_dkim(row.author, row.identity)})
        BOOST_TEST(shown(w.check(facts)) == (row.pass ? "pass reject none" : "fail reject reject"),
                   row.tags << " " << row.author << " " << row.identity << (walk ? " by the walk" : ""));
    }
}

BOOST_AUTO_TEST_CASE(each_kind_of_identity_has_its_own_alignment) {
  World w;
  w.record("x.example", "p=reject; adkim=s");
  BOOST_TEST(shown(w.check(with_dkim("x.example", "a.x.example"))) == "fail reject reject");
  BOOST_TEST(shown(w.check(with_spf("x.example", "a.x.example"))) == "pass reject none");
  World v;
  v.record("x.example", "p=reject; aspf=s");
  BOOST_TEST(shown(v.check(with_dkim("x.example", "a.x.example"))) == "pass reject none");
  BOOST_TEST(shown(v.check(with_spf("x.example", "a.x.example"))) == "fail reject reject");
}

BOOST_AUTO_TEST_CASE(the_policy_depends_on_where_the_record_is) {
  World w;
  w.record("x.example", "p=reject; sp=quarantine; np=none");
  w.record("own.x.example", "p=none; sp=reject");
  w.zone.add("there.x.example", "AAAA", "2001:db8::1");
  BOOST_TEST(shown(w.check(from({"x.example"}))) == "fail reject reject");
  BOOST_TEST(shown(w.check(from({"there.x.example"}))) == "fail quarantine quarantine");
  BOOST_TEST(shown(w.check(from({"gone.x.example"}))) == "fail none none");
  BOOST_TEST(shown(w.check(from({"own.x.example"}))) == "fail none none");
  // By the list the organisation speaks for all below it, whatever lies between.
  BOOST_TEST(shown(w.check(from({"there.own.x.example"}))) == "fail none none");
  BOOST_TEST(shown(w.check(from({"none.example"}))) == "none none none");
  World plain;
  plain.record("x.example", "p=quarantine");
  BOOST_TEST(shown(plain.check(from({"gone.x.example"}))) == "fail quarantine quarantine");
}

BOOST_AUTO_TEST_CASE(a_part_of_the_mail_or_a_test_gets_the_next_milder_policy) {
  World w;
  w.record("x.example", "p=reject; pct=30");
  w.record("y.example", "p=quarantine; pct=0");
  w.record("z.example", "p=reject; t=y");
  BOOST_TEST(shown(w.check(from({"x.example"}), 29)) == "fail reject reject");
  BOOST_TEST(shown(w.check(from({"x.example"}), 30)) == "fail reject quarantine");
  BOOST_TEST(shown(w.check(from({"y.example"}), 0)) == "fail quarantine none");
  BOOST_TEST(shown(w.check(from({"z.example"}), 0)) == "fail reject quarantine");
}

BOOST_AUTO_TEST_CASE(of_several_authors_the_worst_outcome_counts) {
  World w;
  w.record("x.example", "p=reject");
  w.record("y.example", "p=none");
  Facts facts = with_spf("y.example", "y.example");
  facts.authors.domains.emplace_back("x.example");
  const auto outcome = w.check(facts);
  BOOST_TEST(shown(outcome) == "fail reject reject");
  BOOST_TEST(outcome.from == "x.example");
  facts.authors.domains = {"y.example", "unknown.example"};
  BOOST_TEST(shown(w.check(facts)) == "none none none");
  facts.authors.domains = {"y.example"};
  BOOST_TEST(shown(w.check(facts)) == "pass none none");
}

BOOST_AUTO_TEST_CASE(without_an_author_nothing_can_be_said) {
  World w;
  Facts facts;
  facts.authors.problem = "no From:";
  const auto outcome = w.check(facts);
  BOOST_TEST(shown(outcome) == "permerror none none");
  BOOST_TEST(outcome.reason == "no From:");
  BOOST_TEST(w.zone.asked.empty());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_read_beside_an_author_makes_nothing_better) {
  World w;
  w.record("x.example", "p=reject");
  w.record("q.example", "p=quarantine");
  w.zone.add("_dmarc.silent.example", "TXT", "!TIMEOUT");
  const auto beside_junk = [&](Facts facts) {
    facts.authors.problem = "junk";
    return w.check(facts);
  };
  const auto failed = beside_junk(from({"x.example"}));
  BOOST_TEST(shown(failed) == "fail reject reject");
  BOOST_TEST(failed.from == "x.example");
  BOOST_TEST(failed.reason == "junk");
  BOOST_TEST(shown(beside_junk(from({"q.example"}))) == "fail quarantine quarantine");
  // It passes for this author, and there may be another one.
  BOOST_TEST(shown(beside_junk(with_spf("x.example", "x.example"))) == "permerror reject none");
  BOOST_TEST(shown(beside_junk(from({"none.example"}))) == "permerror none none");
  BOOST_TEST(shown(beside_junk(from({"silent.example"}))) == "temperror none none");
  BOOST_TEST(beside_junk(from({"silent.example"})).reason == "no answer from DNS about the policy");
}

BOOST_AUTO_TEST_CASE(authors_beyond_the_bound_count_as_failed) {
  World w;
  w.record("q.example", "p=quarantine");
  Facts facts = with_spf("q.example", "q.example");
  facts.authors.problem = "too many";
  facts.authors.more = true;
  BOOST_TEST(shown(w.check(facts)) == "permerror quarantine reject");
  facts.spf.reset();
  BOOST_TEST(shown(w.check(facts)) == "fail quarantine reject");
}

BOOST_AUTO_TEST_CASE(what_dns_does_not_answer_is_no_failure) {
  World w;
  w.zone.add("_dmarc.x.example", "TXT", "!TIMEOUT");
  BOOST_TEST(shown(w.check(from({"x.example"}))) == "temperror none none");
  w.record("y.example", "p=reject");
  Facts facts = from({"y.example"});
  facts.dkim.push_back({.domain = "y.example", .passed = false, .unknown = true});
  BOOST_TEST(shown(w.check(facts)) == "temperror reject none");
  facts.dkim.front().domain = "other.example";
  BOOST_TEST(shown(w.check(facts)) == "fail reject reject");
  facts.spf = Identity{.domain = "a.y.example", .passed = true};
  BOOST_TEST(shown(w.check(facts)) == "pass reject none");
}

BOOST_AUTO_TEST_CASE(silence_that_a_stranger_chose_is_told_by_what_is_at_stake) {
  World w;
  w.record("x.example", "p=reject");
  w.record("q.example", "p=none; sp=quarantine; np=reject");
  w.record("part.example", "p=reject; pct=30");
  w.record("none.example", "p=none");
  w.zone.add("_dmarc.dead.x.example", "TXT", "!TIMEOUT");
  w.zone.add("_dmarc.dead.q.example", "TXT", "!TIMEOUT");
  w.zone.add("dead.q.example", "A", "192.0.2.1");
  w.zone.add("_dmarc.dead.example", "TXT", "!TIMEOUT");
  for (const bool by_list : {true, false}) {
    if (!by_list) w.suffixes = nullptr;
    const auto silent_identity = [](std::string author, std::string domain) {
      Facts facts = from({std::move(author)});
      facts.dkim.push_back({.domain = std::move(domain), .passed = false, .unknown = true});
      return facts;
    };
    const auto withheld = [&](Facts facts, unsigned chance = 0) {
      const auto outcome = w.check(std::move(facts), chance);
      BOOST_TEST(verdict_word(outcome.verdict) == "temperror");
      BOOST_TEST((outcome.disposition == Policy::none));
      return std::string(policy_word(outcome.withheld));
    };
    BOOST_TEST(withheld(silent_identity("x.example", "dead.x.example")) == "reject");
    BOOST_TEST(withheld(silent_identity("part.example", "part.example"), 29) == "reject");
    BOOST_TEST(withheld(silent_identity("part.example", "part.example"), 30) == "quarantine");
    BOOST_TEST(withheld(from({"dead.x.example"})) == "reject");
    BOOST_TEST(withheld(from({"dead.q.example"})) == "quarantine");
    BOOST_TEST(withheld(from({"dead.example"})) == "none");
    // Another author, who fails and asks for nothing, does not cover it.
    Facts two = silent_identity("none.example", "dead.x.example");
    two.authors.domains.emplace_back("x.example");
    const auto outcome = w.check(std::move(two));
    BOOST_TEST(shown(outcome) == "fail none none");
    BOOST_TEST((outcome.withheld == Policy::reject));
  }
}

BOOST_AUTO_TEST_CASE(several_records_at_a_name_are_none) {
  World w;
  w.record("x.example", "p=reject");
  w.record("x.example", "p=none");
  BOOST_TEST(shown(w.check(from({"x.example"}))) == "none none none");
  w.zone.add("_dmarc.y.example", "TXT", "v=spf1 -all");
  w.record("y.example", "p=reject");
  BOOST_TEST(shown(w.check(from({"y.example"}))) == "fail reject reject");
}

BOOST_AUTO_TEST_CASE(the_walk_stops_where_records_say_so) {
  World w;
  w.suffixes = nullptr;
  w.record("bank.example", "p=reject; psd=y; np=reject; sp=quarantine");
  // Below a public suffix with a record, each name is an organisation of its own.
  BOOST_TEST(shown(w.check(with_spf("a.bank.example", "b.bank.example"))) == "fail reject reject");
  BOOST_TEST(shown(w.check(with_spf("a.bank.example", "x.a.bank.example"))) == "pass reject none");
  // psd=n: an organisation apart from what is above it.
  w.record("x.example", "p=none");
  w.record("apart.x.example", "p=reject; psd=n");
  BOOST_TEST(shown(w.check(with_spf("a.apart.x.example", "x.example"))) == "fail reject reject");
  BOOST_TEST(shown(w.check(with_spf("a.apart.x.example", "b.apart.x.example"))) == "pass reject none");
  BOOST_TEST(shown(w.check(with_spf("a.x.example", "b.apart.x.example"))) == "fail none none");
}

BOOST_AUTO_TEST_CASE(a_name_of_many_labels_costs_eight_questions) {
  World w;
  w.suffixes = nullptr;
  std::string name = "x.example";
  for (int i = 0; i < 60; ++i) name = "a." + name;
  BOOST_TEST(shown(w.check(with_spf(name, "elsewhere.example"))) == "none none none");
  BOOST_TEST(w.zone.asked.size() == 8u);
  BOOST_TEST(w.zone.asked[1] == "TXT _dmarc.a.a.a.a.a.x.example");
}

BOOST_AUTO_TEST_SUITE_END()
