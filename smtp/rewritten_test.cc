#include "smtp/rewritten.h"

#include <boost/test/unit_test.hpp>

#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::smtp;

namespace {

struct Rig {
  testing::ScratchDir dir;
  config::Settings settings;
  Rig() {
    settings.myorigin = "here.example";
    settings.mydestination = {"here.example"};
    settings.header_size_limit = 102400;
    settings.line_length_limit = 2048;
    settings.mime_boundary_length_limit = 2048;
    settings.mime_nesting_limit = 100;
    settings.local_transport = "local";
    settings.virtual_transport = "virtual";
    settings.relay_transport = "relay";
    settings.default_transport = "smtp";
  }
  std::string rules(std::string_view name, std::string_view text) { return "regexp:" + dir.write(name, text); }
  std::shared_ptr<const ContentRules> open(bool lmtp = false) {
    auto opened = open_rules(settings, lmtp);
    BOOST_REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message()));
    return *opened;
  }
  std::string failed;
  std::string sent(std::string_view text, std::size_t step = 100000) {
    const auto rules = open();
    RewrittenContent content(*rules, "4ID");
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += step) content.feed(text.substr(at, step), out);
    content.finish(out);
    failed = content.failed();
    return out;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(rewritten, Rig)

BOOST_AUTO_TEST_CASE(nothing_set_is_no_rules) {
  BOOST_TEST((open() == nullptr));
  settings.lmtp.header_checks = {rules("h", "/^X:/ IGNORE\n")};
  BOOST_TEST((open() == nullptr));
  BOOST_TEST((open(true) != nullptr));
}

BOOST_AUTO_TEST_CASE(checks_change_what_is_sent_however_it_is_cut) {
  settings.smtp.header_checks = {rules("h", "/^X-Secret:/ IGNORE\n/^To:/ PREPEND X-To: 1\n")};
  settings.smtp.nested_header_checks = {rules("n", "/^Subject:/ REPLACE Subject: hidden\n")};
  const std::string text =
      "X-Secret: a\r\n b\r\nTo: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n"
      "Content-Type: message/rfc822\r\n\r\nSubject: in\r\n\r\nbody\r\n--b--\r\n";
  const std::string wanted =
      "X-To: 1\r\nTo: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n"
      "Content-Type: message/rfc822\r\n\r\nSubject: hidden\r\n\r\nbody\r\n--b--\r\n";
  for (const std::size_t step : {1U, 2U, 5U, 1000U}) BOOST_TEST(sent(text, step) == wanted);
  settings.smtp.body_checks = {rules("b", "/^body$/ REPLACE other\n")};
  BOOST_TEST(sent(text).find("other\r\n--b--") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(generic_addresses_in_header_and_envelope) {
  settings.smtp.generic_maps = {"inline:{ jo@here.example=jo@isp.example }"};
  BOOST_TEST(sent("From: Jo <jo@here.example>\r\nTo: x@y, jo@here.example\r\nSubject: "
                  "jo@here.example\r\n\r\n"
                  "To: jo@here.example\r\n") ==
             "From: Jo <jo@isp.example>\r\nTo: x@y, jo@isp.example\r\nSubject: jo@here.example\r\n\r\n"
             "To: jo@here.example\r\n");
  ipc::delivery::Job job;
  job.sender = "jo@here.example";
  job.recipients.resize(2);
  job.recipients[0].recipient.address = "jo@here.example";
  job.recipients[1].recipient.address = "x@y";
  const auto rules = open();
  BOOST_TEST(map_envelope(*rules, job).value());
  BOOST_TEST(job.sender == "jo@isp.example");
  BOOST_TEST(job.recipients[0].recipient.address == "jo@isp.example");
  BOOST_TEST(job.recipients[0].recipient.original == "jo@here.example");
  BOOST_TEST(job.recipients[1].recipient.address == "x@y");
  BOOST_TEST(job.recipients[1].recipient.original == "");
  job.sender = "";
  BOOST_TEST(!map_envelope(*rules, job).value());
}

BOOST_AUTO_TEST_CASE(a_table_that_cannot_be_read_is_told) {
  settings.smtp.header_checks = {"regexp:" + dir.file("missing")};
  sent("To: x\r\n\r\n");
  BOOST_TEST(!failed.empty());
  settings.smtp.header_checks = {};
  settings.smtp.generic_maps = {"texthash:" + dir.file("missing")};
  sent("To: x@y\r\n\r\n");
  BOOST_TEST(!failed.empty());
  settings.smtp.generic_maps = {"socketmap:unix:/x:y"};
  BOOST_TEST(!open_rules(settings, false).has_value());
}

BOOST_AUTO_TEST_CASE(tables_about_servers_are_opened_by_their_settings) {
  settings.smtp.reply_filter = "static:smtp_reply_filter";
  settings.lmtp.reply_filter = "static:lmtp_reply_filter";
  settings.smtp_discard_ehlo_keyword_address_maps = "static:smtp_discard_ehlo_keyword_address_maps";
  settings.lmtp_discard_lhlo_keyword_address_maps = "static:lmtp_discard_lhlo_keyword_address_maps";
  settings.smtp.tls_loglevel_maps = {"static:smtp_tls_loglevel_maps"};
  settings.lmtp.tls_loglevel_maps = {"static:lmtp_tls_loglevel_maps"};
  settings.parent_domain_matches_subdomains = {"smtp_tls_loglevel_maps"};
  for (const bool lmtp : {false, true}) {
    Settings into;
    const auto problems = open_server_tables(settings, lmtp, into);
    BOOST_TEST_REQUIRE(problems.has_value());
    BOOST_TEST(problems->empty());
    BOOST_TEST(into.reply_filter->lookup("x").value().value() == (lmtp ? "lmtp_reply_filter" : "smtp_reply_filter"));
    BOOST_TEST(into.discard_by_address->lookup("x").value().value() ==
               (lmtp ? "lmtp_discard_lhlo_keyword_address_maps" : "smtp_discard_ehlo_keyword_address_maps"));
    BOOST_TEST(into.tls_loglevels->lookup("x").value().value() ==
               (lmtp ? "lmtp_tls_loglevel_maps" : "smtp_tls_loglevel_maps"));
    BOOST_TEST(into.tls_loglevel_parents == !lmtp);
  }
  Settings none;
  BOOST_TEST(open_server_tables({}, false, none).has_value());
  BOOST_TEST(!none.reply_filter);
  settings.smtp.reply_filter = "tcp:127.0.0.1:1";  // each line of each reply would wait for it
  BOOST_TEST(!open_server_tables(settings, false, none).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
