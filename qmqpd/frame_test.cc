#include "qmqpd/frame.h"

#include <boost/test/unit_test.hpp>
#include <vector>

namespace pen::qmqpd {
namespace {

std::string netstring(std::string_view text) { return std::to_string(text.size()) + ":" + std::string(text) + ","; }

std::string request(std::string_view content, std::string_view sender, const std::vector<std::string>& recipients) {
  std::string all = netstring(content) + netstring(sender);
  for (const auto& r : recipients) all += netstring(r);
  return netstring(all);
}

/// What came of an input: content, sender and recipients in one text, and how it ended.
struct Read {
  std::string seen;
  Frame::Kind last = Frame::Kind::more;
  std::string doing;
  std::size_t taken = 0;
};

/// piece: bytes that come at a time.
Read read(std::string_view bytes, std::size_t piece, Frame::Limits limits = {.content = 100, .address = 20}) {
  Frame frame(limits);
  Read out;
  bool in_content = false;
  while (!bytes.empty() && out.last < Frame::Kind::end) {
    const auto step = frame.next(bytes.substr(0, piece));
    out.last = step.kind;
    out.taken += step.taken;
    bytes.remove_prefix(step.taken);
    if (step.kind == Frame::Kind::content) out.seen += in_content ? "" : "content=";
    in_content = step.kind == Frame::Kind::content || (in_content && step.kind == Frame::Kind::more);
    if (step.kind == Frame::Kind::sender) out.seen += " from=";
    if (step.kind == Frame::Kind::recipient) out.seen += " to=";
    out.seen += step.text;
  }
  out.doing = frame.doing();
  if (out.last >= Frame::Kind::end) {
    const auto again = frame.next("more");
    BOOST_TEST((again.kind == out.last && again.taken == 0U));
  }
  return out;
}

/// The same, whole and cut in every way.
Read read_all_ways(std::string_view bytes, Frame::Limits limits = {.content = 100, .address = 20}) {
  const Read whole = read(bytes, bytes.size(), limits);
  for (std::size_t piece = 1; piece < std::min<std::size_t>(bytes.size(), 40); ++piece) {
    const Read cut = read(bytes, piece, limits);
    BOOST_TEST_CONTEXT("pieces of " << piece) {
      BOOST_TEST(cut.seen == whole.seen);
      BOOST_TEST((cut.last == whole.last));
      BOOST_TEST(cut.taken == whole.taken);
      BOOST_TEST(cut.doing == whole.doing);
    }
  }
  return whole;
}

using Kind = Frame::Kind;

BOOST_AUTO_TEST_SUITE(qmqp_frame)

BOOST_AUTO_TEST_CASE(a_request_is_content_sender_and_recipients) {
  const Read r = read_all_ways(request("Subject: x\n\nhello, 3:abc,\n", "a@b", {"c@d", "e@f"}));
  BOOST_TEST(r.seen == "content=Subject: x\n\nhello, 3:abc,\n from=a@b to=c@d to=e@f");
  BOOST_TEST((r.last == Kind::end));
}

BOOST_AUTO_TEST_CASE(each_part_may_be_empty) {
  BOOST_TEST(read_all_ways(request("", "", {""})).seen == " from= to=");
  BOOST_TEST((read_all_ways(request("x", "a@b", {})).last == Kind::end));
  BOOST_TEST(read_all_ways("9:1:x,:,:,,").seen == "content=x from= to=");
}

BOOST_AUTO_TEST_CASE(what_follows_the_request_is_left_alone) {
  const std::string whole = request("x", "a@b", {"c@d"});
  BOOST_TEST(read_all_ways(whole + "garbage").taken == whole.size());
}

BOOST_AUTO_TEST_CASE(the_length_of_the_whole_must_be_a_number_and_need_not_be_right) {
  BOOST_TEST((read_all_ways("5:1:x,3:a@b,3:c@d,,").last == Kind::end));
  BOOST_TEST((read_all_ways("9223372036854775807:1:x,3:a@b,3:c@d,,").last == Kind::end));
  const Read r = read_all_ways("9223372036854775808:1:x,");
  BOOST_TEST((r.last == Kind::too_long));
  BOOST_TEST(r.doing == "receiving QMQP packet header");
}

BOOST_AUTO_TEST_CASE(what_is_no_netstring_is_malformed_where_it_is_found) {
  const auto fault_of = [](std::string_view bytes) {
    const Read r = read_all_ways(bytes);
    BOOST_TEST((r.last == Kind::malformed), bytes);
    return r.doing;
  };
  BOOST_TEST(fault_of("HELO there") == "receiving QMQP packet header");
  BOOST_TEST(fault_of("12x:") == "receiving QMQP packet header");
  BOOST_TEST(fault_of("-1:") == "receiving QMQP packet header");
  BOOST_TEST(fault_of(",") == "receiving QMQP packet header");
  BOOST_TEST(fault_of("100:,") == "receiving message content");
  BOOST_TEST(fault_of("100:3:abcd") == "receiving message content");
  BOOST_TEST(fault_of("100:3:abc,,") == "receiving sender address");
  BOOST_TEST(fault_of("100:3:abc,1:ab") == "receiving sender address");
  BOOST_TEST(fault_of("100:3:abc,1:a,1,") == "receiving recipient address");
  BOOST_TEST(fault_of("100:3:abc,1:a,1:bx") == "receiving recipient address");
}

BOOST_AUTO_TEST_CASE(a_part_that_is_longer_than_its_limit_is_not_read) {
  BOOST_TEST((read_all_ways(request(std::string(100, 'x'), "a@b", {"c@d"})).last == Kind::end));
  Read r = read_all_ways(request(std::string(101, 'x'), "a@b", {"c@d"}));
  BOOST_TEST((r.last == Kind::too_long));
  BOOST_TEST(r.doing == "receiving message content");
  BOOST_TEST(r.seen.empty());
  BOOST_TEST((read_all_ways(request("x", std::string(20, 'a'), {std::string(20, 'b')})).last == Kind::end));
  r = read_all_ways(request("x", std::string(21, 'a'), {"b"}));
  BOOST_TEST((r.last == Kind::too_long));
  BOOST_TEST(r.doing == "receiving sender address");
  r = read_all_ways(request("x", "a", {std::string(21, 'b')}));
  BOOST_TEST((r.last == Kind::too_long));
  BOOST_TEST(r.doing == "receiving recipient address");
  BOOST_TEST((read_all_ways("9:99999999999999999999:").last == Kind::too_long));
}

BOOST_AUTO_TEST_CASE(without_a_limit_content_may_be_of_any_size) {
  const Read r = read(request(std::string(5000, 'x'), "a", {"b"}), 700, {.content = 0, .address = 20});
  BOOST_TEST((r.last == Kind::end));
  BOOST_TEST(r.seen.size() == std::string("content= from=a to=b").size() + 5000);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::qmqpd
