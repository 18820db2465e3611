#include "lib/send/mailbox/postmen.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "lib/base/log.h"
#include "lib/send/mailbox/confine.h"
#include "lib/send/mailbox/descriptors.h"
#include "lib/send/mailbox/nursery.h"

namespace pen::mailbox {
namespace {

Result<Postmen::Postman> hire(const Round& round) {
  Postmen::Postman postman;
  PEN_TRY_ASSIGN(auto socket, socket_pair(SOCK_STREAM));
  postman.token = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!postman.token) return fail_errno("eventfd");
  PEN_TRY_ASSIGN(const auto control, Nursery::instance().hire(Role{.become = {}, .root = {}, .round = round}));
  PEN_TRY(send_descriptor(control.get(), "socket", socket.theirs.get(), Full::fail));
  PEN_TRY(send_descriptor(control.get(), "token", postman.token.get(), Full::fail));
  postman.socket = std::move(socket.ours);
  return postman;
}

/// Whether the postman has neither ended nor been killed.
bool is_there(const Postmen::Postman& postman) {
  eventfd_t taken = 0;
  pollfd socket{postman.socket.get(), 0, 0};
  return ::eventfd_read(postman.token.get(), &taken) == 0 && ::poll(&socket, 1, 0) == 0;
}

}  // namespace

Postmen& postmen() {
  static Postmen instance;
  return instance;
}

bool Postmen::possible() {
  std::lock_guard lock(mutex_);
  return possible_ && can_confine();
}

Result<Postmen::Postman> Postmen::take(const Round& round) {
  std::string key = encode(round);
  {
    std::lock_guard lock(mutex_);
    auto& idle = idle_[key];
    while (!idle.empty()) {
      Postman postman = std::move(idle.back());
      idle.pop_back();
      if (is_there(postman)) return postman;
    }
  }
  PEN_TRY_ASSIGN(auto postman, hire(round));
  postman.round = std::move(key);
  return postman;
}

void Postmen::give_back(Postman postman) {
  if (++postman.deliveries >= kMost || ::eventfd_write(postman.token.get(), 1) != 0) return;
  std::lock_guard lock(mutex_);
  auto& idle = idle_[postman.round];
  idle.push_back(std::move(postman));
}

void Postmen::unfit(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (possible_) log::warning("each account has a delivery process of its own, which is slower: {}", why);
  possible_ = false;
}

}  // namespace pen::mailbox
