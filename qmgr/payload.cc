#include "qmgr/payload.h"

#include <string>
#include <utility>

namespace pen::qmgr {
namespace {

/// Envelopes as older layouts have them.
struct EnvelopeLayout1 : mail::Envelope {
  PEN_FIELDS(queue_id, arrival, sender, recipients, envid, ret, body_type, smtputf8, requiretls,
             client, body, message_id, discharges, transport)
};
struct EnvelopeLayout2 : mail::Envelope {
  PEN_FIELDS(queue_id, arrival, sender, recipients, envid, ret, body_type, smtputf8, requiretls,
             client, body, message_id, discharges, transport, filter, hold)
};
template <class Envelope>
struct OldPayload {
  Envelope envelope;
  std::vector<Note> notes;
  bool forced_expire = false;
  std::uint64_t spool_file = 0, spool_offset = 0;
  std::string_view inline_body;
  std::vector<Deaths> deaths;
  PEN_FIELDS(envelope, notes, forced_expire, spool_file, spool_offset, inline_body, deaths)
};

template <class Envelope>
std::optional<StoredPayload> read_old(std::string_view payload) {
  auto old = decode<OldPayload<Envelope>>(payload);
  if (!old) return std::nullopt;
  return StoredPayload{.envelope = std::move(old->envelope),
                       .notes = std::move(old->notes),
                       .forced_expire = old->forced_expire,
                       .spool_file = old->spool_file,
                       .spool_offset = old->spool_offset,
                       .inline_body = old->inline_body,
                       .deaths = std::move(old->deaths)};
}

}  // namespace

std::optional<StoredPayload> read_payload(std::string_view payload) {
  const std::string mark = encode(PayloadLayout{});
  if (payload.starts_with(mark)) return decode<StoredPayload>(payload.substr(mark.size()));
  if (payload.starts_with(encode(PayloadLayout{.layout = 2})))
    return read_old<EnvelopeLayout2>(payload.substr(mark.size()));
  if (payload.starts_with('\0')) return std::nullopt;  // of a newer program
  return read_old<EnvelopeLayout1>(payload);
}

}  // namespace pen::qmgr
