#include "tools/queue_import.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "lib/base/file_io.h"
#include "lib/base/text.h"
#include "lib/queue/postfix_queue/envelope.h"
#include "lib/receive/submission/drop_file.h"
#include "lib/receive/submission/wake.h"
#include "lib/suite/service/lock.h"
#include "lib/suite/service/setup.h"

namespace pen::tools {
namespace {

using ipc::enqueue::Outcome;
using ipc::queue::Place;
using postfix_queue::Found;
using postfix_queue::Queue;
using Way = ImportLedger::Way;
using Stage = ImportLedger::Stage;

constexpr const char* kProgram = "penstock import";
constexpr std::size_t kAtOnce = 500;                 // messages that share the syncs
constexpr std::uint64_t kBytesAtOnce = 64ULL << 20;  // of their files
constexpr seconds kSettle{30};                       // how long messages may be on their way to the hold log
constexpr std::size_t kMostRecipients = 10'000;      // an envelope is one frame

std::string key_of(const Found& found, const postfix_queue::QueueFile& file) {
  const auto at = file.arrival.value_or(WallTime{}).time_since_epoch();
  return fmt::format("{}@{}", found.id, at.count());
}

Way way_of(Queue queue) {
  if (queue == Queue::maildrop) return Way::maildrop;
  return queue == Queue::hold ? Way::hold : Way::queue;
}

}  // namespace

QueueImport::QueueImport(const config::Config& config, Options options)
    : config_(config),
      options_(std::move(options)),
      own_directory_(service::state_directory(config.settings()) + "/import"),
      client_(kProgram, config),
      new_id_(system_clock(), Random(secure_random_u64())) {}

Result<void> QueueImport::open() {
  PEN_TRY_ASSIGN(source_, postfix_queue::QueueDirectory::open(options_.directory));
  // Only the user who starts the mail system can write there (lib/suite/service/lock.h).
  if (!options_.dry_run && ::mkdir(own_directory_.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(own_directory_);
  PEN_TRY_ASSIGN(ledger_, ImportLedger::open(own_directory_, options_.dry_run));
  return {};
}

int QueueImport::run() {
  const config::Settings& s = config_.settings();
  const auto owner = service::mail_owner(s);
  if (!owner) return complain(EX_CONFIG, owner.error().message());
  if (::geteuid() != 0 && ::geteuid() != owner->uid)
    return complain(EX_NOPERM, "only root may do that, and the owner of a mail system without root");
  struct stat st{};
  if (::stat(service::state_directory(s).c_str(), &st) != 0)
    return complain(EX_UNAVAILABLE, "the mail system has no queue yet: start it once (penstock start), and repeat");
  if (auto opened = open(); !opened) {
    const Error& e = opened.error();
    const bool later = e.is(postfix_queue::DirectoryError::in_use) || e.is(LedgerError::busy);
    return complain(later                                              ? EX_TEMPFAIL
                    : e.is(postfix_queue::DirectoryError::not_a_queue) ? EX_NOINPUT
                    : e.is_errno(EACCES) || e.is_errno(EPERM)          ? EX_NOPERM
                                                                       : EX_OSERR,
                    e.message());
  }
  if (!options_.dry_run)
    if (auto done = finish_earlier(); !done) return complain(EX_TEMPFAIL, done.error().message());
  const auto list = source_->list();
  if (!list) return complain(EX_OSERR, list.error().message());
  ProgressBar bar("Taking over", ProgressBar::patient("message", "messages"));
  Messages messages;
  std::uint64_t bytes = 0, looked = 0;
  int status = EX_OK;
  for (const Found& found : *list) {
    bar.show(looked++, list->size(), counts_.taken + counts_.held + counts_.dropped);
    Message m;
    if (!look(found, m)) continue;
    bytes += found.size;
    messages.push_back(std::move(m));
    if (messages.size() < kAtOnce && bytes < kBytesAtOnce) continue;
    status = take(std::exchange(messages, {}));
    bytes = 0;
    if (status != EX_OK) break;
  }
  if (status == EX_OK) status = take(std::move(messages));
  bar.clear();
  summary();
  if (status != EX_OK) return status;
  return counts_.left > 0 ? EX_DATAERR : EX_OK;
}

bool QueueImport::look(const Found& found, Message& m) {
  if (!found.whole) {
    ++counts_.unfinished;
    return false;
  }
  const auto bytes = source_->load(found);
  if (!bytes) {
    leave(found, bytes.error().message());
    return false;
  }
  const auto file = postfix_queue::read_queue_file(*bytes);
  if (!file) {
    leave(found, file.error().message());
    return false;
  }
  m.found = found;
  m.key = key_of(found, *file);
  if (const auto* entry = ledger_->find(m.key)) {
    m.entry = *entry;
    m.known = true;
    if (entry->stage == Stage::released) {
      ++counts_.already;
      if (auto gone = remove_source(found); !gone) leave(found, gone.error().message());
      return false;
    }
  }
  auto taken = postfix_queue::envelope_of(*file, found.id);
  if (!taken) {
    leave(found, taken.error().message());
    return false;
  }
  counts_.recipients_done += file->recipients.size() - taken->envelope.recipients.size();
  if (taken->envelope.recipients.empty()) {
    ++counts_.done;
    return false;
  }
  if (taken->envelope.recipients.size() > kMostRecipients) {
    leave(found, fmt::format("more than {} recipients are left: Postfix must deliver it", kMostRecipients));
    return false;
  }
  m.envelope = std::move(taken->envelope);
  m.lost = std::move(taken->lost);
  m.full_name = file->full_name;
  m.most = file->content_size + file->content_lines + 2;
  if (!m.known) m.entry.way = way_of(found.queue);
  return true;
}

int QueueImport::take(Messages messages) {
  if (messages.empty()) return EX_OK;
  if (options_.dry_run) {
    for (const Message& m : messages) {
      ++(m.entry.way == Way::hold ? counts_.held : m.entry.way == Way::maildrop ? counts_.dropped : counts_.taken);
      counts_.recipients += m.envelope.recipients.size();
      show(m, "would be taken");
    }
    return EX_OK;
  }
  find_present(messages);
  choose_ids(messages);
  std::vector<ImportLedger::Named> fresh;
  for (const Message& m : messages)
    if (!m.known) fresh.emplace_back(m.key, m.entry);
  auto done = ledger_->begin(fresh);
  if (done) done = enqueue(messages);
  if (done) done = settle(messages);
  std::vector<std::string> keys, ids;
  for (const Message& m : messages) {
    if (!m.present) continue;
    if (m.entry.stage == Stage::begun) keys.push_back(m.key);
    if (m.entry.way == Way::queue) ids.push_back(m.entry.id);
  }
  if (done) done = ledger_->advance(keys, Stage::taken);
  if (done) done = release(ids);
  for (Message& m : messages) {
    if (!done) break;
    if (m.present && m.entry.way == Way::maildrop) done = move_drop(m.entry.id);
  }
  submission::wake_pickup(config_.settings().queue_directory);
  keys.clear();
  for (const Message& m : messages)
    if (m.present) keys.push_back(m.key);
  if (done) done = ledger_->advance(keys, Stage::released);
  if (!done)
    return complain(EX_TEMPFAIL, done.error().message() + "; what was not taken yet waits: repeat the command");
  for (const Message& m : messages) {
    if (!m.present) continue;
    ++(m.entry.way == Way::hold ? counts_.held : m.entry.way == Way::maildrop ? counts_.dropped : counts_.taken);
    counts_.recipients += m.envelope.recipients.size();
    show(m, "taken");
    if (auto gone = remove_source(m.found); !gone) leave(m.found, gone.error().message());
  }
  return EX_OK;
}

void QueueImport::find_present(Messages& messages) {
  std::vector<std::string> ids;
  for (const Message& m : messages) {
    if (m.entry.way == Way::maildrop) continue;
    const std::string& id = m.known ? m.entry.id : m.found.id;
    if (mail::is_queue_id(id)) ids.push_back(id);
  }
  const auto there = places(std::move(ids));
  for (Message& m : messages) {
    if (m.known && m.entry.way != Way::maildrop)
      m.present = there.contains(m.entry.id) || m.entry.stage == Stage::taken;
    // Somebody else's message has the id.
    if (!m.known && (there.contains(m.found.id) || ledger_->is_used(m.found.id))) m.entry.id = new_id_.next();
  }
}

void QueueImport::choose_ids(Messages& messages) {
  std::set<std::string> chosen;
  for (Message& m : messages) {
    if (m.known) continue;
    if (m.entry.id.empty()) m.entry.id = m.found.id;
    if (!mail::is_queue_id(m.entry.id) || !chosen.insert(m.entry.id).second) m.entry.id = new_id_.next();
    chosen.insert(m.entry.id);
  }
}

Result<void> QueueImport::enqueue(Messages& messages) {
  const config::Settings& s = config_.settings();
  std::vector<HandedIn> handed;
  std::vector<Message*> of;
  for (Message& m : messages) {
    if (m.present) continue;
    m.envelope.queue_id = m.entry.id;
    if (m.entry.way == Way::maildrop) {
      PEN_TRY(drop(m));
      continue;
    }
    m.envelope.hold = true;
    auto produce = [this, &s, found = m.found](mail::Envelope& envelope, const HandedIn::Write& write) -> Result<void> {
      PEN_TRY_ASSIGN(const std::string bytes, source_->load(found));
      postfix_queue::ContentTaker content(s.cleanup_replace_stray_cr_lf, write);
      PEN_TRY(postfix_queue::read_queue_file(bytes, content.sink()));
      envelope.body = content.finish();
      envelope.message_id = content.header().message_id_value;
      if (s.tls_required_enable && content.header().tls_required_no) envelope.requiretls = mail::RequireTls::no;
      return {};
    };
    handed.push_back({.envelope = m.envelope, .most = m.most, .produce = std::move(produce)});
    of.push_back(&m);
  }
  if (handed.empty()) return {};
  const auto answers = hand_in(kProgram, config_, handed);
  std::string why;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].outcome == Outcome::ok)
      of[i]->present = true;
    else if (answers[i].outcome == Outcome::refused)
      leave(of[i]->found, "the queue manager does not take it: " + answers[i].text);
    else
      why = answers[i].outcome == Outcome::no_space ? "the queue has no room" : answers[i].text;
  }
  if (!why.empty()) return fail_errno(why, EAGAIN);
  return {};
}

Result<void> QueueImport::settle(const Messages& messages) {
  std::vector<std::string> ids;
  for (const Message& m : messages)
    if (m.present && m.entry.way != Way::maildrop && m.entry.stage == Stage::begun) ids.push_back(m.entry.id);
  const SteadyTime end = system_clock().now() + kSettle;
  while (!ids.empty()) {
    const auto there = places(ids);
    // What is not there was on hold already, and somebody acted on it since.
    std::erase_if(ids, [&](const std::string& id) {
      const auto at = there.find(id);
      return at == there.end() || at->second == Place::hold;
    });
    if (ids.empty()) break;
    if (system_clock().now() > end) return fail_errno(ids.front() + " is not put on hold", ETIMEDOUT);
    std::this_thread::sleep_for(milliseconds(50));
  }
  return {};
}

Result<void> QueueImport::release(const std::vector<std::string>& ids) {
  if (ids.empty()) return {};
  ipc::queue::Act act;
  act.request = 1;
  act.verb = ipc::queue::Verb::release;
  act.queue_ids = ids;
  const auto done = client_.ask(act, [](ipc::queue::FromQmgr&, std::vector<Fd>&) {});
  switch (done.outcome) {
    case ipc::queue::Outcome::ok:
    case ipc::queue::Outcome::not_found:
      return {};
    case ipc::queue::Outcome::no_space:
      return fail_errno("release from hold", ENOSPC);
    case ipc::queue::Outcome::denied:
    case ipc::queue::Outcome::failed:
      break;
  }
  return fail_errno("release from hold: " + done.text, EIO);
}

std::map<std::string, Place> QueueImport::places(std::vector<std::string> ids) {
  std::map<std::string, Place> found;
  if (ids.empty()) return found;
  ipc::queue::List list;
  list.request = 1;
  list.brief = true;
  list.queue_ids = std::move(ids);
  list.filter.places = static_cast<std::uint8_t>(~ipc::queue::bit_of(Place::maildrop) & 0x0F);
  const auto done = client_.ask(list, [&](ipc::queue::FromQmgr& m, std::vector<Fd>&) {
    if (const auto* e = std::get_if<ipc::queue::Entry>(&m)) found[e->queue_id] = e->place;
  });
  if (done.outcome != ipc::queue::Outcome::not_found) expect_ok(kProgram, done);
  return found;
}

Result<void> QueueImport::drop(Message& m) {
  // Made by an import that was broken off: nobody has seen it.
  const std::string path = own_directory_ + "/" + m.entry.id;
  if (m.entry.stage == Stage::begun && ::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(path);
  submission::Submission submission;
  submission.facts() = m.envelope.facts();
  submission.client = {};
  submission.body = {};
  submission.queue_id = m.entry.id;
  submission.full_name = m.full_name.substr(0, submission::kMaxFullName);
  submission.recipients = m.envelope.recipients;
  if (auto fault = submission::check(submission, true); !fault.empty()) {
    leave(m.found, fault);
    return {};
  }
  PEN_TRY_ASSIGN(const std::string bytes, source_->load(m.found));
  PEN_TRY_ASSIGN(auto writer,
                 submission::DropWriter::create(own_directory_, std::move(submission), [&] { return m.entry.id; }));
  Result<void> written;
  PEN_TRY(postfix_queue::read_queue_file(bytes, [&](std::string_view part, bool line_ends) {
    if (written && !part.empty()) written = writer->append(part);
    if (written && line_ends) written = writer->append("\n");
  }));
  PEN_TRY(written);
  PEN_TRY(writer->finish());
  // The user who submitted it; an instance of an ordinary user has only that one.
  if (::geteuid() == 0 && ::lchown(path.c_str(), m.found.uid, static_cast<gid_t>(-1)) != 0) return fail_errno(path);
  PEN_TRY(sync_directory(own_directory_));
  m.present = true;
  return {};
}

Result<void> QueueImport::move_drop(const std::string& id) {
  const std::string from = own_directory_ + "/" + id;
  const std::string to = config_.settings().queue_directory + "/maildrop/" + id;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno == ENOENT && ::access(from.c_str(), F_OK) != 0) return {};  // moved, and perhaps gone on
    return fail_errno("move " + from + " to maildrop");
  }
  return sync_directory(config_.settings().queue_directory + "/maildrop");
}

Result<void> QueueImport::finish_earlier() {
  std::vector<std::string> keys, ids;
  for (const auto& [key, entry] : ledger_->unfinished()) {
    if (entry.stage != Stage::taken) continue;
    keys.push_back(key);
    if (entry.way == Way::queue) ids.push_back(entry.id);
    if (entry.way == Way::maildrop) PEN_TRY(move_drop(entry.id));
    if (ids.size() < ipc::queue::kMaxIds) continue;
    PEN_TRY(release(std::exchange(ids, {})));
  }
  PEN_TRY(release(ids));
  submission::wake_pickup(config_.settings().queue_directory);
  return ledger_->advance(keys, Stage::released);
}

Result<void> QueueImport::remove_source(const Found& found) {
  if (!options_.remove || options_.dry_run) return {};
  PEN_TRY(source_->remove(found));
  ++counts_.removed;
  return {};
}

void QueueImport::show(const Message& m, const std::string& outcome) {
  if (options_.json) {
    nlohmann::ordered_json j;
    j["queue_name"] = name_of(m.found.queue);
    j["queue_id"] = m.found.id;
    j["taken_as"] = m.entry.id;
    j["arrival_time"] = unix_seconds(m.envelope.arrival);
    j["sender"] = m.envelope.sender;
    j["outcome"] = outcome;
    const auto reasons = source_->reasons(m.found);
    for (const auto& r : m.envelope.recipients) {
      nlohmann::ordered_json one;
      one["address"] = r.address;
      const auto why = std::ranges::find(reasons, r.address, &postfix_queue::Reason::recipient);
      if (why != reasons.end()) one["delay_reason"] = why->text;
      j["recipients"].push_back(std::move(one));
    }
    if (!m.lost.empty()) j["lost"] = m.lost;
    print(j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return;
  }
  if (options_.dry_run)
    print(fmt::format("{} {} from=<{}> nrcpt={}\n", name_of(m.found.queue), m.found.id, readable(m.envelope.sender),
                      m.envelope.recipients.size()));
  if (m.entry.id != m.found.id && !options_.dry_run)
    print(fmt::format("{} is {} here: another message has its id\n", m.found.id, m.entry.id));
  for (const auto& what : m.lost) print(fmt::format("{}: not kept: {}\n", m.found.id, what));
}

void QueueImport::leave(const Found& found, const std::string& why) {
  ++counts_.left;
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s: left where it is: %s\n", kProgram, found.path.c_str(), why.c_str());
}

int QueueImport::complain(int status, const std::string& what) const {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", kProgram, what.c_str());
  return status;
}

void QueueImport::summary() const {
  const auto& c = counts_;
  std::string text = fmt::format("{}{} messages for {} recipients", options_.dry_run ? "would take " : "took ",
                                 c.taken + c.held + c.dropped, c.recipients);
  const auto add = [&](std::uint64_t n, std::string_view what) {
    if (n > 0) text += fmt::format("; {} {}", n, what);
  };
  add(c.held, "of them on hold");
  add(c.dropped, "of them from maildrop");
  add(c.already, "had been taken before");
  add(c.recipients_done, "recipients were done already");
  add(c.done, "messages had nobody left");
  add(c.unfinished, "files had not been finished by their writers");
  add(c.left, "were left where they are");
  add(source_->count("corrupt"), "lie in corrupt and were not looked at");
  add(source_->count("saved"), "lie in saved and were not looked at");
  add(c.removed, "were removed from the source");
  std::fprintf(stderr, "%s: %s\n", kProgram, text.c_str());
}

}  // namespace pen::tools
