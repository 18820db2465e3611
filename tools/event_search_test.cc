#include "tools/event_search.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lib/base/date.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"
#include "tools/history.h"

namespace pen::tools {
BOOST_AUTO_TEST_SUITE(event_search)

namespace {

std::string received(int id, const std::string& message, const std::string& to) {
  return R"({"id":)" + std::to_string(id) + R"(,"time":"2026-11-27T01:20:23.000Z","type":"received","queue_id":")" +
         message + R"(","from":"Ada@A.example","to":")" + to + R"(","size":1042})" + "\n";
}
std::string delivered(int id, const std::string& message, const std::string& to) {
  return R"({"id":)" + std::to_string(id) + R"(,"time":"2026-11-27T01:20:24.000Z","type":"delivered","queue_id":")" +
         message + R"(","from":"Ada@A.example","to":")" + to +
         R"(","attempt":2,"relay":"mx.b.example[192.0.2.1]:25","reply":"250 2.0.0 taken"})" + "\n";
}

struct Files {
  testing::ScratchDir dir;
  std::string path = dir.file("events.json");

  /// The greater the age, the older.
  void put(const std::string& name, const std::string& content, int age) {
    std::ofstream(dir.file(name), std::ios::binary) << content;
    set_age(name, age);
  }
  void put_compressed(const std::string& name, const std::string& content, int age) {
    const gzFile out = ::gzopen(dir.file(name).c_str(), "wb");
    BOOST_REQUIRE(out != nullptr);
    BOOST_REQUIRE(::gzwrite(out, content.data(), static_cast<unsigned>(content.size())) > 0);
    BOOST_REQUIRE(::gzclose(out) == Z_OK);
    set_age(name, age);
  }
  void set_age(const std::string& name, int age) {
    const timespec at{1'800'000'000 - age, 0};
    const timespec both[2] = {at, at};
    BOOST_REQUIRE(::utimensat(AT_FDCWD, dir.file(name).c_str(), both, 0) == 0);
  }
  std::vector<std::uint64_t> ids(const Sought& sought, std::size_t most = 100) {
    auto found = search_events(path, sought, most);
    BOOST_REQUIRE(found);
    more = found->more;
    troubles = found->troubles;
    std::vector<std::uint64_t> out;
    for (const auto& event : found->events) out.push_back(event.at("id"));
    return out;
  }
  bool more = false;
  std::vector<std::string> troubles;
};
using Ids = std::vector<std::uint64_t>;

BOOST_FIXTURE_TEST_CASE(a_message_is_followed_through_files_as_they_were_renamed, Files) {
  put_compressed("events.json.20261127-012024.gz",
                 received(1, "4Bcd", "b@b.example") + received(2, "4Bce", "c@b.example"), 30);
  put("events.json.1", delivered(3, "4Bce", "c@b.example"), 20);
  put("events.json", delivered(4, "4Bcd", "b@b.example"), 10);
  put("events.json.old.tmp", delivered(5, "4Bcd", "b@b.example"), 0);
  put("other.json", delivered(6, "4Bcd", "b@b.example"), 0);
  BOOST_TEST(ids({.queue_id = "4Bcd"}) == (Ids{1, 4}), boost::test_tools::per_element());
  BOOST_TEST(ids({.queue_id = "4BcD"}).empty());  // ids have their case
  BOOST_TEST(troubles.empty());
}

BOOST_FIXTURE_TEST_CASE(files_of_before_a_message_was_received_are_not_read, Files) {
  put("events.json.20261127-012024.gz", "\x1f\x8b nothing that unpacks", 30);
  put("events.json", received(3, "4Bcd", "b@b.example") + delivered(4, "4Bcd", "b@b.example"), 10);
  BOOST_TEST(ids({.queue_id = "4Bcd"}) == (Ids{3, 4}), boost::test_tools::per_element());
  BOOST_TEST(troubles.empty());
  // An address has no beginning: the file that cannot be read is told, and the other one counts.
  BOOST_TEST(ids({.address = "b@b.example"}) == (Ids{3, 4}), boost::test_tools::per_element());
  BOOST_TEST(troubles.size() == 1U);
}

BOOST_FIXTURE_TEST_CASE(the_file_that_is_written_to_is_the_newest_whatever_their_times, Files) {
  // One of before that was compressed a moment ago.
  put_compressed("events.json.20261127-012024.gz", received(1, "4Bcd", "b@b.example"), 0);
  put("events.json", delivered(2, "4Bcd", "b@b.example"), 10);
  BOOST_TEST(ids({.queue_id = "4Bcd"}) == (Ids{1, 2}), boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(files_that_penevents_renamed_have_the_order_of_their_names, Files) {
  put_compressed("events.json.20261126-012024.gz", received(1, "4Bcd", "b@b.example"), 0);  // compressed just now
  put("events.json.20261127-012024", delivered(2, "4Bcd", "b@b.example"), 100);
  put("events.json.20261127-012024-0001", delivered(3, "4Bcd", "b@b.example"), 90);
  BOOST_TEST(ids({.queue_id = "4Bcd"}) == (Ids{1, 2, 3}), boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(a_compressed_file_that_is_cut_short_is_told, Files) {
  std::string many;
  for (int i = 1; i < 2000; ++i) many += received(i, "4Bcd" + std::to_string(i), "b@b.example");
  put_compressed("events.json.20261127-012024.gz", many, 10);
  put("events.json", received(5000, "4Bcd", "b@b.example"), 0);
  const std::string path_of_it = dir.file("events.json.20261127-012024.gz");
  BOOST_REQUIRE(::truncate(path_of_it.c_str(), static_cast<off_t>(std::filesystem::file_size(path_of_it) / 2)) == 0);
  BOOST_TEST(!ids({.address = "b@b.example"}, 10'000).empty());
  BOOST_REQUIRE(troubles.size() == 1U);
  BOOST_TEST(troubles[0].contains("cut short"));
}

BOOST_FIXTURE_TEST_CASE(an_address_is_a_sender_or_a_recipient_in_any_case, Files) {
  const std::string several =
      R"({"id":3,"type":"received","queue_id":"4Bcf","from":"x@x.example","recipients":["q@q.example","b@b.EXAMPLE"]})"
      "\n";
  const std::string mentioned = R"({"id":4,"type":"order","queue_id":"4Bcf","by":"b@b.example"})"
                                "\n";
  put("events.json",
      received(1, "4Bcd", "b@b.example") + received(2, "4Bce", "ab@b.example") + several + mentioned +
          "no JSON b@b.example\n",
      0);
  BOOST_TEST(ids({.address = "B@b.example"}) == (Ids{1, 3}), boost::test_tools::per_element());
  BOOST_TEST(ids({.address = "ada@a.example"}) == (Ids{1, 2}), boost::test_tools::per_element());
  BOOST_TEST(ids({.address = "a@a.example"}).empty());
}

BOOST_FIXTURE_TEST_CASE(the_newest_are_kept_and_more_is_said, Files) {
  put("events.json.20261127-012024", received(1, "4Bcd", "b@b.example") + received(2, "4Bce", "b@b.example"), 10);
  put("events.json", received(3, "4Bcf", "b@b.example") + received(4, "4Bcg", "b@b.example"), 0);
  BOOST_TEST(ids({.address = "b@b.example"}, 3) == (Ids{2, 3, 4}), boost::test_tools::per_element());
  BOOST_TEST(more);
  BOOST_TEST(ids({.address = "b@b.example"}, 2) == (Ids{3, 4}), boost::test_tools::per_element());
  BOOST_TEST(more);
  BOOST_TEST(ids({.address = "b@b.example"}, 4).size() == 4U);
  BOOST_TEST(!more);
}

BOOST_FIXTURE_TEST_CASE(a_file_that_was_renamed_while_it_was_read_counts_once, Files) {
  put("events.json.20261127-012024", received(1, "4Bcd", "b@b.example"), 10);
  put("events.json", received(1, "4Bcd", "b@b.example") + delivered(2, "4Bcd", "b@b.example"), 0);
  BOOST_TEST(ids({.address = "b@b.example"}) == (Ids{1, 2}), boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(lines_without_end_and_without_bound_are_passed_over, Files) {
  const std::string endless = received(1, "4Bcd", std::string(3 << 20, 'x') + "@b.example");
  const std::string torn = delivered(3, "4Bcd", "b@b.example");
  const std::string across = received(2, "4Bce", std::string(300'000, 'y') + "@b.example");
  put("events.json", endless + across + delivered(4, "4Bcd", "b@b.example") + torn.substr(0, torn.size() - 1), 0);
  BOOST_TEST(ids({.queue_id = "4Bcd"}) == (Ids{4}), boost::test_tools::per_element());
  BOOST_TEST(ids({.queue_id = "4Bce"}) == (Ids{2}), boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(where_no_file_is_there_is_an_error, Files) {
  const auto none = search_events(path, {.queue_id = "4Bcd"}, 10);
  BOOST_REQUIRE(!none);
  BOOST_TEST(none.error().is_errno(ENOENT));
  BOOST_TEST(search_events("/nowhere/at/all", {.queue_id = "4Bcd"}, 10).error().is_errno(ENOENT));
  put("events.json", "\x1f\x8b nothing that unpacks", 0);
  BOOST_TEST(!search_events(path, {.queue_id = "4Bcd"}, 10));
}

BOOST_AUTO_TEST_CASE(a_history_is_a_paragraph_for_each_message) {
  const auto at = [](const char* second) {
    return "  " + local_text(*parse_date_time(std::string("2026-11-27T01:20:") + second + "Z")) + "  ";
  };
  const auto events_of = [](const std::string& lines) {
    std::vector<nlohmann::ordered_json> out;
    std::istringstream in(lines);
    for (std::string line; std::getline(in, line);) out.push_back(nlohmann::ordered_json::parse(line));
    return out;
  };
  BOOST_TEST(history_text(events_of(
                 received(1, "4Bcd", "b@b.example") +
                 R"({"id":2,"time":"2026-11-27T01:20:23.500Z","type":"received","queue_id":"4Bce","from":"","nrcpt":2,)"
                 R"("client_name":"mx.c.example","client_address":"192.0.2.9","helo":"c","proto":"ESMTPS",)"
                 R"("sasl_username":"eve\u001b[31m"})"
                 "\n" +
                 delivered(3, "4Bcd", "b@b.example") +
                 R"({"id":4,"time":"2026-11-27T01:20:25.000Z","type":"removed","queue_id":"4Bcd"})"
                 "\n"
                 R"({"id":5,"time":"2026-11-27T01:20:26.000Z","type":"rejected","stage":"RCPT","to":"n@b.example",)"
                 R"("client_address":"192.0.2.9","reply":"550 5.1.1 no such user"})"
                 "\n"
                 R"({"id":6,"time":"2026-11-27T01:20:27.000Z","type":"new","queue_id":"4Bce","reason":"why"})"
                 "\n")) ==
             "4Bcd  from <Ada@A.example>, 1042 bytes\n" + at("23") + "received, for <b@b.example>\n" + at("24") +
                 "delivered to <b@b.example>, attempt 2, by mx.b.example[192.0.2.1]:25: 250 2.0.0 "
                 "taken\n" +
                 at("25") +
                 "has left the queue\n"
                 "\n"
                 "4Bce  from <>\n" +
                 at("23") +
                 "received from mx.c.example[192.0.2.9] as c by ESMTPS, user eve?[31m, for 2 "
                 "recipients\n" +
                 at("27") +
                 "new: why\n"
                 "\n"
                 "not taken\n" +
                 at("26") + "refused at RCPT from 192.0.2.9, for <n@b.example>: 550 5.1.1 no such user\n");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace pen::tools
