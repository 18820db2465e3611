#include "tools/message_view.h"

#include <boost/test/unit_test.hpp>

#include "lib/base/date.h"
#include "tools/cat_tool.h"
#include "tools/read_options.h"

namespace pen::tools {
namespace {

/// The output for some pieces of text.
std::string written(std::initializer_list<const char*> pieces, const std::string& prefix = "") {
  std::string out;
  LineOutput output(prefix, [&out](const std::string& text) { out += text; });
  for (const char* piece : pieces) output.put(piece);
  output.end();
  return out;
}

/// A message with content that is read in pieces of a few bytes.
MessageSource source_of(const std::string& text, std::size_t piece = 3) {
  MessageSource source;
  source.size = text.size();
  source.read = [text, piece](std::uint64_t from, std::size_t most) {
    return Result<std::string>(text.substr(from, std::min(most, piece)));
  };
  return source;
}

BOOST_AUTO_TEST_SUITE(message_view)

BOOST_AUTO_TEST_CASE(line_ends_become_lf_wherever_the_pieces_are_cut_and_the_last_line_is_ended) {
  BOOST_TEST(written({"a\r\nb\r", "\nc"}) == "a\nb\nc\n");
  BOOST_TEST(written({"a\rb\r\r\n"}) == "a\rb\r\n");
  BOOST_TEST(written({"a\r"}) == "a\r\n");
  BOOST_TEST(written({}) == "");
}

BOOST_AUTO_TEST_CASE(an_offset_stands_before_each_line_wherever_the_pieces_are_cut) {
  std::string out;
  LineOutput output("ID: ", [&out](const std::string& text) { out += text; });
  output.put("envelope\n");
  output.count_from(7);
  for (const char* piece : {"a\r", "\n\r\nb", "c\n"}) output.put(piece);
  output.count_no_more();
  output.put("end\n");
  BOOST_TEST(out == "ID: envelope\nID:         7 a\nID:        10 \nID:        12 bc\nID: end\n");
}

BOOST_AUTO_TEST_CASE(a_prefix_stands_before_each_line) {
  BOOST_TEST(written({"a\r\n", "\r\nb", "c"}, "ID: ") == "ID: a\nID: \nID: bc\n");
}

BOOST_AUTO_TEST_CASE(the_header_ends_before_the_empty_line) {
  BOOST_TEST(header_size_of(source_of("A: b\r\n c\r\n\r\nbody\r\n")).value() == 10U);
  BOOST_TEST(header_size_of(source_of("A: b\nno header\n")).value() == 5U);
  BOOST_TEST(header_size_of(source_of("A: b\n")).value() == 5U);
  BOOST_TEST(header_size_of(source_of("\nbody")).value() == 0U);
}

BOOST_AUTO_TEST_CASE(pencat_shows_all_three_parts_or_those_that_are_named) {
  const auto all = read_options<CatTool>({"-f", "ID", "./file"});
  BOOST_REQUIRE(all);
  BOOST_TEST((all->parts.envelope && all->parts.header && all->parts.body && all->parts.names));
  BOOST_TEST(all->words == (std::vector<std::string>{"ID", "./file"}), boost::test_tools::per_element());
  const auto some = read_options<CatTool>({"-hb"});
  BOOST_REQUIRE(some);
  BOOST_TEST((!some->parts.envelope && some->parts.header && some->parts.body));
}

BOOST_AUTO_TEST_CASE(an_envelope_as_json_holds_what_it_says_and_nothing_else) {
  MessageSource source = source_of("A: b\n");
  source.name = "4A";
  source.envelope.arrival = WallTime(seconds(1795710193)) + microseconds(5);
  source.envelope.ret = mail::Ret::headers;
  source.envelope.recipients = {{.address = "b@x", .original = "a@x", .orcpt = "rfc822;o@x", .notify = 6}};
  BOOST_TEST(json_envelope(source) ==
             "{\"queue_id\":\"4A\",\"message_size\":5,\"arrival_time\":1795710193,\"arrival_microseconds\":5,"
             "\"sender\":\"\",\"ret\":\"hdrs\",\"client\":{},\"recipients\":[{\"address\":\"b@x\","
             "\"original_recipient\":\"a@x\",\"dsn_orig_rcpt\":\"rfc822;o@x\",\"notify\":\"failure,delay\"}]}\n");
  const auto asked = read_options<CatTool>({"-j", "4A"});
  BOOST_REQUIRE(asked);
  BOOST_TEST(asked->parts.json);
}

/// What the options show of a message, all of it as one text.
std::string shown(const MessageSource& source, std::initializer_list<const char*> options) {
  std::string out;
  BOOST_TEST(show_message("pencat", source, read_options<CatTool>(options)->parts,
                          [&out](const std::string& text) { out += text; }));
  return out;
}

/// A message that says of itself what an envelope can say, with postcat's lines in mind.
MessageSource queued() {
  MessageSource source = source_of("Subject: s\r\n\r\nbody\r\n");
  source.name = "4A";
  source.place = "deferred";
  source.full_name = "Ann A";
  mail::Envelope& e = source.envelope;
  e.arrival = WallTime(seconds(1796057337));
  e.sender = "ann@one.example";
  e.envid = "envid1";
  e.ret = mail::Ret::headers;
  e.body_type = mail::BodyType::eight_bit_mime;
  e.verp = "+=";
  e.filter = "smtp:[127.0.0.1]:1";
  e.tenant = "big";
  e.client.name = "localhost";
  e.client.address = "127.0.0.1";
  e.client.port = 53816;
  e.client.helo = "cl.example";
  e.client.protocol = "ESMTP";
  e.recipients = {{.address = "b@x",
                   .original = "a@x",
                   .orcpt = "rfc822;o@x",
                   .notify = mail::notify::kSuccess | mail::notify::kDelay},
                  {.address = "c@x", .original = {}, .orcpt = {}, .notify = mail::notify::kNever}};
  return source;
}

const std::string kEnvelope =
    "message_size:              20\n"
    "message_arrival_time: " +
    local_text(WallTime(seconds(1796057337)), "%a %b %e %H:%M:%S %Y") +
    "\nnamed_attribute: envelope_id=envid1\n"
    "named_attribute: ret_flags=2\n"
    "sender_fullname: Ann A\n"
    "sender: ann@one.example\n"
    "named_attribute: encoding=8bit\n"
    "verp_delimiters: +=\n"
    "named_attribute: tenant=big\n"
    "content_filter: smtp:[127.0.0.1]:1\n"
    "named_attribute: client_name=localhost\n"
    "named_attribute: client_address=127.0.0.1\n"
    "named_attribute: client_port=53816\n"
    "named_attribute: helo_name=cl.example\n"
    "named_attribute: protocol_name=ESMTP\n"
    "named_attribute: notify_flags=10\n"
    "named_attribute: dsn_orig_rcpt=rfc822;o@x\n"
    "original_recipient: a@x\n"
    "recipient: b@x\n"
    "named_attribute: notify_flags=1\n"
    "original_recipient: c@x\n"
    "recipient: c@x\n";

BOOST_AUTO_TEST_CASE(a_message_has_the_lines_of_postcat) {
  const std::string begin = "*** ENVELOPE RECORDS deferred/4A ***\n" + kEnvelope;
  const std::string contents = "*** MESSAGE CONTENTS deferred/4A ***\n";
  const std::string end = "*** HEADER EXTRACTED deferred/4A ***\n*** MESSAGE FILE END deferred/4A ***\n";
  BOOST_TEST(shown(queued(), {}) == begin + contents + "Subject: s\n\nbody\n" + end);
  BOOST_TEST(shown(queued(), {"-e"}) == begin + contents + end);
  BOOST_TEST(shown(queued(), {"-eh"}) == begin + contents + "Subject: s\n" + end);
  BOOST_TEST(shown(queued(), {"-eb"}) == begin + contents + "\nbody\n" + end);
  BOOST_TEST(shown(queued(), {"-h"}) == "Subject: s\n");
  BOOST_TEST(shown(queued(), {"-b"}) == "\nbody\n");
  BOOST_TEST(shown(queued(), {"-hb"}) == "Subject: s\n\nbody\n");
}

BOOST_AUTO_TEST_CASE(each_line_has_the_type_of_its_record_where_that_is_asked_for) {
  MessageSource source = source_of("A: b\r\n\r\nc");
  source.name = "/a/file";
  source.envelope.recipients.emplace_back().address = "b@x";
  const std::string when = local_text(WallTime{}, "%a %b %e %H:%M:%S %Y");
  BOOST_TEST(shown(source, {"-do"}) ==
             "*** ENVELOPE RECORDS /a/file ***\n"
             " 67 message_size:               9\n"
             " 84 message_arrival_time: " +
                 when +
                 "\n 83 sender: \n"
                 " 79 original_recipient: b@x\n"
                 " 82 recipient: b@x\n"
                 " 77 *** MESSAGE CONTENTS /a/file ***\n"
                 "        0  78 A: b\n"
                 "        6  78 \n"
                 "        8  78 c\n"
                 " 88 *** HEADER EXTRACTED /a/file ***\n"
                 " 69 *** MESSAGE FILE END /a/file ***\n");
  BOOST_TEST(shown(source, {"-dh"}) == " 78 A: b\n");
}

BOOST_AUTO_TEST_CASE(options_of_postcat_for_places_in_a_file_are_taken) {
  const auto o = read_options<CatTool>({"-o", "-r", "-s3", "4A"});
  BOOST_REQUIRE(o);
  BOOST_TEST(o->parts.offsets);
  BOOST_TEST(o->parts.start == 3U);
  BOOST_TEST(refusal<CatTool>({"-s", "-3"}).find("a number of bytes") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
