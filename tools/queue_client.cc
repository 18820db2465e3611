#include "tools/queue_client.h"

#include <fmt/format.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace pen::tools {
namespace {

/// Activates the saved group during its lifetime.
class SavedGroup {
 public:
  explicit SavedGroup(const std::string& program) {
    gid_t real = 0, effective = 0, saved = 0;
    if (::getresgid(&real, &effective, &saved) != 0 || ::setegid(saved) != 0)
      die(program, EX_OSERR, "setegid: " + Error::from_errno(errno).message());
  }
  ~SavedGroup() {
    if (::setegid(::getgid()) != 0) std::abort();
  }
  SavedGroup(const SavedGroup&) = delete;
  SavedGroup& operator=(const SavedGroup&) = delete;
};

}  // namespace

std::string not_greeted() {
  return fmt::format("has not answered for {} s: it hangs, or dies as soon as it is started (see the log)",
                     kGreets.count());
}

async::Task<Result<QueueChannel>> connect_to_queue(const std::string& program, async::Loop& loop,
                                                   const std::string& path) {
  const SavedGroup group(program);
  co_return co_await ipc::connect_channel<ipc::queue::FromQmgr, ipc::queue::ToQmgr>(loop, path, ipc::queue::kName,
                                                                                    {.deadline = loop.now() + kGreets});
}

void keep_group_for_the_socket(const char* program) {
  if (::setegid(::getgid()) != 0) die(program, EX_OSERR, "setegid: " + Error::from_errno(errno).message());
}

namespace {

/// True: the request makes deliveries, which need a running mail system.
bool needs_deliveries(const ipc::queue::ToQmgr& request) {
  const auto* act = std::get_if<ipc::queue::Act>(&request);
  return act != nullptr && !act->dry_run && (act->verb == ipc::queue::Verb::flush || expires(act->verb));
}

/// True: the request is about the mail of one tenant.
bool chooses_tenant(const ipc::queue::ToQmgr& request) {
  const auto* act = std::get_if<ipc::queue::Act>(&request);
  const auto* list = std::get_if<ipc::queue::List>(&request);
  return (act != nullptr && !act->filter.tenant.empty()) || (list != nullptr && !list->filter.tenant.empty());
}

/// True: the other end was stopped, was replaced or died.
bool other_end_went(const Error& error) {
  return error.is(async::WaitError::closed) || error.is_errno(ECONNRESET) || error.is_errno(EPIPE);
}

/// The reason for a broken conversation; a queue manager of our own reports its reason itself.
std::string reason(const Error& error, std::optional<OfflineQmgr>& own) {
  return own && other_end_went(error) ? own->failure() : error.message();
}

constexpr int kTimes = 5;  // reloads hardly follow each other more often than this while a tool waits

}  // namespace

bool Persistence::again(const Error& error) {
  if (!other_end_went(error) || answered_ || times_ == kTimes) return false;
  if (++times_ == 1 && order_)
    std::fprintf(stderr,
                 "%s: the queue manager was replaced before it answered: the order is given again, and what it had "
                 "done by then is not counted\n",
                 program_.c_str());
  return true;
}

QueueClient::QueueClient(std::string program, const config::Config& config)
    : program_(std::move(program)),
      path_(config.settings().queue_directory + "/" + std::string(ipc::kQmgrSocket)),
      config_(config) {}

async::Task<QueueChannel> QueueClient::reach(async::Loop& loop, const ipc::queue::ToQmgr& request,
                                             std::optional<OfflineQmgr>& own) {
  auto channel = co_await connect_to_queue(program_, loop, path_);
  if (channel) co_return *std::move(channel);
  const Error& error = channel.error();
  // The account that owns the queue may work on it without the mail system, and need not reach the socket: if a queue
  // manager runs, the lock of the queue says so.
  const bool owner_is_kept_out = error.is_errno(EACCES) && OfflineQmgr::owns_queue(config_);
  if (!error.is_errno(ECONNREFUSED) && !error.is_errno(ENOENT) && !owner_is_kept_out) {
    if (error.is(async::WaitError::timed_out))
      die(program_, EX_UNAVAILABLE,
          "the queue manager " + not_greeted() +
              "; to work on the queue without it: penstock stop, this command again");
    die(program_, EX_UNAVAILABLE, "cannot reach the queue manager (is the mail system running?): " + error.message());
  }
  if (const auto why = OfflineQmgr::refusal(config_)) die(program_, why->code, why->text);
  if (needs_deliveries(request))
    die(program_, EX_UNAVAILABLE,
        "the mail system is not running: nothing is delivered or returned before it is started (penstock start)");
  auto started = OfflineQmgr::start(config_);
  if (!started) die(program_, EX_OSERR, started.error().message());
  own.emplace(*std::move(started));
  channel = co_await ipc::open_channel<ipc::queue::FromQmgr, ipc::queue::ToQmgr>(
      async::Stream(loop, own->connection()), "queue manager", ipc::queue::kName,
      {.deadline = loop.now() + seconds(600)});
  if (!channel)
    die(program_, EX_UNAVAILABLE,
        "the mail system is not running, and its queue cannot be worked on: " + reason(channel.error(), own));
  co_return *std::move(channel);
}

async::Task<void> QueueClient::hold_conversation(async::Loop& loop, const ipc::queue::ToQmgr& request,
                                                 const Next& answer, ipc::queue::Done& done) {
  Persistence persistence(program_, std::holds_alternative<ipc::queue::Act>(request));
  for (bool finished = false; !finished;) {
    std::optional<OfflineQmgr> own;
    QueueChannel channel = co_await reach(loop, request, own);
    if (channel.peer_revision() < ipc::queue::kTenantRevision && chooses_tenant(request))
      die(program_, EX_UNAVAILABLE, "the queue manager that runs is an older one and knows no tenants");
    std::visit([&](const auto& m) { (void)channel.send(m); }, request);
    for (;;) {
      auto received = co_await channel.receive({.deadline = loop.now() + seconds(600)});
      if (!received) {
        if (!own && persistence.again(received.error())) break;
        die(program_, EX_UNAVAILABLE, "the queue manager went away: " + reason(received.error(), own));
      }
      if (!ipc::queue::names_messages(received->message))
        die(program_, EX_PROTOCOL, "the queue manager named a message by what is no queue id");
      auto* end = std::get_if<ipc::queue::Done>(&received->message);
      if (end == nullptr && !std::holds_alternative<ipc::queue::Progress>(received->message)) persistence.answered();
      const auto more = answer(received->message, received->fds);
      if (more) std::visit([&](const auto& m) { (void)channel.send(m); }, *more);
      if (end != nullptr && !more) {
        done = std::move(*end);
        finished = true;
        break;
      }
    }
    channel.close();
    if (own) own->finish();
  }
  loop.stop();
}

ipc::queue::Done QueueClient::ask(const ipc::queue::ToQmgr& request, const See& see) {
  return converse(request, [&see](ipc::queue::FromQmgr& m, std::vector<Fd>& fds) -> std::optional<ipc::queue::ToQmgr> {
    if (!std::holds_alternative<ipc::queue::Done>(m)) see(m, fds);
    return std::nullopt;
  });
}

ipc::queue::Done QueueClient::converse(const ipc::queue::ToQmgr& first, const Next& answer) {
  async::Loop loop;
  ipc::queue::Done done;
  loop.spawn("ask", hold_conversation(loop, first, answer, done));
  loop.run();
  return done;
}

void expect_ok(const std::string& program, const ipc::queue::Done& done) {
  using ipc::queue::Outcome;
  switch (done.outcome) {
    case Outcome::ok:
      return;
    case Outcome::not_found:
      die(program, EX_DATAERR, "no such message in the queue");
    case Outcome::denied:
      die(program, EX_NOPERM, done.text);
    case Outcome::no_space:
    case Outcome::failed:
      die(program, EX_SOFTWARE, "failed: " + done.text);
  }
}

}  // namespace pen::tools
