#include "lib/receive/intake/derived.h"

#include <algorithm>

#include "lib/mail/wire.h"

namespace pen::intake {
namespace {

constexpr std::size_t kChunk = 64 * 1024;

Result<std::string> read_at(const ipc::Content& content, std::uint64_t at, std::size_t want) {
  std::string text(want, '\0');
  PEN_TRY(content.read(at, text));
  return text;
}

}  // namespace

async::Task<Result<std::string>> enqueue_derived(Intake& intake, Derived derived, async::Until until) {
  const WallTime arrived = derived.envelope.arrival;
  Message message(intake, std::move(derived.envelope.facts()));
  std::vector<mail::Recipient> recipients = std::move(derived.envelope.recipients);
  mail::Envelope& envelope = message.envelope();
  envelope.transport = std::move(derived.envelope.transport);
  envelope.discharges = std::move(derived.envelope.discharges);
  if (!derived.queue_id.empty()) {
    envelope.queue_id = std::move(derived.queue_id);
    // The same on every try, for qmgr knows a message by its id and its arrival; its time begins now.
    const WallTime now = intake.loop.clock().wall_now();
    envelope.arrival = arrived == WallTime{} ? now : arrived;
    if (envelope.arrival < now) envelope.release = now;
  }
  message.made_here(derived.own.inspected);
  message.may_be_signed(true);  // where this program signs at all
  if (derived.own.detect_smtputf8) message.detect_smtputf8(true);
  message.permit(derived.permit);
  message.keep_sender(derived.keep_sender);
  for (auto& r : recipients) message.add_recipient(std::move(r));

  Body& body = message.open_body(derived.before.size() + derived.original_bytes + derived.after.size());
  std::string_view fields = derived.fields;
  while (!fields.empty()) {
    // One field at a time; a line that starts with a blank belongs to the previous field.
    std::size_t end = 0;
    do {
      end = fields.find("\r\n", end);
      end = end == std::string_view::npos ? fields.size() : end + 2;
    } while (end < fields.size() && (fields[end] == ' ' || fields[end] == '\t'));
    std::string_view field = fields.substr(0, end);
    if (field.ends_with("\r\n")) field.remove_suffix(2);
    body.content().add_field(field);
    fields.remove_prefix(end);
  }
  mail::BdatScanner scanner({.replace_bare_cr = false});
  scanner.feed(derived.before, body.content());
  std::uint64_t at = 0;
  while (at < derived.original_bytes) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(kChunk, derived.original_bytes - at));
    const ipc::Content& original = derived.original;
    if (original.in_memory() && want <= original.size() - std::min(at, original.size())) {
      scanner.feed(original.memory().substr(at, want), body.content());
    } else {
      auto work = [original, at, want] { return read_at(original, at, want); };
      auto piece = co_await intake.pool.run(std::move(work));
      if (!piece) co_return fail(std::move(piece).error().within("original message"));
      scanner.feed(*piece, body.content());
    }
    at += want;
    if (body.must_drain()) co_await body.drain(until);
  }
  scanner.feed(derived.after, body.content());
  scanner.finish(body.content());
  Commit commit{Outcome::ok, {}};
  const bool filtered = derived.own.inspected && derived.own.filters;
  if (filtered) commit = co_await derived.own.filters(message, until);
  if (filtered) until.deadline = intake.loop.now() + intake.settings.enqueue_timeout;  // filters may take their time
  if (commit.outcome == Outcome::ok) commit = co_await message.commit(until);
  if (commit.outcome == Outcome::ok) co_return message.queue_id();
  std::string text(outcome_text(commit.outcome));
  if (!commit.text.empty()) text += ": " + commit.text;
  co_return fail_errno(text, EAGAIN);
}

}  // namespace pen::intake
