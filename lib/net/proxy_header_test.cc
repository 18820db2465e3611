// The header of the PROXY protocol, parsed, and taken off a socket without what follows.
#include "lib/net/proxy_header.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "lib/base/async/sync.h"
#include "lib/net/proxy_reader.h"
#include "lib/testing/manual_clock.h"

using namespace pen;
using namespace pen::net;

namespace {

const std::string kSignature("\r\n\r\n\0\r\nQUIT\n", 12);
const std::string kLine4 = "PROXY TCP4 192.0.2.9 198.51.100.1 40000 25\r\n";

std::string binary(char command, char protocol, std::string_view rest) {
  std::string out = kSignature + command + protocol;
  out += static_cast<char>(rest.size() >> 8);
  out += static_cast<char>(rest.size() & 0xff);
  return out += rest;
}
const std::string kAddresses4("\xc0\x00\x02\x09\xc6\x33\x64\x01\x9c\x40\x00\x19", 12);
const std::string kBinary4 = binary('\x21', '\x11', kAddresses4);
const std::string kBinary6 =
    binary('\x21', '\x21',
           std::string("\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x09\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"
                       "\x9c\x40\x00\x19",
                       36));

/// "client:port>server:port", "local", "more", or what is wrong.
std::string read(std::string_view input, ProxyFamilies families = {}) {
  const auto header = parse_proxy_header(input, families);
  if (!header) return header.error().message();
  if (!*header) return "more";
  const ProxyHeader& h = **header;
  if (h.local) return "local";
  return h.client.text() + ":" + std::to_string(h.client_port) + ">" + h.server.text() + ":" +
         std::to_string(h.server_port);
}

std::string line(std::string_view rest) { return read("PROXY " + std::string(rest) + "\r\n"); }

}  // namespace

BOOST_AUTO_TEST_SUITE(proxy_header)

BOOST_AUTO_TEST_CASE(both_versions_give_the_addresses_and_say_where_the_header_ends) {
  const std::string four = "192.0.2.9:40000>198.51.100.1:25", six = "2001:db8::9:40000>2001:db8::1:25";
  const std::string line6 = "PROXY TCP6 2001:db8::9 2001:DB8:0::1 40000 25\r\n";
  const std::pair<std::string, std::string> headers[] = {
      {kLine4, four}, {kBinary4, four}, {line6, six}, {kBinary6, six}};
  for (const auto& [header, says] : headers) {
    for (std::size_t size = 0; size < header.size(); ++size) {
      BOOST_TEST(read(header.substr(0, size)) == "more", size);
      BOOST_TEST(proxy_header_part(header.substr(0, size)) == size);
    }
    for (const std::string after : {"", "E", "\x16\x03\x01", "EHLO x\r\n"}) {
      BOOST_TEST(read(header + after) == says);
      BOOST_TEST(parse_proxy_header(header + after).value()->size == header.size());
      BOOST_TEST(proxy_header_part(header + after) == header.size());
    }
  }
  BOOST_TEST(read("PROXY TCP4 1.2.3.4 4.3.2.1 1 65535\n") == "1.2.3.4:1>4.3.2.1:65535");
}

BOOST_AUTO_TEST_CASE(an_ipv4_client_of_an_ipv6_socket_has_its_ipv4_address) {
  BOOST_TEST(line("TCP6 ::ffff:1.2.3.4 ::FFFF:4.3.2.1 123 321") == "1.2.3.4:123>4.3.2.1:321");
  const std::string mapped("\0\0\0\0\0\0\0\0\0\0\xff\xff\1\2\3\4", 16);
  BOOST_TEST(read(binary('\x21', '\x21', mapped + mapped + std::string("\0\1\0\2", 4))) == "1.2.3.4:1>1.2.3.4:2");
}

BOOST_AUTO_TEST_CASE(tlvs_are_passed_over_and_local_has_no_addresses) {
  const std::string tlv("\x04\x00\x03zzz\x20\x00\x00", 9);
  BOOST_TEST(read(binary('\x21', '\x11', kAddresses4 + tlv) + "EHLO") == "192.0.2.9:40000>198.51.100.1:25");
  BOOST_TEST(read(binary('\x20', '\x00', "")) == "local");
  BOOST_TEST(read(binary('\x20', '\x11', kAddresses4 + tlv)) == "local");
  const std::string most(kMaxProxyHeader - 16 - 12, '\0');
  BOOST_TEST(read(binary('\x21', '\x11', kAddresses4 + most)) == "192.0.2.9:40000>198.51.100.1:25");
  BOOST_TEST(read(binary('\x21', '\x11', kAddresses4 + most + "x").substr(0, 16)) == "protocol header is too long");
}

BOOST_AUTO_TEST_CASE(what_is_malformed_is_named_in_postfix_s_words) {
  for (const std::string_view no :
       {"EHLO x\r\n", "PROXZ", "P\r", "PROXY\r\n", "\r\n\r\nQUIT\r\n", "\n", "\x16\x03\x01"})
    BOOST_TEST(read(no) == "unrecognized protocol header", no);
  BOOST_TEST(read("PROXY " + std::string(100, 'x')) == "more");
  BOOST_TEST(read("PROXY " + std::string(101, 'x') + "\r\n") == "missing protocol header terminator");
  BOOST_TEST(line("UNKNOWN") == "bad or missing protocol type");
  BOOST_TEST(line("UNKNOWN 1.2.3.4 4.3.2.1 123 321") == "bad or missing protocol type");
  BOOST_TEST(line("TCP5 1.2.3.4 4.3.2.1 123 321") == "bad or missing protocol type");
  BOOST_TEST(line("TCP6 1.2.3.4 4.3.2.1 123 321") == "bad or missing client address");
  BOOST_TEST(line("TCP4 ::1 4.3.2.1 123 321") == "bad or missing client address");
  BOOST_TEST(line("TCP6 [::1] ::1 123 321") == "bad or missing client address");
  BOOST_TEST(line("TCP4") == "bad or missing client address");
  BOOST_TEST(line("TCP4 1.2.3.4 ::1 123 321") == "bad or missing server address");
  for (const std::string bad : {"123456", "65536", "0123", "-1", "x", ""}) {
    BOOST_TEST(line("TCP4 1.2.3.4 4.3.2.1 " + bad + " ") == "bad or missing client port", bad);
    BOOST_TEST(line("TCP4 1.2.3.4 4.3.2.1 1 " + bad) == "bad or missing server port", bad);
  }
  BOOST_TEST(read(binary('\x11', '\x11', kAddresses4)) == "unrecognized protocol version");
  BOOST_TEST(read(binary('\x22', '\x11', kAddresses4)) == "bad command in proxy header");
  for (const char protocol : {'\x00', '\x10', '\x12', '\x22', '\x31', '\x41'})
    BOOST_TEST(read(binary('\x21', protocol, std::string(216, 'x'))) == "unsupported network protocol");
  BOOST_TEST(read(binary('\x21', '\x11', kAddresses4.substr(1))) == "short address field");
  BOOST_TEST(read(binary('\x21', '\x21', std::string(35, 'x'))) == "short address field");
}

BOOST_AUTO_TEST_CASE(families_that_this_host_does_not_speak_are_refused) {
  BOOST_TEST(read(kBinary4, {.ipv4 = false}) == "IPv4 support is disabled");
  BOOST_TEST(read(kBinary6, {.ipv6 = false}) == "IPv6 support is disabled");
  BOOST_TEST(read(kLine4, {.ipv4 = false}) == "bad or missing protocol type");
  BOOST_TEST(read("PROXY TCP6 ::1 ::1 1 1\r\n", {.ipv6 = false}) == "bad or missing protocol type");
}

namespace {

/// A connection, and what the reader says about it.
struct Connection {
  Connection() { BOOST_TEST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0); }
  ~Connection() {
    ::close(fds[0]);
    if (fds[1] >= 0) ::close(fds[1]);
  }
  static async::Task<void> run(Connection* c) {
    const auto header = co_await read_proxy_header(c->loop, c->fds[0], {}, {.deadline = c->loop.now() + seconds(5)});
    c->said = header ? header->client.text() : header.error().message();
  }
  void start() { tasks.spawn("reader", run(this)); }
  std::string settle() {
    for (int i = 0; i < 10; ++i) loop.run_once();
    return said;
  }
  void send(std::string_view text) { BOOST_TEST_REQUIRE(::write(fds[1], text.data(), text.size()) > 0); }
  std::string left() {
    char text[100];
    const auto n = ::recv(fds[0], text, sizeof text, MSG_DONTWAIT);
    return std::string(text, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  }

  pen::testing::ManualClock clock;
  async::Loop loop{clock};
  int fds[2];
  std::string said;
  async::Gate tasks{loop};
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_reader_takes_the_header_in_any_pieces_and_leaves_what_follows) {
  for (const std::string& header : {kLine4, kBinary4, binary('\x21', '\x11', kAddresses4 + std::string(3000, '\1'))}) {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{5000}}) {
      if (header.size() / piece > 500) continue;
      Connection c;
      c.start();
      const std::string all = header + "\x16\x03\x01";
      for (std::size_t i = 0; i < all.size(); i += piece) {
        c.send(all.substr(i, piece));
        c.settle();
      }
      BOOST_TEST(c.said == "192.0.2.9");
      BOOST_TEST(c.left() == "\x16\x03\x01");
    }
  }
}

BOOST_AUTO_TEST_CASE(a_reader_ends_at_nonsense_at_the_end_of_input_and_when_time_is_up) {
  Connection nonsense;
  nonsense.start();
  nonsense.send("HELO me\r\n");
  BOOST_TEST(nonsense.settle() == "HELO me??: unrecognized protocol header");
  Connection gone;
  gone.start();
  gone.send("PROXY TCP4");
  BOOST_TEST(gone.settle() == "");
  ::close(std::exchange(gone.fds[1], -1));
  BOOST_TEST(gone.settle() == "EOF");
  Connection slow;
  slow.start();
  slow.settle();
  slow.clock.advance(seconds(4));
  slow.send("PROXY ");
  BOOST_TEST(slow.settle() == "");
  slow.clock.advance(seconds(2));  // the whole header has one time limit
  BOOST_TEST(slow.settle() == "timed out");
}

BOOST_AUTO_TEST_SUITE_END()
