#include "lib/send/mailbox/child.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "lib/send/mailbox/content.h"
#include "lib/send/mailbox/descriptors.h"
#include "lib/send/mailbox/postmen.h"
#include "lib/send/mailbox/workforce.h"

namespace pen::mailbox {
namespace {

constexpr std::size_t kChunk = 64 * 1024;
constexpr std::size_t kMostInOne = 256 * 1024;  // content up to this size is copied behind its job

/// Sends the job and its content as fast as the receiver takes them.
class Feeder {
 public:
  Feeder(std::string job, const ipc::Content& body) : head_(std::move(job)), body_(body) {
    if (body.in_memory() && body.size() <= kMostInOne) {
      head_ += body.memory();
      sent_ = body.size();
    }
    pending_ = head_;
  }
  bool done() const { return done_; }
  const std::string& error() const { return error_; }
  /// Sends as much as fits.
  void pump(int socket) {
    while (!done_) {
      if (pending_.empty() && !fill()) {
        done_ = true;
        // Missing content shows as an early end of input.
        if (!error_.empty()) (void)::shutdown(socket, SHUT_WR);
        return;
      }
      const auto n = ::send(socket, pending_.data(), pending_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (n < 0)
        done_ = true;  // the worker does not want the rest: its answer has the reason
      else
        pending_.remove_prefix(static_cast<std::size_t>(n));
    }
  }

 private:
  bool fill() {
    if (sent_ >= body_.size()) return false;
    if (body_.in_memory()) {
      pending_ = body_.memory();
    } else {
      buffer_.resize(std::min<std::uint64_t>(kChunk, body_.size() - sent_));
      if (auto read = body_.read(sent_, buffer_); !read) {
        error_ = read.error().message();
        return false;
      }
      pending_ = buffer_;
    }
    sent_ += pending_.size();
    return true;
  }

  std::string head_;
  const ipc::Content& body_;
  std::string buffer_;
  std::string_view pending_;
  std::uint64_t sent_ = 0;  // bytes of content moved to pending_
  bool done_ = false;
  std::string error_;
};

/// The answer, received piece by piece.
class Reply {
 public:
  explicit Reply(std::size_t most) : most_(most) {}
  /// False: the answer is complete, or will never be.
  bool take(int socket) {
    char chunk[2048];  // most answers are a line
    const auto n = ::recv(socket, chunk, sizeof chunk, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n <= 0) return false;
    raw_.append(chunk, static_cast<std::size_t>(n));
    return raw_.size() <= most_ && !whole();
  }
  std::optional<Answer> answer() const {
    if (!whole()) return std::nullopt;
    return decode<Answer>(std::string_view(raw_).substr(kLengthBytes));
  }

 private:
  bool whole() const { return raw_.size() >= kLengthBytes && raw_.size() == kLengthBytes + length_of(raw_); }
  std::size_t most_;
  std::string raw_;
};

enum class Talked { answered, silent, late, over };

Talked talk(int socket, Feeder& feeder, Reply& reply, const delivery::Ending* ending,
            std::chrono::steady_clock::time_point deadline) {
  feeder.pump(socket);
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return Talked::late;
    const short wanted = feeder.done() ? POLLIN : POLLIN | POLLOUT;
    pollfd fds[2] = {{socket, wanted, 0}, {ending != nullptr ? ending->fd() : -1, POLLIN, 0}};
    const int n = ::poll(fds, 2, static_cast<int>(std::min<long long>(left, 60'000)));
    if (n < 0 && errno != EINTR) return Talked::silent;
    if (n <= 0) continue;
    if (fds[1].revents != 0) return Talked::over;
    if ((fds[0].revents & POLLOUT) != 0) feeder.pump(socket);
    if ((fds[0].revents & ~POLLOUT) != 0 && !reply.take(socket)) return Talked::answered;
  }
}

Answer ended_meanwhile() { return trouble("4.3.0", "the conversation with the queue manager has ended"); }

/// One delivery, independent of the process that makes it.
struct Order {
  Role role;
  std::string job;  // with its length
  const ipc::Content& body;
  std::chrono::seconds limit;
  std::chrono::steady_clock::time_point deadline;
  const delivery::Ending* ending;
  std::size_t longest;  // longest permitted answer
};

struct Outcome {
  Answer answer = {};
  bool answered = false, over = false;
};

/// Makes the delivery with the process at the other end of the socket.
Outcome talk_with(int socket, const Order& order) {
  Feeder feeder(order.job, order.body);
  Reply reply(order.longest);
  const auto how = talk(socket, feeder, reply, order.ending, order.deadline);
  auto answer = reply.answer();
  Outcome out{.answered = answer.has_value(), .over = how == Talked::over};
  if (out.over) {
    out.answer = ended_meanwhile();
  } else if (how == Talked::late) {
    out.answer =
        trouble("4.3.0", fmt::format("delivery took longer than {} seconds and was stopped", order.limit.count()));
  } else if (!answer) {
    out.answer = trouble("4.3.0", "delivery process ended without an answer");
  } else {
    out.answer = *std::move(answer);
    if (!feeder.error().empty() && out.answer.status.action != mail::Action::delivered && !out.answer.file_found)
      out.answer.status.text += " (" + feeder.error() + ")";
  }
  return out;
}

Answer by_worker(const Order& order, bool shared) {
  auto sockets = socket_pair(SOCK_STREAM);
  if (!sockets) return trouble("4.3.0", sockets.error().message());
  auto worker = workforce().give(order.role, sockets->theirs.get(), shared);
  if (!worker) return trouble("4.3.0", "delivery process: " + worker.error().message());
  sockets->theirs.reset();
  auto out = talk_with(sockets->ours.get(), order);
  // A worker without an answer has died, or will never answer.
  if (out.over || out.answered)
    workforce().done(*worker);
  else
    workforce().dismiss(*worker);
  return std::move(out.answer);
}

/// nullopt: this system does not support postmen.
std::optional<Answer> by_postman(const Order& order, const Round& round) {
  auto postman = postmen().take(round);
  if (!postman) return trouble("4.3.0", "delivery process: " + postman.error().message());
  auto out = talk_with(postman->socket.get(), order);
  if (out.answered && out.answer.unfit) {
    postmen().unfit(out.answer.status.text);
    return std::nullopt;
  }
  if (out.answered && !out.over && out.answer.status.action == mail::Action::delivered)
    postmen().give_back(*std::move(postman));
  return std::move(out.answer);
}

}  // namespace

Answer deliver_in_child(Work work, const ipc::Content& body, std::chrono::seconds time_limit,
                        const delivery::Ending* ending) {
  if (ending != nullptr && ending->has_come()) return ended_meanwhile();
  work.message.size = body.size();
  work.message.from_line = mbox_from_line(work.message.sender, work.message.now);
  const auto deadline = std::chrono::steady_clock::now() + time_limit + (work.command ? 2 * kGrace : seconds(0));
  const std::size_t longest = std::max(kMaxForward, work.read_limit) + 64 * 1024;
  // Files read as root are read by a process that does nothing else.
  const bool shared = work.read_path.empty();
  const auto round = std::move(work.round);
  const Order order{.role = {.become = work.become, .root = work.root},
                    .job = with_length(encode(Job{time_limit, std::move(work)})),
                    .body = body,
                    .limit = time_limit,
                    .deadline = deadline,
                    .ending = ending,
                    .longest = longest};
  if (round && postmen().possible() && workforce().visit(order.role)) {
    auto answer = by_postman(order, *round);
    workforce().left(order.role);
    if (answer) return *std::move(answer);
  }
  return by_worker(order, shared);
}

}  // namespace pen::mailbox
