#pragma once
/// What the queue log keeps of a message beyond what it must know itself: the payloads of its envelopes and results.
///
/// Opaque to the queue log: the mail envelope, what is known of each recipient (why it was deferred, what failed and is
/// still to be reported) and the small body, so that one record is the whole message. qmgr writes and reads them, and
/// `penqueue --log` reads them without qmgr.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/codec.h"
#include "lib/base/time.h"
#include "lib/mail/delivery_status.h"
#include "lib/mail/envelope.h"

namespace pen::qmgr {

/// What is known of one recipient beyond its address.
struct Note {
  std::uint32_t ordinal = 0;
  mail::DeliveryStatus status;
  WallTime when{};
  // reports due to the sender: mail::notify::kFailure, kSuccess, kDelay (found anew each round), kFirstTry; and kWarned
  std::uint8_t owed = 0;
  PEN_FIELDS(ordinal, status, when, owed)
};
/// In Note::owed: the sender has a notice that this recipient's mail is late.
inline constexpr std::uint8_t kWarned = 16;
/// In Note::owed: the sender of a traced message or probe still needs a report on this try (mail::Purpose). Found anew
/// each round for recipients that are left.
inline constexpr std::uint8_t kFirstTry = 32;
static_assert(((kWarned | kFirstTry) &
               (mail::notify::kSuccess | mail::notify::kFailure | mail::notify::kDelay | mail::notify::kNever)) == 0);

/// Bytes of each text of a status that are kept: with them the notes of 50,000 recipients fit into a record.
inline constexpr std::size_t kMaxWords = 500;
/// Bytes that the note of a recipient needs at least, its words cut off. Accepted mail leaves as many free.
inline constexpr std::size_t kLeastNote = 64;
/// Cuts text, diagnostic and host name of a status to `words` bytes each, between characters, "..." at the end.
void shorten(mail::DeliveryStatus& status, std::size_t words = kMaxWords);

/// Payload of queue_log::DeliveryResult.
struct ResultPayload {
  std::vector<Note> notes;
  PEN_FIELDS(notes)
};

/// How often a delivery program ended with this recipient in hand; forgotten when one answers for it.
struct Deaths {
  std::uint32_t ordinal = 0;
  std::uint8_t count = 0;
  PEN_FIELDS(ordinal, count)
};
// A job in hand at two deaths of its program runs alone; at three its message is held.
inline constexpr std::uint8_t kDeathsAlone = 2;
inline constexpr std::uint8_t kDeathsHeld = 3;

/// What the queue log keeps of a message: its envelope, what is known of its recipients, its body or where that lies.
struct StoredPayload {
  mail::Envelope envelope;
  std::vector<Note> notes;
  bool forced_expire = false;
  std::uint64_t spool_file = 0;    // 0: inline
  std::uint64_t spool_offset = 0;  // where the content starts
  std::string_view inline_body;
  std::vector<Deaths> deaths;
};
/// In front of a payload from layout 2 on. Layout 1 has none: it begins with the length of a queue id, which is never
/// 0. Up to layout 3 mail::BodyFacts say where the body's dots are. Layout 2 has no mail::Envelope::purpose, layout 1
/// no filter and no hold either. Layout 5 is 4 with mail::Envelope::verp, layout 6 is 5 with tenant, layout 7 is 6
/// with priority, release and release_request, and layout 8 is 7 with signer; each is written only for mail that has
/// this, so that programs that do not know it can read all other mail.
struct PayloadLayout {
  std::uint8_t mark = 0;
  std::uint8_t layout = 4;
  PEN_FIELDS(mark, layout)
};
inline constexpr std::uint8_t kLayoutVerp = 5;
inline constexpr std::uint8_t kLayoutTenant = 6;
inline constexpr std::uint8_t kLayoutUrgency = 7;
inline constexpr std::uint8_t kLayoutSigner = 8;
inline constexpr std::uint8_t kNewestLayout = 8;  // that is read here; debian/rules looks for this line
/// That of a message with this envelope.
std::uint8_t layout_of(const mail::Envelope& envelope);
/// Appends the payload: the layout, and everything in the order of StoredPayload, without copies.
void write_payload(std::string& out, const mail::Envelope& envelope, const std::vector<Note>& notes, bool forced_expire,
                   std::uint64_t spool_file, std::uint64_t spool_offset, std::string_view inline_body,
                   const std::vector<Deaths>& deaths);
/// nullopt: damaged, or of a layout that is not known here. What inline_body points to is in `payload`.
std::optional<StoredPayload> read_payload(std::string_view payload);

}  // namespace pen::qmgr
