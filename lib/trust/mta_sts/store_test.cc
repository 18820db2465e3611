#include "lib/trust/mta_sts/store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::mta_sts;

namespace {

struct Disk {
  testing::ScratchDir scratch;
  std::string directory = scratch.file("mta_sts");

  std::shared_ptr<Store> open() {
    auto store = open_store(directory);
    BOOST_REQUIRE(store.has_value());
    return *store;
  }
  static void put(Store& store, const std::string& domain, const std::string& id, std::size_t hosts = 1) {
    const auto stored = store.update(domain, [&](Known& k) {
      k.id = id;
      k.policy = Policy{Mode::enforce, seconds(60), std::vector<std::string>(hosts, "mx.example")};
    });
    BOOST_REQUIRE(stored.has_value());
  }
  static std::string all(Store& store, std::size_t most = 100) {
    std::string out, after;
    do {
      auto last = store.each(after, most, [&](const std::string& domain, const Known& k) {
        out += domain + "=" + k.id + " ";
        return false;
      });
      BOOST_REQUIRE(last.has_value());
      after = *last;
    } while (!after.empty());
    return out;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(store_of_policies, Disk)

BOOST_AUTO_TEST_CASE(what_was_stored_is_there_after_a_restart) {
  Known written;
  {
    const auto store = open();
    const auto stored = store->update("d.example", [&](Known& k) {
      k = {Policy{Mode::testing, seconds(86'400), {"mx.example", "*.example"}},
           "one",
           WallTime(seconds(5)),
           WallTime(seconds(6)),
           "two",
           WallTime(seconds(7)),
           FetchOutcome::webpki_invalid,
           "expired"};
      written = k;
    });
    BOOST_REQUIRE(stored.has_value());
  }
  BOOST_CHECK(open()->get("d.example") == written);
  BOOST_CHECK(open()->get("other.example") == Known());
}

BOOST_AUTO_TEST_CASE(processes_see_what_others_store_and_undo_none_of_it) {
  // liblmdb forbids two environments of one file in one process, so the other process is a child.
  put(*open(), "d.example", "one");
  const pid_t child = ::fork();
  if (child == 0) {
    const auto store = open_store(directory);
    const auto ok = store && (*store)->update("d.example", [](Known& k) { k.why = k.id + " seen"; });
    ::_exit(ok ? 0 : 1);
  }
  int status = -1;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST(status == 0);
  const auto store = open();
  BOOST_REQUIRE(store->update("d.example", [](Known& k) { k.attempted_id = "two"; }).has_value());
  const Known k = store->get("d.example");
  BOOST_TEST(k.id == "one");
  BOOST_TEST(k.why == "one seen");
  BOOST_TEST(k.attempted_id == "two");
}

BOOST_AUTO_TEST_CASE(all_are_visited_in_order_and_go_where_that_is_said) {
  for (const bool on_disk : {true, false}) {
    const auto store = on_disk ? open() : memory_store();
    for (const char* name : {"c", "a", "e", "b", "d"}) put(*store, name, name);
    BOOST_TEST(all(*store, 2) == "a=a b=b c=c d=d e=e ");
    BOOST_REQUIRE(
        store->each("", 100, [](const std::string& d, const Known&) { return d == "b" || d == "e"; }).has_value());
    BOOST_TEST(all(*store, 100) == "a=a c=c d=d ");
  }
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_set_aside_and_begun_anew) {
  put(*open(), "d.example", "one");
  const std::string file = directory + "/data.mdb";
  {
    std::fstream data(file, std::ios::in | std::ios::out | std::ios::binary);
    data.seekp(0);
    data << std::string(8192, '\xff');
  }
  const auto store = open();
  BOOST_TEST(store->warning.find("set aside as " + directory + "/damaged") != std::string::npos);
  BOOST_TEST(std::filesystem::exists(directory + "/damaged/data.mdb"));
  BOOST_TEST(all(*store) == "");
  put(*store, "d.example", "two");
  BOOST_TEST(all(*store) == "d.example=two ");
}

BOOST_AUTO_TEST_CASE(a_record_of_another_form_is_as_none) {
  {
    const auto store = open();
    put(*store, "d.example", "one");
  }
  // The value's first byte says whether there is a policy: 0 or 1.
  std::ifstream in(directory + "/data.mdb", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (std::size_t at = 0; (at = bytes.find("d.example\x01", at)) != std::string::npos; ++at) bytes[at + 9] = '\x07';
  std::ofstream(directory + "/data.mdb", std::ios::binary) << bytes;
  const auto store = open();
  BOOST_CHECK(store->get("d.example") == Known());
  BOOST_TEST(all(*store) == "");
  put(*store, "d.example", "two");
  BOOST_TEST(store->get("d.example").id == "two");
}

BOOST_AUTO_TEST_CASE(a_name_that_cannot_be_kept_is_an_error_and_counts_in_this_process) {
  const auto store = open();
  const std::string name(300, 'a');
  BOOST_TEST(!store->update(name, [](Known& k) { k.id = "one"; }).has_value());
  BOOST_TEST(store->get(name).id == "one");
}

BOOST_AUTO_TEST_CASE(threads_may_write_and_read_at_once) {
  const auto store = open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&store, t] {
      for (int i = 0; i < 25; ++i) {
        const auto stored = store->update("d.example", [](Known& k) { k.fetched += seconds(1); });
        if (!stored) break;
        (void)store->get("d" + std::to_string(t));
      }
    });
  for (auto& thread : threads) thread.join();
  BOOST_CHECK(store->get("d.example").fetched == WallTime(seconds(100)));
}

BOOST_AUTO_TEST_CASE(memory_is_bounded) {
  const auto store = memory_store();
  for (std::size_t i = 0; i < Store::kOverflow + 10; ++i) put(*store, "d" + std::to_string(i), "x");
  std::size_t count = 0;
  BOOST_REQUIRE(store
                    ->each("", 5000,
                           [&](const std::string&, const Known&) {
                             ++count;
                             return false;
                           })
                    .has_value());
  BOOST_TEST(count == Store::kOverflow);
}

BOOST_AUTO_TEST_SUITE_END()
