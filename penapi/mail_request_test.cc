// JSON of clients that hand in mail: what is taken, and what is refused where.
#include "penapi/mail_request.h"

#include <boost/test/unit_test.hpp>

#include "lib/testing/suite.h"

using namespace pen;
using namespace pen::api;

BOOST_AUTO_TEST_SUITE(mail_request)

namespace {

int status_of(std::string_view body) {
  const auto parsed = parse_mail_request(body);
  return parsed ? 0 : parsed.error().status;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_names_are_taken) {
  const auto r = parse_mail_request(R"({
    "from": "A <a@x.example>", "to": ["b@x.example", "c@x.example"], "cc": "d@x.example", "bcc": [],
    "recipients": ["e@x.example"], "reply_to": "r@x.example", "envelope_from": "", "subject": "Gr\u00fc\u00dfe",
    "text": "t", "html": "<p>", "headers": {"X-A": "1", "X-B": "2"},
    "attachments": [{"name": "a.png", "type": "image/png", "content": "AAEC", "cid": "logo"}, {"content": ""}]})")
                     .value();
  BOOST_TEST(r.from == "A <a@x.example>");
  BOOST_TEST(r.to.size() == 2U);
  BOOST_TEST(r.cc == std::vector<std::string>{"d@x.example"}, boost::test_tools::per_element());
  BOOST_TEST(r.bcc.empty());
  BOOST_TEST(r.recipients.size() == 1U);
  BOOST_TEST(r.subject ==
             "Gr\xc3\xbc\xc3\x9f"
             "e");
  BOOST_TEST(r.envelope_from.value() == "");
  BOOST_TEST(r.headers.at(1).first == "X-B");
  BOOST_TEST(r.headers.at(1).second == "2");
  BOOST_TEST(r.attachments.size() == 2U);
  BOOST_TEST(r.attachments[0].content == std::string("\0\1\2", 3));
  BOOST_TEST(r.attachments[0].cid == "logo");
}

BOOST_AUTO_TEST_CASE(what_is_no_json_is_400_and_json_of_another_form_is_422) {
  for (const char* no :
       {"", "{", "from=a", R"({"from": "a",})", "{} {}", "{\"from\": \"\xff\"}", R"({"from": "\ud800"})"})
    BOOST_TEST(status_of(no) == 400, no);
  for (const char* no : {"[]",
                         "1",
                         "null",
                         R"({"form": "a"})",
                         R"({"from": 1})",
                         R"({"from": ["a"]})",
                         R"({"from": null})",
                         R"({"to": [["a"]]})",
                         R"({"to": [1]})",
                         R"({"to": {"a": "b"}})",
                         R"({"headers": []})",
                         R"({"headers": {"X": ["a"]}})",
                         R"({"headers": {"X": {"Y": "a"}}})",
                         R"({"attachments": {}})",
                         R"({"attachments": ["a"]})",
                         R"({"attachments": [{"name": "a"}]})",
                         R"({"attachments": [{"content": "A"}]})",
                         R"({"attachments": [{"content": "AAAA", "more": "x"}]})",
                         R"({"attachments": [{"content": "", "content": ""}]})",
                         R"({"from": "a", "from": "b"})",
                         R"({"attachments": [[]]})",
                         R"({"text": true})"})
    BOOST_TEST(status_of(no) == 422, no);
}

BOOST_AUTO_TEST_CASE(deep_and_long_lists_end_where_they_stand) {
  std::string deep = R"({"to": )";
  deep.append(1'000'000, '[');
  BOOST_TEST(status_of(deep) == 422);
  BOOST_TEST(status_of(std::string(1'000'000, '[')) == 422);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"headers":)";
  BOOST_TEST(status_of(objects) == 422);
  std::string many = R"({"to": ["a@x.example")";
  for (std::size_t i = 0; i < kMaxAddresses; ++i) many += R"(,"a")";
  BOOST_TEST(status_of(many + "]}") == 422);
  std::string fields = R"({"headers": {"X-0": "")";
  for (std::size_t i = 0; i < kMaxHeaders; ++i) fields += R"(,"X": "")";
  BOOST_TEST(status_of(fields + "}}") == 422);
}

BOOST_AUTO_TEST_SUITE_END()
