#include "tools/queue_export.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/date.h"
#include "lib/base/file_io.h"
#include "lib/base/text.h"
#include "lib/base/time.h"
#include "lib/mail/command.h"
#include "lib/map/build.h"
#include "lib/receive/submission/drop_view.h"
#include "lib/receive/submission/envelope.h"
#include "lib/suite/service/as_account.h"
#include "lib/suite/service/running.h"
#include "tools/batch_smtp.h"

namespace pen::tools {
namespace {

using ipc::queue::Place;

constexpr const char* kProgram = "penstock export";
constexpr std::size_t kPiece = 256 * 1024;
constexpr std::size_t kAtOnce = 200;  // messages asked for together

}  // namespace

int QueueExport::run() {
  const auto complain = [](int status, const std::string& what) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s: %s\n", kProgram, what.c_str());
    return status;
  };
  const auto owner = service::mail_owner(config_.settings());
  if (!owner) return complain(EX_CONFIG, owner.error().message());
  if (::geteuid() != 0 && ::geteuid() != owner->uid)
    return complain(EX_NOPERM, "only root may do that, and the owner of a mail system without root");
  const auto runs = service::anything_runs(config_);
  if (!runs)
    return complain(EX_TEMPFAIL, "whether the mail system runs cannot be found out: " + runs.error().message());
  if (*runs)
    return complain(EX_TEMPFAIL, "the mail system runs, and would deliver what is being written: penstock stop first");
  if (::mkdir(options_.directory.c_str(), 0700) != 0 && errno != EEXIST)
    return complain(EX_CANTCREAT, Error::from_errno(errno, options_.directory).message());
  list();
  std::vector<std::string> ids;
  for (const auto& [id, listed] : listed_) {
    if (listed.place == Place::maildrop)
      show_dropped(id);
    else
      ids.push_back(id);
    if (ids.size() < kAtOnce) continue;
    show(std::exchange(ids, {}));
  }
  if (!ids.empty()) show(ids);
  std::string text = fmt::format("wrote {} messages for {} recipients to {}", written_.size() + dropped_.size(),
                                 recipients_, options_.directory);
  if (held_ > 0) text += fmt::format("; {} of them were on hold", held_);
  if (left_ > 0) text += fmt::format("; {} were left", left_);
  if (options_.remove) {
    if (auto removed = remove(); !removed) return complain(EX_OSERR, removed.error().message());
    text += "; what was written is removed from the queue";
  }
  complain(0, text);
  return left_ > 0 ? EX_DATAERR : EX_OK;
}

void QueueExport::list() {
  ipc::queue::List request;
  request.request = 1;
  const auto done = client_.ask(request, [&](ipc::queue::FromQmgr& m, std::vector<Fd>&) {
    auto* e = std::get_if<ipc::queue::Entry>(&m);
    if (e == nullptr) return;
    if (!e->fault.empty()) return leave(e->queue_id, e->fault);
    listed_[e->queue_id].add(*e);
  });
  expect_ok(kProgram, done);
}

void QueueExport::show(const std::vector<std::string>& ids) {
  std::vector<mail::Recipient> all;  // of a message with so many that they come in parts
  const auto done = client_.ask(ipc::queue::Show{1, {}, ids}, [&](ipc::queue::FromQmgr& m, std::vector<Fd>& fds) {
    if (const auto* damaged = std::get_if<ipc::queue::Entry>(&m)) {
      leave(damaged->queue_id, damaged->fault);
      listed_.erase(damaged->queue_id);
      all.clear();
      return;
    }
    auto* content = std::get_if<ipc::queue::Content>(&m);
    if (content == nullptr) return;
    auto& part = content->envelope.recipients;
    std::move(part.begin(), part.end(), std::back_inserter(all));
    if (content->more) return;
    const auto everybody = std::exchange(all, {});
    const auto found = listed_.find(content->envelope.queue_id);
    if (found == listed_.end()) return;
    const auto left = found->second.among(everybody);
    const mail::Envelope& e = content->envelope;
    if (!left) return leave(e.queue_id, "its recipients cannot be told apart");
    if (found->second.owes)
      return leave(e.queue_id, "its sender is still to be told of a failure: start, and stop again");
    if (left->empty()) return leave(e.queue_id, "nobody is left");
    const int fd = fds.empty() ? -1 : fds[0].get();
    const Read read = [&](std::uint64_t from, std::size_t most) -> Result<std::string> {
      if (fd < 0)
        return std::string(content->inline_body.substr(std::min<std::size_t>(from, content->inline_body.size()), most));
      return read_at(fd, content->body_offset + from, most, "read");
    };
    if (auto wrote = write(e, *left, read); !wrote) return leave(e.queue_id, wrote.error().message());
    if (found->second.place == Place::hold) ++held_;
    written_.push_back(e.queue_id);
    say(e, found->second.place, left->size());
  });
  expect_ok(kProgram, done);
}

void QueueExport::show_dropped(const std::string& id) {
  const std::string path = config_.settings().queue_directory + "/maildrop/" + id;
  Fd fd;
  {
    // mail_owner chose the names in there: root must not read what mail_owner could not.
    const service::AsAccount owner(service::mail_owner(config_.settings()).value_or(service::Account{}));
    fd = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  }
  if (!fd) return leave(id, Error::from_errno(errno, path).message());
  auto view = submission::DropView::open(fd.get(), submission::DropView::Found::in_maildrop);
  if (!view) return leave(id, view.error().message());
  if (!view->fault().empty() || !view->submission()) return leave(id, view->fault());
  mail::Envelope e = submission::envelope_of(*view->submission());
  e.body.size = view->content_size();
  const Read read = [&](std::uint64_t from, std::size_t most) { return view->read(from, most); };
  if (auto wrote = write(e, e.recipients, read); !wrote) return leave(id, wrote.error().message());
  dropped_.push_back(id);
  say(e, Place::maildrop, e.recipients.size());
}

Result<void> QueueExport::write(const mail::Envelope& envelope, const std::vector<mail::Recipient>& recipients,
                                const Read& read) {
  const std::string path = options_.directory + "/" + envelope.queue_id + ".bsmtp";
  if (options_.plain && envelope.release > system_clock().wall_now())
    return fail_errno("it is to be sent on " + utc_text(envelope.release) + ", which --plain cannot say", ENOTSUP);
  PEN_TRY(map::replace_file(path, 0600, [&](const std::string& fresh) -> Result<void> {
    const Fd fd(::open(fresh.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd) return fail_errno(path);
    Result<void> written;
    const auto put = [&](std::string_view bytes) {
      if (written) written = write_all(fd.get(), bytes, path);
    };
    put(batch_begin(envelope, recipients, {.helo = config_.settings().myhostname, .plain = options_.plain}));
    BatchContent content(put);
    for (std::uint64_t at = 0; at < envelope.body.size && written;) {
      PEN_TRY_ASSIGN(const std::string piece, read(at, std::min<std::uint64_t>(kPiece, envelope.body.size - at)));
      if (piece.empty()) return fail_errno("its content is cut short", EIO);
      content.feed(piece);
      at += piece.size();
    }
    content.finish();
    put(batch_end());
    return written;
  }));
  recipients_ += recipients.size();
  return {};
}

Result<void> QueueExport::remove() {
  const Fd directory(::open(options_.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || ::fsync(directory.get()) != 0) return fail_errno("sync " + options_.directory);
  for (const bool drops : {false, true}) {
    const auto& ids = drops ? dropped_ : written_;
    for (std::size_t at = 0; at < ids.size(); at += ipc::queue::kMaxIds) {
      ipc::queue::Act act;
      act.request = 1;
      act.verb = ipc::queue::Verb::remove;
      act.queue_ids.assign(ids.begin() + static_cast<std::ptrdiff_t>(at),
                           ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), at + ipc::queue::kMaxIds)));
      if (drops) act.filter.places = ipc::queue::bit_of(Place::maildrop);
      const auto done = client_.ask(act, [](ipc::queue::FromQmgr&, std::vector<Fd>&) {});
      if (done.outcome != ipc::queue::Outcome::not_found) expect_ok(kProgram, done);
    }
  }
  return {};
}

void QueueExport::leave(const std::string& id, const std::string& why) {
  ++left_;
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s: left where it is: %s\n", kProgram, readable(id).c_str(), why.c_str());
}

void QueueExport::say(const mail::Envelope& e, Place place, std::size_t recipients) {
  if (!options_.json) return;
  nlohmann::ordered_json j;
  j["queue_name"] = name_of(place);
  j["queue_id"] = e.queue_id;
  j["file"] = e.queue_id + ".bsmtp";
  j["arrival_time"] = unix_seconds(e.arrival);
  j["sender"] = e.sender;
  j["recipients"] = recipients;
  print(j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace pen::tools
