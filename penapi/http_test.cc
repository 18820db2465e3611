#include "penapi/http.h"

#include <boost/test/unit_test.hpp>

using namespace pen::api;

namespace {

/// Reads a header; what it is refused with, 0: it is not.
struct Head {
  RequestHead head;
  int status = 0;
  explicit Head(std::initializer_list<std::string_view> lines) {
    for (const auto line : lines) {
      if (status == 0)
        if (const auto no = head.take(line)) status = no->status;
    }
  }
  const Request& request() { return head.request(); }
};
int refusal_of(std::initializer_list<std::string_view> lines) { return Head(lines).status; }

}  // namespace

BOOST_AUTO_TEST_SUITE(http)

BOOST_AUTO_TEST_CASE(a_request_is_taken_apart) {
  Head h({"POST /api/v1/queue/ABC%2Fd?older=3600&sender=a%40b+c HTTP/1.1", "host: localhost:8025",
          "Authorization:  Bearer x ", "Content-Length: 12", ""});
  BOOST_REQUIRE_EQUAL(h.status, 0);
  BOOST_CHECK(h.head.done());
  BOOST_CHECK_EQUAL(h.head.length(), 12U);
  const auto& r = h.request();
  BOOST_CHECK_EQUAL(r.method, "POST");
  BOOST_CHECK((r.path == std::vector<std::string>{"api", "v1", "queue", "ABC/d"}));
  BOOST_CHECK_EQUAL(r.query.at("older"), "3600");
  BOOST_CHECK_EQUAL(r.query.at("sender"), "a@b c");
  BOOST_CHECK_EQUAL(r.host, "localhost:8025");
  BOOST_CHECK_EQUAL(r.authorization, "Bearer x");
  BOOST_CHECK(r.keep_alive);
}

BOOST_AUTO_TEST_CASE(connections_are_kept_as_the_client_wants) {
  BOOST_CHECK(!Head({"GET / HTTP/1.1", "Host: a", "Connection: foo, Close", ""}).request().keep_alive);
  BOOST_CHECK(!Head({"GET / HTTP/1.0", ""}).request().keep_alive);
  BOOST_CHECK(Head({"GET / HTTP/1.0", "Connection: keep-alive", ""}).request().keep_alive);
}

BOOST_AUTO_TEST_CASE(what_could_be_understood_in_two_ways_is_refused) {
  BOOST_CHECK_EQUAL(refusal_of({"GET /"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"GET http://a/ HTTP/1.1"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"GET /a b HTTP/1.1"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"GET / HTTP/2.0"}), 505);
  BOOST_CHECK_EQUAL(refusal_of({"GE(T / HTTP/1.1"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"GET /%0 HTTP/1.1"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"GET /%00 HTTP/1.1"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"GET /a//b HTTP/1.1"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"GET /?a=1&a=2 HTTP/1.1"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"GET / HTTP/1.1", ""}), 400);  // no Host
  BOOST_CHECK_EQUAL(refusal_of({"GET / HTTP/1.1", "Host: a", "Host: b"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"GET / HTTP/1.1", " folded: x"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"GET / HTTP/1.1", "Name : x"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"GET / HTTP/1.1", "no colon"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"GET / HTTP/1.1", std::string_view("a: \0", 4)}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"GET / HTTP/1.1", "a: b\rc"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"POST / HTTP/1.1", "Content-Length: 1", "Content-Length: 1"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"POST / HTTP/1.1", "Content-Length: +1"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"POST / HTTP/1.1", "Content-Length: 1, 1"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"POST / HTTP/1.1", "Content-Length:"}), 400);
  BOOST_CHECK_EQUAL(refusal_of({"POST / HTTP/1.1", "Transfer-Encoding: chunked"}), 501);
  BOOST_CHECK_EQUAL(refusal_of({"POST / HTTP/1.1", "Expect: wonders"}), 400);
}

BOOST_AUTO_TEST_CASE(sizes_are_bounded) {
  BOOST_CHECK_EQUAL(refusal_of({"POST / HTTP/1.1", "Content-Length: 65536"}), 0);
  BOOST_CHECK_EQUAL(refusal_of({"POST / HTTP/1.1", "Content-Length: 65537"}), 413);
  BOOST_CHECK_EQUAL(refusal_of({"POST / HTTP/1.1", "Content-Length: 99999999999999999999999999"}), 413);
  const std::string field = "X: " + std::string(3000, 'x');
  BOOST_CHECK_EQUAL(refusal_of({"GET / HTTP/1.1", field, field}), 0);
  BOOST_CHECK_EQUAL(refusal_of({"GET / HTTP/1.1", field, field, field}), 431);
}

BOOST_AUTO_TEST_CASE(only_names_of_this_host_are_answered_to) {
  for (const char* own : {"127.0.0.1", "127.0.0.1:8025", "[::1]:8025", "localhost", "LOCALHOST:1", "mx.example.org",
                          "mx.example.org:8025", "192.0.2.1"})
    BOOST_CHECK_MESSAGE(is_own_host(own, "mx.example.org"), own);
  for (const char* other : {"", "evil.example", "evil.example:8025", "localhost.evil.example", "[::1", "[evil]"})
    BOOST_CHECK_MESSAGE(!is_own_host(other, "mx.example.org"), other);
}

BOOST_AUTO_TEST_CASE(mail_has_a_limit_of_its_own) {
  const auto taken = [](std::string_view line, std::string_view length) {
    RequestHead head(100'000);
    BOOST_TEST(!head.take(line).has_value());
    const auto no = head.take(length);
    return no ? no->status : 0;
  };
  BOOST_TEST(taken("POST /api/v1/messages HTTP/1.1", "Content-Length: 100000") == 0);
  BOOST_TEST(taken("POST /api/v1/messages?from=a HTTP/1.1", "Content-Length: 100001") == 413);
  for (const char* other : {"PUT /api/v1/messages HTTP/1.1", "POST /api/v1/messages/x HTTP/1.1", "POST /a HTTP/1.1"})
    BOOST_TEST(taken(other, "Content-Length: 65537") == 413, other);
  BOOST_TEST(refusal_of({"POST / HTTP/1.1", "Idempotency-Key: a", "Idempotency-Key: b"}) == 400);
  BOOST_TEST(refusal_of({"POST / HTTP/1.1", "Content-Type: a/b", "Content-Type: a/c"}) == 400);
}

BOOST_AUTO_TEST_SUITE_END()
