#include "qmgr/message.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/mail/expanded.h"
#include "lib/mail/queue_id.h"
#include "lib/queue/queue_log/queue_log.h"

namespace pen::qmgr {

namespace {

std::vector<std::string> domains_of(const mail::Envelope& envelope, const queue_log::OrdinalSet& remaining) {
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < envelope.recipients.size() && out.size() <= queue_log::kMaxDomains; ++i) {
    if (!remaining.contains(i)) continue;
    const std::string& address = envelope.recipients[i].address;
    const auto at = address.rfind('@');
    std::string domain = at == std::string::npos ? std::string() : to_lower(address.substr(at + 1));
    if (std::find(out.begin(), out.end(), domain) == out.end()) out.push_back(std::move(domain));
  }
  return out;
}

/// As Active::pack() leaves it.
struct Packed {
  mail::Envelope envelope;
  PEN_FIELDS(envelope, envelope.tenant, envelope.priority, envelope.release, envelope.release_request, envelope.signer)
};

}  // namespace

Active::~Active() {
  if (unpacked_.linked()) --unpacked_in_->count;
}

const mail::Envelope& Active::envelope() const {
  if (!envelope_) {
    auto unpacked = decode<Packed>(packed_);
    PEN_CHECK(unpacked.has_value(), "a packed envelope cannot be read");
    envelope_ = std::make_unique<mail::Envelope>(std::move(unpacked->envelope));
    list();
  }
  return *envelope_;
}

void Active::set_envelope(mail::Envelope envelope) {
  id_ = envelope.queue_id;
  packed_.clear();
  envelope_ = std::make_unique<mail::Envelope>(std::move(envelope));
}

void Active::end_trace() {
  if (envelope().purpose != mail::Purpose::traced) return;
  packed_.clear();
  envelope_->purpose = mail::Purpose::mail;
}

mail::Envelope Active::take_envelope() {
  (void)envelope();
  return std::move(*envelope_);
}

void Active::keep_in(Unpacked& unpacked) {
  if (envelope().recipients.size() > kPackRecipients) return;
  unpacked_in_ = &unpacked;
  list();
}

void Active::list() const {
  if (unpacked_in_ == nullptr || unpacked_.linked()) return;
  unpacked_in_->messages.push_back(unpacked_);
  ++unpacked_in_->count;
}

void Active::pack() {
  if (!unpacked_.linked()) return;
  unpacked_.unlink();
  --unpacked_in_->count;
  if (packed_.empty()) {
    packed_.clear();
    Encoder encoder(packed_);
    const mail::Envelope& e = *envelope_;
    encoder(e, e.tenant, e.priority, e.release, e.release_request, e.signer);
    packed_.shrink_to_fit();
  }
  envelope_.reset();
}

Active::Rare& Active::rare() {
  if (!rare_) rare_ = std::make_unique<Rare>();
  return *rare_;
}

const Active::Rare& Active::seldom() const {
  static const Rare none;
  return rare_ ? *rare_ : none;
}

Beginning beginning_of(const mail::Envelope& envelope, WallTime now) {
  const auto count = static_cast<std::uint32_t>(envelope.recipients.size());
  Beginning b{queue_log::OrdinalSet::span(0, count), {}};
  for (std::uint32_t i = 0; i < count; ++i) {
    if ((envelope.recipients[i].notify & mail::notify::kExpanded) == 0) continue;
    b.remaining.remove(i);
    b.notes.push_back({i, mail::make_status(mail::Action::expanded, "2.0.0", "alias expanded"), now,
                       envelope.purpose == mail::Purpose::verification ? kFirstTry
                       : envelope.sender.empty()                       ? std::uint8_t{0}
                       : mail::is_probe(envelope.purpose)              ? kFirstTry
                                                                       : mail::notify::kSuccess});
  }
  return b;
}

void to_log(const mail::Envelope& envelope, const Beginning& beginning, std::string_view body, std::uint64_t spool_file,
            std::uint64_t spool_offset, queue_log::Envelope& out) {
  out.queue_id = envelope.queue_id;
  out.recipients = static_cast<std::uint32_t>(envelope.recipients.size());
  out.remaining = beginning.remaining;
  out.arrived = envelope.arrival;
  out.size = envelope.body.size;
  out.sender = envelope.sender;
  out.domains = domains_of(envelope, beginning.remaining);
  out.self_contained = spool_file == 0;
  const StoredPayload fresh;
  out.payload.clear();
  out.payload.reserve(body.size() + 512);
  write_payload(out.payload, envelope, beginning.notes, fresh.forced_expire, spool_file, spool_offset, body,
                fresh.deaths);
}

queue_log::Envelope to_log(const Active& m, std::string_view body) {
  const mail::Envelope& envelope = m.envelope();
  queue_log::Envelope out;
  out.queue_id = m.id();
  out.recipients = static_cast<std::uint32_t>(envelope.recipients.size());
  out.remaining = m.remaining;
  out.arrived = envelope.arrival;
  out.size = envelope.body.size;
  out.sender = envelope.sender;
  out.domains = domains_of(envelope, m.remaining);
  std::vector<Note> notes;
  for (const auto& [ordinal, n] : m.notes) {
    if (n.owed != 0 || m.remaining.contains(ordinal)) notes.push_back(n);
  }
  out.self_contained = m.spool_file == 0;
  std::vector<Deaths> deaths;
  for (const auto& [ordinal, count] : m.seldom().deaths)
    if (m.remaining.contains(ordinal)) deaths.push_back({ordinal, count});
  // Beside an immense envelope the words have less room.
  for (std::size_t words = kMaxWords;;) {
    out.payload.clear();
    out.payload.reserve(body.size() + 512);
    write_payload(out.payload, envelope, notes, m.forced_expire, m.spool_file, m.spool_offset, body, deaths);
    if (words == 0 || out.payload.size() <= queue_log::QueueLog::kMaxMessage) return out;
    words /= 4;
    for (Note& n : notes) shorten(n.status, words);
  }
}

std::unique_ptr<Active> from_log(queue_log::Stored&& stored) {
  auto payload = read_payload(stored.envelope.payload);
  if (!payload || payload->envelope.recipients.size() != stored.envelope.recipients) return nullptr;
  if (!mail::is_queue_id(payload->envelope.queue_id)) return nullptr;  // it becomes the name of a file
  if (!payload->envelope.verp.empty() && payload->envelope.verp.size() != 2) return nullptr;
  if (payload->envelope.tenant.size() > mail::kMaxTenant) return nullptr;
  if (payload->envelope.priority < mail::kLeastPriority || payload->envelope.priority > mail::kMostPriority)
    return nullptr;
  auto m = std::make_unique<Active>();
  m->set_envelope(std::move(payload->envelope));
  m->place = stored.place;
  m->generation = stored.generation;
  m->remaining = std::move(stored.envelope.remaining);
  for (auto& n : payload->notes) m->notes[n.ordinal] = std::move(n);
  for (const auto& result : stored.results) {
    auto folded = decode<ResultPayload>(result.payload);
    if (!folded) return nullptr;
    for (auto& n : folded->notes) m->notes[n.ordinal] = std::move(n);
  }
  for (const auto& d : payload->deaths) m->rare().deaths[d.ordinal] = d.count;
  m->forced_expire = payload->forced_expire;
  const auto known = [count = stored.envelope.recipients](const auto& of) { return of.first < count; };
  if (!std::ranges::all_of(m->notes, known) || !std::ranges::all_of(m->seldom().deaths, known)) return nullptr;
  m->body = payload->inline_body;
  m->spool_file = payload->spool_file;
  m->spool_offset = payload->spool_offset;
  for (auto& [ordinal, n] : m->notes) {
    shorten(n.status);  // of a version that kept all of it
    // When the message is traced no more, what is left is a later part of a report that has begun.
    const bool first_try = m->envelope().purpose != mail::Purpose::mail;
    const unsigned anew =
        mail::notify::kDelay | (first_try && m->remaining.contains(ordinal) ? kFirstTry : std::uint8_t{0});
    n.owed = static_cast<std::uint8_t>(n.owed & ~anew);
  }
  m->recovered = m->owes();
  // A report on the first try may be made of the version that came in.
  m->restarted =
      m->place.log == queue_log::kJournal && (m->generation > 0 || m->envelope().purpose != mail::Purpose::mail);
  return m;
}

WallTime release_of(const queue_log::Stored& stored) {
  const std::string_view bytes = stored.envelope.payload;
  if (!bytes.starts_with(encode(PayloadLayout{.layout = kLayoutUrgency})) &&
      !bytes.starts_with(encode(PayloadLayout{.layout = kLayoutSigner})))
    return {};
  const auto payload = read_payload(stored.envelope.payload);
  return payload ? payload->envelope.release : WallTime{};
}

std::optional<std::uint64_t> spool_file_of(const queue_log::Stored& stored) {
  const auto payload = read_payload(stored.envelope.payload);
  if (!payload) return std::nullopt;
  return payload->spool_file;
}

}  // namespace pen::qmgr
