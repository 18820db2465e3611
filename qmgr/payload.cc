#include "qmgr/payload.h"

#include <utility>

namespace pen::qmgr {
namespace {

/// With offsets of dots at line starts, which nobody reads.
struct DottedFacts : mail::BodyFacts {
  std::vector<std::uint64_t> dots;
  bool many_dots = false;
  PEN_FIELDS(size, header_size, longest_line, eight_bit_header, eight_bit_body, nul, dots, many_dots)
};
/// Envelopes as the layouts have them.
struct DottedEnvelope : mail::Envelope {
  DottedFacts dotted;  // in place of body
};
struct EnvelopeLayout1 : DottedEnvelope {
  PEN_FIELDS(queue_id, arrival, sender, recipients, envid, ret, body_type, smtputf8, requiretls, client, dotted,
             message_id, discharges, transport)
};
struct EnvelopeLayout2 : DottedEnvelope {
  PEN_FIELDS(queue_id, arrival, sender, recipients, envid, ret, body_type, smtputf8, requiretls, client, dotted,
             message_id, discharges, transport, filter, hold)
};
struct EnvelopeLayout3 : DottedEnvelope {
  PEN_FIELDS(queue_id, arrival, sender, recipients, envid, ret, body_type, smtputf8, requiretls, client, dotted,
             message_id, discharges, transport, filter, hold, purpose)
};
/// The envelope that layout 4 has.
struct EnvelopeLayout4 : mail::Envelope {
  PEN_FIELDS(queue_id, arrival, sender, recipients, envid, ret, body_type, smtputf8, requiretls, client, body,
             message_id, discharges, transport, filter, hold, purpose)
};
/// The envelope that layout 5 has.
struct EnvelopeLayout5 : mail::Envelope {
  PEN_FIELDS(queue_id, arrival, sender, recipients, envid, ret, body_type, smtputf8, requiretls, client, body,
             message_id, discharges, transport, filter, hold, purpose, verp)
};
/// The envelope that layout 6 has.
struct EnvelopeLayout6 : mail::Envelope {
  PEN_FIELDS(queue_id, arrival, sender, recipients, envid, ret, body_type, smtputf8, requiretls, client, body,
             message_id, discharges, transport, filter, hold, purpose, verp, tenant)
};
/// The envelope that layout 7 has.
struct EnvelopeLayout7 : mail::Envelope {
  PEN_FIELDS(queue_id, arrival, sender, recipients, envid, ret, body_type, smtputf8, requiretls, client, body,
             message_id, discharges, transport, filter, hold, purpose, verp, tenant, priority, release, release_request)
};
/// That of layout 8, which has all.
struct EnvelopeLayout8 : mail::Envelope {
  PEN_FIELDS(queue_id, arrival, sender, recipients, envid, ret, body_type, smtputf8, requiretls, client, body,
             message_id, discharges, transport, filter, hold, purpose, verp, tenant, priority, release, release_request,
             signer)
};
/// To write it as one of these, without a copy.
template <std::uint8_t layout>
struct As {
  const mail::Envelope& e;
  template <class Visitor>
  void visit_fields(Visitor&& visitor) const {
    visitor(e.queue_id, e.arrival, e.sender, e.recipients, e.envid, e.ret, e.body_type, e.smtputf8, e.requiretls,
            e.client, e.body, e.message_id, e.discharges, e.transport, e.filter, e.hold, e.purpose);
    if constexpr (layout >= kLayoutVerp) visitor(e.verp);
    if constexpr (layout >= kLayoutTenant) visitor(e.tenant);
    if constexpr (layout >= kLayoutUrgency) visitor(e.priority, e.release, e.release_request);
    if constexpr (layout >= kLayoutSigner) visitor(e.signer);
  }
};
template <class Envelope>
struct PayloadOf {
  Envelope envelope;
  std::vector<Note> notes;
  bool forced_expire = false;
  std::uint64_t spool_file = 0, spool_offset = 0;
  std::string_view inline_body;
  std::vector<Deaths> deaths;
  PEN_FIELDS(envelope, notes, forced_expire, spool_file, spool_offset, inline_body, deaths)
};

template <class Envelope>
std::optional<StoredPayload> read_as(std::string_view payload) {
  auto read = decode<PayloadOf<Envelope>>(payload);
  if (!read) return std::nullopt;
  if constexpr (requires { read->envelope.dotted; }) read->envelope.body = read->envelope.dotted;
  return StoredPayload{.envelope = std::move(read->envelope),
                       .notes = std::move(read->notes),
                       .forced_expire = read->forced_expire,
                       .spool_file = read->spool_file,
                       .spool_offset = read->spool_offset,
                       .inline_body = read->inline_body,
                       .deaths = std::move(read->deaths)};
}

void shorten(std::string& text, std::size_t max) {
  if (text.size() <= max) return;
  constexpr std::string_view kMore = "...";
  std::size_t end = max < kMore.size() ? 0 : max - kMore.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  text.resize(end);
  if (max >= kMore.size()) text += kMore;
  text.shrink_to_fit();
}

}  // namespace

void shorten(mail::DeliveryStatus& status, std::size_t words) {
  shorten(status.text, words);
  shorten(status.diagnostic, words);
  shorten(status.remote_mta, words);
}

std::uint8_t layout_of(const mail::Envelope& envelope) {
  if (!envelope.signer.empty()) return kLayoutSigner;
  if (envelope.priority != 0 || envelope.release != WallTime{} || !envelope.release_request.empty())
    return kLayoutUrgency;
  if (!envelope.tenant.empty()) return kLayoutTenant;
  return envelope.verp.empty() ? PayloadLayout{}.layout : kLayoutVerp;
}

void write_payload(std::string& out, const mail::Envelope& envelope, const std::vector<Note>& notes, bool forced_expire,
                   std::uint64_t spool_file, std::uint64_t spool_offset, std::string_view inline_body,
                   const std::vector<Deaths>& deaths) {
  Encoder encoder(out);
  const auto write = [&]<std::uint8_t layout>(As<layout> as) {
    encoder(PayloadLayout{.layout = layout}, as, notes, forced_expire, spool_file, spool_offset, inline_body, deaths);
  };
  switch (layout_of(envelope)) {
    case kLayoutSigner:
      return write(As<kLayoutSigner>{envelope});
    case kLayoutUrgency:
      return write(As<kLayoutUrgency>{envelope});
    case kLayoutTenant:
      return write(As<kLayoutTenant>{envelope});
    case kLayoutVerp:
      return write(As<kLayoutVerp>{envelope});
    default:
      write(As<PayloadLayout{}.layout>{envelope});
  }
}

std::optional<StoredPayload> read_payload(std::string_view payload) {
  const std::string mark = encode(PayloadLayout{});
  if (payload.starts_with(mark)) return read_as<EnvelopeLayout4>(payload.substr(mark.size()));
  if (payload.starts_with(encode(PayloadLayout{.layout = kLayoutSigner})))
    return read_as<EnvelopeLayout8>(payload.substr(mark.size()));
  if (payload.starts_with(encode(PayloadLayout{.layout = kLayoutUrgency})))
    return read_as<EnvelopeLayout7>(payload.substr(mark.size()));
  if (payload.starts_with(encode(PayloadLayout{.layout = kLayoutTenant})))
    return read_as<EnvelopeLayout6>(payload.substr(mark.size()));
  if (payload.starts_with(encode(PayloadLayout{.layout = kLayoutVerp})))
    return read_as<EnvelopeLayout5>(payload.substr(mark.size()));
  if (payload.starts_with(encode(PayloadLayout{.layout = 3})))
    return read_as<EnvelopeLayout3>(payload.substr(mark.size()));
  if (payload.starts_with(encode(PayloadLayout{.layout = 2})))
    return read_as<EnvelopeLayout2>(payload.substr(mark.size()));
  if (payload.starts_with('\0')) return std::nullopt;  // of a newer program
  return read_as<EnvelopeLayout1>(payload);
}

}  // namespace pen::qmgr
