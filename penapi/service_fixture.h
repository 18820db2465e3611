#pragma once
/// For tests: what takes the place of the service of smtpd to which penapi hands mail.
///
/// Use:     ScriptedService service(loop);   service.replies["RCPT"] = {"550 5.1.1 no", "250 2.1.5 Ok"};
///          … SmtpDialogue to service.path …   service.heard
/// Answers: each line by its first word: "BDAT LAST" for the end of a message. Of several
///          replies the last one goes on; without any it is 250.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lib/base/async/listener.h"
#include "lib/base/async/sync.h"
#include "lib/testing/scratch.h"

namespace pen::api {

struct ScriptedService {
  explicit ScriptedService(async::Loop& loop_in) : loop(loop_in) { gate.spawn("service", listen(this)); }

  async::Loop& loop;
  pen::testing::ScratchDir scratch;
  std::string path = prepared(scratch.file("private")) + "/handin";
  std::map<std::string, std::vector<std::string>> replies;
  std::vector<std::string> heard;
  std::string offers =
      "250-PIPELINING\r\n250-SIZE\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-AUTH OAUTHBEARER\r\n"
      "250 CHUNKING";
  std::string content, proxy;
  std::size_t sessions = 0, live = 0;

 private:
  static std::string prepared(std::string directory) {
    std::filesystem::create_directory(directory);
    return directory;
  }
  std::string reply_to(const std::string& word) {
    auto& list = replies[word];
    if (list.empty()) return word == "EHLO" ? "250-mx\r\n" + offers : "250 2.0.0 Ok";
    std::string next = list.front();
    if (list.size() > 1) list.erase(list.begin());
    return next;
  }
  static async::Task<void> listen(ScriptedService* self) {
    for (;;) {
      auto accepted = co_await self->listener.accept();
      if (!accepted) co_return;
      self->gate.spawn("session", serve(self, std::move(accepted->stream)));
    }
  }
  static async::Task<void> serve(ScriptedService* self, async::Stream stream) {
    ++self->sessions;
    ++self->live;
    co_await self->talk(stream);
    --self->live;
  }
  async::Task<void> talk(async::Stream& stream) {
    auto header = co_await stream.read_exact(16);
    if (!header) co_return;
    proxy = *header;
    stream.write("220 mx\r\n");
    for (;;) {
      auto line = co_await stream.read_line(8192);
      if (!line) co_return;
      const std::string text(*line);
      heard.push_back(text);
      std::string word = text.substr(0, text.find(' '));
      if (word == "BDAT") {
        const auto size = static_cast<std::size_t>(std::stoul(text.substr(5)));
        auto chunk = co_await stream.read_exact(size);
        if (!chunk) co_return;
        content += *chunk;
        if (text.ends_with(" LAST")) word = "BDAT LAST";
      }
      if (word == "QUIT") co_return;
      if (reply_to("hang up") == word) co_return;
      stream.write(reply_to(word) + "\r\n");
    }
  }

  async::Listener listener{loop, async::listen_on(async::SocketAddress::unix(path)).value(), 100};
  async::Gate gate{loop};  // declared last: what runs ends first
};

}  // namespace pen::api
