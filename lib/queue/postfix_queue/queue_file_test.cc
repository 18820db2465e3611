#include "lib/queue/postfix_queue/queue_file.h"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "lib/queue/postfix_queue/testing/records.h"

using namespace pen::postfix_queue;
using pen::seconds;

namespace {

/// A message as cleanup writes it.
Records usual() {
  Records r;
  r.size(10).add('T', "1795710193 107890").attribute("rewrite_context=local").add('S', "a@one.example");
  r.recipient("b@two.example").content({"Subject: x", "", "hello"});
  return r;
}

struct Read {
  QueueFile file;
  std::string content;
};

Read read(const std::string& bytes) {
  Read out;
  auto file = read_queue_file(bytes, [&](std::string_view part, bool ends) {
    out.content += part;
    if (ends) out.content += '\n';
  });
  BOOST_REQUIRE_MESSAGE(file, (file ? "" : file.error().message()));
  out.file = *std::move(file);
  return out;
}

FileError fault(const std::string& bytes) {
  const auto file = read_queue_file(bytes);
  BOOST_REQUIRE(!file);
  for (const auto e :
       {FileError::not_ours, FileError::cut_short, FileError::damaged, FileError::circular, FileError::too_large})
    if (file.error().is(e)) return e;
  BOOST_FAIL(file.error().message());
  return {};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(queue_file)

BOOST_AUTO_TEST_CASE(a_message_is_read_with_all_that_its_envelope_says) {
  Records r;
  r.size(10).add('T', "1795710193 107890").attribute("envelope_id=abc+d").attribute("ret_flags=2");
  r.add('F', "Ada").add('S', "a@one.example").attribute("encoding=8bit").add('L', "smtp:[127.0.0.1]:10025");
  r.attribute("notify_flags=12").attribute("dsn_orig_rcpt=rfc822;zed+x@two.example").add('O', "zed@two.example");
  r.add('R', "b@two.example").content({"Subject: x", "", "hello"});
  const auto [file, content] = read(r.end());
  BOOST_CHECK(file.arrival == pen::WallTime(seconds(1795710193)) + pen::microseconds(107890));
  BOOST_CHECK_EQUAL(file.sender, "a@one.example");
  BOOST_CHECK_EQUAL(file.full_name, "Ada");
  BOOST_CHECK_EQUAL(file.envid, "abc+d");
  BOOST_CHECK_EQUAL(file.ret, kRetHeaders);
  BOOST_CHECK_EQUAL(file.attribute("encoding"), "8bit");
  BOOST_CHECK_EQUAL(file.filter, "smtp:[127.0.0.1]:10025");
  BOOST_REQUIRE_EQUAL(file.recipients.size(), 1);
  const auto& rcpt = file.recipients[0];
  BOOST_CHECK_EQUAL(rcpt.address, "b@two.example");
  BOOST_CHECK_EQUAL(rcpt.original, "zed@two.example");
  BOOST_CHECK_EQUAL(rcpt.orcpt, "rfc822;zed+x@two.example");
  BOOST_CHECK_EQUAL(rcpt.notify, notify::kFailure | notify::kDelay);
  BOOST_CHECK(!rcpt.done);
  BOOST_CHECK_EQUAL(content, "Subject: x\n\nhello\n");
  BOOST_CHECK_EQUAL(file.content_size, content.size());
}

BOOST_AUTO_TEST_CASE(what_is_said_of_one_recipient_does_not_count_for_the_next) {
  Records r;
  r.add('T', "1 0").add('S', "").attribute("notify_flags=1").add('O', "x@y").add('R', "b@two.example");
  r.add('R', "c@two.example").content({"x"});
  const auto file = read(r.end()).file;
  BOOST_REQUIRE_EQUAL(file.recipients.size(), 2);
  BOOST_CHECK_EQUAL(file.recipients[1].notify, 0);
  BOOST_CHECK_EQUAL(file.recipients[1].original, "");
}

BOOST_AUTO_TEST_CASE(recipients_that_are_done_or_cancelled_are_marked) {
  Records r;
  r.add('T', "1 0").add('S', "").add('D', "b@two.example").add('/', "x@two.example").add('R', "c@two.example");
  const auto file = read(r.content({"x"}).end()).file;
  BOOST_REQUIRE_EQUAL(file.recipients.size(), 3);
  BOOST_CHECK(file.recipients[0].done && file.recipients[1].done && !file.recipients[2].done);
}

BOOST_AUTO_TEST_CASE(recipients_behind_the_content_count_as_well) {
  Records r;
  r.add('T', "1 0").add('S', "").add('M', "").add('N', "x").add('X', "").add('R', "late@two.example");
  BOOST_CHECK_EQUAL(read(r.end()).file.recipients.at(0).address, "late@two.example");
}

BOOST_AUTO_TEST_CASE(a_line_that_was_cut_into_records_is_one_line) {
  Records r;
  r.add('T', "1 0")
      .add('S', "")
      .add('R', "b@c")
      .add('M', "")
      .add('L', "aaa")
      .add('L', "bbb")
      .add('N', "c")
      .add('N', ".");
  r.add('L', "open").add('X', "");
  const auto [file, content] = read(r.end());
  BOOST_CHECK_EQUAL(content, "aaabbbc\n.\nopen\n");
  BOOST_CHECK_EQUAL(file.content_size, content.size());
  BOOST_CHECK_EQUAL(file.content_lines, 3);
}

BOOST_AUTO_TEST_CASE(lengths_of_more_than_seven_bits_are_read) {
  const std::string longest(70000, 'y');
  Records r;
  r.add('T', "1 0").add('S', "").add('R', "b@c").content({longest});
  BOOST_CHECK_EQUAL(read(r.end()).content, longest + "\n");
}

BOOST_AUTO_TEST_CASE(pointers_are_followed_where_a_filter_changed_the_message) {
  Records r;
  r.add('T', "1 0").add('S', "").add('R', "b@c").add('M', "").add('N', "Subject: x");
  const auto jump = r.pointer(0);
  r.add('N', "old: y");
  const auto back = r.bytes.size();
  r.add('w', "room").add('N', "").add('N', "body").add('X', "").add('E', "");
  r.point(jump, r.bytes.size());
  r.add('N', "new: z").pointer(back);
  BOOST_CHECK_EQUAL(read(r.bytes).content, "Subject: x\nnew: z\n\nbody\n");
}

BOOST_AUTO_TEST_CASE(a_pointer_to_nowhere_yet_is_passed_over) {
  Records r;
  r.add('T', "1 0").add('S', "").add('R', "b@c");
  r.pointer(0);
  BOOST_CHECK_EQUAL(read(r.content({"x"}).end()).content, "x\n");
}

BOOST_AUTO_TEST_CASE(pointers_that_go_in_circles_are_an_error) {
  Records r;
  r.add('T', "1 0").add('S', "").add('R', "b@c").add('M', "");
  const auto here = r.bytes.size();
  r.add('N', "again and again").pointer(here);
  BOOST_CHECK(fault(r.bytes) == FileError::circular);
  Records self;
  self.add('T', "1 0");
  self.pointer(self.bytes.size());
  BOOST_CHECK(fault(self.bytes) == FileError::circular);
}

BOOST_AUTO_TEST_CASE(every_file_that_ends_too_early_is_said_to) {
  const std::string whole = usual().end();
  for (std::size_t n = 1; n < whole.size(); ++n) {
    const auto e = fault(whole.substr(0, n));
    BOOST_CHECK_MESSAGE(e == FileError::cut_short, fmt::format("{} bytes", n));
  }
}

BOOST_AUTO_TEST_CASE(what_no_message_can_hold_is_an_error) {
  BOOST_CHECK(fault("hello world\n") == FileError::not_ours);
  BOOST_CHECK(fault(usual().add('?', "").end()) == FileError::damaged);
  BOOST_CHECK(fault(Records().add('T', "x 0").add('S', "").content({}).end()) == FileError::damaged);
  BOOST_CHECK(fault(Records().add('T', "1 0").content({}).end()) == FileError::damaged);
  BOOST_CHECK(fault(Records().add('T', "1 0").add('S', "").add('E', "").bytes) == FileError::damaged);
  BOOST_CHECK(fault(Records().add('T', "1 0").add('A', "no equals").bytes + std::string(2, '\0')) ==
              FileError::damaged);
  BOOST_CHECK(fault(Records().add('T', "1 0").bytes + "S\xff\xff\xff\xff\xff\x01") == FileError::damaged);
}

BOOST_AUTO_TEST_CASE(reasons_are_read_from_the_file_about_a_message) {
  const auto found = read_reasons(
      "<c@three.example>: deferred transport\nrecipient=c@three.example\noffset=785\nstatus=4.3.2\naction=delayed\n"
      "reason=deferred transport\n\n\n<b@two.example>: why = not\nrecipient=b@two.example\nstatus=4.4.1\n"
      "reason=connect to x=y: refused\n");
  BOOST_REQUIRE_EQUAL(found.size(), 2);
  BOOST_CHECK_EQUAL(found[0].recipient, "c@three.example");
  BOOST_CHECK_EQUAL(found[0].offset, 785);
  BOOST_CHECK_EQUAL(found[0].status, "4.3.2");
  BOOST_CHECK_EQUAL(found[1].text, "connect to x=y: refused");
}

BOOST_AUTO_TEST_SUITE_END()
