#include "tools/destination_client.h"

#include <sysexits.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/async/loop.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/service/as_account.h"
#include "tools/queue_client.h"

namespace pen::tools {

using namespace ipc::destinations;

DestinationClient::DestinationClient(std::string program, const config::Config& config)
    : program_(std::move(program)), path_(config.settings().queue_directory + "/" + std::string(ipc::kQmgrSocket)) {}

async::Task<void> DestinationClient::converse(async::Loop& loop, const ToQmgr& request, const See& see,
                                              std::optional<Done>& done) {
  // the state of a destination: repeating an order changes no answer
  Persistence persistence(program_, /*order=*/false);
  while (!done) {
    auto channel =
        co_await ipc::connect_channel<FromQmgr, ToQmgr>(loop, path_, kName, {.deadline = loop.now() + kGreets});
    // It runs: neither its file nor guesses are to stand for what it knows.
    if (!channel && channel.error().is(async::WaitError::timed_out))
      die(program_, EX_UNAVAILABLE, "the queue manager " + not_greeted());
    if (!channel) {
      why_ = channel.error().message();
      break;
    }
    std::visit([&](const auto& m) { (void)channel->send(m); }, request);
    while (!done) {
      auto received = co_await channel->receive({.deadline = loop.now() + seconds(120)});
      if (!received) {
        if (persistence.again(received.error())) break;
        die(program_, EX_UNAVAILABLE, "the queue manager went away: " + received.error().message());
      }
      if (auto* end = std::get_if<Done>(&received->message)) {
        done = std::move(*end);
      } else {
        persistence.answered();
        see(received->message);
      }
    }
  }
  loop.stop();
}

std::optional<Done> DestinationClient::ask(const ToQmgr& request, const See& see) {
  async::Loop loop;
  std::optional<Done> done;
  loop.spawn("ask", converse(loop, request, see, done));
  loop.run();
  return done;
}

DestinationFile::DestinationFile(const config::Config& config)
    : directory_(config.settings().data_directory + "/destdb"), owners_(service::owners(config.settings())) {}

Result<void> DestinationFile::there() const {
  const std::string path = directory_ + "/data.mdb";
  if (::access(path.c_str(), F_OK) != 0) return fail_errno(path);
  return {};
}

Result<void> DestinationFile::each(bool quiet,
                                   const std::function<void(const std::string& key, const destdb::Facts& facts)>& see) {
  PEN_TRY_ASSIGN(const service::Owners owners, owners_);
  const service::AsAccount owner(owners.queue);
  if (!owner.ok()) return fail_errno("become queue_owner");
  PEN_TRY(there());
  suspensions_.clear();
  // Suspensions are needed before the facts that they affect, but lie behind them.
  for (const bool facts : {false, true}) {
    PEN_TRY_ASSIGN(auto reader, destdb::open_reader(directory_, quiet && !facts));
    while (!reader->done()) {
      PEN_TRY_ASSIGN(const auto some, reader->next(1000));
      if (facts) {
        for (const auto& [key, f] : some.facts) see(key, f);
      } else {
        for (const auto& s : some.suspensions) suspensions_.insert_or_assign(s.name, s);
      }
    }
  }
  return {};
}

Result<void> DestinationFile::write(const std::vector<destdb::Change>& changes) {
  PEN_TRY_ASSIGN(const service::Owners owners, owners_);
  const service::AsAccount owner(owners.queue);
  if (!owner.ok()) return fail_errno("become queue_owner");
  PEN_TRY(there());
  PEN_TRY_ASSIGN(const auto file, destdb::open_lmdb(directory_));
  return file->write(changes);
}

}  // namespace pen::tools
