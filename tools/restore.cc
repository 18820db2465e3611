#include "tools/restore.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>

#include "lib/base/fd.h"
#include "lib/receive/submission/wake.h"
#include "lib/suite/service/running.h"
#include "lib/suite/service/setup.h"
#include "tools/file_copy.h"
#include "tools/instance_control.h"
#include "tools/instance_master.h"
#include "tools/merge_queue.h"
#include "tools/output.h"
#include "tools/queue_client.h"
#include "tools/snapshot.h"

namespace pen::tools {
namespace {

namespace fs = std::filesystem;

/// The entries of a directory; none where there is no such directory. Errors: errno, it cannot be read.
Result<std::uint64_t> entries(const std::string& directory) {
  std::error_code error;
  std::uint64_t found = 0;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) ++found;
  if (error && error != std::errc::no_such_file_or_directory) return fail_errno(directory, error.value());
  return found;
}

/// How many messages are in the queue of an instance that does not run.
Result<std::uint64_t> messages(const config::Config& config) {
  const config::Settings& s = config.settings();
  PEN_TRY_ASSIGN(std::uint64_t found, entries(s.queue_directory + "/maildrop"));
  PEN_TRY_ASSIGN(const std::uint64_t segments, entries(s.queue_log_directory));
  if (segments == 0) return found;
  ipc::queue::List list;
  list.request = 1;
  list.brief = true;
  const auto done = QueueClient("penstock", config).ask(list, [&](auto& m, auto&) {
    const auto* e = std::get_if<ipc::queue::Entry>(&m);
    if (e != nullptr && e->place != ipc::queue::Place::maildrop) ++found;
  });
  if (done.outcome != ipc::queue::Outcome::not_found) expect_ok("penstock", done);
  return found;
}

/// What keeps a queue from being put there, as an exit status after it was reported.
int in_the_way(const config::Config& config) {
  const config::Settings& s = config.settings();
  const auto runs = service::anything_runs(config);
  if (!runs) return cannot_tell(runs.error());
  if (*runs)
    return fail_with(EX_UNAVAILABLE,
                     "the mail system of " + s.queue_directory + " runs: penstock stop first, or restore with --merge");
  const auto count = messages(config);
  if (!count) return fail_with(EX_NOINPUT, "is there mail in the queue? " + count.error().message());
  if (*count != 0)
    return fail_with(EX_UNAVAILABLE,
                     fmt::format("{} holds {} messages, which are not overwritten: restore with --merge "
                                 "adds those of the snapshot to them",
                                 s.queue_directory, *count));
  return EX_OK;
}

/// All of it: what cannot be read may be mail.
Result<void> copy_whole(const Folder& from, const Folder& to) {
  PEN_TRY_ASSIGN(const Copied copied, copy_tree(from, to));
  if (copied.left_out.empty()) return {};
  return fail_errno(copied.left_out.front(), EACCES);
}

/// Gives a new tree of ours its owner. Called last, when nothing more is done below it.
using Give = std::function<Result<void>(const Folder& fresh)>;

/// The copy comes under its name in one step, in place of a directory without mail. Until it is whole it is root's, in
/// which nobody else can change a name.
Result<void> replace(const std::string& from, const std::string& to, const Give& give) {
  PEN_TRY_ASSIGN(const Folder source, Folder::open(from));
  PEN_TRY_ASSIGN(const CopyTarget place, target_of(to));
  const std::string fresh = place.name + ".restoring", former = place.name + ".before-restore";
  PEN_TRY(place.parent.remove_all(fresh));
  PEN_TRY(place.parent.remove_all(former));
  PEN_TRY_ASSIGN(const Folder made, place.parent.make_folder(fresh, 0700));
  // In a folder below, for the copy has the owner and mode of what was copied.
  PEN_TRY_ASSIGN(const Folder inner, made.make_folder("copy", 0700));
  PEN_TRY(copy_whole(source, inner));
  if (::fchmod(inner.fd(), 0700) != 0) return fail_errno(inner.path());
  PEN_TRY(sync_tree(inner));
  PEN_TRY(give(inner));
  if (auto moved = place.parent.rename(place.name, place.parent, former); !moved && !moved.error().is_errno(ENOENT))
    return moved;
  PEN_TRY(made.rename("copy", place.parent, place.name));
  PEN_TRY(place.parent.sync());
  PEN_TRY(place.parent.remove_all(fresh));
  return place.parent.remove_all(former);
}

Give to_account(const service::Account& owner) {
  return [owner](const Folder& fresh) { return give_tree(fresh, owner.uid, owner.gid); };
}

/// The directory itself and destdb get their owners at the start, which goes by the log's.
Give data_to(const service::Owners& owners) {
  return [owners](const Folder& fresh) -> Result<void> {
    PEN_TRY_ASSIGN(const auto destdb, owners.apart() ? fresh.look("destdb") : Result<std::optional<struct stat>>());
    if (destdb && S_ISDIR(destdb->st_mode)) {
      // First: the tree's other owner could put another directory in its place.
      PEN_TRY_ASSIGN(const Folder below, fresh.folder("destdb"));
      PEN_TRY(give_tree(fresh, owners.mail.uid, owners.mail.gid));
      return give_tree(below, owners.queue.uid, owners.queue.gid);
    }
    return give_tree(fresh, owners.mail.uid, owners.mail.gid);
  };
}

/// Where the instance has data already, these stay.
Result<void> put_data(const std::string& snapshot, const std::string& data_directory, const service::Owners& owners) {
  PEN_TRY_ASSIGN(const std::uint64_t saved, entries(snapshot + "/data"));
  PEN_TRY_ASSIGN(const std::uint64_t there, entries(data_directory));
  if (saved == 0 || there != 0) return {};
  return replace(snapshot + "/data", data_directory, data_to(owners));
}

/// The directory itself gets its rights at the start.
Result<void> put_maildrop(const std::string& snapshot, const std::string& queue_directory) {
  PEN_TRY_ASSIGN(const std::uint64_t dropped, entries(snapshot + "/maildrop"));
  if (dropped == 0) return {};
  PEN_TRY_ASSIGN(const Folder from, Folder::open(snapshot + "/maildrop"));
  PEN_TRY_ASSIGN(const Folder queue, Folder::open(queue_directory));
  PEN_TRY_ASSIGN(const auto there, queue.look("maildrop"));
  PEN_TRY_ASSIGN(const Folder drop, there ? queue.folder("maildrop") : queue.make_folder("maildrop", 0700));
  PEN_TRY_ASSIGN(const auto names, from.names());
  for (const std::string& name : names) PEN_TRY(copy_file(from, name, drop, name));
  for (const std::string& name : names) {
    PEN_TRY_ASSIGN(const Fd file, drop.file(name));
    if (::fsync(file.get()) != 0) return fail_errno(drop.path_of(name));
  }
  return drop.sync();
}

Result<void> take_configuration(const std::string& from, const std::string& to) {
  PEN_TRY_ASSIGN(const Folder source, Folder::open(from + "/etc"));
  PEN_TRY_ASSIGN(const CopyTarget place, target_of(to));
  PEN_TRY_ASSIGN(const auto there, place.parent.look(place.name));
  PEN_TRY_ASSIGN(const Folder target,
                 there ? place.parent.folder(place.name) : place.parent.make_folder(place.name, 0755));
  PEN_TRY(copy_whole(source, target));
  return sync_tree(target);
}

}  // namespace

int Restore::run() {
  const std::string from = fs::absolute(options_.from).lexically_normal().string();
  const std::string to = fs::absolute(options_.to).lexically_normal().string();
  const auto facts = read_snapshot(from);
  if (!facts) return fail_with(EX_DATAERR, facts.error().message());
  if (!fs::exists(to + "/main.cf")) {
    if (options_.merge) return fail_with(EX_CONFIG, "there is no instance in " + to + " to merge with");
    // Asked before anything is written: with this configuration the queue goes where that one names.
    const auto theirs = config::load(from + "/etc");
    if (!theirs) return fail_with(EX_CONFIG, theirs.error().message());
    if (const int status = in_the_way(*theirs); status != EX_OK) return status;
    if (auto copied = take_configuration(from, to); !copied) return fail_with(EX_CANTCREAT, copied.error().message());
    print("configuration: taken from the snapshot\n");
  } else {
    const auto ours = config::load(to);
    if (!ours) return fail_with(EX_CONFIG, ours.error().message());
    if (const int status = options_.merge ? EX_OK : in_the_way(*ours); status != EX_OK) return status;
    print("configuration: there is one in " + to + ", and it stays\n");
  }
  const auto config = config::load(to);
  if (!config) return fail_with(EX_CONFIG, config.error().message());
  int status = EX_OK;
  if (options_.merge) {
    status = MergeQueue(*config, from).run();
  } else {
    status = put_queue(*config);
  }
  if (status != EX_OK) return status;
  fail_with(EX_OK, fmt::format("warning: what was in the queue of {} ({}) at {} is here too: if that queue is run as "
                               "well, its messages are delivered twice",
                               facts->config_directory, facts->host, facts->made));
  return EX_OK;
}

int Restore::put_queue(const config::Config& config) {
  const config::Settings& s = config.settings();
  const std::string& from = options_.from;
  const auto owners = service::owners(s);
  if (!owners) return fail_with(EX_CONFIG, owners.error().message());
  std::error_code error;
  fs::create_directories(s.queue_directory, error);
  // The log last: what its messages name is there then.
  Result<void> done = replace(from + "/spool", s.spool_directory, to_account(owners->queue));
  if (done) done = put_maildrop(from, s.queue_directory);
  if (done) done = put_data(from, s.data_directory, *owners);
  if (done) done = replace(from + "/log", s.queue_log_directory, to_account(owners->queue));
  if (!done) return fail_with(EX_CANTCREAT, done.error().message() + ": repeat the command");
  print(fmt::format("queue: in {}; start it with: penstock -c {} start\n", s.queue_directory, config.directory()));
  return EX_OK;
}

}  // namespace pen::tools
