// The suppression list on its disk: what is answered, kept over a restart, bounded, listed; exempt senders.
#include "anvil/suppression.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "lib/base/async/testing/run.h"
#include "lib/config/config.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

BOOST_AUTO_TEST_SUITE(suppression)

namespace {

using namespace pen;
using namespace pen::ipc::suppression;
using pen::anvil::Suppression;

struct Fixture {
  Fixture() { begin(); }
  ~Fixture() { end(); }
  void begin() {
    auto o = options("suppression_bounce_time = 1000s\nsuppression_exempt_maps = " + exempt + "\n");
    o.store.limit = limit;
    o.rules.returned_days = returned_days;
    list = std::make_unique<Suppression>(loop, std::move(o),
                                         [this](const std::string& line) { warnings.push_back(line); });
  }
  Suppression::Options options(const std::string& main_cf) {
    config::Surroundings here;
    here.hostname = "mx.example.org";
    const auto config =
        config::Config::parse({.directory = "/",
                               .main_cf = "data_directory = " + scratch.path().string() + "\n" + main_cf,
                               .master_cf = {},
                               .overrides = {}},
                              here);
    auto out = Suppression::Options::of(config.settings());
    BOOST_REQUIRE_MESSAGE(out.has_value(), (out ? "" : out.error().message()));
    return *std::move(out);
  }
  void end() {
    if (!list) return;
    await(list->finish());
    list.reset();
  }
  void again() {
    end();
    begin();
  }
  void await(async::Task<void> task) { async::testing::run_in_time(loop, clock, std::move(task)); }
  template <class T>
  T result(async::Task<T> task) {
    std::optional<T> out;
    await(store(std::move(task), &out));
    return *std::move(out);
  }
  template <class T>
  static async::Task<void> store(async::Task<T> task, std::optional<T>* out) {
    out->emplace(co_await std::move(task));
  }
  Answer ask(const std::string& to, const std::string& from = "news@here.example", const std::string& tenant = "") {
    return result(list->ask({.request = 7, .tenant = tenant, .sender = from, .recipient = to}));
  }
  bool listed(const std::string& to, const std::string& from = "news@here.example", const std::string& tenant = "") {
    return ask(to, from, tenant).standing == Standing::listed;
  }
  Done add(const std::string& to, const std::string& tenant = "", std::int64_t expires = 0) {
    Add add{.request = 1, .entry = {}};
    add.entry.tenant = tenant;
    add.entry.address = to;
    add.entry.reason = Reason::order;
    add.entry.expires = expires;
    return result(list->order(std::move(add)));
  }
  Done remove(const std::string& to, const std::string& tenant = "") {
    return result(list->order(Remove{.request = 2, .tenant = tenant, .address = to}));
  }
  bool fails(const std::string& to, bool certain = true) {
    return result(list->record(
        {.tenant = {}, .address = to, .reason = Reason::bounce, .certain = certain, .text = "550 5.1.1 no such user"}));
  }
  std::int64_t now() const { return unix_seconds(clock.wall_now()); }

  std::size_t limit = 1000;
  std::uint32_t returned_days = 3;
  std::string exempt;
  pen::testing::ScratchDir scratch;
  pen::testing::ManualClock clock;
  async::Loop loop{clock};
  std::vector<std::string> warnings;
  std::unique_ptr<Suppression> list;
};

}  // namespace

PEN_FIXTURE(Fixture)

BOOST_AUTO_TEST_CASE(the_settings_say_how_often_how_long_and_how_many) {
  const auto o = options(
      "suppression_bounce_days = 2\nsuppression_bounce_time = 10d\nsuppression_returned_days = 4\n"
      "suppression_returned_time = 20d\nsuppression_complaint_time = 30d\nsuppression_count_time = 40d\n"
      "suppression_limit = 5000\n");
  constexpr seconds kDay{86'400};
  BOOST_TEST(o.rules.bounce_days == 2u);
  BOOST_TEST((o.rules.bounce_time == 10 * kDay));
  BOOST_TEST(o.rules.returned_days == 4u);
  BOOST_TEST((o.rules.returned_time == 20 * kDay));
  BOOST_TEST((o.rules.complaint_time == 30 * kDay));
  BOOST_TEST((o.rules.count_time == 40 * kDay));
  BOOST_TEST(o.store.limit == 5000u);
}

BOOST_AUTO_TEST_CASE(a_failure_brings_an_address_onto_the_list_and_a_restart_keeps_it) {
  BOOST_TEST(!listed("jo@there.example"));
  BOOST_TEST(fails("Jo@There.example"));
  BOOST_TEST(listed("jo@there.example"));
  BOOST_TEST((ask("jo@there.example").reason == Reason::bounce));
  BOOST_TEST(ask("jo@there.example").request == 7u);
  again();
  BOOST_TEST(listed("jo@there.example"));
  BOOST_TEST(!listed("ann@there.example"));
  clock.advance(seconds(1000));
  BOOST_TEST(!listed("jo@there.example"));
  BOOST_TEST(warnings.empty());
}

BOOST_AUTO_TEST_CASE(an_order_is_on_disk_when_it_is_answered) {
  BOOST_TEST(add("jo@there.example").error == "");
  // A copy of the file is what a power cut would leave.
  std::filesystem::copy(scratch.file("suppressed"), scratch.file("copy"));
  auto store = anvil::SuppressionStore::open(scratch.file("copy"), {});
  BOOST_REQUIRE(store.has_value());
  BOOST_TEST((*store)->find(anvil::suppression_key("", "jo@there.example"), clock.wall_now())->has_value());
}

BOOST_AUTO_TEST_CASE(orders_say_what_was_there) {
  BOOST_TEST(!add("jo@there.example").known);
  BOOST_TEST(add("jo@there.example").known);
  BOOST_TEST(remove("jo@there.example").known);
  BOOST_TEST(!remove("jo@there.example").known);
  BOOST_TEST(!listed("jo@there.example"));
  BOOST_TEST(add("jo").error != "");
  BOOST_TEST(add("jo@there.example", "", now() - 1).error != "");
  BOOST_TEST(add("jo@there.example", "", now() + 10).error == "");
  clock.advance(seconds(11));
  BOOST_TEST(!listed("jo@there.example"));
}

BOOST_AUTO_TEST_CASE(a_tenant_has_a_list_of_its_own_beside_that_of_all) {
  add("jo@there.example", "shop");
  add("ann@there.example");
  BOOST_TEST(listed("jo@there.example", "a@b.example", "shop"));
  BOOST_TEST(!listed("jo@there.example", "a@b.example", "school"));
  BOOST_TEST(!listed("jo@there.example"));
  BOOST_TEST(listed("ann@there.example", "a@b.example", "school"));
}

BOOST_AUTO_TEST_CASE(exempt_senders_and_notices_are_not_stopped) {
  end();
  exempt =
      "inline:{ { reset@here.example = ok }, { tenant:bank = OK }, { own.example = dunno }, { bad.example = perhaps } "
      "}";
  begin();
  add("jo@there.example");
  BOOST_TEST(listed("jo@there.example"));
  BOOST_TEST(listed("jo@there.example", "a@sub.own.example"));
  BOOST_TEST(!listed("jo@there.example", "Reset@here.example"));
  BOOST_TEST(!listed("jo@there.example", "a@here.example", "bank"));
  BOOST_TEST(!listed("jo@there.example", ""));
  BOOST_TEST((ask("jo@there.example", "a@bad.example").standing == Standing::undecided));
  BOOST_TEST(warnings.size() == 1u);
  BOOST_TEST((ask("ann@there.example", "a@bad.example").standing == Standing::free));  // nothing to be exempt from
}

BOOST_AUTO_TEST_CASE(a_full_list_takes_no_more_and_says_so) {
  end();
  limit = 8;
  begin();
  for (int i = 0; i < 8; ++i) BOOST_TEST(add("n" + std::to_string(i) + "@there.example").error == "");
  BOOST_TEST(add("more@there.example").error != "");
  BOOST_TEST(add("n1@there.example").error == "");  // is on it
  fails("gone@there.example");
  BOOST_TEST(!listed("gone@there.example"));
  BOOST_TEST(warnings.size() == 1u);
  again();
  BOOST_TEST(add("more@there.example").error != "");  // counted anew
  remove("n3@there.example");
  BOOST_TEST(add("more@there.example").error == "");
}

BOOST_AUTO_TEST_CASE(what_strangers_say_fills_half_of_the_list) {
  end();
  limit = 8;
  returned_days = 1;
  begin();
  const auto comes_back = [this](int number) {
    (void)result(list->record({.tenant = {},
                               .address = "n" + std::to_string(number) + "@there.example",
                               .reason = number % 2 == 0 ? Reason::returned : Reason::complaint,
                               .certain = false,
                               .text = {}}));
  };
  for (int i = 0; i < 10; ++i) comes_back(i);
  BOOST_TEST(listed("n3@there.example"));
  BOOST_TEST(!listed("n4@there.example"));
  BOOST_TEST_REQUIRE(warnings.size() == 1u);
  BOOST_TEST(warnings[0].contains("half of the suppression list"));
  again();
  comes_back(10);
  BOOST_TEST(!listed("n10@there.example"));  // counted anew
  BOOST_TEST(fails("gone@there.example"));
  BOOST_TEST(listed("gone@there.example"));
  BOOST_TEST(add("jo@there.example").error == "");
}

BOOST_AUTO_TEST_CASE(an_order_with_a_reason_that_is_none_is_refused) {
  Add add{.request = 1, .entry = {}};
  add.entry.address = "jo@there.example";
  add.entry.reason = static_cast<Reason>(200);
  BOOST_TEST(result(list->order(std::move(add))).error == "there is no such reason");
  BOOST_TEST(!listed("jo@there.example"));
  BOOST_TEST(fails("ann@there.example"));
}

BOOST_AUTO_TEST_CASE(addresses_that_are_watched_take_each_others_places) {
  end();
  limit = 8;
  begin();
  for (int i = 0; i < 50; ++i) fails("n" + std::to_string(i) + "@there.example", false);
  BOOST_TEST(list->status_line() == "suppression list: 0 addresses, 2 that failed and are not on it");
  BOOST_TEST(add("jo@there.example").error == "");
}

BOOST_AUTO_TEST_CASE(a_page_goes_on_where_the_last_one_ended) {
  for (int i = 0; i < 5; ++i) add("n" + std::to_string(i) + "@there.example");
  add("x@there.example", "shop");
  fails("watched@there.example", false);
  std::vector<std::string> seen;
  List request{.request = 1, .tenant = {}, .address = {}, .only = false, .watched = false, .most = 2};
  for (int pages = 0; pages < 10; ++pages) {
    const auto page = result(list->list(request));
    for (const auto& e : page.entries) seen.push_back(e.tenant + "/" + e.address);
    if (!page.more) break;
    request.tenant = page.after_tenant;
    request.address = page.after_address;
  }
  const std::vector<std::string> all{"/n0@there.example", "/n1@there.example", "/n2@there.example",
                                     "/n3@there.example", "/n4@there.example", "shop/x@there.example"};
  BOOST_TEST(seen == all, boost::test_tools::per_element());
  const auto one = result(list->list(
      {.request = 1, .tenant = {}, .address = "watched@there.example", .only = true, .watched = false, .most = 1}));
  BOOST_TEST_REQUIRE(one.entries.size() == 1u);
  BOOST_TEST(!one.entries[0].listed);
  BOOST_TEST(one.entries[0].days == 1u);
}

BOOST_AUTO_TEST_CASE(what_has_expired_leaves_the_file) {
  fails("jo@there.example");
  add("ann@there.example");
  clock.advance(seconds(1001));
  async::testing::pass_until(loop, clock, [this] {
    return list->status_line() == "suppression list: 1 addresses, 0 that failed and are not on it";
  });
}

BOOST_AUTO_TEST_CASE(a_list_that_cannot_be_opened_stops_no_mail_and_says_so) {
  std::ofstream(scratch.file("suppressed")) << "not a directory";
  BOOST_TEST((ask("jo@there.example").standing == Standing::unknown));
  BOOST_TEST(!fails("jo@there.example"));
  BOOST_TEST(add("jo@there.example").error != "");
  BOOST_TEST_REQUIRE(warnings.size() == 1u);
  BOOST_TEST(warnings[0].contains("the suppression list stops no mail"));
  std::filesystem::remove(scratch.file("suppressed"));
  clock.advance(Suppression::kOpenEach);
  BOOST_TEST(fails("jo@there.example"));
  BOOST_TEST(listed("jo@there.example"));
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_set_aside) {
  add("jo@there.example");
  end();
  std::ofstream(scratch.file("suppressed") + "/data.mdb", std::ios::in | std::ios::out) << std::string(8192, 'x');
  begin();
  BOOST_TEST((ask("jo@there.example").standing == Standing::free));
  BOOST_TEST_REQUIRE(warnings.size() == 1u);
  BOOST_TEST(warnings[0].contains("begins anew"));
}

BOOST_AUTO_TEST_SUITE_END()
