#include "lib/receive/intake/intake.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <ranges>
#include <set>
#include <tuple>

#include "lib/base/idn/domain.h"
#include "lib/base/idn/fold.h"
#include "lib/base/metrics/metrics.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/charset.h"
#include "lib/mail/client_attributes.h"
#include "lib/mail/command.h"
#include "lib/mail/expanded.h"
#include "lib/mail/named_address.h"
#include "lib/mail/received.h"

namespace pen::intake {
namespace {

// Memory for the beginning of a message: at least this, and this if its size was not declared (most messages are
// smaller).
constexpr std::uint64_t kLeastRoom = 2048;
constexpr std::uint64_t kUndeclaredRoom = 8192;

std::string new_message_id(const std::string& queue_id, const std::string& host, WallTime when) {
  std::time_t seconds_now = static_cast<std::time_t>(unix_seconds(when));
  std::tm tm{};
  ::gmtime_r(&seconds_now, &tm);
  char stamp[32];
  const auto n = std::strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", &tm);
  return "<" + std::string(stamp, n) + "." + queue_id + "@" + host + ">";
}

/// The recipient of a copy for an address, searched like sender_bcc_maps and recipient_bcc_maps.
Result<std::optional<std::string>> find_copy(const map::MapList& maps, const resolve::Resolve& resolve,
                                             const std::string& address) {
  if (maps.empty() || address.empty()) return std::nullopt;
  const auto domain = mail::domain_part(address);
  const resolve::Options& options = resolve.options();
  map::AddressKeys keys{.delimiters = options.delimiter_of_maps()};
  keys.bare_user = idn::same_domain(domain, options.myorigin);
  if (!keys.bare_user) {
    PEN_TRY_ASSIGN(const auto address_class, resolve.class_of(domain));
    keys.bare_user = address_class == resolve::AddressClass::local;
  }
  PEN_TRY_ASSIGN(auto hit, map::find_address(maps, address, keys));
  if (!hit || trim(hit->value).empty()) return std::nullopt;
  return std::string(trim(hit->value));
}

mail::Recipient copy_for(std::string address) {
  mail::Recipient r;
  r.address = std::move(address);
  r.notify = mail::notify::kNever | mail::notify::kCopy;
  return r;
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
    case Outcome::too_many_fields:
      return "too many header fields";
    case Outcome::no_space:
      return "no space in the queue";
    case Outcome::refused:
      return "refused by content checks";
    case Outcome::expansion_limit:
      return "virtual aliases without end";
    case Outcome::lookup_failed:
      return "a table could not be read";
    case Outcome::unavailable:
      return "the queue manager is not available";
    case Outcome::spool_failed:
      return "the spool file could not be written";
    case Outcome::not_signed:
      return "the message cannot be signed now";
  }
  return "unknown";
}

Commit outcome_of(const Body& body) {
  switch (body.problem()) {
    case Body::Problem::none:
      break;
    case Body::Problem::too_large:
      return Commit{Outcome::too_large, {}};
    case Body::Problem::too_many_hops:
      return Commit{Outcome::too_many_hops, {}};
    case Body::Problem::too_many_fields:
      return Commit{Outcome::too_many_fields, {}};
    case Body::Problem::no_space:
      return Commit{Outcome::no_space, {}};
    case Body::Problem::unavailable:
      return Commit{Outcome::unavailable, "no spool file from the queue manager"};
    case Body::Problem::write_failed:
      return Commit{Outcome::spool_failed, body.error_text()};
    case Body::Problem::not_signed:
      return Commit{Outcome::not_signed, body.error_text()};
    case Body::Problem::lookup_failed:
      return Commit{Outcome::lookup_failed, body.failed_lookup()};
    case Body::Problem::refused:  // checks has the reply
    case Body::Problem::discarded:
      break;
  }
  return {Outcome::ok, {}};
}

Message::Message(Intake& intake, mail::MessageFacts facts) : intake_(intake), memory_(intake.memory) {
  envelope_.facts() = std::move(facts);
}

void Message::assign_queue_id() {
  if (!envelope_.queue_id.empty()) return;
  if (!unqueued_) envelope_.queue_id = intake_.next_queue_id();
  envelope_.arrival = intake_.loop.clock().wall_now();
}

void Message::add_recipient(mail::Recipient recipient) {
  if (envelope_.recipients.empty()) assign_queue_id();
  memory_.add(recipient);
  envelope_.recipients.push_back(std::move(recipient));
}

std::string Message::noted(const Checks::Note& note) const {
  // The log escapes and shortens what a client says of itself.
  const mail::Client& client = envelope_.client;
  const bool local = client.address.empty();
  const std::string origin = local ? std::string("local") : client.name + "[" + client.address + "]";
  const auto& recipients = envelope_.recipients;
  return note_line({.queue_id = envelope_.queue_id,
                    .origin = origin,
                    .sender = envelope_.sender,
                    .recipient = recipients.empty() ? std::string_view() : recipients.back().address,
                    .proto = local ? std::string_view() : mail::plain_protocol(client),
                    .helo = client.helo},
                   note);
}

Checks::Reporter Message::reporter() {
  const auto note = [this](const Checks::Note& n) {
    if (intake_.log_info) intake_.log_info(noted(n));
  };
  const auto warn = [this](const std::string& what) {
    if (intake_.log_warning) intake_.log_warning(envelope_.queue_id + ": " + what);
  };
  return {note, warn};
}

std::string Message::author() const {
  const resolve::Resolve& resolve = *intake_.resolve;
  if (envelope_.sender.empty()) return resolve.rewrite("MAILER-DAEMON");
  std::string address = resolve.rewrite(envelope_.sender);
  if (!intake_.settings.address_mappings || keep_sender_ || unqueued_ || resolve.canonical_blocking()) return address;
  // A table that cannot be read ends the message in expand_envelope(), which asks the same.
  return resolve.canonical(address, resolve::Place::envelope_sender).value_or(address);
}

HeaderMapping Message::header_mapping(bool remote) const {
  const bool mapped = intake_.settings.address_mappings && !intake_.resolve->canonical_blocking();
  std::optional<std::string_view> domain;
  if (remote) domain = intake_.settings.remote_domain;
  return [&resolve = *intake_.resolve, mapped, domain](std::string_view address, bool sender) -> Result<std::string> {
    std::string rewritten = resolve.rewrite(address, domain);
    if (!mapped || rewritten.empty()) return rewritten;
    return resolve.canonical(rewritten, sender ? resolve::Place::header_sender : resolve::Place::header_recipient);
  };
}

bool Message::signable() const {
  const Settings& s = intake_.settings;
  return s.signing && !unqueued_ && (made_here_ || (s.content_filter.empty() && effects_.filter.empty()));
}

void Message::tell_unsigned(const Body& body) {
  if (!signable() || made_here_ || body.is_signed() || !intake_.log_info) return;
  const auto author = mail::parse_address_list(body.content().summary().from_value, 1);
  if (author.empty()) return;
  const mail::Client& client = envelope_.client;
  const auto why = intake_.unsigned_mail.why(*intake_.settings.signing,
                                             {.author = author.front().address,
                                              .trusted = may_be_signed_,
                                              .client_name = client.name,
                                              .client_address = client.address},
                                             intake_.loop.clock().now());
  if (why) intake_.log_info(envelope_.queue_id + ": " + *why);
}

void Message::sign(Body& body) const {
  const Settings& s = intake_.settings;
  const bool may = may_be_signed_ && signable();
  if (!may && !seal_) return;
  auto signature =
      std::make_unique<signing::MessageSignature>(may ? s.signing : nullptr, intake_.loop.clock().wall_now());
  if (seal_) signature->seal(*seal_);
  body.sign_with(std::move(signature), signed_form());
}

AnyHostForm::Options Message::signed_form() const {
  // Binary content goes to hosts that take it as it is, or nowhere.
  const bool binary = envelope_.body_type == mail::BodyType::binary_mime;
  return binary ? AnyHostForm::Options() : intake_.settings.signed_form;
}

void Message::seal(signing::ToSeal how) {
  // A body is sealed while it is written: then lines to come cannot be known any more.
  if (AnyHostForm(signed_form()).lines_fit({.longest_line = body()->facts().longest_line}))
    seal_.emplace(std::move(how));
  else if (intake_.log_info)
    intake_.log_info(fmt::format("{}: not sealed: {}", queue_id(), signing::MessageSignature::kLongLine));
}

Body& Message::open_body(std::uint64_t expected) {
  const Settings& s = intake_.settings;
  ContentOptions options;
  options.size_limit = s.message_size_limit;
  options.hop_limit = s.hopcount_limit;
  options.field_limit = s.header_field_limit;
  const bool from_outside = !unqueued_ && !made_here_;
  const bool remote = !complete_header_ && from_outside && !s.remote_domain.empty();
  if (complete_header_ || remote || (s.complete_all_headers && from_outside)) {
    options.undisclosed = s.undisclosed;
    options.date = "Date: " + rfc5322_date(envelope_.arrival);
    options.message_id = "Message-Id: " + new_message_id(envelope_.queue_id, s.myhostname, envelope_.arrival);
    options.from = [this] {
      const Settings& own = intake_.settings;
      const std::string name =
          envelope_.sender.empty() ? std::string() : mail::encoded_name(full_name_, own.full_name_charset);
      return "From: " + mail::named_address(name, author(), own.obsolete_from);
    };
  }
  if ((complete_header_ || remote) && !unqueued_) options.map_address = header_mapping(remote);
  options.seven_bit = s.seven_bit && from_outside;
  options.mailbox_lines = !made_here_;
  options.find_utf8 = detect_smtputf8_.value_or(s.detect_smtputf8) && !unqueued_;
  if (s.checks && (!made_here_ || inspected_)) {
    checks_.emplace(s.checks, Checks::Side::receiving, reporter());
    options.checks = &*checks_;
    options.keep_refused = return_refused_ || made_here_;
  }
  if (from_outside || unqueued_) {
    options.require_tls = s.require_tls_header && envelope_.requiretls == mail::RequireTls::yes;
    options.unended = s.unended;
  }
  if (return_refused_) options.keep_refused = true;
  options.max_field = s.header_size_limit;
  drop_fields_.insert(drop_fields_.end(), s.drop_fields.begin(), s.drop_fields.end());
  options.drop_fields = drop_fields_;
  options.take_fields = take_fields_;
  const std::uint64_t declared = s.message_size_limit > 0 ? std::min(expected, s.message_size_limit) : expected;
  body_.emplace(intake_.pool, intake_.queue, intake_.bodies, std::move(options), declared);
  sign(*body_);
  ContentBuilder& content = body_->content();
  for (const auto& field : effects_.prepend) content.add_field(field_lines(field, "\r\n"));
  std::uint64_t room = kLeastRoom;
  if (!intake_.bodies.scarce()) {  // otherwise memory is allocated when the content comes
    const std::uint64_t likely = std::min(declared, intake_.queue.inline_limit()) + 512;
    room = std::max(likely, expected == 0 ? kUndeclaredRoom : kLeastRoom);
  }
  body_->make_room(std::min<std::uint64_t>(room, Body::kDrainAt));
  // RFC 5321 section 4.4: the clause needs a mailbox, which has a domain.
  std::string only;
  if (envelope_.recipients.size() == 1) only = envelope_.recipients.front().address;
  if (!only.empty() && !only.contains('@')) only = intake_.resolve->rewrite(only);
  if (!only.contains('@')) only.clear();
  content.add_trace(mail::received_field({
      .client = envelope_.client,
      .myhostname = s.myhostname,
      .mail_name = s.mail_name,
      .queue_id = envelope_.queue_id,
      .only_recipient = only,
      .smtputf8 = envelope_.smtputf8,
      .when = envelope_.arrival,
      .show_login = s.show_logins,
      .tls = trace_tls_,
      .submitted_by = submitted_by_,
      .priority = envelope_.priority,
      .hide_client = hide_client_,
  }));
  bytes_in_front_ = content.pending().size();
  return *body_;
}

namespace {

/// The recipients of one envelope, made of those that were given. Used once.
class Expansion {
 public:
  Expansion(const resolve::Resolve& resolve, const Expand& how) : resolve_(resolve), how_(how) {}

  Commit of(mail::Envelope& envelope) {
    if (!envelope.sender.empty() && !how_.keep_sender) {
      auto sender = resolve_.canonical(resolve_.rewrite(envelope.sender), resolve::Place::envelope_sender);
      if (!sender) return {Outcome::lookup_failed, sender.error().message()};
      envelope.sender = *std::move(sender);
    }
    out_.reserve(envelope.recipients.size() + 1);
    may_repeat_ = envelope.recipients.size() > 1 || !copies_.empty() || !how_.more.empty();
    for (auto& r : envelope.recipients) {
      if (auto c = expand(std::move(r), false); c.outcome != Outcome::ok) return c;
    }
    auto by_sender = find_copy(copies_.by_sender, resolve_, envelope.sender);
    if (!by_sender) return {Outcome::lookup_failed, by_sender.error().message()};
    if (*by_sender) copied_.push_back(**std::move(by_sender));
    if (!copies_.always.empty()) copied_.push_back(copies_.always);
    copied_.insert(copied_.end(), how_.more.begin(), how_.more.end());
    for (auto& address : copied_) {
      if (auto c = expand(copy_for(std::move(address)), true); c.outcome != Outcome::ok) return c;
    }
    if (waits_) return {Outcome::lookup_failed, "answers have not come yet"};
    envelope.recipients = std::move(out_);
    return {Outcome::ok, {}};
  }

 private:
  /// A pending answer (map::Asker) does not keep the other questions from being asked.
  Commit failed(const Error& error) {
    if (!error.is(map::MapError::pending)) return {Outcome::lookup_failed, error.message()};
    waits_ = true;
    return {Outcome::ok, {}};
  }

  Commit expand(mail::Recipient given, bool is_copy) {
    std::string first = resolve_.rewrite(given.address);
    auto canonical = resolve_.canonical(first, resolve::Place::envelope_recipient);
    if (!canonical) return failed(canonical.error());
    if (!is_copy) {
      auto copy = find_copy(copies_.by_recipient, resolve_, *canonical);
      if (!copy) return failed(copy.error());
      if (*copy && std::ranges::find(copied_, **copy) == copied_.end()) copied_.push_back(**std::move(copy));
    }
    auto expansion = resolve_.expand_virtual(*canonical);
    if (!expansion) return failed(expansion.error());
    if (!expansion->limit_passed.empty()) return {Outcome::expansion_limit, expansion->limit_passed};
    // The original of an earlier expansion (an alias, a forward file), else what the client said; a copy was asked for
    // by the administrator, who may leave out our domain.
    const std::string rewritten = given.original.empty() ? std::string() : resolve_.rewrite(given.original);
    const std::string& complete = given.original.empty() ? first : rewritten;
    const std::string& original = !given.original.empty() ? given.original : is_copy ? first : given.address;
    std::uint8_t notify = given.notify;
    if (expansion->addresses.size() > 1 && (notify & mail::notify::kSuccess) != 0) {
      // One address became several: success for one of them is not success for the original (RFC 3461 section
      // 5.2.7.3). The sender gets a notice of the expansion instead.
      notify = static_cast<std::uint8_t>(notify & ~mail::notify::kSuccess);
      if (notify == 0) notify = mail::notify::kNever;
      add({.address = first,
           .original = {},
           .orcpt = given.orcpt,
           .notify = mail::notify::kSuccess | mail::notify::kExpanded},
          complete);
    }
    for (auto& address : expansion->addresses) {
      mail::Recipient r{.address = std::move(address), .original = {}, .orcpt = given.orcpt, .notify = notify};
      if (r.address != original && how_.original_recipient) r.original = original;
      add(std::move(r), complete);
    }
    return {Outcome::ok, {}};
  }

  /// complete: the original as a whole address. "user" and "user@myorigin" are one recipient, and so are "User" and
  /// "user": the mailbox would get the message twice.
  void add(mail::Recipient r, const std::string& complete) {
    const auto notify = static_cast<std::uint8_t>(r.notify & ~mail::notify::kCopy);
    const std::string_view original = r.original.empty() || r.address == complete ? std::string_view() : complete;
    if (may_repeat_ && !seen_.emplace(idn::fold(r.address), idn::fold(original), idn::fold(r.orcpt), notify).second)
      return;
    // What the next host hears of the original must be a whole address, though headers show what was given.
    if (r.orcpt.empty() && !original.empty() && !mail::has_domain(r.original) && mail::all_ascii(complete))
      r.orcpt = "rfc822;" + mail::encode_xtext(complete);
    out_.push_back(std::move(r));
  }

  static const Copies& no_copies() {
    static const Copies none;
    return none;
  }

  const resolve::Resolve& resolve_;
  const Expand& how_;
  const Copies& copies_ = how_.copies != nullptr ? *how_.copies : no_copies();
  std::vector<mail::Recipient> out_;
  std::set<std::tuple<std::string, std::string, std::string, std::uint8_t>> seen_;
  std::vector<std::string> copied_;  // recipients of copies made for recipients
  bool may_repeat_ = false, waits_ = false;
};

}  // namespace

Commit expand_envelope(const resolve::Resolve& resolve, const Expand& how, mail::Envelope& envelope) {
  return Expansion(resolve, how).of(envelope);
}

bool expansion_may_wait(const resolve::Options& o, const Copies& copies) {
  if (copies.by_sender.blocking() || copies.by_recipient.blocking()) return true;
  for (const std::string* spec :
       {&o.canonical_maps, &o.sender_canonical_maps, &o.recipient_canonical_maps, &o.virtual_alias_maps,
        &o.virtual_alias_domains, &o.mydestination, &o.virtual_mailbox_domains, &o.relay_domains}) {
    if (spec->find(':') == std::string::npos) continue;
    const auto maps = map::MapList::open(*spec, o.open);
    if (!maps || maps->blocking()) return true;  // the list is malformed: assume that it may wait
  }
  return false;
}

async::Task<Commit> Message::expand() {
  const Settings& s = intake_.settings;
  const Expand how{.copies = made_here_ ? nullptr : &s.copies,
                   .more = std::move(effects_.bcc),
                   .keep_sender = keep_sender_,
                   .original_recipient = s.original_recipient};
  if (!intake_.expansion_waits) co_return expand_envelope(*intake_.resolve, how, envelope_);
  struct Done {
    mail::Envelope envelope;
    Commit commit;
  };
  Done done = co_await intake_.tables.ask([this, &how] {
    Done attempt{envelope_, {}};
    attempt.commit = expand_envelope(*intake_.resolve, how, attempt.envelope);
    return attempt;
  });
  envelope_ = std::move(done.envelope);
  co_return std::move(done.commit);
}

std::optional<mail::Recipient> Message::apply_effects() {
  envelope_.hold = effects_.hold;
  if (!effects_.redirect.empty()) {
    // The redirection replaces the first recipient; the others are dropped without a report.
    mail::Recipient to = std::move(envelope_.recipients.front());
    if (intake_.settings.original_recipient) to.original = to.shown_original();
    to.address = intake_.resolve->rewrite(effects_.redirect);
    envelope_.recipients.clear();
    return to;
  }
  // A message that was refused, or has a transport already, takes no other route.
  if (!envelope_.transport.empty()) return std::nullopt;
  if (!effects_.filter.empty())
    envelope_.filter = std::move(effects_.filter);
  else if (!made_here_)
    envelope_.filter = intake_.settings.content_filter;
  return std::nullopt;
}

std::optional<Commit> Message::settle_checks() {
  std::string refusal = !filter_refusal_.empty() || !checks_ ? filter_refusal_ : checks_->refusal();
  if (const ContentBuilder& content = body_->content(); refusal.empty() && !content.refusal().empty()) {
    refusal = content.refusal();
    std::string what = refusal.substr(refusal.find(' ') + 1);
    if (!content.refused_text().empty()) what += ": " + content.refused_text();
    reporter().note({.action = "reject", .where = "mime-error", .content = what, .text = {}});
  }
  if (!refusal.empty()) {
    if (made_here_ && refusal.starts_with('5')) {
      effects_.hold = true;
      return std::nullopt;
    }
    if (!return_refused_ || !refusal.starts_with('5')) return Commit{Outcome::refused, refusal};
    envelope_.transport = "error:" + refusal;
    return std::nullopt;
  }
  if (checks_) effects_.merge(checks_->take_effects());
  if (effects_.discard) return Commit{Outcome::ok, {}};
  return std::nullopt;
}

std::shared_ptr<Body> Message::new_body(std::uint64_t size_limit) {
  ContentOptions options;
  options.size_limit = size_limit;
  options.hop_limit = std::numeric_limits<unsigned>::max();
  return std::make_shared<Body>(intake_.pool, intake_.queue, intake_.bodies, std::move(options));
}

async::Task<Commit> Message::hold_content(async::Until until) {
  co_await body_->end(until);
  co_return outcome_of(*body_);
}

async::Task<Commit> Message::show_content(async::Until until) {
  body_->complete();
  if (body_->lease() && body_->problem() == Body::Problem::none) co_await body_->end(until);
  co_return outcome_of(*body_);
}

async::Task<Commit> Message::add_results(std::string field, std::vector<Cut> cuts, std::size_t header_size,
                                         async::Until until) {
  std::string added;
  if (!field.empty() && checks_) {
    std::erase(field, '\r');
    const bool keep = checks_->field(mail::MimeWalker::Header::message, field, added);
    if (!checks_->failed().empty()) co_return Commit{Outcome::lookup_failed, checks_->failed()};
    field = keep ? field_lines(field, "\r\n") : std::string();
  }
  if (!field.empty()) added += field + "\r\n";
  if (added.empty() && cuts.empty() && !seal_) co_return Commit{Outcome::ok, {}};
  const auto front = static_cast<std::size_t>(bytes_in_front_);
  if (!body_->lease()) {
    for (const Cut& cut : cuts | std::views::reverse) body_->replace_in_header(front + cut.at, cut.size, {});
    body_->replace_in_header(front, 0, added);
    if (seal_) sign(*body_);
    co_return outcome_of(*body_);
  }
  HeldContent content(intake_.pool, *body_);
  std::string header;
  while (header.size() < front + header_size) {
    auto piece = co_await content.next(front + header_size - header.size());
    if (!piece) co_return Commit{Outcome::spool_failed, "spool file: " + piece.error().message()};
    if (piece->empty()) break;
    header += *piece;
  }
  for (const Cut& cut : cuts | std::views::reverse) header.erase(front + cut.at, cut.size);
  header.insert(front, added);
  if (header.ends_with("\r\n\r\n")) header.resize(header.size() - 2);  // replace_content() writes it
  co_return co_await replace_content(std::move(header), std::move(content), until);
}

async::Task<Commit> Message::replace_content(std::string header, HeldContent rest, async::Until until) {
  ContentOptions options;
  options.hop_limit = std::numeric_limits<unsigned>::max();  // counted when the content came in
  options.find_utf8 = detect_smtputf8_.value_or(intake_.settings.detect_smtputf8) && !unqueued_;
  auto next = std::make_unique<Body>(intake_.pool, intake_.queue, intake_.bodies, std::move(options),
                                     header.size() + 2 + rest.left());
  sign(*next);
  ContentBuilder& content = next->content();
  mail::BdatScanner scanner({.replace_bare_cr = intake_.settings.replace_bare_cr});
  header += "\r\n";
  for (std::string piece = std::move(header); !piece.empty();) {
    scanner.feed(piece, content);
    if (next->must_drain()) co_await next->drain(until);
    auto more = co_await rest.next();
    if (!more) co_return Commit{Outcome::spool_failed, "spool file: " + more.error().message()};
    piece = *std::move(more);
  }
  scanner.finish(content);
  co_await next->end(until);
  edited_ = std::move(next);
  co_return outcome_of(*edited_);
}

async::Task<Commit> Message::commit(async::Until until) {
  Body& body = *this->body();
  if (effects_.discard) co_return Commit{Outcome::ok, {}};
  if (speaks_for_) envelope_.client = *std::exchange(speaks_for_, std::nullopt);
  co_await body.finish(until);
  const auto& summary = body.content().summary();
  envelope_.message_id = summary.message_id_value;
  if (envelope_.requiretls == mail::RequireTls::unspecified && intake_.settings.require_tls_header &&
      summary.require_tls_esmtp)
    envelope_.requiretls = mail::RequireTls::yes;
  // RFC 8689 section 4.1: the MAIL parameter takes precedence; a repeated field, or one with any other value, has no
  // effect.
  if (envelope_.requiretls == mail::RequireTls::unspecified && intake_.settings.tls_required_header &&
      summary.tls_required_fields == 1 && summary.tls_required_no)
    envelope_.requiretls = mail::RequireTls::no;
  if (Commit bad = outcome_of(body); bad.outcome != Outcome::ok) co_return bad;
  if (auto settled = settle_checks()) co_return *std::move(settled);
  std::optional<mail::Recipient> instead = apply_effects();
  // A message with a transport of its own was mapped before, and that transport is for these very recipients.
  if (intake_.settings.address_mappings && envelope_.transport.empty()) {
    Commit expanded = co_await expand();
    if (expanded.outcome != Outcome::ok) co_return std::move(expanded);
  } else {
    const auto& resolve = *intake_.resolve;
    if (!keep_sender_) envelope_.sender = resolve.rewrite(envelope_.sender);
    for (auto& address : effects_.bcc) envelope_.recipients.push_back(copy_for(std::move(address)));
    for (auto& r : envelope_.recipients) r.address = resolve.rewrite(r.address);
  }
  if (instead) envelope_.recipients = {*std::move(instead)};
  if (detect_smtputf8_.value_or(intake_.settings.detect_smtputf8)) {
    const auto beyond_ascii = [](const mail::Recipient& r) { return !mail::all_ascii(r.address); };
    envelope_.smtputf8 = envelope_.smtputf8 || body.content().utf8_header() || !mail::all_ascii(envelope_.sender) ||
                         std::ranges::any_of(envelope_.recipients, beyond_ascii);
  }
  envelope_.body = body.take_facts();
  if (!idn::same_domain(body.signed_by(), mail::domain_part(envelope_.sender)))
    envelope_.signer = to_lower(body.signed_by());
  tell_unsigned(body);
  if (!body.unsealed().empty() && intake_.log_info)
    intake_.log_info(envelope_.queue_id + ": not sealed: " + body.unsealed());
  if (body.broken_lines() > 0 && intake_.log_info)
    intake_.log_info(envelope_.queue_id + ": breaking line > " +
                     std::to_string(intake_.settings.signed_form.line_limit) +
                     " bytes with <CR><LF>SPACE before it is signed");
  if (body_->content().converts() || body.converted())
    envelope_.body_type = true_body_type(envelope_.body_type, envelope_.body);
  EnqueueAnswer answer = co_await intake_.queue.enqueue(envelope_, body.lease(), body.text(), permit_, until, session_);
  switch (answer.outcome) {
    case Enqueued::ok:
      metrics::cleanup_messages.add();
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
