#include "lib/intake/intake.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/expanded.h"
#include "lib/mail/received.h"

namespace pen::intake {
namespace {

std::string new_message_id(const std::string& queue_id, const std::string& host, WallTime when) {
  std::time_t seconds_now = static_cast<std::time_t>(unix_seconds(when));
  std::tm tm{};
  ::gmtime_r(&seconds_now, &tm);
  char stamp[32];
  const auto n = std::strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", &tm);
  return "<" + std::string(stamp, n) + "." + queue_id + "@" + host + ">";
}

/// header_from_format = standard: the name as a phrase, quoted where it is not made of atoms (RFC 5322 section 3.2.5).
std::string named_address(std::string_view name, const std::string& address) {
  if (name.empty()) return address;
  const bool atoms = std::ranges::all_of(name, [](char c) {
    return ascii_alnum(c) || static_cast<unsigned char>(c) >= 128 ||
           std::string_view(" !#$%&'*+-/=?^_`{|}~").contains(c);
  });
  if (atoms) return std::string(name) + " <" + address + ">";
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\" <" + address + ">";
}

}  // namespace

std::string_view outcome_text(Outcome o) {
  switch (o) {
    case Outcome::ok:
      return "ok";
    case Outcome::too_large:
      return "message too large";
    case Outcome::too_many_hops:
      return "too many hops";
    case Outcome::no_space:
      return "no space in the queue";
    case Outcome::expansion_limit:
      return "virtual aliases without end";
    case Outcome::lookup_failed:
      return "a table could not be read";
    case Outcome::unavailable:
      return "the queue manager is not available";
    case Outcome::spool_failed:
      return "the spool file could not be written";
  }
  return "unknown";
}

Message::Message(Intake& intake, std::string sender) : intake_(intake) {
  envelope_.sender = std::move(sender);
}

void Message::add_recipient(mail::Recipient recipient) {
  if (envelope_.queue_id.empty()) {
    envelope_.queue_id = intake_.next_queue_id();
    envelope_.arrival = intake_.loop.clock().wall_now();
  }
  envelope_.recipients.push_back(std::move(recipient));
}

Body& Message::open_body(std::uint64_t expected) {
  const Settings& s = intake_.settings;
  ContentOptions options;
  options.size_limit = s.message_size_limit;
  options.hop_limit = s.hopcount_limit;
  if (complete_header_) {
    options.date = "Date: " + rfc5322_date(envelope_.arrival);
    options.message_id =
        "Message-Id: " + new_message_id(envelope_.queue_id, s.myhostname, envelope_.arrival);
    const std::string from = envelope_.sender.empty() ? "MAILER-DAEMON" : envelope_.sender;
    options.from = "From: " + named_address(full_name_, intake_.resolve->rewrite(from));
  }
  options.drop_fields = s.drop_fields;
  body_.emplace(intake_.pool, intake_.queue, intake_.bodies, std::move(options));
  ContentBuilder& content = body_->content();
  const std::uint64_t room = std::min<std::uint64_t>(expected, intake_.queue.inline_limit()) + 512;
  content.reserve(std::min<std::uint64_t>(std::max<std::uint64_t>(room, 2048), Body::kDrainAt));
  content.add_field(mail::received_field({
      .client = envelope_.client,
      .myhostname = s.myhostname,
      .mail_name = s.mail_name,
      .queue_id = envelope_.queue_id,
      .only_recipient = envelope_.recipients.size() == 1
                            ? std::string_view(envelope_.recipients.front().address)
                            : std::string_view(),
      .smtputf8 = envelope_.smtputf8,
      .when = envelope_.arrival,
      .show_login = s.show_logins,
      .tls = trace_tls_,
      .submitted_by = submitted_by_,
  }));
  return *body_;
}

Commit expand_envelope(const resolve::Resolve& resolve, const std::string& always_bcc,
                       mail::Envelope& envelope, bool keep_sender) {
  using resolve::Place;
  if (!envelope.sender.empty() && !keep_sender) {
    auto sender = resolve.canonical(resolve.rewrite(envelope.sender), Place::envelope_sender);
    if (!sender) return {Outcome::lookup_failed, sender.error().message()};
    envelope.sender = *std::move(sender);
  }
  std::vector<mail::Recipient> out;
  out.reserve(envelope.recipients.size() + 1);
  std::set<std::tuple<std::string, std::string, std::string, std::uint8_t>> seen;
  const bool may_repeat = envelope.recipients.size() > 1 || !always_bcc.empty();
  const auto add = [&](mail::Recipient r) {
    if (may_repeat && !seen.emplace(r.address, r.original, r.orcpt, r.notify).second) return;
    out.push_back(std::move(r));
  };
  const auto expand = [&](mail::Recipient given) -> Commit {
    std::string first = resolve.rewrite(given.address);
    auto canonical = resolve.canonical(first, Place::envelope_recipient);
    if (!canonical) return {Outcome::lookup_failed, canonical.error().message()};
    auto expansion = resolve.expand_virtual(*canonical);
    if (!expansion) return {Outcome::lookup_failed, expansion.error().message()};
    if (!expansion->limit_passed.empty())
      return {Outcome::expansion_limit, expansion->limit_passed};
    std::uint8_t notify = given.notify;
    if (expansion->addresses.size() > 1 && (notify & mail::notify::kSuccess) != 0) {
      // One address became several: success of one is no success of the original (RFC 3461 section 5.2.7.3).
      // That it became several is what the sender is told of.
      notify = static_cast<std::uint8_t>(notify & ~mail::notify::kSuccess);
      if (notify == 0) notify = mail::notify::kNever;
      add({.address = first,
           .original = {},
           .orcpt = given.orcpt,
           .notify = mail::notify::kSuccess | mail::notify::kExpanded});
    }
    for (auto& address : expansion->addresses) {
      mail::Recipient r{
          .address = std::move(address), .original = {}, .orcpt = given.orcpt, .notify = notify};
      if (r.address != first) r.original = first;
      add(std::move(r));
    }
    return {Outcome::ok, {}};
  };
  for (auto& r : envelope.recipients) {
    if (auto c = expand(std::move(r)); c.outcome != Outcome::ok) return c;
  }
  if (!always_bcc.empty()) {
    mail::Recipient bcc;
    bcc.address = always_bcc;
    bcc.notify = mail::notify::kNever;
    if (auto c = expand(std::move(bcc)); c.outcome != Outcome::ok) return c;
  }
  envelope.recipients = std::move(out);
  return {Outcome::ok, {}};
}

bool expansion_may_wait(const resolve::Options& o) {
  for (const std::string* spec :
       {&o.canonical_maps, &o.sender_canonical_maps, &o.recipient_canonical_maps,
        &o.virtual_alias_maps, &o.virtual_alias_domains, &o.mydestination}) {
    if (spec->find(':') == std::string::npos) continue;
    const auto maps = map::MapList::open(*spec, o.open);
    if (!maps || maps->blocking()) return true;  // a mixed list: to be on the safe side
  }
  return false;
}

async::Task<Commit> Message::expand() {
  if (!intake_.expansion_waits) {
    co_return expand_envelope(*intake_.resolve, intake_.settings.always_bcc, envelope_,
                              keep_sender_);
  }
  struct Done {
    mail::Envelope envelope;
    Commit commit;
  };
  auto work = [resolve = intake_.resolve, bcc = intake_.settings.always_bcc, keep = keep_sender_,
               envelope = std::move(envelope_)]() mutable {
    Commit commit = expand_envelope(*resolve, bcc, envelope, keep);
    return Done{std::move(envelope), std::move(commit)};
  };
  Done done = co_await intake_.pool.run(std::move(work));
  envelope_ = std::move(done.envelope);
  co_return std::move(done.commit);
}

async::Task<Commit> Message::commit(async::Until until) {
  Body& body = *body_;
  co_await body.finish(until);
  const auto& summary = body.content().summary();
  envelope_.message_id = summary.message_id_value;
  // RFC 8689 section 4.1: the MAIL parameter wins; a field that is there twice or says anything else means nothing.
  if (envelope_.requiretls == mail::RequireTls::unspecified &&
      intake_.settings.tls_required_header && summary.tls_required_fields == 1 &&
      summary.tls_required_no)
    envelope_.requiretls = mail::RequireTls::no;
  switch (body.problem()) {
    case Body::Problem::none:
      break;
    case Body::Problem::too_large:
      co_return Commit{Outcome::too_large, {}};
    case Body::Problem::too_many_hops:
      co_return Commit{Outcome::too_many_hops, {}};
    case Body::Problem::no_space:
      co_return Commit{Outcome::no_space, {}};
    case Body::Problem::unavailable:
      co_return Commit{Outcome::unavailable, "no spool file from the queue manager"};
    case Body::Problem::write_failed:
      co_return Commit{Outcome::spool_failed, body.error_text()};
  }
  // With a transport of its own it has been mapped before, and that transport is for these very recipients.
  if (intake_.settings.address_mappings && envelope_.transport.empty()) {
    Commit expanded = co_await expand();
    if (expanded.outcome != Outcome::ok) co_return std::move(expanded);
  } else {
    const auto& resolve = *intake_.resolve;
    if (!keep_sender_) envelope_.sender = resolve.rewrite(envelope_.sender);
    for (auto& r : envelope_.recipients) r.address = resolve.rewrite(r.address);
  }
  envelope_.body = body.take_facts();
  EnqueueAnswer answer =
      co_await intake_.queue.enqueue(envelope_, body.lease(), body.text(), permit_, until);
  switch (answer.outcome) {
    case Enqueued::ok:
      co_return Commit{Outcome::ok, {}};
    case Enqueued::no_space:
      co_return Commit{Outcome::no_space, std::move(answer.text)};
    case Enqueued::refused:
    case Enqueued::unavailable:
      break;
  }
  co_return Commit{Outcome::unavailable, std::move(answer.text)};
}

}  // namespace pen::intake
