#include "tools/merge_queue.h"

#include <fmt/format.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "lib/base/file_io.h"
#include "lib/base/text.h"
#include "lib/config/edit.h"
#include "lib/receive/submission/wake.h"
#include "lib/suite/service/setup.h"
#include "tools/instance_control.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

namespace fs = std::filesystem;
using ipc::queue::Outcome;
using ipc::queue::Place;

constexpr const char* kMerged = "merged";
constexpr std::size_t kAtOnce = 200;
constexpr std::size_t kPiece = 256 * 1024;
constexpr seconds kSettle{60};

/// The message with its content as it is in the other queue. file: that has the content; none: it is in `content`.
HandedIn as_handed_in(mail::Envelope envelope, const ipc::queue::Content& content, Fd file) {
  HandedIn one;
  one.most = envelope.body.size;
  one.envelope = std::move(envelope);
  auto fd = std::make_shared<Fd>(std::move(file));
  one.produce = [fd, text = std::string(content.inline_body), offset = content.body_offset](
                    mail::Envelope& made, const HandedIn::Write& write) -> Result<void> {
    if (!*fd) {
      write(text);
      return {};
    }
    for (std::uint64_t at = 0; at < made.body.size;) {
      const auto most = std::min<std::uint64_t>(kPiece, made.body.size - at);
      PEN_TRY_ASSIGN(const std::string piece, read_at(fd->get(), offset + at, most, "read the content"));
      if (piece.empty()) return fail_errno("read the content", EIO);
      write(piece);
      at += piece.size();
    }
    return {};
  };
  return one;
}

}  // namespace

MergeQueue::MergeQueue(const config::Config& config, std::string snapshot)
    : config_(config), snapshot_(std::move(snapshot)), client_("penstock restore", config) {}

int MergeQueue::run() {
  if (const auto owners = service::owners(config_.settings()); !owners)
    return fail_with(EX_CONFIG, owners.error().message());
  const bool handed_in = fs::exists(snapshot_ + "/" + kMerged);
  if (handed_in) {
    std::ifstream in(snapshot_ + "/" + kMerged);
    const std::string where{std::istreambuf_iterator<char>(in), {}};
    if (trim(where) != config_.directory())
      return fail_with(EX_UNAVAILABLE, "the snapshot was merged already, into the instance " + readable(trim(where)));
  }
  const auto borrowed = borrow();
  if (!borrowed) return fail_with(EX_CANTCREAT, borrowed.error().message());
  QueueClient other("penstock restore", *borrowed);
  Result<void> done = list(other);
  std::vector<std::string> ids, moving;
  for (const auto& [id, listed] : listed_) {
    if (listed.place == Place::maildrop) continue;
    ids.push_back(id);
    if (listed.place != Place::hold) moving.push_back(id);
  }
  for (std::size_t at = 0; done && !handed_in && at < ids.size(); at += kAtOnce)
    done = take(other, {ids.begin() + static_cast<std::ptrdiff_t>(at),
                        ids.begin() + static_cast<std::ptrdiff_t>(std::min(at + kAtOnce, ids.size()))});
  if (done && !handed_in) done = take_dropped();
  if (done && !handed_in) done = mark();
  for (std::size_t at = 0; done && at < moving.size(); at += kAtOnce)
    done = release({moving.begin() + static_cast<std::ptrdiff_t>(at),
                    moving.begin() + static_cast<std::ptrdiff_t>(std::min(at + kAtOnce, moving.size()))},
                   handed_in);
  submission::wake_pickup(config_.settings().queue_directory);
  if (auto removed = destination_->parent.remove_all(destination_->name); !removed)
    fail_with(EX_OK, "warning: " + removed.error().message());
  if (!done) return fail_with(EX_TEMPFAIL, done.error().message() + ": repeat the command");
  print(fmt::format("took {} messages into the queue, and {} submissions; {} were there already, {} were left\n",
                    taken_, dropped_, there_, left_));
  return left_ == 0 ? EX_OK : EX_DATAERR;
}

Result<config::Config> MergeQueue::borrow() {
  PEN_TRY_ASSIGN(destination_, target_of(config_.settings().queue_log_directory + ".merging"));
  PEN_TRY(expect_ours(destination_->parent));
  PEN_TRY(destination_->parent.remove_all(destination_->name));
  // The top and etc stay ours, since a program is run by what stands there.
  PEN_TRY_ASSIGN(const Folder work, destination_->parent.make_folder(destination_->name, 0755));
  PEN_TRY_ASSIGN(const auto owners, service::owners(config_.settings()));
  PEN_TRY_ASSIGN(const Folder snapshot, Folder::open(snapshot_));
  for (const char* name : {"log", "spool"}) {
    PEN_TRY_ASSIGN(const Folder from, snapshot.folder(name));
    PEN_TRY_ASSIGN(const Folder to, work.make_folder(name, 0700));
    PEN_TRY_ASSIGN(const Copied copied, copy_tree(from, to));
    if (!copied.left_out.empty()) return fail_errno(copied.left_out.front(), EACCES);
    PEN_TRY(give_tree(to, owners.queue.uid, owners.queue.gid));
  }
  // What was submitted there is copied without a queue manager.
  PEN_TRY_ASSIGN(const Folder drop, work.make_folder("maildrop", 0700));
  PEN_TRY(give_tree(drop, owners.mail.uid, owners.mail.gid));
  // Our settings around its queue.
  PEN_TRY_ASSIGN(const Folder configured, Folder::open(config_.directory()));
  PEN_TRY_ASSIGN(const Folder made, work.make_folder("etc", 0755));
  for (const char* name : {"main.cf", "master.cf"}) PEN_TRY(copy_file(configured, name, made, name));
  const std::string etc = made.path(), top = work.path();
  std::ifstream in(etc + "/main.cf");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto set = [](std::string name, std::string value) {
    return config::Edit{config::Edit::Kind::set, std::move(name), std::move(value)};
  };
  // The segments keep the size that they have.
  PEN_TRY_ASSIGN(
      const std::string edited,
      config::edit_main_cf(text, {set("queue_directory", top), set("queue_log_directory", top + "/log"),
                                  set("spool_directory", top + "/spool"), set("data_directory", top + "/data"),
                                  set("multi_instance_directories", "")}));
  PEN_TRY(config::replace_file(etc + "/main.cf", edited));
  return config::load(etc);
}

Result<void> MergeQueue::list(QueueClient& other) {
  ipc::queue::List request;
  request.request = 1;
  const auto done = other.ask(request, [&](ipc::queue::FromQmgr& m, std::vector<Fd>&) {
    auto* e = std::get_if<ipc::queue::Entry>(&m);
    if (e == nullptr) return;
    if (!e->fault.empty()) return leave(e->queue_id, e->fault);
    listed_[e->queue_id].add(*e);
  });
  if (done.outcome != Outcome::ok && done.outcome != Outcome::not_found)
    return fail_errno("the snapshot's queue cannot be listed: " + done.text, EIO);
  return {};
}

Result<void> MergeQueue::take(QueueClient& other, const std::vector<std::string>& ids) {
  const auto here = places(ids);
  std::vector<std::string> wanted;
  for (const std::string& id : ids) {
    if (here.contains(id))
      ++there_;
    else
      wanted.push_back(id);
  }
  if (wanted.empty()) return {};
  std::vector<HandedIn> messages;
  std::vector<mail::Recipient> all;  // of a message with so many that they come in parts
  const auto shown = other.ask(ipc::queue::Show{1, {}, wanted}, [&](ipc::queue::FromQmgr& m, std::vector<Fd>& fds) {
    if (const auto* damaged = std::get_if<ipc::queue::Entry>(&m)) {
      leave(damaged->queue_id, damaged->fault);
      listed_.erase(damaged->queue_id);
      all.clear();
      return;
    }
    auto* content = std::get_if<ipc::queue::Content>(&m);
    if (content == nullptr) return;
    std::ranges::move(content->envelope.recipients, std::back_inserter(all));
    if (content->more) return;
    const auto everybody = std::exchange(all, {});
    mail::Envelope e = std::move(content->envelope);
    const auto found = listed_.find(e.queue_id);
    if (found == listed_.end()) return;
    auto left = found->second.among(everybody);
    if (!left) return leave(e.queue_id, "its recipients cannot be told apart");
    if (found->second.owes) return leave(e.queue_id, "its sender is still to be told of a failure");
    if (left->empty()) return leave(e.queue_id, "nobody is left");
    e.recipients = *std::move(left);
    e.hold = true;
    messages.push_back(as_handed_in(std::move(e), *content, fds.empty() ? Fd() : std::move(fds[0])));
  });
  if (shown.outcome != Outcome::ok && shown.outcome != Outcome::not_found)
    return fail_errno("the snapshot's queue cannot be read: " + shown.text, EIO);
  if (messages.empty()) return {};
  const auto answers = hand_in("penstock restore", config_, messages);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].outcome == ipc::enqueue::Outcome::ok)
      ++taken_;
    else if (answers[i].outcome == ipc::enqueue::Outcome::refused)
      leave(messages[i].envelope.queue_id, "the queue manager does not take it: " + answers[i].text);
    else
      return fail_errno("the queue has no room: " + answers[i].text, EAGAIN);
  }
  return {};
}

Result<void> MergeQueue::mark() {
  PEN_TRY_ASSIGN(const Folder snapshot, Folder::open(snapshot_));
  return write_file(snapshot, kMerged, config_.directory() + "\n");
}

Result<void> MergeQueue::take_dropped() {
  PEN_TRY_ASSIGN(const Folder snapshot, Folder::open(snapshot_));
  PEN_TRY_ASSIGN(const auto any, snapshot.look("maildrop"));
  if (!any) return {};
  PEN_TRY_ASSIGN(const Folder from, snapshot.folder("maildrop"));
  PEN_TRY_ASSIGN(const Folder queue, Folder::open(config_.settings().queue_directory));
  PEN_TRY_ASSIGN(const auto there, queue.look("maildrop"));
  PEN_TRY_ASSIGN(const Folder to, there ? queue.folder("maildrop") : queue.make_folder("maildrop", 0700));
  PEN_TRY_ASSIGN(const auto names, from.names());
  for (const std::string& name : names) {
    // One that was taken into the queue meanwhile is a message of the list.
    if (listed_.contains(name) && listed_[name].place != Place::maildrop) continue;
    PEN_TRY_ASSIGN(const auto taken, to.look(name));
    if (taken) continue;
    const std::string hidden = "." + name;
    PEN_TRY(to.remove(hidden));
    PEN_TRY(copy_file(from, name, to, hidden));
    PEN_TRY(to.rename(hidden, to, name));
    ++dropped_;
  }
  return to.sync();
}

Result<void> MergeQueue::release(const std::vector<std::string>& ids, bool repeat) {
  std::vector<std::string> waiting = ids;
  const SteadyTime end = system_clock().now() + kSettle;
  for (;;) {
    const auto there = places(waiting);
    std::erase_if(waiting, [&](const std::string& id) {
      const auto at = there.find(id);
      return at == there.end() || at->second == Place::hold;
    });
    if (waiting.empty()) break;
    // What an earlier attempt released is not put on hold any more.
    if (repeat) std::erase_if(waiting, [&](const std::string& id) { return there.at(id) == Place::deferred; });
    if (system_clock().now() > end) {
      if (repeat) break;
      return fail_errno(waiting.front() + " is not put on hold", ETIMEDOUT);
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
  ipc::queue::Act act;
  act.request = 1;
  act.verb = ipc::queue::Verb::release;
  act.queue_ids = ids;
  const auto done = client_.ask(act, [](ipc::queue::FromQmgr&, std::vector<Fd>&) {});
  if (done.outcome == Outcome::ok || done.outcome == Outcome::not_found) return {};
  return fail_errno("release from hold: " + done.text, EIO);
}

std::map<std::string, Place> MergeQueue::places(std::vector<std::string> ids) {
  std::map<std::string, Place> found;
  if (ids.empty()) return found;
  ipc::queue::List request;
  request.request = 1;
  request.brief = true;
  request.queue_ids = std::move(ids);
  request.filter.places = static_cast<std::uint8_t>(~ipc::queue::bit_of(Place::maildrop) & 0x0F);
  const auto done = client_.ask(request, [&](ipc::queue::FromQmgr& m, std::vector<Fd>&) {
    if (const auto* e = std::get_if<ipc::queue::Entry>(&m)) found[e->queue_id] = e->place;
  });
  if (done.outcome != Outcome::not_found) expect_ok("penstock restore", done);
  return found;
}

void MergeQueue::leave(const std::string& id, const std::string& why) {
  ++left_;
  fail_with(EX_OK, id + " is left: " + why);
}

}  // namespace pen::tools
