#include "qmgr/egress.h"

#include <boost/test/unit_test.hpp>
#include <set>

namespace pen::qmgr {
namespace {

const WallTime kNow = WallTime(seconds(1'800'000'000));

struct Fixture {
  std::shared_ptr<egress::Setup> setup = std::make_shared<egress::Setup>();
  destdb::Suspensions suspensions;
  std::unique_ptr<Egress> egress;
  std::string said;  // why mail waits

  void use(std::string_view sources, const char* pool = "p", std::string_view maps = {}) {
    auto parsed = egress::parse(sources);
    for (const auto& f : parsed.faults) BOOST_ERROR(f.text);
    setup->file = std::move(parsed.file);
    setup->default_pool = setup->file.pool(pool);
    setup->schedule = {2, 10};
    setup->pool_maps = *map::MapList::open(maps);
    egress = std::make_unique<Egress>(
        Egress::Options{.setup = setup, .sends = [](std::string_view t) { return t != "lmtp"; }, .provider_of = {}});
    egress->set_by_hand(&suspensions);
  }
  static mail::Envelope message(std::string queue_id, std::string sender = "joe@one.example") {
    mail::Envelope e;
    e.queue_id = std::move(queue_id);
    e.sender = std::move(sender);
    return e;
  }
  static ipc::route::Resolved to(const std::string& domain, std::vector<std::string> addresses = {"198.51.100.7"}) {
    ipc::route::Resolved r;
    r.transport = "smtp";
    r.nexthop = domain;
    for (auto& address : addresses) {
      ipc::Destination d;
      d.transport = "smtp";
      d.host = "mx." + domain;
      d.address = std::move(address);
      d.port = 25;
      r.levels.push_back({{std::move(d)}});
    }
    return r;
  }
  /// The source; "none"; "waits": `said` has why.
  std::string given(const mail::Envelope& e, ipc::route::Resolved r = to("far.example"), std::uint32_t ordinal = 0,
                    WallTime now = kNow) {
    auto assigned = egress->assign(e, ordinal, r, now);
    if (assigned.later) {
      egress->ledger().kept(egress->ledger().take_changes());
      assigned = egress->assign(e, ordinal, r, now);
    }
    BOOST_TEST(!assigned.later);
    if (assigned.waits) {
      said = assigned.waits->text;
      BOOST_TEST((assigned.waits->action == mail::Action::deferred));
      return "waits";
    }
    std::set<std::string> sources;
    for (const auto& level : r.levels)
      for (const auto& d : level.destinations) sources.insert(d.source);
    BOOST_REQUIRE_EQUAL(sources.size(), 1U);
    return sources.begin()->empty() ? "none" : *sources.begin();
  }
  /// A message that draws this source first.
  mail::Envelope drawing(const std::string& source) {
    for (int i = 0;; ++i) {
      auto e = message("4bQ" + std::to_string(i));
      auto r = to("elsewhere.example");
      BOOST_REQUIRE(!egress->assign(e, 0, r, kNow).waits);
      if (r.levels.front().destinations.front().source == source) return e;
    }
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(egress, Fixture)

BOOST_AUTO_TEST_CASE(a_message_keeps_its_source_however_often_it_is_tried) {
  use("source a\nsource b\nsource c\npool p a b c\n");
  std::set<std::string> seen;
  for (int i = 0; i < 50; ++i) {
    const auto e = message("4bG" + std::to_string(i));
    const std::string first = given(e);
    seen.insert(first);
    BOOST_TEST(given(e, to("far.example"), 1) == first);
    BOOST_TEST(given(e, to("other.example"), 2) == first);
  }
  BOOST_TEST(seen.size() == 3U);
}

BOOST_AUTO_TEST_CASE(the_pool_is_the_senders) {
  use("source a\nsource b\npool p a\npool q b\n", "p", "inline:{ {@two.example = q}, {transport:direct = none} }");
  BOOST_TEST(given(message("1")) == "a");
  BOOST_TEST(given(message("1", "joe@two.example")) == "b");
  auto r = to("far.example");
  r.transport = "direct";
  BOOST_TEST(given(message("1", "joe@two.example"), r) == "none");
  r.transport = "lmtp";
  BOOST_TEST(given(message("1", "joe@two.example"), r) == "none");
}

BOOST_AUTO_TEST_CASE(what_goes_to_a_filter_or_to_no_host_has_no_source) {
  use("source a\npool p a\n");
  auto e = message("1");
  e.filter = "scan:[127.0.0.1]:10025";
  BOOST_TEST(given(e) == "none");
  e.transport = "smtp:[198.51.100.7]";  // it has passed the filter
  BOOST_TEST(given(e) == "a");
  ipc::route::Resolved local;
  local.transport = "local";
  local.nexthop = "one.example";
  BOOST_TEST((!egress->assign(message("1"), 0, local, kNow).waits && local.levels.empty()));
}

BOOST_AUTO_TEST_CASE(hosts_of_a_family_that_the_source_lacks_are_passed_over) {
  use("source four address=192.0.2.1\npool p four\n");
  auto r = to("far.example", {"2001:db8::7", "198.51.100.7"});
  BOOST_TEST((!egress->assign(message("1"), 0, r, kNow).waits));
  BOOST_REQUIRE_EQUAL(r.levels.size(), 1U);
  BOOST_TEST(r.levels[0].destinations[0].address == "198.51.100.7");
  BOOST_TEST(given(message("1"), to("far.example", {"2001:db8::7"})) == "waits");
  BOOST_TEST(said == "no source of pool p can send to far.example: four: no address of the hosts' family");
  use("source four address=192.0.2.1\nsource six address6=2001:db8::1\npool p four six\n");
  for (int i = 0; i < 20; ++i)
    BOOST_TEST(given(message(std::to_string(i)), to("far.example", {"2001:db8::7"})) == "six");
}

BOOST_AUTO_TEST_CASE(what_a_warm_up_does_not_take_goes_to_the_others_and_stays_there) {
  use("source new warmup=yes\nsource old\npool p new*1000 old*1\n");
  std::string sources;
  for (int i = 0; i < 6; ++i) sources += given(message("4bG" + std::to_string(i))) + " ";
  BOOST_TEST(sources == "new new old old old old ");
  // Those that it has are tried again from it, and the others from where they were.
  BOOST_TEST(given(message("4bG0")) == "new");
  BOOST_TEST(given(message("4bG5"), to("far.example"), 0, kNow + std::chrono::hours(24)) == "old");
  BOOST_TEST(given(message("4bG9"), to("second.example")) == "new");
  use("source new warmup=yes\npool p new\n");
  for (std::uint32_t i = 0; i < 2; ++i) BOOST_TEST(given(message("4bG1"), to("far.example"), i) == "new");
  BOOST_TEST(given(message("4bG1"), to("far.example"), 2) == "waits");
  BOOST_TEST(said ==
             "no source of pool p can send to far.example: new: its warm-up allows 2 messages to far.example today");
}

BOOST_AUTO_TEST_CASE(a_source_that_fails_or_is_blocked_or_suspended_leaves_its_mail_to_the_others) {
  use("source a\nsource b\npool p a b\n");
  const auto e = drawing("a");
  egress->failed("a", "source a: proxy down", kNow);
  BOOST_TEST(given(e) == "b");
  BOOST_TEST(given(e, to("far.example"), 0, kNow + seconds(60)) == "b");  // it keeps that one now
  BOOST_TEST(given(e, to("new.example"), 0, kNow + seconds(60)) == "a");
  const WallTime later = kNow + seconds(3600);
  BOOST_TEST(egress->block("b", "far.example", later, later + seconds(60), "S3150"));
  BOOST_TEST(!egress->block("nobody", "far.example", later, later + seconds(60), "S3150"));
  BOOST_TEST(given(e, to("far.example"), 0, later) == "a");
  suspensions["source:a"] = {"source:a", "moving", kNow};
  BOOST_TEST(given(e, to("far.example"), 0, later) == "waits");
  BOOST_TEST(said == "no source of pool p can send to far.example: a: suspended: moving; b: S3150");
  BOOST_TEST(given(e, to("third.example"), 0, later) == "b");
}

BOOST_AUTO_TEST_CASE(smtp_is_told_the_address_of_the_hosts_family_the_name_and_the_proxy) {
  use("source a address=192.0.2.1 address6=2001:db8::1 helo=a.one.example\n"
      "source b address=192.0.2.2 proxy=socks5://u:p@203.0.113.9:1080\npool p a b\n");
  ipc::delivery::OpenConnection open;
  open.destination.source = "a";
  open.destination.address = "2001:db8::7";
  egress->fill(open);
  BOOST_TEST(open.destination.source == "2001:db8::1");
  BOOST_TEST(open.through.helo == "a.one.example");
  BOOST_TEST(open.through.proxy == 0);
  open = {};
  open.destination.source = "b";
  open.destination.address = "198.51.100.7";
  egress->fill(open);
  BOOST_TEST(open.destination.source.empty());  // it is the proxy's
  BOOST_TEST(open.through.address == "192.0.2.2");
  BOOST_TEST(open.through.proxy_port == 1080);
  BOOST_TEST(open.through.password == "p");
}

BOOST_AUTO_TEST_CASE(tools_are_told_pools_stages_and_rests_but_no_password) {
  use("source a warmup=yes proxy=socks5://u:p@203.0.113.9:1080\nsource b warmup=2099-01-01\npool p a b\npool q a\n");
  BOOST_TEST(given(message("1")) == "a");
  egress->accepted("a", "far.example", 1, kNow);
  egress->failed("a", "source a: proxy down", kNow);
  const auto seen = egress->seen(0, kNow);
  BOOST_TEST((seen.pools == std::vector<std::string>{"p", "q"}));
  BOOST_TEST(seen.proxy == "socks5://203.0.113.9:1080");
  BOOST_TEST(seen.resting == "proxy down");
  BOOST_TEST(egress->seen(1, kNow).begins == "2099-01-01");
  const auto groups = egress->groups(0, kNow);
  BOOST_REQUIRE_EQUAL(groups.size(), 1U);
  BOOST_TEST(groups[0].group == "far.example");
  BOOST_TEST((groups[0].stage == 1 && groups[0].limit == 2 && groups[0].taken == 1 && groups[0].accepted == 1));
  BOOST_TEST(egress->forget("a"));
  BOOST_TEST(egress->groups(0, kNow).empty());
  BOOST_TEST(egress->seen(0, kNow).resting.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::qmgr
