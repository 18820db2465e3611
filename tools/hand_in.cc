#include "tools/hand_in.h"

#include <fmt/format.h>
#include <sysexits.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <utility>

#include "lib/base/async/loop.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/topology.h"
#include "tools/offline_qmgr.h"
#include "tools/output.h"
#include "tools/queue_client.h"

namespace pen::tools {
namespace {

using namespace ipc::enqueue;
using Channel = ipc::Channel<FromQmgr, ToQmgr>;

/// Writes to a leased file. An error is kept until it is asked for.
class FileWriter {
 public:
  FileWriter(int fd, std::uint64_t at) : fd_(fd), at_(at) {}
  void write(std::string_view bytes) {
    buffer_ += bytes;
    if (buffer_.size() >= kPiece) flush();
  }
  Result<void> finish() {
    flush();
    if (error_ == 0 && ::fdatasync(fd_) != 0) error_ = errno;
    if (error_ != 0) return fail_errno("spool file", error_);
    return {};
  }

 private:
  static constexpr std::size_t kPiece = 256 * 1024;
  void flush() {
    std::string_view left = buffer_;
    while (!left.empty() && error_ == 0) {
      const ssize_t n = ::pwrite(fd_, left.data(), left.size(), static_cast<off_t>(at_));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        error_ = errno;
        break;
      }
      at_ += static_cast<std::uint64_t>(n);
      left.remove_prefix(static_cast<std::size_t>(n));
    }
    buffer_.clear();
  }
  int fd_;
  std::uint64_t at_;
  int error_ = 0;
  std::string buffer_;
};

class Conversation {
 public:
  Conversation(const std::string& program, const config::Config& config, std::vector<HandedIn>& messages)
      : program_(program), config_(config), messages_(messages), answers_(messages.size()) {}

  std::vector<HandInAnswer> run() {
    loop_.spawn("hand in", converse());
    loop_.run();
    return std::move(answers_);
  }

 private:
  async::Task<void> converse() {
    std::optional<OfflineQmgr> own;
    auto channel = co_await reach(own);
    const auto done = co_await hand_all(channel);
    std::string why;
    if (!done) why = own ? own->failure() : done.error().message();
    for (const auto& [request, index] : waiting_)
      answers_[index] = {Outcome::try_later, "the queue manager went away: " + why};
    channel.close();
    if (own && done) own->finish();
    loop_.stop();
  }

  async::Task<Channel> reach(std::optional<OfflineQmgr>& own) {
    const std::string path = config_.settings().queue_directory + "/" + std::string(ipc::kQmgrSocket);
    auto channel =
        co_await ipc::connect_channel<FromQmgr, ToQmgr>(loop_, path, kName, {.deadline = loop_.now() + kGreets});
    if (channel) co_return *std::move(channel);
    if (!channel.error().is_errno(ECONNREFUSED) && !channel.error().is_errno(ENOENT))
      die(program_, EX_UNAVAILABLE, "cannot reach the queue manager: " + channel.error().message());
    if (const auto why = OfflineQmgr::refusal(config_)) die(program_, why->code, why->text);
    auto started = OfflineQmgr::start(config_);
    if (!started) die(program_, EX_OSERR, started.error().message());
    own.emplace(*std::move(started));
    channel = co_await ipc::open_channel<FromQmgr, ToQmgr>(async::Stream(loop_, own->connection()), "queue manager",
                                                           kName, {.deadline = loop_.now() + seconds(600)});
    if (!channel)
      die(program_, EX_UNAVAILABLE,
          "the mail system is not running, and its queue cannot be worked on: " + own->failure());
    co_return *std::move(channel);
  }

  async::Task<Result<void>> hand_all(Channel& channel) {
    for (std::size_t i = 0; i < messages_.size(); ++i) waiting_[i + 1] = i;
    while (!inline_limit_) PEN_CO_TRY(co_await receive(channel));
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      PEN_CO_TRY(co_await (messages_[i].most <= *inline_limit_ ? small(channel, i) : large(channel, i)));
      if (channel.congested()) PEN_CO_TRY(co_await channel.flush(until()));
    }
    while (!waiting_.empty()) PEN_CO_TRY(co_await receive(channel));
    co_return Result<void>{};
  }

  async::Task<Result<void>> small(Channel& channel, std::size_t i) {
    HandedIn& m = messages_[i];
    std::string body;
    if (auto made = m.produce(m.envelope, [&](std::string_view part) { body += part; }); !made) {
      answer(i + 1, {Outcome::refused, made.error().message()});
      co_return Result<void>{};
    }
    Enqueue enqueue{.request = i + 1, .envelope = std::move(m.envelope), .lease = 0, .inline_body = body, .permit = 0};
    if (auto sent = channel.send(enqueue); !sent) answer(i + 1, {Outcome::refused, sent.error().message()});
    co_return Result<void>{};
  }

  async::Task<Result<void>> large(Channel& channel, std::size_t i) {
    HandedIn& m = messages_[i];
    leased_.reset();
    (void)channel.send(LeaseSpool{i + 1, m.most});
    while (!leased_) PEN_CO_TRY(co_await receive(channel));
    if (leased_->outcome != Outcome::ok) {
      answer(i + 1, {leased_->outcome, "no spool file"});
      co_return Result<void>{};
    }
    FileWriter file(leased_fd_.get(), leased_->content_offset);
    auto made = m.produce(m.envelope, [&](std::string_view part) { file.write(part); });
    if (made) made = file.finish();
    leased_fd_.reset();
    if (!made) {
      (void)channel.send(ReturnLease{leased_->lease});
      answer(i + 1, {Outcome::refused, made.error().message()});
      co_return Result<void>{};
    }
    Enqueue enqueue{
        .request = i + 1, .envelope = std::move(m.envelope), .lease = leased_->lease, .inline_body = {}, .permit = 0};
    if (auto sent = channel.send(enqueue); !sent) {
      (void)channel.send(ReturnLease{leased_->lease});
      answer(i + 1, {Outcome::refused, sent.error().message()});
    }
    co_return Result<void>{};
  }

  async::Task<Result<void>> receive(Channel& channel) {
    auto received = co_await channel.receive(until());
    if (!received) co_return fail(std::move(received).error());
    if (const auto* state = std::get_if<QueueState>(&received->message)) {
      inline_limit_ = state->inline_limit;
    } else if (auto* done = std::get_if<Enqueued>(&received->message)) {
      answer(done->request, {done->outcome, std::move(done->text)});
    } else if (auto* lease = std::get_if<SpoolLeased>(&received->message)) {
      leased_ = *lease;
      if (!received->fds.empty()) leased_fd_ = std::move(received->fds.front());
      if (leased_->outcome == Outcome::ok && !leased_fd_) co_return fail_errno("a lease without a file", EBADMSG);
    }
    co_return Result<void>{};
  }

  void answer(std::uint64_t request, HandInAnswer what) {
    const auto found = waiting_.find(request);
    if (found == waiting_.end()) return;
    answers_[found->second] = std::move(what);
    waiting_.erase(found);
  }
  async::Until until() { return {.deadline = loop_.now() + seconds(600)}; }

  async::Loop loop_;
  const std::string& program_;
  const config::Config& config_;
  std::vector<HandedIn>& messages_;
  std::vector<HandInAnswer> answers_;
  std::map<std::uint64_t, std::size_t> waiting_;  // requests without an answer, and their messages
  std::optional<std::uint64_t> inline_limit_;
  std::optional<SpoolLeased> leased_;
  Fd leased_fd_;
};

}  // namespace

std::vector<HandInAnswer> hand_in(const std::string& program, const config::Config& config,
                                  std::vector<HandedIn>& messages) {
  return Conversation(program, config, messages).run();
}

}  // namespace pen::tools
