#include "tools/snapshot.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "lib/base/text.h"
#include "lib/lmdb/database.h"
#include "lib/service/setup.h"
#include "tools/file_copy.h"
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

/// LMDB keeps its files consistent for those who ask it, not for those who read them byte by byte.
Result<bool> copy_database(const std::string& from, const std::string& to) {
  const bool directory = ::access((from + "/data.mdb").c_str(), F_OK) == 0;
  const bool file = from.ends_with(".lmdb") || from.ends_with(".mdb");
  if (!directory && !file) return from.ends_with("-lock");
  // Nobody has it open, and we leave no lock of ours that the mail system could not use.
  if (::access((directory ? from + "/lock.mdb" : from + "-lock").c_str(), F_OK) != 0) return false;
  if (directory && ::mkdir(to.c_str(), 0700) != 0) return fail_errno(to);
  auto database = lmdb::Database::open(from, {.directory = directory, .write = false});
  auto copied = database ? (*database)->copy_to(to) : Result<void>(fail(std::move(database).error()));
  // What is known of other hosts is learned anew; the queue is what counts.
  if (!copied) fail_with(EX_OK, "warning: not in the snapshot: " + copied.error().message());
  return true;
}

}  // namespace

Snapshot::Snapshot(const config::Config& config, std::string directory)
    : config_(config), directory_(fs::absolute(directory).lexically_normal().string()) {
  while (directory_.size() > 1 && directory_.ends_with('/')) directory_.pop_back();
  work_ = directory_ + ".unfinished";
}

int Snapshot::run() {
  const auto owner = service::mail_owner(config_.settings());
  if (!owner) return fail_with(EX_CONFIG, owner.error().message());
  if (::geteuid() != 0 && ::geteuid() != owner->uid)
    return fail_with(EX_NOPERM, "only root and the mail owner may do that");
  if (auto ready = prepare(); !ready) return fail_with(EX_CANTCREAT, ready.error().message());
  std::optional<Error> failed;
  const Done done = QueueClient("penstock", config_).converse(Freeze{kRequest}, [&](auto& answer, auto&) {
    if (failed) return std::optional<ToQmgr>();
    auto more = next(answer);
    if (more) return *std::move(more);
    failed = std::move(more).error();
    // It is told, so that what it kept is free; after its answer nothing is asked.
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
  std::error_code error;
  if (fs::exists(directory_, error) && (!fs::is_directory(directory_, error) || !fs::is_empty(directory_, error)))
    return fail_errno(directory_, EEXIST);
  // What an earlier snapshot left that was broken off, and nothing else.
  if (fs::exists(work_, error)) {
    if (!fs::exists(work_ + "/" + kMarker, error) && !fs::is_empty(work_, error)) return fail_errno(work_, EEXIST);
    fs::remove_all(work_, error);
    if (error) return fail_errno(work_, error.value());
  }
  fs::create_directories(fs::path(work_).parent_path(), error);
  if (::mkdir(work_.c_str(), 0700) != 0) return fail_errno(work_);
  PEN_TRY(write_file(work_ + "/" + kMarker, "penstock snapshot\n"));
  for (const char* name : {"spool", "maildrop"})
    if (::mkdir((work_ + "/" + name).c_str(), 0700) != 0) return fail_errno(work_ + "/" + name);
  return {};
}

Result<std::optional<ToQmgr>> Snapshot::next(const ipc::queue::FromQmgr& answer) {
  if (const auto* ends = std::get_if<LogEnds>(&answer)) {
    PEN_TRY_ASSIGN(auto request, copied(*ends));
    return request;
  }
  if (const auto* file = std::get_if<ipc::queue::SpoolFile>(&answer)) {
    // One that is free, or that somebody fills now, belongs to no message of the copy.
    if (file->state != SpoolState::free && file->state != SpoolState::leased) files_.push_back(file->path);
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
      PEN_TRY_ASSIGN(source_, queue_log::PosixStorage::open_to_read(s.queue_log_directory));
      PEN_TRY_ASSIGN(target_, queue_log::PosixStorage::open(work_ + "/log"));
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
    case Phase::files:
      for (std::uint64_t bytes = 0; bytes < kAtOnce && !files_.empty(); files_.pop_back()) {
        const std::string name = fs::path(files_.back()).filename().string();
        PEN_TRY_ASSIGN(const auto more, copy_file(files_.back(), work_ + "/spool/" + name));
        bytes += more;
        bytes_ += more;
        ++bodies_;
      }
      if (!files_.empty()) return Freeze{kRequest};
      phase_ = Phase::thaw;
      return Thaw{kRequest};
    case Phase::thaw:
      break;
  }
  return Thaw{kRequest};
}

Result<void> Snapshot::copy_maildrop() {
  const std::string from = config_.settings().queue_directory + "/maildrop";
  std::error_code error;
  if (!fs::exists(from, error)) return {};
  PEN_TRY_ASSIGN(const auto bytes, copy_tree(from, work_ + "/maildrop",
                                             {.skip =
                                                  [](const auto& path, const auto&) {
                                                    // A submission that is still being written is not acknowledged.
                                                    struct stat st{};
                                                    return ::lstat(path.c_str(), &st) == 0 &&
                                                           (!S_ISREG(st.st_mode) || (st.st_mode & S_IXUSR) == 0);
                                                  },
                                              .instead = {}}));
  bytes_ += bytes;
  return {};
}

Result<void> Snapshot::copy_configuration() {
  // It may be made below the directory that is copied.
  const auto itself = [this](const std::string& path, const std::string&) { return path == work_; };
  PEN_TRY(copy_tree(config_.directory(), work_ + "/etc", {.skip = itself, .instead = {}}));
  return {};
}

Result<void> Snapshot::copy_data() {
  const std::string& from = config_.settings().data_directory;
  std::error_code error;
  if (!fs::exists(from, error)) return {};
  PEN_TRY(copy_tree(from, work_ + "/data", {.skip = {}, .instead = copy_database}));
  return {};
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
  facts["made"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::now()));
  facts["host"] = host;
  facts["config_directory"] = config_.directory();
  facts["queue_directory"] = s.queue_directory;
  facts["data_directory"] = s.data_directory;
  facts["bytes"] = bytes_ + log_->bytes();
  PEN_TRY(write_file(work_ + "/" + kFacts, facts.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
  std::error_code error;
  fs::remove(work_ + "/" + kMarker, error);
  if (error) return fail_errno(work_, error.value());
  PEN_TRY(sync_tree(work_));
  // An empty directory of that name may be there.
  if (::rename(work_.c_str(), directory_.c_str()) != 0) return fail_errno(directory_);
  return sync_tree(directory_);
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
