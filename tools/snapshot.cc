#include "tools/snapshot.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "lib/base/date.h"
#include "lib/base/lmdb/database.h"
#include "lib/base/text.h"
#include "lib/queue/queue_log/posix_storage.h"
#include "lib/suite/service/as_account.h"
#include "lib/suite/service/setup.h"
#include "tools/instance_control.h"
#include "tools/output.h"
#include "tools/queue_client.h"

namespace pen::tools {
namespace {

namespace fs = std::filesystem;
using ipc::queue::Done;
using ipc::queue::Freeze;
using ipc::queue::LogEnds;
using ipc::queue::Outcome;
using ipc::queue::SpoolState;
using ipc::queue::Thaw;
using ipc::queue::ToQmgr;

constexpr const char* kMarker = "snapshot.begun";
constexpr const char* kFacts = "snapshot.json";
constexpr int kForm = 1;
constexpr std::size_t kAtOnce = 64U << 20;  // bytes copied between two words with the queue manager
constexpr std::uint64_t kRequest = 1;

queue_log::LogEnds ends_of(const LogEnds& message) {
  queue_log::LogEnds ends;
  for (const auto& end : message.logs) ends.push_back({end.interval, {end.use, end.offset}});
  return ends;
}

/// The queue log, read with the rights of the account that it belongs to: what that account made of the names in there
/// leads root nowhere else.
class OwnersLog : public queue_log::Storage {
 public:
  OwnersLog(std::unique_ptr<queue_log::Storage> log, service::Account owner) : log_(std::move(log)), owner_(owner) {}
  Result<std::vector<SlotInfo>> list() override {
    const service::AsAccount owner(owner_);
    return owner.ok() ? log_->list() : refused();
  }
  Result<void> read(queue_log::Slot slot, std::uint64_t offset, MutableBytes into) override {
    const service::AsAccount owner(owner_);
    return owner.ok() ? log_->read(slot, offset, into) : refused();
  }
  Result<void> allocate(queue_log::Slot, std::uint64_t) override { return fail_errno("allocate", EROFS); }
  Result<void> write(queue_log::Slot, std::uint64_t, Bytes) override { return fail_errno("write", EROFS); }
  Result<void> sync(queue_log::Slot) override { return fail_errno("sync", EROFS); }
  Result<void> drop_cache(queue_log::Slot) override { return fail_errno("drop cache", EROFS); }
  Result<void> set_aside(queue_log::Slot) override { return fail_errno("set aside", EROFS); }

 private:
  static std::unexpected<Error> refused() { return fail_errno("become the queue's owner"); }
  std::unique_ptr<queue_log::Storage> log_;
  service::Account owner_;
};

Result<std::unique_ptr<queue_log::Storage>> open_log(const std::string& directory, const service::Account& owner) {
  const service::AsAccount become(owner);
  if (!become.ok()) return fail_errno("become the queue's owner");
  PEN_TRY_ASSIGN(auto log, queue_log::PosixStorage::open_to_read(directory));
  return std::make_unique<OwnersLog>(std::move(log), owner);
}

/// LMDB keeps its files consistent for callers of LMDB, not for readers of their bytes. It goes where their
/// pages lead it, so what is another account's is read by a process of that account.
Result<bool> copy_database(const Folder& from, const std::string& name, const Folder& to) {
  PEN_TRY_ASSIGN(const auto there, from.look(name));
  if (!there) return true;
  const bool directory = S_ISDIR(there->st_mode);
  if (!directory && !S_ISREG(there->st_mode)) return false;
  const service::Account owner{there->st_uid, there->st_gid};
  bool locks = false;
  if (directory) {
    auto below = from.folder(name);
    if (!below) return false;  // and so it is reported
    const service::AsAccount become(owner);
    if (!become.ok()) return fail_errno("become the owner of " + from.path_of(name));
    if (!below->look("data.mdb").value_or(std::nullopt)) return false;
    locks = below->look("lock.mdb").value_or(std::nullopt).has_value();
  } else {
    if (!name.ends_with(".lmdb") && !name.ends_with(".mdb")) return name.ends_with("-lock");
    PEN_TRY_ASSIGN(const auto lock, from.look(name + "-lock"));
    locks = lock.has_value();
  }
  // Nobody has it open, and we leave no lock of ours that the mail system could not use.
  if (!locks) return false;
  std::optional<Folder> made;
  if (directory) {
    PEN_TRY_ASSIGN(made, to.make_folder(name, 0700));
  }
  const Folder& target = directory ? *made : to;
  PEN_TRY_ASSIGN(const Fd copy, target.make_file(directory ? "data.mdb" : name, 0600));
  auto copied = service::in_account(owner, [&]() -> Result<void> {
    PEN_TRY_ASSIGN(const auto database,
                   lmdb::Database::open(from.path_of(name), {.directory = directory, .write = false}));
    return database->copy_to(copy.get());
  });
  for (const int fd : {copy.get(), directory ? made->fd() : copy.get()})
    if (::geteuid() == 0 && ::fchown(fd, owner.uid, owner.gid) != 0) return fail_errno(to.path_of(name));
  if (::fchmod(directory ? made->fd() : copy.get(), there->st_mode & 07777) != 0) return fail_errno(to.path_of(name));
  if (copied) return true;
  // What is known of other hosts is learned anew; the queue is what counts.
  PEN_TRY(to.remove_all(name));
  fail_with(EX_OK, "warning: not in the snapshot: " + copied.error().message());
  return true;
}

}  // namespace

Snapshot::Snapshot(const config::Config& config, std::string directory)
    : config_(config), directory_(fs::absolute(directory).lexically_normal().string()) {
  while (directory_.size() > 1 && directory_.ends_with('/')) directory_.pop_back();
}

int Snapshot::run() {
  const auto owner = service::mail_owner(config_.settings());
  if (!owner) return fail_with(EX_CONFIG, owner.error().message());
  if (::geteuid() != 0 && ::geteuid() != owner->uid)
    return fail_with(EX_NOPERM, "only root may do that, and the owner of a mail system without root");
  if (auto ready = prepare(); !ready) return fail_with(EX_CANTCREAT, ready.error().message());
  std::optional<Error> failed;
  const Done done = QueueClient("penstock", config_).converse(Freeze{kRequest}, [&](auto& answer, auto&) {
    if (failed) return std::optional<ToQmgr>();
    auto more = next(answer);
    if (more) return *std::move(more);
    failed = std::move(more).error();
    // The order ends the freeze, so that what was kept is free; after the answer nothing is asked.
    return std::holds_alternative<Done>(answer) ? std::optional<ToQmgr>() : std::optional<ToQmgr>(Thaw{kRequest});
  });
  if (failed) return fail_with(EX_IOERR, failed->message() + ": no snapshot was made");
  if (done.outcome == Outcome::denied) return fail_with(EX_NOPERM, done.text);
  if (done.outcome != Outcome::ok) return fail_with(EX_TEMPFAIL, done.text + ": no snapshot was made");
  if (auto whole = complete(); !whole) return fail_with(EX_CANTCREAT, whole.error().message());
  print(fmt::format("made a snapshot in {}: {} MiB of queue log, {} large bodies\n", directory_,
                    (log_->bytes() + (1U << 20) - 1) >> 20, bodies_));
  return EX_OK;
}

Result<void> Snapshot::prepare() {
  PEN_TRY_ASSIGN(destination_, target_of(directory_));
  const Folder& parent = destination_->parent;
  PEN_TRY_ASSIGN(const auto there, parent.look(destination_->name));
  if (there) {
    // An empty directory of that name may be there.
    PEN_TRY_ASSIGN(const Folder taken, parent.folder(destination_->name));
    PEN_TRY_ASSIGN(const auto names, taken.names());
    if (!names.empty()) return fail_errno(directory_, EEXIST);
  }
  const std::string work = destination_->name + ".unfinished";
  // What an earlier snapshot left that was broken off, and nothing else.
  PEN_TRY_ASSIGN(const auto former, parent.look(work));
  if (former) {
    PEN_TRY_ASSIGN(const Folder left, parent.folder(work));
    PEN_TRY_ASSIGN(const auto names, left.names());
    if (!names.empty() && std::ranges::find(names, kMarker) == names.end())
      return fail_errno(parent.path_of(work), EEXIST);
    PEN_TRY(parent.remove_all(work));
  }
  PEN_TRY_ASSIGN(work_, parent.make_folder(work, 0700));
  PEN_TRY(write_file(*work_, kMarker, "penstock snapshot\n"));
  for (const char* name : {"spool", "maildrop"}) PEN_TRY(work_->make_folder(name, 0700));
  return {};
}

Result<std::optional<ToQmgr>> Snapshot::next(const ipc::queue::FromQmgr& answer) {
  if (const auto* ends = std::get_if<LogEnds>(&answer)) {
    PEN_TRY_ASSIGN(auto request, copied(*ends));
    return request;
  }
  if (const auto* file = std::get_if<ipc::queue::SpoolFile>(&answer)) {
    // One that is free, or that somebody fills now, belongs to no message of the copy.
    // The name alone: where the spool is, we know ourselves.
    if (file->state != SpoolState::free && file->state != SpoolState::leased)
      files_.push_back(fs::path(file->path).filename().string());
    return std::nullopt;
  }
  const auto* done = std::get_if<Done>(&answer);
  if (done == nullptr || phase_ != Phase::files) return std::nullopt;
  // All names are known; the files are copied between words.
  if (done->outcome != Outcome::ok && done->outcome != Outcome::not_found)
    return fail_errno("the spool cannot be listed: " + done->text, EIO);
  return ToQmgr(Freeze{kRequest});
}

Result<ToQmgr> Snapshot::copied(const LogEnds& ends) {
  switch (phase_) {
    case Phase::begin: {
      const config::Settings& s = config_.settings();
      PEN_TRY_ASSIGN(const auto owners, service::owners(s));
      PEN_TRY_ASSIGN(source_, open_log(s.queue_log_directory, owners.queue));
      PEN_TRY_ASSIGN(target_, queue_log::PosixStorage::open(work_->path_of("log")));
      PEN_TRY_ASSIGN(spool_, Folder::open(s.spool_directory));
      log_.emplace(*source_, *target_);
      PEN_TRY(log_->begin(ends_of(ends)));
      PEN_TRY(copy_maildrop());
      phase_ = Phase::log;
      [[fallthrough]];
    }
    case Phase::log: {
      PEN_TRY_ASSIGN(const bool more, log_->step(kAtOnce));
      if (!more) phase_ = Phase::cut;
      return Freeze{kRequest};
    }
    case Phase::cut:
      PEN_TRY(log_->finish(ends_of(ends)));
      phase_ = Phase::files;
      return ipc::queue::ListSpool{kRequest, {}};
    case Phase::files: {
      PEN_TRY_ASSIGN(const Folder spool, work_->folder("spool"));
      for (std::uint64_t bytes = 0; bytes < kAtOnce && !files_.empty(); files_.pop_back()) {
        PEN_TRY_ASSIGN(const auto more, copy_file(*spool_, files_.back(), spool, files_.back()));
        bytes += more;
        bytes_ += more;
        ++bodies_;
      }
      if (!files_.empty()) return Freeze{kRequest};
      phase_ = Phase::thaw;
      return Thaw{kRequest};
    }
    case Phase::thaw:
      break;
  }
  return Thaw{kRequest};
}

Result<void> Snapshot::copy_maildrop() {
  PEN_TRY_ASSIGN(const Folder queue, Folder::open(config_.settings().queue_directory));
  PEN_TRY_ASSIGN(const auto there, queue.look("maildrop"));
  if (!there) return {};
  PEN_TRY_ASSIGN(const Folder from, queue.folder("maildrop"));
  PEN_TRY_ASSIGN(const Folder to, work_->folder("maildrop"));
  PEN_TRY_ASSIGN(const Copied copied, copy_tree(from, to,
                                                {.skip =
                                                     [](const auto&, const struct stat& st) {
                                                       // A submission that is still being written is not acknowledged.
                                                       return !S_ISREG(st.st_mode) || (st.st_mode & S_IXUSR) == 0;
                                                     },
                                                 .instead = {}}));
  bytes_ += copied.bytes;
  if (copied.left_out.empty()) return {};
  return fail_errno(copied.left_out.front(), EACCES);  // it may be mail
}

Result<void> Snapshot::copy_configuration() {
  // The snapshot may be made below the directory that is copied.
  PEN_TRY_ASSIGN(const struct stat itself, work_->status());
  PEN_TRY_ASSIGN(const Folder from, Folder::open(config_.directory()));
  PEN_TRY_ASSIGN(const Folder to, work_->make_folder("etc", 0700));
  PEN_TRY_ASSIGN(const Copied copied, copy_tree(from, to,
                                                {.skip =
                                                     [&](const auto&, const struct stat& st) {
                                                       return st.st_dev == itself.st_dev && st.st_ino == itself.st_ino;
                                                     },
                                                 .instead = {}}));
  tell(copied);
  return {};
}

Result<void> Snapshot::copy_data() {
  const auto from = Folder::open(config_.settings().data_directory);
  if (!from && from.error().is_errno(ENOENT)) return {};
  if (!from) return fail(Error(from.error()));
  PEN_TRY_ASSIGN(const Folder to, work_->make_folder("data", 0700));
  PEN_TRY_ASSIGN(const Copied copied, copy_tree(*from, to, {.skip = {}, .instead = copy_database}));
  tell(copied);
  return {};
}

void Snapshot::tell(const Copied& copied) {
  for (const std::string& what : copied.left_out) fail_with(EX_OK, "warning: not in the snapshot: " + what);
}

Result<void> Snapshot::complete() {
  target_.reset();
  PEN_TRY(copy_configuration());
  PEN_TRY(copy_data());
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  const config::Settings& s = config_.settings();
  nlohmann::ordered_json facts;
  facts["form"] = kForm;
  facts["made"] = utc_text(system_clock().wall_now());
  facts["host"] = host;
  facts["config_directory"] = config_.directory();
  facts["queue_directory"] = s.queue_directory;
  facts["data_directory"] = s.data_directory;
  facts["bytes"] = bytes_ + log_->bytes();
  PEN_TRY(write_file(*work_, kFacts, facts.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
  PEN_TRY(work_->remove(kMarker));
  PEN_TRY(sync_tree(*work_));
  PEN_TRY(destination_->parent.rename(destination_->name + ".unfinished", destination_->parent, destination_->name));
  return destination_->parent.sync();
}

Result<SnapshotFacts> read_snapshot(const std::string& directory) {
  std::ifstream in(directory + "/" + kFacts);
  if (!in) return fail_errno(directory + " holds no whole snapshot: " + kFacts, ENOENT);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("form", 0) != kForm)
    return fail_errno(directory + "/" + kFacts + " is of another version of Penstock", EINVAL);
  SnapshotFacts facts;
  facts.host = json.value("host", "");
  facts.config_directory = json.value("config_directory", "");
  facts.made = json.value("made", "");
  facts.bytes = json.value("bytes", std::uint64_t{0});
  return facts;
}

}  // namespace pen::tools
