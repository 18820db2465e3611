#include "qmgr/payload.h"

#include <string>
#include <utility>

namespace pen::qmgr {
namespace {

/// An envelope as layout 1 has it.
struct EnvelopeLayout1 : mail::Envelope {
  PEN_FIELDS(queue_id, arrival, sender, recipients, envid, ret, body_type, smtputf8, requiretls,
             client, body, message_id, discharges, transport)
};
struct PayloadLayout1 {
  EnvelopeLayout1 envelope;
  std::vector<Note> notes;
  bool forced_expire = false;
  std::uint64_t spool_file = 0, spool_offset = 0;
  std::string_view inline_body;
  std::vector<Deaths> deaths;
  PEN_FIELDS(envelope, notes, forced_expire, spool_file, spool_offset, inline_body, deaths)
};

}  // namespace

std::optional<StoredPayload> read_payload(std::string_view payload) {
  const std::string mark = encode(PayloadLayout{});
  if (payload.starts_with(mark)) return decode<StoredPayload>(payload.substr(mark.size()));
  auto old = decode<PayloadLayout1>(payload);
  if (!old) return std::nullopt;
  return StoredPayload{.envelope = std::move(old->envelope),
                       .notes = std::move(old->notes),
                       .forced_expire = old->forced_expire,
                       .spool_file = old->spool_file,
                       .spool_offset = old->spool_offset,
                       .inline_body = old->inline_body,
                       .deaths = std::move(old->deaths)};
}

}  // namespace pen::qmgr
