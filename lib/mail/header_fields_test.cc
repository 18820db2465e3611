#include "lib/mail/header_fields.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <ctime>

#include "lib/base/random.h"
#include "lib/base/text.h"

namespace pen::mail {
namespace {

constexpr std::string_view kContent =
    "Received: by mx\r\n\t; now\r\nSubject: one\r\nX: a\r\nsubject : two\r\n\r\nbody: no field\r\n";

struct Fixture {
  HeaderFields fields = HeaderFields::parse(kContent).fields;
  Fixture() { fields.hide_first(); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(header_fields, Fixture)

BOOST_AUTO_TEST_CASE(what_was_parsed_comes_back_byte_by_byte) {
  const auto parsed = HeaderFields::parse(kContent);
  BOOST_TEST(parsed.separator);
  BOOST_TEST(parsed.fields.text() + "\r\n" + std::string(kContent.substr(parsed.size)) == kContent);
  BOOST_TEST(parsed.fields.all()[0].value == " by mx\r\n\t; now");
}

BOOST_AUTO_TEST_CASE(a_header_ends_at_a_line_of_no_field) {
  const auto parsed = HeaderFields::parse("A: 1\r\nno field\r\nB: 2\r\n");
  BOOST_TEST(!parsed.separator);
  BOOST_TEST(parsed.size == 6U);
  BOOST_TEST(HeaderFields::parse("\r\nbody").size == 2U);
  BOOST_TEST(HeaderFields::parse(" continues nothing\r\n").size == 0U);
  BOOST_TEST(HeaderFields::parse("").size == 0U);
}

BOOST_AUTO_TEST_CASE(a_line_of_an_mbox_stays_above_and_nobody_sees_it) {
  auto parsed = HeaderFields::parse("From a@b now\r\nSubject: x\r\n\r\n");
  BOOST_TEST(parsed.fields.all()[0].hidden);
  parsed.fields.insert(1, "New", " 1");
  BOOST_TEST(parsed.fields.text() == "From a@b now\r\nNew: 1\r\nSubject: x\r\n");
}

BOOST_AUTO_TEST_CASE(zero_is_above_our_received_and_one_just_below) {
  fields.insert(1, "B", " 1");
  fields.insert(0, "A", " 0");
  BOOST_TEST(fields.text().starts_with("A: 0\r\nReceived: by mx\r\n\t; now\r\nB: 1\r\nSubject: one\r\n"));
}

BOOST_AUTO_TEST_CASE(our_received_is_an_ordinary_field_once_another_is_above) {
  fields.change("Received", 1, " mine");
  BOOST_TEST(fields.text().starts_with("Received: by mx"));
  BOOST_TEST(fields.text().ends_with("Received: mine\r\n"));  // none was visible
  fields.insert(0, "A", " 0");
  fields.change("Received", 1, " mine");
  BOOST_TEST(fields.text().starts_with("A: 0\r\nReceived: mine\r\nSubject"));
}

BOOST_AUTO_TEST_CASE(only_the_trace_among_our_own_fields_is_hidden) {
  const std::string ours = "X-Pre: 1\r\nReceived: by mx\r\n\t; now\r\n";
  const std::string theirs = "Received: by client\r\nSubject: one\r\n\r\n";
  auto parsed = HeaderFields::parse(ours + theirs).fields;
  parsed.hide_trace(ours.size());
  parsed.change("X-Pre", 1, " 2");
  parsed.change("Received", 1, " by filter");
  parsed.insert(1, "B", " 1");
  BOOST_TEST(parsed.text() ==
             "X-Pre: 2\r\nB: 1\r\nReceived: by mx\r\n\t; now\r\nReceived: by filter\r\nSubject: one\r\n");
  auto without = HeaderFields::parse("X-Pre: 1\r\n" + theirs).fields;  // header checks took ours away
  without.hide_trace(10);
  without.change("Received", 1, "");
  BOOST_TEST(without.text() == "X-Pre: 1\r\nSubject: one\r\n");
}

BOOST_AUTO_TEST_CASE(beyond_the_last_field_is_the_end) {
  fields.insert(99, "Z", " 1");
  BOOST_TEST(fields.text().ends_with("subject : two\r\nZ: 1\r\n"));
}

BOOST_AUTO_TEST_CASE(a_field_is_changed_by_its_number_among_those_of_its_name) {
  fields.change("SUBJECT", 2, " changed");
  BOOST_TEST(fields.text().ends_with("Subject: one\r\nX: a\r\nSUBJECT: changed\r\n"));
  fields.change("Subject", 0, " first");
  BOOST_TEST(fields.text().contains("Subject: first\r\n"));
}

BOOST_AUTO_TEST_CASE(an_empty_value_removes_and_a_field_that_is_missing_is_added) {
  fields.change("Subject", 1, "");
  fields.change("Missing", 1, "");
  BOOST_TEST(!fields.text().contains("one"));
  BOOST_TEST(!fields.text().contains("Missing"));
  fields.change("Missing", 3, " here");
  BOOST_TEST(fields.text().ends_with("Missing: here\r\n"));
}

BOOST_AUTO_TEST_CASE(any_edits_in_any_order_do_what_one_by_one_they_would) {
  // As the fields are told apart by looking through all of them each time.
  struct Slow {
    std::vector<HeaderField> all;
    void change(const std::string& name, std::size_t at, const std::string& value) {
      std::size_t left = std::max<std::size_t>(at, 1);
      const auto found = std::ranges::find_if(
          all, [&](const HeaderField& f) { return !f.hidden && iequals(trim(f.name), name) && --left == 0; });
      if (found == all.end()) {
        if (!value.empty()) all.push_back({name, value});
      } else if (value.empty()) {
        all.erase(found);
      } else {
        *found = {name, value};
      }
    }
    void insert(std::size_t at, const std::string& name, const std::string& value) {
      at = std::min(at, all.size());
      if (at == 0 && !all.empty()) all.front().hidden = false;
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(at), {name, value});
    }
  };
  Random random(7);
  const std::string names[] = {"A", "b", "B", "Subject"};
  for (int round = 0; round < 200; ++round) {
    HeaderFields edited = HeaderFields::parse("A: 1\r\nb : 2\r\nB: 3\r\na: 4\r\nX: 5\r\n").fields;
    edited.hide_first();
    Slow slow{edited.all()};
    for (int step = 0; step < 30; ++step) {
      const std::string& name = names[random.below(4)];
      const std::size_t at = random.below(5);
      const std::string value = random.below(2) == 0 ? "" : " " + std::to_string(step);
      switch (random.below(6)) {
        case 0:
          edited.insert(at, name, " i");
          slow.insert(at, name, " i");
          break;
        case 1:
          edited.add(name, " a");
          slow.all.push_back({name, " a"});
          break;
        case 2:
          BOOST_REQUIRE((edited.all() == slow.all));
          break;
        default:
          edited.change(name, at, value);
          slow.change(name, at, value);
      }
    }
    BOOST_REQUIRE((edited.all() == slow.all));
  }
}

BOOST_AUTO_TEST_CASE(a_filter_that_removes_each_of_very_many_fields_costs_little) {
  constexpr std::size_t kFields = 10'000;
  std::string header;
  for (std::size_t i = 0; i < kFields; ++i) header += "Authentication-Results: mx.example; spf=pass\r\n";
  for (const bool from_the_end : {true, false}) {
    HeaderFields many = HeaderFields::parse(header).fields;
    const std::clock_t begun = std::clock();
    for (std::size_t i = kFields; i > 0; --i) many.change("authentication-results", from_the_end ? i : 1, "");
    BOOST_TEST(many.all().empty());
    // Looking through all of them each time took 2.7 s, optimised.
    BOOST_TEST(static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC < 1.0);
  }
}

BOOST_AUTO_TEST_CASE(no_value_ends_the_header_or_begins_a_field) {
  BOOST_TEST(header_value("a\n b\nc: d") == "a\r\n b\r\n\tc: d");
  BOOST_TEST(header_value("a\r\n\r\n\r\nb") == "a\r\n\tb");
  BOOST_TEST(header_value("a\rb\n") == "a b");
  BOOST_TEST(header_value(std::string_view("a\0b", 3)) == "ab");
}

BOOST_AUTO_TEST_CASE(names_that_would_break_the_header_are_none) {
  BOOST_TEST(is_field_name("X-Spam"));
  for (const char* bad : {"", "a b", "a:", "a\r", "\xc3\xa4"}) BOOST_TEST(!is_field_name(bad), bad);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::mail
