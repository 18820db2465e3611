#include "pickup/collector.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/mail/logged.h"
#include "lib/mail/queue_id.h"
#include "lib/mail/wire.h"
#include "lib/receive/intake/derived.h"
#include "lib/receive/submission/drop_list.h"
#include "lib/receive/submission/envelope.h"

namespace pen::pickup {
namespace {

using intake::Outcome;
using submission::DropReader;
using State = DropReader::State;

constexpr std::size_t kChunk = 64 * 1024, kBatch = 1000, kMaxTold = 1000;

struct Piece {
  std::string text;
  bool last = false;
};
/// Reads a piece; before the last piece is returned the checksum has been verified.
Result<Piece> next_piece(DropReader& reader) {
  PEN_TRY_ASSIGN(std::string text, reader.read(kChunk));
  if (text.size() == kChunk) return Piece{std::move(text), false};
  if (!text.empty()) PEN_TRY(reader.read(kChunk));
  return Piece{std::move(text), true};
}

/// The queue id of the one notice that a message may cause. It is always the same, so that qmgr drops a repeated
/// notice if the file could not be removed. No generator makes an id that ends in z. "": a new id each time.
std::string notice_id(const std::string& name) { return name.size() < mail::kMaxQueueId ? name + "z" : std::string(); }

mail::DeliveryStatus status_of(Outcome outcome, std::string why) {
  if (outcome == Outcome::expansion_limit) return mail::make_status(mail::Action::deferred, "4.6.0", std::move(why));
  const bool too_much = outcome == Outcome::too_large || outcome == Outcome::too_many_fields;
  return mail::make_status(mail::Action::failed, too_much ? "5.3.4" : "5.4.0", std::move(why));
}

/// The name of the account; "uid:N" where it has none. Blocks.
Result<std::string> account_name(uid_t uid) {
  std::vector<char> memory(16384);
  passwd entry{};
  passwd* found = nullptr;
  int error = 0;
  while ((error = ::getpwuid_r(uid, &entry, memory.data(), memory.size(), &found)) == ERANGE &&
         memory.size() < (1U << 20))
    memory.resize(memory.size() * 2);
  if (found != nullptr) return std::string(found->pw_name);
  if (error != 0 && error != ENOENT && error != ESRCH) return fail_errno("getpwuid", error);
  return fmt::format("uid:{}", uid);
}

}  // namespace

async::Task<void> Collector::run(std::shared_ptr<Collector> self, async::Cancel* cancel) {
  for (;;) {
    self->woken_.reset();
    self->waits_ = self->stop_ = false;
    co_await self->look_through(cancel);
    (void)co_await self->tasks_.drained();
    if (cancel->raised()) co_return;
    const async::Until until{.deadline = self->waits_ ? self->loop_.now() + self->options_.pause : kNever,
                             .cancel = cancel};
    const auto woken = co_await self->woken_.wait(until);
    if (!woken && woken.error().is(async::WaitError::cancelled)) co_return;
  }
}

async::Task<void> Collector::look_through(async::Cancel* cancel) {
  auto listing = std::make_shared<submission::DropNames>(options_.drop_directory);
  async::Semaphore room(loop_, options_.at_once);
  for (;;) {
    auto names = co_await pool_.run([listing] { return listing->next(kBatch); });
    if (!names) {
      log::error("{}", names.error().message());
      waits_ = true;
    }
    if (!names || names->empty()) break;
    for (std::string& name : *names) {
      if (told_.contains(name)) continue;
      if (!mail::is_queue_id(name)) {
        leave(name, "not a name that pendrop gives");
        continue;
      }
      if (stop_ || !co_await room.acquire({.cancel = cancel})) break;
      tasks_.spawn("message " + name, take(this, name, &room));
    }
    if (stop_ || cancel->raised()) break;
  }
  (void)co_await tasks_.drained();  // they use `room`
}

async::Task<void> Collector::take(Collector* self, std::string name, async::Semaphore* room) {
  co_await self->take_file(name);
  room->release();
}

async::Task<void> Collector::take_file(const std::string& name) {
  auto opened = co_await pool_.run([directory = options_.drop_directory, name]() -> Result<Reader> {
    PEN_TRY_ASSIGN(auto reader, DropReader::open(directory, name));
    return std::make_shared<DropReader>(std::move(reader));
  });
  if (!opened) {
    put_off(name, opened.error().message());
    co_return;
  }
  const Reader reader = *opened;
  switch (reader->state()) {
    case State::gone:
    case State::being_written:  // its writer wakes us
      co_return;
    case State::abandoned: {
      auto removed = co_await pool_.run([reader] { return reader->remove(); });
      if (!removed)
        put_off(name, removed.error().message());
      else
        log::info("{}: removed: its submission was broken off", name);
      co_return;
    }
    case State::damaged:
      co_await set_aside(name, reader->why());
      co_return;
    case State::foreign:
      leave(name, reader->why());
      co_return;
    case State::complete:
      co_await take_message(name, reader);
  }
}

async::Task<Result<std::string>> Collector::refusal(uid_t uid, std::string sender) {
  if (!options_.rights) co_return std::string();
  co_return co_await pool_.run([rights = &*options_.rights, uid, sender]() -> Result<std::string> {
    PEN_TRY_ASSIGN(auto why, rights->refuses_user(uid));
    if (!why.empty()) return why;
    return rights->refuses_sender(uid, sender);
  });
}

async::Task<Result<std::string>> Collector::tenant_of(uid_t uid, std::string sender) {
  PEN_CO_TRY_ASSIGN(std::string account, co_await pool_.run([uid] { return account_name(uid); }));
  tenant::Clues clues{.login = std::move(account), .sender = {}, .header = {}};
  if (!sender.empty()) clues.sender = intake_.resolve->rewrite(sender);
  co_return co_await intake_.tables.ask(
      [tenants = options_.tenants, clues = std::move(clues)] { return tenants->of(clues); });
}

async::Task<Result<std::int8_t>> Collector::priority_of(intake::Message& message) {
  const std::string& sender = message.envelope().sender;
  tenant::PriorityClues clues{.header = message.taken_field(options_.priorities->field()),
                              .sender = sender.empty() ? std::string() : intake_.resolve->rewrite(sender),
                              .tenant = message.envelope().tenant,
                              .trusted = true};  // users of this host may say how urgent their mail is
  auto found = co_await intake_.tables.ask(
      [priorities = options_.priorities, clues = std::move(clues)] { return priorities->of(clues); });
  if (!found) co_return std::unexpected(std::move(found).error());
  co_return found->priority;
}

struct Collector::InHand {
  std::string name;
  Reader reader;
  uid_t uid = 0;
  mail::Envelope as_given;
  std::string head = {};  // the beginning of the content
  bool probe() const { return as_given.purpose == mail::Purpose::probe; }
};

async::Task<void> Collector::take_message(const std::string& name, Reader reader) {
  submission::Submission given = reader->take_submission();
  // What came over the socket is in a file of our own; nobody else can make one.
  const bool by_socket = given.submitter != 0 && reader->uid() == ::geteuid();
  const uid_t uid = by_socket ? static_cast<uid_t>(given.submitter - 1) : reader->uid();
  const auto refused = co_await refusal(uid, given.sender);
  if (!refused) co_return put_off(name, refused.error().message());
  if (!refused->empty()) co_return co_await set_aside(name, *refused);
  std::string full_name = std::move(given.full_name);
  const bool gateway = given.gateway;
  InHand taken{.name = name, .reader = reader, .uid = uid, .as_given = submission::envelope_of(std::move(given))};
  taken.as_given.queue_id = name;
  intake::Message message(intake_, taken.as_given.facts());
  describe(message, taken);
  message.complete_header(!gateway);
  message.full_name(std::move(full_name));
  const async::Until until{.deadline = loop_.now() + intake_.settings.enqueue_timeout};
  if (!co_await read_content(message, taken, until)) co_return;
  const auto& message_id = message.body()->content().summary().message_id_value;
  log::info("{}: uid={} from=<{}>", name, uid, mail::logged(taken.as_given.sender));
  log::info("{}: message-id={}", name, message_id.empty() ? "<>" : message_id);
  auto commit = co_await enqueue(message, taken, until);
  if (!commit) co_return put_off(name, commit.error());
  co_await settle(std::move(taken), *std::move(commit), until);
}

void Collector::describe(intake::Message& message, const InHand& taken) const {
  message.envelope().queue_id = taken.name;
  if (taken.probe()) {
    message.made_here();  // a probe gets no copies and no checks
    message.detect_smtputf8(options_.detect_smtputf8_of_probes);
  }
  for (const auto& recipient : taken.as_given.recipients) message.add_recipient(recipient);
  message.may_be_signed(!taken.probe());
  message.return_refused(true);
  message.submitted_by(fmt::format("from userid {}", taken.uid));
  // What a user of this host writes there says nothing.
  if (options_.tenants && !options_.tenants->field().empty()) message.take_field(options_.tenants->field());
  if (options_.priorities && !options_.priorities->field().empty()) message.take_field(options_.priorities->field());
}

async::Task<bool> Collector::read_content(intake::Message& message, InHand& taken, async::Until until) {
  intake::Body& body = message.open_body(taken.reader->content_size());
  mail::BdatScanner scanner({.replace_bare_cr = intake_.settings.replace_bare_cr});
  for (bool last = false; !last;) {
    auto piece = co_await pool_.run([reader = taken.reader] { return next_piece(*reader); });
    if (!piece) {
      if (piece.error().is(submission::FormatError::damaged))
        co_await set_aside(taken.name, piece.error().message());
      else
        put_off(taken.name, piece.error().message());
      co_return false;
    }
    scanner.feed(piece->text, body.content());
    if (body.must_drain()) co_await body.drain(until);
    last = piece->last;
    if (taken.head.empty()) taken.head = std::move(piece->text);
  }
  if (taken.probe()) scanner.feed("Subject: probe\n\n", body.content());
  scanner.finish(body.content());
  co_return true;
}

async::Task<std::expected<intake::Commit, std::string>> Collector::enqueue(intake::Message& message,
                                                                           const InHand& taken, async::Until until) {
  if (options_.size_limit != 0 && taken.reader->content_size() > options_.size_limit)
    co_return intake::Commit{Outcome::too_large, {}};
  if (!taken.probe() && options_.filters) {
    milter::OtherFilters::Judged judged = co_await options_.filters->judge(message, until);
    if (judged.outcome == milter::OtherFilters::Outcome::put_off) co_return std::unexpected(std::move(judged.why));
    if (judged.commit.outcome != Outcome::ok) co_return std::move(judged.commit);
  }
  if (!taken.probe() && options_.tenants) {
    auto tenant = co_await tenant_of(taken.uid, message.envelope().sender);
    if (!tenant) co_return std::unexpected(tenant.error().message());
    message.envelope().tenant = *std::move(tenant);
  }
  if (!taken.probe() && options_.priorities) {
    const auto priority = co_await priority_of(message);
    if (!priority) co_return std::unexpected(priority.error().message());
    message.envelope().priority = *priority;
  }
  // Filters may have taken their time.
  co_return co_await message.commit({.deadline = loop_.now() + intake_.settings.enqueue_timeout});
}

async::Task<void> Collector::settle(InHand taken, intake::Commit commit, async::Until until) {
  std::string why(intake::outcome_text(commit.outcome));
  if (!commit.text.empty()) why += ": " + commit.text;
  switch (commit.outcome) {
    case Outcome::ok: {
      ++(taken.probe() ? counts_.probes : counts_.taken);
      auto removed = co_await pool_.run([reader = taken.reader] { return reader->remove(); });
      // The next pass takes it again, and qmgr knows its id.
      if (!removed) log::error("{}: {}", taken.name, removed.error().message());
      co_return;
    }
    case Outcome::no_space:
    case Outcome::unavailable:
      stop_ = true;
      [[fallthrough]];
    case Outcome::lookup_failed:
    case Outcome::not_signed:
    case Outcome::spool_failed:
    case Outcome::refused:  // for now: mail that is refused for good goes back to its sender
      put_off(taken.name, why);
      co_return;
    case Outcome::expansion_limit:
      if (!taken.probe()) co_return put_off(taken.name, why);  // our table's fault: mail waits until that is put right
      [[fallthrough]];
    case Outcome::too_large:
    case Outcome::too_many_hops:
    case Outcome::too_many_fields:
      co_await give_back(std::move(taken), commit.outcome, std::move(why), until);
  }
}

async::Task<void> Collector::give_back(InHand taken, Outcome outcome, std::string why, async::Until until) {
  const bool probe = taken.probe();
  mail::Envelope& original = taken.as_given;
  // The header as it would have been sent: without Bcc:, without stray carriage returns.
  intake::ContentBuilder content({.drop_fields = intake_.settings.drop_fields});
  mail::BdatScanner scanner({.replace_bare_cr = intake_.settings.replace_bare_cr});
  scanner.feed(taken.head, content);
  scanner.finish(content);
  original.body = content.finish();
  mail::DsnRequest request;
  if (probe) request.kind = mail::DsnKind::verify;
  request.original = &original;
  request.now = loop_.clock().wall_now();
  request.headers_only = true;
  const auto status = status_of(outcome, why);
  for (const auto& recipient : original.recipients) request.recipients.push_back({recipient, status, request.now});
  request.recipients = mail::dsn_due(request.kind, original, request.recipients);
  if (!request.recipients.empty()) {
    const auto queued = co_await notify(request, content.take(), until);
    if (!queued) {
      put_off(taken.name, why + ", and the sender cannot be told now: " + queued.error().context());
      co_return;
    }
    ++(probe ? counts_.probes : counts_.returned);
    log::info("{}: sender {} notification: {}", taken.name, probe ? "delivery status" : "non-delivery", *queued);
  }
  if (!probe) co_return co_await set_aside(taken.name, std::move(why));
  auto removed = co_await pool_.run([reader = taken.reader] { return reader->remove(); });
  if (!removed) put_off(taken.name, removed.error().message());
}

async::Task<Result<std::string>> Collector::notify(const mail::DsnRequest& request, std::string head,
                                                   async::Until until) {
  mail::DsnReport report = mail::build_dsn(request, options_.notices, random_);
  intake::Derived notice;
  notice.envelope = std::move(report.envelope);
  notice.envelope.client.protocol = "local";
  notice.queue_id = notice_id(request.original->queue_id);
  notice.envelope.arrival = request.original->arrival;
  notice.before = std::move(report.before);
  notice.after = std::move(report.after);
  notice.original_bytes = std::min<std::uint64_t>(report.original_bytes, head.size());
  notice.original = ipc::Content::in_memory(head);
  notice.own = options_.notice;
  co_return co_await intake::enqueue_derived(intake_, std::move(notice), until);
}

async::Task<void> Collector::set_aside(const std::string& name, std::string why) {
  ++counts_.set_aside;
  const std::string from = options_.drop_directory + "/" + name;
  const std::string to = options_.corrupt_directory + "/" + name;
  const int error = co_await pool_.run([from, to] { return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno; });
  if (error == 0)
    log::warning("{}: not taken: {}: moved to {}", name, why, to);
  else
    log::error("{}: not taken: {}: and cannot be moved to {}: {}", name, why, to, Error::from_errno(error).message());
}

void Collector::leave(const std::string& name, std::string_view why) {
  ++counts_.left;
  if (told_.size() >= kMaxTold) told_.clear();
  told_.insert(name);
  log::warning("{}/{}: left alone: {}", options_.drop_directory, name, why);
}

void Collector::put_off(const std::string& name, std::string_view why) {
  ++counts_.put_off;
  waits_ = true;
  log::warning("{}: stays in maildrop and is tried again: {}", name, why);
}

}  // namespace pen::pickup
