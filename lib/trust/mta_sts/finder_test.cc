#include "lib/trust/mta_sts/finder.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <mutex>
#include <semaphore>

#include "lib/base/async/testing/run.h"
#include "lib/testing/dns_server.h"
#include "lib/testing/manual_clock.h"

using namespace pen;
using namespace pen::mta_sts;
using async::testing::run;
using pen::testing::DnsServer;
using pen::testing::ManualClock;

namespace {

constexpr std::uint16_t kTxt = 16;

/// A policy host that answers as the test says or, while it is held, not at all.
struct Host final : Fetcher {
  std::mutex mutex;
  Fetched answer;
  FetchRequest asked;
  std::atomic<int> fetches = 0;
  bool held = false;
  std::counting_semaphore<100> go{0};

  Fetched fetch(const FetchRequest& request) override {
    ++fetches;
    bool wait = false;
    {
      const std::lock_guard lock(mutex);
      asked = request;
      wait = held;
    }
    if (wait) go.acquire();
    const std::lock_guard lock(mutex);
    return answer;
  }
  void says(const std::string& mode, long max_age = 604'800, const std::string& mx = "mx.example") {
    const std::lock_guard lock(mutex);
    answer = {FetchOutcome::ok,
              "version: STSv1\nmode: " + mode + "\nmx: " + mx + "\nmax_age: " + std::to_string(max_age) + "\n", ""};
  }
  void fails(FetchOutcome outcome = FetchOutcome::fetch_failed) {
    const std::lock_guard lock(mutex);
    answer = {outcome, "", "HTTP status 404"};
  }
  void holds(bool how) {
    const std::lock_guard lock(mutex);
    held = how;
  }
};

struct Domain {
  ManualClock clock;
  DnsServer server;
  async::Loop loop{clock};
  async::HandlerPool pool{loop, 1};
  std::shared_ptr<Host> host = std::make_shared<Host>();
  std::shared_ptr<Store> store = memory_store();
  std::unique_ptr<net::Resolver> dns;
  std::unique_ptr<Finder> finder;
  std::vector<std::string> log;

  Domain() {
    net::ResolverOptions options;
    options.servers = {async::SocketAddress::inet("127.0.0.1", server.port())};
    dns = std::make_unique<net::Resolver>(loop, pool, options);
    server.a("mta-sts.d.example", "192.0.2.1");
    announces("one");
    host->says("enforce");
    restart();
  }
  ~Domain() { host->go.release(50); }

  void restart() {
    FinderOptions options;
    options.threads = 2;
    options.tell = [this](bool warning, const std::string& text) {
      log.push_back((warning ? "warning: " : "") + text);
    };
    finder = std::make_unique<Finder>(loop, *dns, store, host, options);
  }
  void announces(const std::string& id) { announces_texts({"v=STSv1; id=" + id + ";"}); }
  void announces_texts(const std::vector<std::string>& texts) {
    server.on("_mta-sts.d.example", [texts](const DnsServer::Query& q) {
      DnsServer::Reply reply;
      for (const auto& text : texts)
        reply.answers.push_back({q.name, kTxt, 300, std::string(1, static_cast<char>(text.size())) + text});
      return std::vector{DnsServer::wire(q, reply)};
    });
    dns_changes();
  }
  void dns_fails() {
    server.on("_mta-sts.d.example", [](const DnsServer::Query& q) {
      DnsServer::Reply no;
      no.rcode = 2;
      return std::vector{DnsServer::wire(q, no)};
    });
    dns_changes();
  }
  void dns_changes() {
    if (dns) dns->clear_cache();
  }
  void later(seconds time) {
    clock.advance(time);
    dns_changes();
  }
  static std::string words(const Applied& a) {
    if (!a.policy) return a.outcome == FetchOutcome::ok ? "none" : "none, " + a.why;
    return std::string(mode_name(a.policy->mode)) + " " + a.id;
  }
  std::string find(const std::string& domain = "d.example") { return words(run(loop, finder->find(domain))); }
  /// Runs until no fetch is running.
  void settle() {
    for (int i = 0; i < 1000 && finder->counts().under_way > 0; ++i) loop.run_once(milliseconds(20));
    BOOST_REQUIRE(finder->counts().under_way == 0u);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(finding_a_policy, Domain)

BOOST_AUTO_TEST_CASE(the_first_mail_gets_the_policy_that_the_record_announces) {
  BOOST_TEST(find() == "enforce one");
  BOOST_TEST(host->asked.domain == "d.example");
  BOOST_TEST(host->asked.addresses.at(0) == "192.0.2.1");
  BOOST_TEST(log.at(0) == "MTA-STS policy of d.example: enforce, id one, mx mx.example, for 604800 seconds");
}

BOOST_AUTO_TEST_CASE(a_known_policy_is_used_without_https) {
  for (int i = 0; i < 3; ++i) BOOST_TEST(find("D.Example") == "enforce one");
  BOOST_TEST(host->fetches == 1);
}

BOOST_AUTO_TEST_CASE(without_a_record_nothing_is_fetched) {
  announces_texts({});
  BOOST_TEST(find() == "none");
  announces_texts({"v=spf1 -all"});
  BOOST_TEST(find() == "none");
  announces_texts({"v=STSv1; id=one;", "v=STSv1; id=two;"});
  BOOST_TEST(find() == "none");
  announces_texts({"v=STSv1; id=;"});
  BOOST_TEST(find() == "none");
  BOOST_TEST(find("nothing.example") == "none");
  BOOST_TEST(host->fetches == 0);
}

BOOST_AUTO_TEST_CASE(a_policy_of_the_parent_domain_is_not_asked_for) {
  BOOST_TEST(find("sub.d.example") == "none");
  BOOST_TEST(host->fetches == 0);
}

BOOST_AUTO_TEST_CASE(a_failed_fetch_is_not_made_again_for_five_minutes) {
  host->fails();
  BOOST_TEST(find() == "none, HTTP status 404");
  later(seconds(299));
  BOOST_TEST(find() == "none, HTTP status 404");
  BOOST_TEST(host->fetches == 1);
  host->says("enforce");
  later(seconds(1));
  BOOST_TEST(find() == "enforce one");
}

BOOST_AUTO_TEST_CASE(an_invalid_policy_is_no_policy) {
  host->says("sometimes");
  BOOST_TEST(find() == "none, mode \"sometimes\" is not enforce, testing or none");
  BOOST_CHECK(run(loop, finder->find("d.example")).outcome == FetchOutcome::policy_invalid);
}

BOOST_AUTO_TEST_CASE(a_policy_host_without_address_is_a_failure) {
  server.on("mta-sts.d.example", [](const DnsServer::Query& q) {
    DnsServer::Reply no;
    no.rcode = 3;
    return std::vector{DnsServer::wire(q, no)};
  });
  BOOST_TEST(find() == "none, its policy host mta-sts.d.example has no address");
  BOOST_TEST(host->fetches == 0);
}

BOOST_AUTO_TEST_CASE(a_cached_policy_counts_while_https_and_dns_are_down) {
  BOOST_TEST(find() == "enforce one");
  host->fails();
  dns_fails();
  later(seconds(604'799));
  restart();
  BOOST_TEST(find() == "enforce one");
  settle();
  later(seconds(1));
  BOOST_TEST(find() == "none, HTTP status 404");
}

BOOST_AUTO_TEST_CASE(a_cached_policy_counts_when_the_record_is_taken_away) {
  BOOST_TEST(find() == "enforce one");
  announces_texts({});
  BOOST_TEST(find() == "enforce one");
}

BOOST_AUTO_TEST_CASE(another_id_brings_the_new_policy_at_once) {
  BOOST_TEST(find() == "enforce one");
  host->says("testing");
  BOOST_TEST(find() == "enforce one");  // no record has announced the new one
  announces("two");
  BOOST_TEST(find() == "testing two");
}

BOOST_AUTO_TEST_CASE(another_id_whose_policy_cannot_be_had_leaves_the_old_one) {
  BOOST_TEST(find() == "enforce one");
  host->fails();
  announces("two");
  BOOST_TEST(find() == "enforce one");
  BOOST_TEST(log.back() ==
             "warning: MTA-STS policy of d.example: not fetched: HTTP status 404; the one that is "
             "known (enforce, id one) counts for 7 more days");
  BOOST_TEST(find() == "enforce one");
  BOOST_TEST(host->fetches == 2);
}

BOOST_AUTO_TEST_CASE(an_expired_policy_is_fetched_again_before_mail_goes_on) {
  host->says("enforce", 60);
  BOOST_TEST(find() == "enforce one");
  later(seconds(60));
  host->says("testing", 60);
  BOOST_TEST(find() == "testing one");
}

BOOST_AUTO_TEST_CASE(mode_none_takes_a_policy_away_and_its_failures_alarm_nobody) {
  BOOST_TEST(find() == "enforce one");
  host->says("none", 86'400);
  announces("two");
  BOOST_TEST(find() == "none two");
  host->fails();
  announces_texts({});
  log.clear();
  later(seconds(50'000));
  BOOST_TEST(find() == "none two");
  settle();
  BOOST_TEST(host->fetches == 3);
  BOOST_TEST(log.empty());
}

BOOST_AUTO_TEST_CASE(a_policy_without_life_protects_nothing_and_is_not_asked_for_all_the_time) {
  host->says("enforce", 0);
  BOOST_TEST(find() == "none");
  later(seconds(200));
  BOOST_TEST(find() == "none");
  BOOST_TEST(host->fetches == 1);
}

BOOST_AUTO_TEST_CASE(a_policy_in_use_is_refreshed_behind_the_mail) {
  BOOST_TEST(find() == "enforce one");
  later(seconds(86'400));
  host->says("testing");
  BOOST_TEST(find() == "enforce one");
  settle();
  BOOST_TEST(find() == "testing one");
  BOOST_TEST(host->fetches == 2);
}

BOOST_AUTO_TEST_CASE(a_slow_policy_host_holds_the_first_mail_for_the_wait_only) {
  host->holds(true);
  std::optional<Applied> first;
  loop.spawn("first", async::testing::store_result(finder->find("d.example"), &first));
  for (int i = 0; i < 1000 && host->fetches == 0; ++i) loop.run_once(milliseconds(20));
  BOOST_REQUIRE(host->fetches == 1);
  clock.advance(milliseconds(9'900));
  loop.run_once(milliseconds(20));
  BOOST_TEST(!first.has_value());
  // Another domain is not delayed.
  BOOST_TEST(find("other.example") == "none");
  clock.advance(milliseconds(200));
  for (int i = 0; i < 100 && !first; ++i) loop.run_once(milliseconds(20));
  BOOST_REQUIRE(first.has_value());
  BOOST_TEST(words(*first) == "none");
  BOOST_TEST((first->ttl <= seconds(60)));
  // The fetch continues, and serves the next caller.
  host->go.release();
  settle();
  BOOST_TEST(find() == "enforce one");
  BOOST_TEST(host->fetches == 1);
}

BOOST_AUTO_TEST_CASE(one_fetch_serves_all_who_wait) {
  host->holds(true);
  std::vector<std::optional<Applied>> mail(20);
  for (auto& one : mail) loop.spawn("mail", async::testing::store_result(finder->find("d.example"), &one));
  for (int i = 0; i < 1000 && host->fetches == 0; ++i) loop.run_once(milliseconds(20));
  for (int i = 0; i < 5; ++i) loop.run_once(milliseconds(5));
  host->go.release();
  settle();
  for (int i = 0; i < 100 && !mail.back(); ++i) loop.run_once(milliseconds(20));
  for (const auto& one : mail) {
    BOOST_REQUIRE(one.has_value());
    BOOST_TEST(words(*one) == "enforce one");
  }
  BOOST_TEST(host->fetches == 1);
}

BOOST_AUTO_TEST_CASE(an_answer_holds_no_longer_than_the_policy) {
  host->says("enforce", 100);
  BOOST_TEST(find() == "enforce one");
  clock.advance(seconds(70));
  BOOST_TEST((run(loop, finder->find("d.example")).ttl == seconds(30)));
  settle();
}

BOOST_AUTO_TEST_CASE(the_sweep_refreshes_what_ages_and_forgets_what_has_ended) {
  BOOST_TEST(find() == "enforce one");
  const auto stored = store->update("old.example", [&](Known& k) {
    k.policy = Policy{Mode::enforce, seconds(10), {"mx.example"}};
    k.fetched = clock.wall_now() - seconds(11);
  });
  BOOST_REQUIRE(stored.has_value());
  run(loop, finder->sweep());
  BOOST_TEST(host->fetches == 1);
  BOOST_CHECK(store->get("old.example") == Known());
  later(seconds(302'400));
  host->says("testing");
  run(loop, finder->sweep());
  BOOST_TEST(host->fetches == 2);
  BOOST_CHECK(store->get("d.example").policy->mode == Mode::testing);
}

BOOST_AUTO_TEST_CASE(names_that_no_host_has_are_not_asked_for) {
  for (const char* name : {"", "a..b", "a b.example", "-\x01.example"}) BOOST_TEST(find(name) == "none");
  BOOST_TEST(find(std::string(250, 'a')) == "none");
  BOOST_TEST(host->fetches == 0);
}

BOOST_AUTO_TEST_SUITE_END()
