// Logins by token: the file, the form of the response, and the exchange.
#include "lib/trust/sasl/token_service.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "lib/base/async/testing/run.h"
#include "lib/base/base64.h"
#include "lib/base/digest/digest.h"
#include "lib/testing/scratch.h"
#include "lib/testing/suite.h"

namespace pen::sasl {

BOOST_AUTO_TEST_SUITE(token_service)

namespace {

const std::string kToken = "0123456789abcdef0123456789abcdef", kOther = "fedcba9876543210fedcba9876543210";

std::string hashed(std::string_view token) {
  std::string out;
  for (const char c : digest::hash(digest::Digest::sha256, token))
    out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}
const std::string kFile =
    "# tokens\nshop " + hashed(kToken) + " info@shop.example @news.example <>\n\nlist\t" + hashed(kOther) + "\n";

struct Exchanged {
  async::Loop loop;
  TokenService service{TokenFile::parse(kFile)};
  std::unique_ptr<Authenticator::Exchange> exchange = service.begin();
  Answer start(std::optional<std::string> response) {
    Authenticator::Request request;
    request.mechanism = "OAUTHBEARER";
    if (response) request.initial = base64_encode(*response);
    return async::testing::run(loop, exchange->start(std::move(request), {}));
  }
  Answer respond(std::string_view response) {
    return async::testing::run(loop, exchange->respond(base64_encode(response), {}));
  }
};
std::string problem_of(std::string_view text) {
  const auto parsed = TokenFile::parse(text);
  return parsed ? "" : parsed.error().message();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_token_has_a_login_and_its_senders) {
  const auto file = TokenFile::parse(kFile).value();
  const auto* shop = file.find(kToken);
  BOOST_REQUIRE(shop != nullptr);
  BOOST_TEST(shop->login == "shop");
  BOOST_TEST(*shop->senders == (Senders{"info@shop.example", "@news.example", "<>"}), boost::test_tools::per_element());
  BOOST_TEST(file.find(kOther)->login == "list");
  BOOST_TEST(!file.find(kOther)->senders);
  for (const std::string& no : {std::string(), kToken + "0", kToken.substr(1), hashed(kToken), std::string(600, 'a')})
    BOOST_TEST(file.find(no) == nullptr, no);
}

BOOST_AUTO_TEST_CASE(a_short_text_is_no_token_even_if_its_hash_is_there) {
  const auto file = TokenFile::parse("weak " + hashed("password") + "\n").value();
  BOOST_TEST(file.find("password") == nullptr);
}

BOOST_AUTO_TEST_CASE(lines_of_another_form_are_errors_with_their_number) {
  BOOST_TEST(problem_of("\nshop\n").contains("line 2"));
  BOOST_TEST(problem_of("shop " + hashed(kToken).substr(1) + "\n").contains("line 1"));
  BOOST_TEST(problem_of("shop x" + hashed(kToken).substr(1) + "\n").contains("line 1"));
  BOOST_TEST(problem_of("shop " + hashed(kToken) + " nobody\n").contains("nobody"));
  BOOST_TEST(problem_of("sh\x01op " + hashed(kToken) + "\n").contains("line 1"));
  BOOST_TEST(problem_of("# none\n") == "");
}

BOOST_AUTO_TEST_CASE(a_file_that_others_can_read_is_refused) {
  const testing::ScratchDir dir;
  const std::string path = dir.path().string() + "/tokens";
  std::ofstream(path) << kFile;
  ::chmod(path.c_str(), 0640);
  BOOST_TEST(TokenFile::read(path).value().find(kToken)->login == "shop");
  ::chmod(path.c_str(), 0644);
  BOOST_TEST(TokenFile::read(path).error().message().contains("chmod"));
  BOOST_TEST(TokenFile::read(path + "-missing").error().is_errno(ENOENT));
}

BOOST_AUTO_TEST_CASE(responses_are_taken_apart) {
  const auto made = parse_bearer(bearer_response(kToken)).value();
  BOOST_TEST(made.token == kToken);
  BOOST_TEST(made.identity == "");
  const auto full = parse_bearer(
                        "n,a=sh=2Cop,\x01host=mx.example\x01port=587\x01"
                        "auth=bearer abc\x01\x01")
                        .value();
  BOOST_TEST(full.identity == "sh,op");
  BOOST_TEST(full.token == "abc");
  for (const std::string no : {"", "n,,", "n,,\x01\x01",
                               "p=x,,\x01"
                               "auth=Bearer a\x01\x01",
                               "n,b=x,\x01"
                               "auth=Bearer a\x01\x01",
                               "n,a=,\x01"
                               "auth=Bearer a\x01\x01",
                               "n,a=x=2,\x01"
                               "auth=Bearer a\x01\x01",
                               "n,,\x01"
                               "auth=Basic a\x01\x01",
                               "n,,\x01"
                               "auth=Bearer \x01\x01",
                               "n,,\x01"
                               "auth=Bearer a\x01",
                               "n,,\x01"
                               "auth=Bearer a\x01"
                               "auth=Bearer b\x01\x01",
                               "n,,\x01"
                               "auth=Bearer a b\x01\x01",
                               "n,,\x01\x01"
                               "auth=Bearer a\x01\x01"})
    BOOST_TEST(!parse_bearer(no).has_value(), no);
}

BOOST_AUTO_TEST_CASE(a_token_logs_in_with_its_login) {
  Exchanged e;
  const Answer answer = e.start(bearer_response(kToken));
  BOOST_TEST((answer.kind == Answer::Kind::ok));
  BOOST_TEST(answer.user == "shop");
  BOOST_TEST(answer.senders->size() == 3U);
  Exchanged later;  // without an initial response
  BOOST_TEST((later.start(std::nullopt).kind == Answer::Kind::challenge));
  BOOST_TEST(later.respond(bearer_response(kOther)).user == "list");
}

BOOST_AUTO_TEST_CASE(a_wrong_token_is_told_so_and_then_refused) {
  Exchanged e;
  const Answer told = e.start(bearer_response(kToken + "0"));
  BOOST_TEST((told.kind == Answer::Kind::challenge));
  BOOST_TEST(base64_decode(told.text).value() == R"({"status":"invalid_token"})");
  BOOST_TEST((e.respond("\x01").kind == Answer::Kind::failed));
  Exchanged other;  // the token of another login
  BOOST_TEST((other
                  .start("n,a=list,\x01"
                         "auth=Bearer " +
                         kToken + "\x01\x01")
                  .kind == Answer::Kind::challenge));
  BOOST_TEST((other.respond(bearer_response(kToken)).kind == Answer::Kind::failed));  // one try
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_read_is_not_the_client_s_fault) {
  async::Loop loop;
  TokenService service(TokenFile::read("/nonexistent/tokens"));
  BOOST_TEST(service.problem().contains("/nonexistent/tokens"));
  const auto exchange = service.begin();
  Authenticator::Request request;
  request.initial = base64_encode(bearer_response(kToken));
  BOOST_TEST((async::testing::run(loop, exchange->start(std::move(request), {})).kind == Answer::Kind::temporary));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::sasl
