// Mail that is handed in, from the request to the answer: a scripted server takes the place of smtpd.
#include "penapi/submissions.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/async/testing/run.h"
#include "lib/testing/manual_clock.h"
#include "lib/testing/suite.h"
#include "penapi/server.h"
#include "penapi/service_fixture.h"

using namespace pen;
using namespace pen::api;

BOOST_AUTO_TEST_SUITE(submissions)

namespace {

struct Answer {
  int status = 0;
  std::string text;  // with its header
  bool says(std::string_view what) const { return text.contains(what); }
};

struct Rig {
  explicit Rig(const Clock& clock = system_clock()) : loop(clock) {}

  static async::Task<Answer> talk(async::Stream* stream, std::string request) {
    stream->write(request);
    Answer out;
    for (;;) {
      auto part = co_await stream->read_some(65536);
      if (!part) break;
      out.text += *part;
    }
    if (out.text.size() > 12) out.status = std::atoi(out.text.c_str() + 9);
    co_return out;
  }
  static std::string request(const std::string& key, const std::string& token) {
    const std::string body = R"({"from": "a@x.example", "to": ["b@y.example", "c@y.example"], "text": "hello"})";
    std::string head = "POST /api/v1/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    head += "Content-Type: application/json\r\nAuthorization: Bearer " + token + "\r\n";
    if (!key.empty()) head += "Idempotency-Key: " + key + "\r\n";
    return head + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  Answer post(const std::string& key = {}, const std::string& token = kToken) {
    auto [client, served] = async::testing::stream_pair(loop);
    loop.spawn("serve", server.serve(std::move(served)));
    return async::testing::run(loop, talk(&client, request(key, token)));
  }
  /// A request that is under way.
  struct Asked {
    async::Stream stream;
    std::optional<Answer> answer;
  };
  std::unique_ptr<Asked> ask(const std::string& token) {
    auto [client, served] = async::testing::stream_pair(loop);
    loop.spawn("serve", server.serve(std::move(served)));
    auto asked = std::make_unique<Asked>(std::move(client));
    loop.spawn("ask", async::testing::store_result(talk(&asked->stream, request({}, token)), &asked->answer));
    return asked;
  }
  std::size_t mails() const { return static_cast<std::size_t>(std::ranges::count_if(service.heard, is_mail)); }
  static bool is_mail(const std::string& line) { return line.starts_with("MAIL "); }

  static inline const std::string kToken = "0123456789abcdef0123456789abcdef";
  async::Loop loop;
  ScriptedService service{loop};
  config::Config config =
      config::Config::parse({.directory = "/",
                             .main_cf = "queue_directory = " + service.scratch.path().string() +
                                        "\npenapi_submission_service = handin\n"
                                        "penapi_submission_map = " +
                                        service.scratch.file("answers") + "\npenapi_status_page = no\n",
                             .master_cf = {},
                             .overrides = {}},
                            {.hostname = "mx.example", .interfaces = {}, .read_file = {}});
  async::Cancel draining;
  Server server{loop, config, {.tokens = {}, .tls = nullptr, .pages = {}, .board = {}, .draining = &draining}};
};

/// The service takes the content, and answers its end so.
struct Taking : Rig {
  explicit Taking(std::string end) {
    service.replies["BDAT"] = {"250 2.0.0 Ok: 9 bytes for " + kId};
    service.replies["BDAT LAST"] = {std::move(end)};
  }
  static inline const std::string kId = "4Zy0Qz0Tz0z1z";
};

}  // namespace

BOOST_AUTO_TEST_CASE(what_was_put_off_at_its_end_may_be_queued_and_is_not_sent_again_without_a_look) {
  Taking rig("451 4.3.0 Error: queue file write error");
  BOOST_TEST(rig.post("one").status == 503);
  BOOST_TEST(rig.mails() == 1u);
  // No queue manager is there to say what became of it.
  const Answer again = rig.post("one");
  BOOST_TEST(again.status == 503);
  BOOST_TEST(again.says("does not say what became of the earlier request"), again.text);
  BOOST_TEST(rig.mails() == 1u);
}

BOOST_AUTO_TEST_CASE(wrong_tokens_take_few_sessions_and_a_second_each_and_right_ones_do_not_wait_for_them) {
  pen::testing::ManualClock clock;
  Rig rig(clock);
  rig.service.replies["BDAT"] = {"250 2.0.0 Ok: 9 bytes for " + Taking::kId};
  BOOST_TEST(rig.post().status == 202);  // the token is known from now on
  rig.service.replies["AUTH"] = {"535 5.7.8 Error: authentication failed"};
  rig.service.sessions = 0;
  std::vector<std::unique_ptr<Rig::Asked>> wrong;
  for (std::size_t i = 0; i < 3 * Submissions::kStrangers; ++i)
    wrong.push_back(rig.ask(Rig::kToken + "-wrong-" + std::to_string(i)));
  const auto answered = [&] {
    return std::ranges::count_if(wrong, [](const auto& w) { return w->answer.has_value(); });
  };
  for (int i = 0; i < 1000; ++i) rig.loop.run_once();
  BOOST_TEST(rig.service.sessions == Submissions::kStrangers);
  BOOST_TEST(rig.service.live == 0u);  // the pause takes no session
  BOOST_TEST(answered() == 0);
  rig.service.replies["AUTH"] = {"235 2.7.0 Ok"};
  BOOST_TEST(rig.post().status == 202);
  rig.service.replies["AUTH"] = {"535 5.7.8 Error: authentication failed"};
  for (std::size_t turn = 1; turn <= 3; ++turn) {
    clock.advance(Submissions::kWrong + milliseconds(100));
    for (int i = 0; i < 1000; ++i) rig.loop.run_once();
    BOOST_TEST(answered() == static_cast<std::ptrdiff_t>(turn * Submissions::kStrangers));
  }
  for (const auto& w : wrong) BOOST_TEST(w->answer->status == 401);
}

BOOST_AUTO_TEST_CASE(refusals_are_for_good_if_all_of_them_are) {
  struct Row {
    std::vector<std::string> replies;
    int status;
    bool kept;
  };
  for (const Row& row :
       {Row{{"550 5.1.1 no", "550 5.1.1 no"}, 422, true}, Row{{"550 5.1.1 no", "451 4.3.0 later"}, 503, false},
        Row{{"451 4.3.0 later", "550 5.1.1 no"}, 503, false}, Row{{"550 5.1.1 no", "450 4.7.1 slowly"}, 429, false},
        Row{{"451 4.3.0 later", "450 4.7.1 slowly"}, 503, false}}) {
    Rig rig;
    rig.service.replies["RCPT"] = row.replies;
    const Answer first = rig.post("one");
    BOOST_TEST(first.status == row.status, row.replies[0] << ", " << row.replies[1] << ": " << first.text);
    BOOST_TEST(first.says("Retry-After") == !row.kept);
    rig.service.replies["RCPT"] = {"250 2.1.5 Ok"};
    rig.service.replies["BDAT"] = {"250 2.0.0 Ok: 9 bytes for " + Taking::kId};
    BOOST_TEST(rig.post("one").status == (row.kept ? row.status : 202));
  }
}

BOOST_AUTO_TEST_CASE(what_was_refused_for_good_at_its_end_is_answered_so_again) {
  Taking rig("550 5.7.1 Error: content");
  BOOST_TEST(rig.post("one").status == 422);
  const Answer again = rig.post("one");
  BOOST_TEST(again.status == 422);
  BOOST_TEST(again.says("Idempotent-Replayed"), again.text);
  BOOST_TEST(rig.mails() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
