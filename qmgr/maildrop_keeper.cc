#include "qmgr/maildrop_keeper.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "lib/base/async/descriptor_message.h"

namespace pen::qmgr {

using submission::DropEntry;
using submission::DropRemoved;

namespace {

constexpr timeval kPatience{.tv_sec = 10, .tv_usec = 0};
enum Order : std::uint8_t { list = 1, open_file, remove_file };

struct Request {
  std::uint64_t number = 0;
  std::uint8_t order = 0;
  std::array<char, NAME_MAX + 1> name{};
};
struct Reply {
  std::uint64_t number = 0;
  int error = 0;      // errno of the whole
  bool there = true;  // false: no such file
  bool regular = false;
  int open_error = 0;
  std::uint64_t size = 0;
  std::int64_t modified = 0;
  std::uint8_t removed = 0;
};

Fd carry_out(const std::string& directory, const Request& request, Reply& reply) {
  const std::string name = request.name.data();
  const auto failed = [&](const Error& why) { reply.error = why.sys_errno() != 0 ? why.sys_errno() : EIO; };
  if (request.order == Order::list) {
    Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) reply.error = errno;
    return fd;
  }
  if (name.empty() || name.starts_with('.') || name.contains('/')) {
    reply.there = false;
    reply.removed = static_cast<std::uint8_t>(DropRemoved::gone);
  } else if (request.order == Order::open_file) {
    auto entry = submission::open_drop(directory, name);
    if (!entry) {
      failed(entry.error());
    } else if (!*entry) {
      reply.there = false;
    } else {
      reply.regular = (*entry)->regular;
      reply.open_error = (*entry)->error;
      reply.size = (*entry)->size;
      reply.modified = (*entry)->modified;
      return std::move((*entry)->file);
    }
  } else if (request.order == Order::remove_file) {
    if (const auto removed = submission::remove_drop(directory, name))
      reply.removed = static_cast<std::uint8_t>(*removed);
    else
      failed(removed.error());
  } else {
    reply.error = EINVAL;
  }
  return Fd();
}

[[noreturn]] void serve(int socket, const std::string& directory, const std::function<Result<void>()>& become) {
  for (const int signo : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) ::signal(signo, SIG_IGN);  // it ends with its program
  // Standard output and error stay, for what is said when become() fails.
  if (socket > 3) ::close_range(3, static_cast<unsigned>(socket) - 1, 0);
  ::close_range(static_cast<unsigned>(socket) + 1, ~0U, 0);
  if (!become()) ::_exit(EX_OSERR);
  for (;;) {
    Request request;
    const ssize_t n = ::recv(socket, &request, sizeof request, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof request || request.name.back() != '\0') ::_exit(0);
    Reply reply;
    reply.number = request.number;
    const Fd fd = carry_out(directory, request, reply);
    const auto sent = async::send_descriptor_message(socket, {reinterpret_cast<const char*>(&reply), sizeof reply},
                                                     fd ? fd.get() : -1);
    if (!sent && !sent.error().is_errno(EAGAIN)) ::_exit(0);  // nobody is there
  }
}

}  // namespace

struct MaildropKeeper::Answer {
  Reply reply;
  Fd fd;
};

Result<std::shared_ptr<MaildropKeeper>> MaildropKeeper::start(std::string directory,
                                                              const std::function<Result<void>()>& become) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return fail_errno("socketpair");
  Fd ours(pair[0]), theirs(pair[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) serve(theirs.get(), directory, become);
  return std::make_shared<MaildropKeeper>(std::move(ours));
}

MaildropKeeper::MaildropKeeper(Fd socket) : socket_(std::move(socket)) {
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
}

Result<MaildropKeeper::Answer> MaildropKeeper::ask(std::uint8_t order, const std::string& name) {
  const auto failed = [](int error) {
    const bool gone = error == EPIPE || error == ECONNRESET;
    return fail_errno(
        gone ? "maildrop: who looks there for the queue manager is gone; penstock reload starts another" : "maildrop",
        error == EAGAIN ? ETIMEDOUT : error);
  };
  Request request;
  if (name.size() >= request.name.size()) return failed(ENAMETOOLONG);
  request.order = order;
  name.copy(request.name.data(), name.size());
  const std::lock_guard lock(mutex_);
  request.number = ++number_;
  if (::send(socket_.get(), &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return failed(errno);
  for (;;) {
    Answer answer;
    auto got =
        async::receive_descriptor_message(socket_.get(), {reinterpret_cast<char*>(&answer.reply), sizeof answer.reply});
    if (!got) return failed(got.error().sys_errno());
    if (got->size != sizeof answer.reply) return failed(EPIPE);
    if (answer.reply.number != request.number) continue;  // the late answer to one that was given up
    if (answer.reply.error != 0) return failed(answer.reply.error);
    answer.fd = std::move(got->descriptor);
    return answer;
  }
}

Result<Fd> MaildropKeeper::directory() {
  PEN_TRY_ASSIGN(auto answer, ask(Order::list, {}));
  if (!answer.fd) return fail_errno("maildrop", EACCES);
  return std::move(answer.fd);
}

Result<std::optional<DropEntry>> MaildropKeeper::open(const std::string& name) {
  PEN_TRY_ASSIGN(auto answer, ask(Order::open_file, name));
  if (!answer.reply.there) return std::nullopt;
  DropEntry entry;
  entry.size = answer.reply.size;
  entry.modified = answer.reply.modified;
  entry.regular = answer.reply.regular;
  entry.error = answer.reply.open_error;
  entry.file = std::move(answer.fd);
  return entry;
}

Result<DropRemoved> MaildropKeeper::remove(const std::string& name) {
  PEN_TRY_ASSIGN(const auto answer, ask(Order::remove_file, name));
  const auto removed = static_cast<DropRemoved>(answer.reply.removed);
  if (removed != DropRemoved::yes && removed != DropRemoved::gone && removed != DropRemoved::busy)
    return fail_errno("maildrop", EPROTO);
  return removed;
}

}  // namespace pen::qmgr
