#include "tools/restore.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "lib/base/fd.h"
#include "lib/service/lock.h"
#include "lib/service/setup.h"
#include "lib/submission/wake.h"
#include "tools/file_copy.h"
#include "tools/instance_control.h"
#include "tools/merge_queue.h"
#include "tools/output.h"
#include "tools/queue_client.h"
#include "tools/snapshot.h"

namespace pen::tools {
namespace {

namespace fs = std::filesystem;

bool empty_or_missing(const std::string& directory) {
  std::error_code error;
  return !fs::exists(directory, error) || fs::is_empty(directory, error);
}

/// How many messages are in the queue of an instance that does not run.
std::uint64_t messages(const config::Config& config) {
  const config::Settings& s = config.settings();
  std::error_code error;
  std::uint64_t found = 0;
  if (!empty_or_missing(s.queue_directory + "/maildrop"))
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(s.queue_directory + "/maildrop", error)) ++found;
  if (empty_or_missing(s.queue_log_directory)) return found;
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

/// What keeps a queue from being put there, as an exit status after it has been told.
int in_the_way(const config::Config& config) {
  const config::Settings& s = config.settings();
  const auto master = service::running_master(service::state_directory(s));
  if (!master) return cannot_tell(master.error());
  if (*master)
    return fail_with(EX_UNAVAILABLE,
                     "the mail system of " + s.queue_directory + " runs: penstock stop first, or restore with --merge");
  if (const auto count = messages(config); count != 0)
    return fail_with(EX_UNAVAILABLE,
                     fmt::format("{} holds {} messages, which are not overwritten: restore with --merge "
                                 "adds those of the snapshot to them",
                                 s.queue_directory, count));
  return EX_OK;
}

/// The copy comes under its name in one step, in place of a directory without mail.
Result<void> replace(const std::string& from, const std::string& to, const service::Account& owner) {
  const std::string fresh = to + ".restoring", former = to + ".before-restore";
  std::error_code error;
  fs::remove_all(fresh, error);
  if (!error) fs::remove_all(former, error);
  if (!error) fs::create_directories(fs::path(to).parent_path(), error);
  if (error) return fail_errno(fresh, error.value());
  PEN_TRY(copy_tree(from, fresh));
  if (::chmod(fresh.c_str(), 0700) != 0) return fail_errno(fresh);
  PEN_TRY(give_tree(fresh, owner.uid, owner.gid));
  PEN_TRY(sync_tree(fresh));
  if (::rename(to.c_str(), former.c_str()) != 0 && errno != ENOENT) return fail_errno(to);
  if (::rename(fresh.c_str(), to.c_str()) != 0) return fail_errno(to);
  const Fd parent(::open(fs::path(to).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent || ::fsync(parent.get()) != 0) return fail_errno(to);
  fs::remove_all(former, error);
  if (error) return fail_errno(former, error.value());
  return {};
}

/// The directory itself and destdb get their owners at the start, which goes by the log's.
Result<void> put_data(const std::string& from, const std::string& to, const service::Owners& owners) {
  PEN_TRY(replace(from, to, owners.mail));
  if (owners.apart() && fs::exists(to + "/destdb"))
    PEN_TRY(give_tree(to + "/destdb", owners.queue.uid, owners.queue.gid));
  return {};
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
    std::error_code error;
    fs::create_directories(fs::path(to).parent_path(), error);
    if (auto copied = copy_tree(from + "/etc", to); !copied) return fail_with(EX_CANTCREAT, copied.error().message());
    if (auto synced = sync_tree(to); !synced) return fail_with(EX_CANTCREAT, synced.error().message());
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
  Result<void> done;
  std::error_code error;
  fs::create_directories(s.queue_directory, error);
  const std::string drop = s.queue_directory + "/maildrop";
  // The log last: what its messages name is there then.
  done = replace(from + "/spool", s.spool_directory, owners->queue);
  // The directory itself gets its rights at the start.
  if (done && !empty_or_missing(from + "/maildrop")) {
    if (::mkdir(drop.c_str(), 0700) != 0 && errno != EEXIST) done = fail_errno(drop);
    for (const auto& entry : fs::directory_iterator(from + "/maildrop", error)) {
      if (!done) break;
      const auto copied = copy_file(entry.path().string(), drop + "/" + entry.path().filename().string());
      if (!copied) done = fail(Error(copied.error()));
    }
    if (done) done = sync_tree(drop);
  }
  if (done && !empty_or_missing(from + "/data") && empty_or_missing(s.data_directory))
    done = put_data(from + "/data", s.data_directory, *owners);
  if (done) done = replace(from + "/log", s.queue_log_directory, owners->queue);
  if (!done) return fail_with(EX_CANTCREAT, done.error().message() + ": repeat the command");
  print(fmt::format("queue: in {}; start it with: penstock -c {} start\n", s.queue_directory, config.directory()));
  return EX_OK;
}

}  // namespace pen::tools
